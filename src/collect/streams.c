/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams have unfinished work. The driver is asked for each, twice in a report. A question
 * for the work of a stream that captures a CUDA graph would spoil the capture, so none may begin
 * while it is asked: the process stands still except for the helper's thread. Then no other thread
 * may be in the middle of a function of the driver, whose locks the helper would wait for. If one
 * is, the process runs on for some milliseconds, and is stopped again.
 *
 * Whatever becomes of the questions, none is begun after ASK_NS, and the process runs again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/collect.h"
#include "collect/quiet.h"
#include "collect/watchdog.h"
#include "inject/inject.h"
#include "target/task.h"
#include "walk/torch/streams.h"

#define MAX_NOT_STOPPED 2                  /* of these: such a thread mostly sleeps on */
#define MAX_STOPPED_NS (25 * VT_NS_PER_MS) /* in all tries of one moment */
#define STOP_NS (5 * VT_NS_PER_MS)         /* for each thread; no other is stopped meanwhile */
#define JUDGE_NS (2 * VT_NS_PER_MS)
#define JUDGE_THREAD_NS (20 * VT_NS_PER_US) /* more for each thread; to stop it takes as long */
#define ASK_NS (5 * VT_NS_PER_MS)
#define END_NS (100 * VT_NS_PER_MS) /* the period in which a control group gets its quota again */
#define LOOK_NS (50 * VT_NS_PER_US)
#define WATCHDOG_NS (10 * VT_NS_PER_S)
#define MAX_STREAMS 8192

/* Before the next try. The first one seldom succeeds where a thread waits for the device. */
static const uint64_t pauses_ns[] = { 300 * VT_NS_PER_US, 300 * VT_NS_PER_US, 600 * VT_NS_PER_US,
				      1200 * VT_NS_PER_US, 1200 * VT_NS_PER_US };
#define N_PAUSES (sizeof(pauses_ns) / sizeof(pauses_ns[0]))

struct vt_collect_streams {
	VT_VEC(struct vt_stream_rec) recs; /* one for each in the model, in its order */
	struct vt_quiet_memory memory;
	uint64_t stopped_ns;
};

/* ---- which there are ---- */

static bool add(struct vt_collect *c, const struct vt_model_stream *stream, uint64_t handle)
{
	struct vt_collect_streams *s = c->streams;
	struct vt_model_stream *added;
	struct vt_stream_rec *rec;

	if (s->recs.n == MAX_STREAMS)
		return false;
	added = vt_vec_append(&c->model->streams.list);
	rec = added ? vt_vec_append(&s->recs) : NULL;
	if (!rec)
		return false;
	*added = *stream;
	*rec = (struct vt_stream_rec){ .handle = handle, .device = stream->device };
	return true;
}

static bool add_of_device(struct vt_collect *c, int device, const struct vt_torch_streams *pools)
{
	struct vt_model_stream stream = { .device = device, .kind = VT_STREAM_IS_DEFAULT };
	bool ok = add(c, &stream, 1 /* CU_STREAM_LEGACY */);

	for (size_t i = 0; ok && i < pools->list.n; i++) {
		const struct vt_torch_stream *of_pool = &pools->list.data[i];

		if (of_pool->device != device)
			continue;
		stream = (struct vt_model_stream){
			.device = device,
			.handle = of_pool->handle,
			.kind = VT_STREAM_IS_POOL,
			.priority = of_pool->priority,
			.number = of_pool->number,
		};
		ok = add(c, &stream, of_pool->handle);
	}
	return ok;
}

/* A copy that fork() made has handles of the parent's. */
static void find_pools(struct vt_collect *c, struct vt_torch_streams *pools)
{
	const struct vt_module *c10_cuda = c->torch_inherited ? NULL : c->torch.c10_cuda;
	struct vt_module *module = c10_cuda ? vt_modules_find(&c->target.modules, c10_cuda->start) :
					      NULL;
	struct vt_error *err = NULL;

	if (!module)
		return;
	err = vt_torch_streams_read(&c->target.modules, module, c->target.mem, pools);
	c->model->streams.pool_unknown = err || pools->state == VT_TORCH_STREAMS_UNKNOWN;
	vt_error_destroy(err);
}

/* Only streams that are alive: the driver may follow a handle that is not. */
static void find(struct vt_collect *c)
{
	struct vt_torch_streams pools = { 0 };
	bool ok = true;

	find_pools(c, &pools);
	for (size_t i = 0; ok && i < c->model->devices.n; i++)
		if (c->model->devices.data[i].context_active)
			ok = add_of_device(c, c->model->devices.data[i].ordinal, &pools);
	if (!ok)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "streams-cut",
			"not all streams are known: there are too many, or too little memory here");
	vt_torch_streams_deinit(&pools);
}

