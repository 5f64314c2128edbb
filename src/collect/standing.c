/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/standing.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"

#define MAX_WAITS 64
/*
 * Threads that only wake up to see that nothing has come need less: NCCL's watchdog in PyTorch,
 * progress bars, exporters of metrics.
 */
#define BUSY_PERCENT 2
#define ASIDE_NS (10 * VT_NS_PER_MS) /* how often it is seen which processors they are on */

bool vt_standing_init(struct vt_standing *s, pid_t pid, struct vt_memsrc *src)
{
	*s = (struct vt_standing){ .pid = pid, .src = src };
	return vt_glances_take(&s->begin, pid);
}

void vt_standing_deinit(struct vt_standing *s)
{
	vt_glances_deinit(&s->begin);
	vt_vec_deinit(&s->waits);
}

static struct vt_standing_wait *find(struct vt_standing *s, pid_t tid)
{
	for (size_t i = 0; i < s->waits.n; i++)
		if (s->waits.data[i].wait.tid == tid)
			return &s->waits.data[i];
	return NULL;
}

/* As far as the innermost return address tells: unwinding may end early the other time. */
static bool same_call(const struct vt_quiet_wait *a, const struct vt_quiet_wait *b)
{
	return !memcmp(&a->words[0], &b->words[0], sizeof(a->words[0]));
}

bool vt_standing_note(struct vt_standing *s, const struct vt_quiet *quiet)
{
	size_t n;
	const struct vt_quiet_wait *waits = vt_quiet_waits(quiet, &n);

	s->stops++;
	for (size_t i = 0; i < n; i++) {
		struct vt_standing_wait *known = find(s, waits[i].tid);

		if (known && !same_call(&known->wait, &waits[i]))
			s->returned = waits[i].tid;
		if (!known) {
			if (s->waits.n == MAX_WAITS)
				continue; /* it counts as one that does not wait */
			known = vt_vec_append(&s->waits);
			if (!known)
				return false;
			*known = (struct vt_standing_wait){ .wait = waits[i] };
		}
		known->stops++;
	}
	return true;
}

/* In one read, which takes longer than what it copies. */
static bool has_returned(const struct vt_standing *s, const struct vt_quiet_wait *wait)
{
	char bytes[VT_QUIET_SPAN];
	uint64_t begin = wait->words[0].at, end = wait->words[wait->n - 1].at + 8;

	if (vt_mem_read(s->src, begin, bytes, end - begin))
		return true;
	for (unsigned int i = 0; i < wait->n; i++)
		if (memcmp(bytes + (wait->words[i].at - begin), &wait->words[i].value, 8) != 0)
			return true;
	return false;
}

/*
 * To the processors on which none of the waiting threads runs: what one does for microseconds is
 * only seen from another one. The kernel may leave both on one for long.
 */
static void step_aside(const struct vt_standing *s, const cpu_set_t *all)
{
	cpu_set_t others = *all;

	for (size_t i = 0; i < s->waits.n; i++) {
		struct vt_thread_info info = { 0 };
		VT_ERROR struct vt_error *err =
			vt_thread_info_read(&info, s->pid, s->waits.data[i].wait.tid);

		if (!err && info.cpu >= 0 && info.cpu < CPU_SETSIZE)
			CPU_CLR((size_t)info.cpu, &others);
	}
	if (CPU_COUNT(&others))
		(void)sched_setaffinity(0, sizeof(others), &others);
}

/* Without a pause: a launch that comes between two waits takes a few microseconds. */
static void read_until(struct vt_standing *s, uint64_t until_ns)
{
	while (!s->returned && !vt_deadline_passed(until_ns))
		for (size_t i = 0; i < s->waits.n; i++)
			if (has_returned(s, &s->waits.data[i].wait))
				s->returned = s->waits.data[i].wait.tid;
}

void vt_standing_watch(struct vt_standing *s, uint64_t until_ns)
{
	cpu_set_t all;
	bool movable = !sched_getaffinity(0, sizeof(all), &all);
	uint64_t now_ns;

	while (!s->returned && (now_ns = vt_now_ns()) < until_ns) {
		uint64_t next_ns = now_ns + ASIDE_NS < until_ns ? now_ns + ASIDE_NS : until_ns;

		if (movable && s->waits.n)
			step_aside(s, &all);
		if (s->waits.n)
			read_until(s, next_ns);
		else
			vt_sleep_ns(next_ns - now_ns);
	}
	if (movable)
		(void)sched_setaffinity(0, sizeof(all), &all);
}

static bool waited_throughout(struct vt_standing *s, pid_t tid)
{
	const struct vt_standing_wait *wait = find(s, tid);

	return wait && wait->stops == s->stops;
}

/* A thread that is new has begun something. */
static bool was_busy(const struct vt_standing *s, const struct vt_glance *now, uint64_t span_ns)
{
	const struct vt_glance *before = vt_glance_of(&s->begin, now->tid);
	uint64_t ns;

	return !before || !vt_glance_cpu(before, now, &ns) || ns > span_ns / 100 * BUSY_PERCENT;
}

/* The driver's wake up now and then, whatever the process does. */
static bool may_be_busy(const struct vt_standing *s, struct vt_quiet *quiet,
			const struct vt_session *session, pid_t tid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, s->pid, tid);

	return err || !strncmp(info.name, "cuda", 4) || vt_quiet_is_nccls(quiet, session, tid);
}

pid_t vt_standing_mover(struct vt_standing *s, struct vt_quiet *quiet,
			const struct vt_session *session)
{
	struct vt_glances now = { 0 };
	pid_t mover = s->returned;

	if (!mover && !vt_glances_take(&now, s->pid))
		mover = s->pid;
	for (size_t i = 0; !mover && i < now.threads.n; i++) {
		const struct vt_glance *glance = &now.threads.data[i];

		if (!waited_throughout(s, glance->tid) &&
		    was_busy(s, glance, now.when_ns - s->begin.when_ns) &&
		    !may_be_busy(s, quiet, session, glance->tid))
			mover = glance->tid;
	}
	vt_glances_deinit(&now);
	return mover;
}
