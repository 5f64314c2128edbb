/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events. Work takes no time, with three exceptions: a kernel that spins
 * (sim_stream_spin), host functions, which a thread of the stream runs in order, and a hung
 * device, where what is submitted from then on does not complete.
 *
 * A point on a stream is (sequence number of the last host function, time at which the last
 * spinning kernel ends, whether the device was hung): it is reached when all three are over.
 */
#include "sim.h"

#include <pthread.h>
#include <stdlib.h>

struct point {
	struct sim_stream *stream;
	uint64_t seq;
	uint64_t until_ns;
	int hung;
};

struct job {
	void (*fn)(void *);
	void *arg;
	uint64_t until_ns;
	struct job *next;
};

struct sim_stream {
	uint32_t magic;
	int device, priority, hung;
	unsigned flags;
	uint64_t id;
	uint64_t submitted, completed, until_ns;
	struct job *first, **last;
	int has_thread;
	pthread_cond_t more;
	struct sim_capture capture;
	struct sim_stream *next; /* all streams of the device, for ever: handles stay valid */
};

struct sim_event {
	uint32_t magic;
	int device;
	unsigned flags;
	int recorded;
	uint64_t at_ns;
	struct point point;
	struct point *all; /* of a context: one of each stream; NULL: of the one stream */
	size_t n;
};

#define STREAM_MAGIC 0x4d525453
#define EVENT_MAGIC 0x544e5645
#define DEAD 0xdead

static struct sim_stream *streams[SIM_MAX_DEVICES]; /* the last in the list is the default one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct sim_stream *stream_new(int device, unsigned flags, int priority)
{
	static uint64_t last_id;
	struct sim_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->magic = STREAM_MAGIC;
	s->device = device;
	s->flags = flags;
	s->priority = priority;
	s->id = ++last_id;
	s->last = &s->first;
	pthread_cond_init(&s->more, NULL);
	s->next = streams[device];
	streams[device] = s;
	return s;
}

static struct sim_stream *default_stream(int device)
{
	static struct sim_stream *def[SIM_MAX_DEVICES];
	struct sim_stream *s;

	pthread_mutex_lock(&lock);
	if (!def[device])
		def[device] = stream_new(device, 0, 0);
	s = def[device];
	pthread_mutex_unlock(&lock);
	return s;
}

struct sim_stream *sim_stream_get(void *handle, int device)
{
	struct sim_stream *s = handle;

	if ((uintptr_t)handle <= 2)
		return default_stream(device);
	return s->magic == STREAM_MAGIC ? s : NULL;
}

int sim_stream_create(int device, unsigned flags, int priority, struct sim_stream **stream)
{
	struct sim_stream *s;

	pthread_mutex_lock(&lock);
	s = stream_new(device, flags, priority);
	pthread_mutex_unlock(&lock);
	if (!s)
		return SIM_ENOMEM;
	*stream = s;
	return SIM_OK;
}

int sim_stream_destroy(struct sim_stream *stream)
{
	stream->magic = DEAD;
	return SIM_OK;
}

int sim_stream_device(const struct sim_stream *stream)
{
	return stream->device;
}

int sim_stream_priority(const struct sim_stream *stream)
{
	return stream->priority;
}

uint64_t sim_stream_id(const struct sim_stream *stream)
{
	return stream->id;
}

struct sim_capture *sim_stream_capture(struct sim_stream *stream)
{
	return &stream->capture;
}

void sim_streams_leave_capture(const struct sim_graph *graph)
{
	pthread_mutex_lock(&lock);
	for (int d = 0; d < SIM_MAX_DEVICES; d++)
		for (struct sim_stream *s = streams[d]; s; s = s->next)
			if (s->capture.graph == graph)
				s->capture = (struct sim_capture){ 0 };
	pthread_mutex_unlock(&lock);
}

/* ---- points ---- */

static struct point point_now(struct sim_stream *s)
{
	struct point p;

	pthread_mutex_lock(&lock);
	p = (struct point){ .stream = s,
			    .seq = s->submitted,
			    .until_ns = s->until_ns,
			    .hung = s->hung || sim_hung(s->device) };
	pthread_mutex_unlock(&lock);
	return p;
}