/* ---- asking ---- */

static enum vt_streams_look look_of(struct vt_error *err)
{
	enum vt_streams_look look = VT_STREAMS_ASKED;

	if (err)
		look = err->code == VT_ERR_GONE     ? VT_STREAMS_NO_HELPER :
		       err->code == VT_ERR_NOTFOUND ? VT_STREAMS_REFUSED :
						      VT_STREAMS_LATE;
	vt_error_destroy(err);
	return look;
}

static void set_go(struct vt_helper *helper, uint32_t go)
{
	uint32_t *word = &vt_helper_shared(helper)->args.streams.go;

	vt_session_clear_first(go ? word : NULL);
	__atomic_store_n(word, go, __ATOMIC_SEQ_CST);
}

static bool is_asking(struct vt_helper *helper)
{
	return __atomic_load_n(&vt_helper_shared(helper)->args.streams.asking, __ATOMIC_SEQ_CST);
}

/*
 * A question that is on its way when time is up could meet a capture that begins when the process
 * runs again. If the helper's thread only has no processor, it will have one soon. If it sleeps, it
 * waits for a lock, perhaps for ever: then the process must go on.
 */
static void let_it_end(struct vt_collect *c)
{
	VT_CLOSE int task_dir = is_asking(c->helper) ? vt_task_dir(c->target.proc.pid) : -1;
	uint64_t until_ns = vt_now_ns() + END_NS;

	while (task_dir >= 0 && is_asking(c->helper) && !vt_deadline_passed(until_ns) &&
	       vt_task_state(task_dir, c->helper_tid) == 'R')
		vt_sleep_ns(LOOK_NS);
}

/* While the process stands still. */
static enum vt_streams_look ask(struct vt_collect *c)
{
	struct vt_error *err;

	set_go(c->helper, 1);
	err = vt_helper_call(c->helper, VT_OP_STREAMS, vt_now_ns() + ASK_NS);
	set_go(c->helper, 0);
	let_it_end(c);
	return look_of(err);
}

static struct vt_error *put_request(struct vt_collect *c)
{
	const struct vt_collect_streams *s = c->streams;
	size_t size = s->recs.n * sizeof(*s->recs.data);
	struct vt_helper_shared *shared;

	VT_TRY(vt_helper_grow(c->helper, VT_HELPER_ROOM_OFFSET + size));
	shared = vt_helper_shared(c->helper);
	shared->args.streams = (struct vt_streams_args){ .n = s->recs.n };
	memcpy((char *)shared + VT_HELPER_ROOM_OFFSET, s->recs.data, size);
	return NULL;
}

/*
 * It may be in the middle of an earlier request, perhaps for ever. And it has ended if this report
 * took its time since the last request, for example to look for source files.
 */
static enum vt_streams_look look_at_helper(struct vt_collect *c)
{
	VT_ERROR struct vt_error *err = vt_helper_await(c->helper, 0);

	if (vt_helper_tid(c->helper) != c->helper_tid || (err && err->code == VT_ERR_GONE))
		return VT_STREAMS_NO_HELPER;
	return err && err->code == VT_ERR_TIMEOUT ? VT_STREAMS_LATE : VT_STREAMS_NONE;
}

/* One stop. */
static enum vt_streams_look try_once(struct vt_collect *c, struct vt_quiet *quiet,
				     struct vt_session *session)
{
	enum vt_streams_look look = VT_STREAMS_NOT_STOPPED;
	struct vt_error *err;

	if (!vt_quiet_prepare(quiet))
		return VT_STREAMS_NOT_STOPPED;
	vt_watchdog_arm(WATCHDOG_NS, c->target.proc.pid, "its streams are asked");
	err = vt_session_stop_others(session, c->target.proc.pid, c->helper_tid, c->target.live,
				     STOP_NS);
	if (!err && vt_session_stands(session))
		look = vt_quiet_judge(quiet, session,
				      vt_now_ns() + JUDGE_NS +
					      session->threads.n * JUDGE_THREAD_NS) ?
			       ask(c) :
			       VT_STREAMS_IN_DRIVER;
	if (!err) {
		vt_session_resume(session);
		c->streams->stopped_ns += session->stop_end_ns - session->stop_begin_ns;
	}
	vt_watchdog_disarm();
	vt_error_destroy(err);
	return look;
}