static int point_busy(const struct point *p, uint64_t *until_ns)
{
	if (p->hung && sim_hung(p->stream->device))
		return 1;
	if (__atomic_load_n(&p->stream->completed, __ATOMIC_ACQUIRE) < p->seq)
		return 1;
	if (p->until_ns <= sim_now_ns())
		return 0;
	*until_ns = p->until_ns;
	return 1;
}

static int busy_point(void *arg, uint64_t *until_ns)
{
	return point_busy(arg, until_ns);
}

int sim_stream_query(struct sim_stream *stream)
{
	struct sim_graph *graph;
	struct point p;
	uint64_t until;
	int err;

	sim_delay_query();
	p = point_now(stream);
	graph = stream->capture.graph;
	sim_count_query(graph != NULL);
	if (graph) {
		sim_capture_spoil(graph);
		return 900; /* STREAM_CAPTURE_UNSUPPORTED */
	}
	err = sim_capture_unsafe();
	if (err)
		return err;
	return point_busy(&p, &until) ? SIM_ENOTREADY : SIM_OK;
}

void sim_stream_wait_idle(struct sim_stream *stream)
{
	struct point p = point_now(stream);

	sim_wait_while(busy_point, &p);
}

static int busy_device(void *arg, uint64_t *until_ns)
{
	return sim_hung(*(int *)arg) ? (*until_ns = 0, 1) : 0;
}

void sim_device_wait_idle(int device)
{
	struct sim_stream *s;

	sim_wait_while(busy_device, &device);
	pthread_mutex_lock(&lock);
	s = streams[device];
	pthread_mutex_unlock(&lock);
	for (; s; s = s->next) /* the list only grows, at its head */
		sim_stream_wait_idle(s);
}

/* ---- work ---- */

void sim_stream_work(struct sim_stream *stream)
{
	if (stream->capture.graph)
		sim_capture_node(stream);
	else if (sim_hung(stream->device))
		stream->hung = 1;
}

void sim_stream_spin(struct sim_stream *stream, uint64_t ns)
{
	uint64_t now = sim_now_ns(), end;

	pthread_mutex_lock(&lock);
	if (stream->until_ns < now)
		stream->until_ns = now;
	end = stream->until_ns + ns;
	stream->until_ns = end < ns ? UINT64_MAX : end;
	pthread_mutex_unlock(&lock);
}

static int busy_job(void *arg, uint64_t *until_ns)
{
	const struct point *p = arg;

	if (sim_hung(p->stream->device))
		return 1;
	*until_ns = p->until_ns;
	return p->until_ns > sim_now_ns();
}

static void *stream_thread(void *arg)
{
	struct sim_stream *s = arg;

	for (;;) {
		struct point before = { .stream = s };
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!s->first)
			pthread_cond_wait(&s->more, &lock);
		job = s->first;
		s->first = job->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&lock);
		before.until_ns = job->until_ns;
		sim_wait_while(busy_job, &before);
		job->fn(job->arg);
		free(job);
		__atomic_add_fetch(&s->completed, 1, __ATOMIC_ACQ_REL);
		sim_progress();
	}
	return NULL;
}

int sim_stream_host_fn(struct sim_stream *stream, void (*fn)(void *), void *arg)
{
	struct job *job = calloc(1, sizeof(*job));
	pthread_t thread;
	int err = SIM_OK;

	if (!job)
		return SIM_ENOMEM;
	job->fn = fn;
	job->arg = arg;
	pthread_mutex_lock(&lock);
	job->until_ns = stream->until_ns;
	if (!stream->has_thread) {
		if (pthread_create(&thread, NULL, stream_thread, stream))
			err = SIM_ENOMEM;
		else
			pthread_detach(thread);
		stream->has_thread = !err;
	}
	if (!err) {
		*stream->last = job;
		stream->last = &job->next;
		stream->submitted++;
		pthread_cond_signal(&stream->more);
	}
	pthread_mutex_unlock(&lock);
	if (err)
		free(job);
	return err;
}

static void wait_for_point(void *arg)
{
	sim_wait_while(busy_point, arg);
	free(arg);
}

int sim_stream_wait_event(struct sim_stream *stream, struct sim_event *event)
{
	struct point *p;
	uint64_t until;

	if (event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	if (event->point.stream && event->point.stream->capture.graph && !stream->capture.graph)
		stream->capture = event->point.stream->capture; /* it joins the capture */
	if (!event->recorded || !point_busy(&event->point, &until))
		return SIM_OK;
	p = malloc(sizeof(*p));
	if (!p)
		return SIM_ENOMEM;
	*p = event->point;
	return sim_stream_host_fn(stream, wait_for_point, p);
}

/* ---- events ---- */

int sim_event_create(unsigned flags, int device, struct sim_event **event)
{
	struct sim_event *e = calloc(1, sizeof(*e));

	if (!e)
		return SIM_ENOMEM;
	e->magic = EVENT_MAGIC;
	e->flags = flags;
	e->device = device;
	*event = e;
	return SIM_OK;
}

int sim_event_destroy(struct sim_event *event)
{
	if (!event || event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	event->magic = DEAD;
	free(event->all);
	free(event);
	return SIM_OK;
}

static void forget_all(struct sim_event *event)
{
	free(event->all);
	event->all = NULL;
	event->n = 0;
}

/* Everything that the device was given. What is being captured is spoilt, in whatever mode. */
int sim_event_record_device(struct sim_event *event, int device)
{
	struct sim_stream *s, *first;
	struct point *all;
	size_t n = 0;
	int err = SIM_OK;

	if (!event || event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	default_stream(device);
	pthread_mutex_lock(&lock);
	first = streams[device];
	pthread_mutex_unlock(&lock);
	for (s = first; s; s = s->next) { /* the list only grows, at its head */
		if (s->capture.graph) {
			sim_capture_spoil(s->capture.graph);
			err = 900; /* STREAM_CAPTURE_UNSUPPORTED */
		}
		n++;
	}
	if (err)
		return err;
	all = calloc(n, sizeof(*all));
	if (!all)
		return SIM_ENOMEM;
	n = 0;
	for (s = first; s; s = s->next)
		all[n++] = point_now(s);
	forget_all(event);
	event->all = all;
	event->n = n;
	event->recorded = 1;
	event->at_ns = sim_now_ns();
	return SIM_OK;
}

int sim_event_record(struct sim_event *event, struct sim_stream *stream)
{
	if (!event || event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	forget_all(event);
	event->point = point_now(stream);
	event->recorded = 1;
	event->at_ns = sim_now_ns();
	return SIM_OK;
}

int sim_event_query(struct sim_event *event)
{
	uint64_t until;

	if (!event || event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	for (size_t i = 0; i < event->n; i++)
		if (point_busy(&event->all[i], &until))
			return SIM_ENOTREADY;
	return event->recorded && !event->n && point_busy(&event->point, &until) ? SIM_ENOTREADY :
										   SIM_OK;
}

int sim_event_wait(struct sim_event *event)
{
	struct point p;

	if (!event || event->magic != EVENT_MAGIC)
		return SIM_EBADHANDLE;
	p = event->point;
	if (event->recorded)
		sim_wait_while(busy_point, &p);
	return SIM_OK;
}

int sim_event_elapsed(struct sim_event *start, struct sim_event *end, float *ms)
{
	if (!start || start->magic != EVENT_MAGIC || !end || end->magic != EVENT_MAGIC ||
	    !start->recorded || !end->recorded)
		return SIM_EBADHANDLE;
	if (sim_event_query(start) || sim_event_query(end))
		return SIM_ENOTREADY;
	*ms = (float)((double)end->at_ns - (double)start->at_ns) / 1e6f;
	return SIM_OK;
}

static int waiting_frees[SIM_MAX_DEVICES];

void sim_free_waits(int device, int change)
{
	if (device >= 0)
		__atomic_add_fetch(&waiting_frees[device], change, __ATOMIC_ACQ_REL);
}

int sim_free_is_waiting(int device)
{
	return __atomic_load_n(&waiting_frees[device], __ATOMIC_ACQUIRE) > 0;
}