static bool is_final(enum vt_streams_look look)
{
	return look != VT_STREAMS_IN_DRIVER && look != VT_STREAMS_NOT_STOPPED;
}

static enum vt_streams_look try_often(struct vt_collect *c, struct vt_quiet *quiet,
				      unsigned int *tries)
{
	enum vt_streams_look look = VT_STREAMS_NOT_STOPPED;
	unsigned int not_stopped = 0;

	for (*tries = 0; *tries <= N_PAUSES && c->streams->stopped_ns < MAX_STOPPED_NS;) {
		struct vt_session session = { 0 };

		++*tries;
		look = try_once(c, quiet, &session);
		if (look == VT_STREAMS_IN_DRIVER)
			vt_quiet_learn(quiet, &session);
		vt_session_deinit(&session);
		not_stopped += look == VT_STREAMS_NOT_STOPPED;
		if (is_final(look) || not_stopped == MAX_NOT_STOPPED)
			break;
		if (*tries <= N_PAUSES)
			vt_sleep_ns(pauses_ns[*tries - 1]);
	}
	return look;
}

/* ---- the answer ---- */

static enum vt_stream_doing doing_of(uint32_t state)
{
	static const enum vt_stream_doing doings[VT_N_ASKED_STREAMS] = {
		[VT_STREAM_UNASKED] = VT_STREAM_DOES_NOT_ASKED,
		[VT_STREAM_IDLE] = VT_STREAM_DOES_IDLE,
		[VT_STREAM_BUSY] = VT_STREAM_DOES_BUSY,
		[VT_STREAM_CAPTURING] = VT_STREAM_DOES_CAPTURING,
		[VT_STREAM_FAILED] = VT_STREAM_DOES_FAILED,
		[VT_STREAM_NO_CONTEXT] = VT_STREAM_DOES_NOT_ASKED,
	};

	return state < VT_N_ASKED_STREAMS ? doings[state] : VT_STREAM_DOES_NOT_ASKED;
}

static void take(struct vt_collect *c, unsigned int moment)
{
	struct vt_model_streams *streams = &c->model->streams;
	const struct vt_stream_rec *recs =
		vt_helper_room(c->helper, 0, c->streams->recs.n, sizeof(*recs));

	for (size_t i = 0; recs && i < c->streams->recs.n; i++) {
		struct vt_stream_rec rec = recs[i]; /* a copy: the target could change it */
		struct vt_model_stream *stream = &streams->list.data[i];

		stream->doing[moment] = doing_of(rec.state);
		if (stream->doing[moment] == VT_STREAM_DOES_FAILED)
			stream->error = rec.error;
	}
}

static void ask_all(struct vt_collect *c, unsigned int moment)
{
	struct vt_model_streams_look *into = &c->model->streams.looks[moment];
	struct vt_quiet *quiet = NULL;
	struct vt_error *err = NULL;

	into->look = look_at_helper(c);
	if (into->look != VT_STREAMS_NONE)
		return;
	err = put_request(c);
	if (!err)
		err = vt_quiet_create(&c->target, &c->streams->memory, &quiet);
	if (err) {
		vt_error_destroy(err);
		into->look = VT_STREAMS_REFUSED;
		return;
	}
	c->streams->stopped_ns = 0;
	into->look = try_often(c, quiet, &into->tries);
	vt_quiet_destroy(quiet);
	into->stopped_ms = (double)c->streams->stopped_ns / VT_NS_PER_MS;
	if (into->look != VT_STREAMS_ASKED && into->look != VT_STREAMS_LATE)
		return;
	into->when_ns = vt_now_ns();
	take(c, moment);
}

static bool begin(struct vt_collect *c)
{
	if (!c->options->streams || c->driver != VT_DRIVER_ANSWERED || !c->helper_tid ||
	    c->options->allow_resume)
		return false;
	c->streams = calloc(1, sizeof(*c->streams));
	if (!c->streams)
		return false;
	find(c);
	return c->streams->recs.n > 0;
}

void vt_collect_streams(struct vt_collect *c, unsigned int moment)
{
	if (moment == 0)
		c->model->streams.wanted = begin(c);
	if (!c->model->streams.wanted)
		return;
	if (c->helper)
		ask_all(c, moment);
	else
		c->model->streams.looks[moment].look = VT_STREAMS_NO_HELPER;
}

void vt_collect_streams_deinit(struct vt_collect *c)
{
	if (c->streams) {
		vt_vec_deinit(&c->streams->recs);
		vt_quiet_memory_deinit(&c->streams->memory);
	}
	free(c->streams);
}
