/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for each other in a ring. The owners of locks were read after the threads ran
 * again, so a ring may never have existed: one thread had moved on before the next was read. A ring
 * counts if all of it holds at one moment, which needs no stop: the threads have slept from before
 * the owners of their locks were read until afterwards.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/map.h"
#include "collect/stacks.h"
#include "explain/verdicts.h"

/*
 * A thread that waits for the GIL wakes up every 5 ms to ask for it (CPython's default switch
 * interval), and a thread that was stopped needs a processor before it sleeps again.
 */
#define MAX_TRIES 20
#define BETWEEN_TRIES_NS (2 * VT_NS_PER_MS)
/*
 * The mutexes and conditions of a GIL are adjacent (Python/ceval_gil.c, struct _gil_runtime_state).
 */
#define GIL_BYTES 512

struct ring {
	/* indexes in model.threads; each waits for the next, the last one for the first */
	size_t *members;
	size_t n;
};

static bool waits_for_gil(const struct vt_stacks *s, size_t i)
{
	return s->found[i].python && s->c->model->threads.data[i].verdict.code == VT_VERDICT_GIL;
}

static bool same_futex(const struct vt_thread_info *a, const struct vt_thread_info *b,
		       uint64_t within)
{
	uint64_t x = a->syscall_args[0], y = b->syscall_args[0];

	return b->in_syscall && b->syscall_nr == SYS_futex && (x > y ? x - y : y - x) <= within;
}

/* Whether a member still sleeps where it did. One with a timeout is in no deadlock. */
static bool still_sleeps(struct vt_stacks *s, size_t i, struct vt_thread_sample *sample)
{
	bool gil = waits_for_gil(s, i);

	vt_thread_sample_take(sample, s->c->target.proc.pid, s->c->model->threads.data[i].tid);
	return sample->asleep &&
	       same_futex(&s->list.threads.data[i], &sample->info, gil ? GIL_BYTES : 0) &&
	       (gil || !sample->info.syscall_args[3]);
}

/* Whether the same thread still holds what it waits for. */
static bool still_waits_for(struct vt_stacks *s, size_t i, const struct vt_thread_sample *sample)
{
	struct vt_model_thread again = s->c->model->threads.data[i];

	vt_wait_describe(&s->wait, &again, &sample->info);
	return again.waits_for == s->c->model->threads.data[i].waits_for;
}

/* Whether the holder of the GIL that a member waits for has it now. */
static bool still_holds_gil(struct vt_stacks *s, size_t holder)
{
	struct vt_python again;
	bool holds = false;

	vt_python_begin_again(&again, &s->rounds[0].python);
	again.locals = false;

	VT_ERROR struct vt_error *err =
		vt_python_capture(&again, vt_live_source(s->c->target.live));

	for (size_t i = 0; !err && i < again.threads.n; i++)
		if (again.threads.data[i].tstate == s->found[holder].python->tstate)
			holds = again.threads.data[i].holds_gil;
	vt_python_deinit(&again);
	return holds;
}

/*
 * Checks all of it at one moment. Threads that wait for the GIL wake up in between; the thread that
 * has it sleeps throughout.
 */
static bool holds_now(struct vt_stacks *s, const struct ring *ring,
		      struct vt_thread_sample *samples)
{
	bool ok = true;

	for (size_t k = 0; ok && k < ring->n; k++)
		ok = still_sleeps(s, ring->members[k], &samples[k]);
	/* All of them sleep by now: an owner that sleeps releases nothing. */
	vt_live_drop_cache(s->c->target.live);
	for (size_t k = 0; ok && k < ring->n; k++)
		ok = waits_for_gil(s, ring->members[k]) ?
			     still_holds_gil(s, ring->members[(k + 1) % ring->n]) :
			     still_waits_for(s, ring->members[k], &samples[k]);
	for (size_t k = 0; ok && k < ring->n; k++)
		if (!waits_for_gil(s, ring->members[k]))
			ok = vt_thread_sample_holds(&samples[k], s->c->target.proc.pid);
	return ok;
}

static void mark(struct vt_stacks *s, const struct ring *ring)
{
	for (size_t k = 0; k < ring->n; k++)
		s->c->model->threads.data[ring->members[k]].deadlock = true;
}

/* A core is one moment; but a member may still have a timeout. */
static bool has_limit(const struct vt_stacks *s, const struct ring *ring)
{
	bool limit = false;

	for (size_t k = 0; k < ring->n; k++)
		limit = limit || (!waits_for_gil(s, ring->members[k]) &&
				  s->list.threads.data[ring->members[k]].syscall_args[3]);
	return limit;
}

static void confirm(struct vt_stacks *s, const struct ring *ring)
{
	VT_FREE struct vt_thread_sample *samples = calloc(ring->n, sizeof(*samples));

	if (s->c->target.core && !has_limit(s, ring))
		mark(s, ring);
	for (int try = 0; samples && !s->c->target.core && try < MAX_TRIES; try++) {
		if (try > 0)
			vt_sleep_ns(BETWEEN_TRIES_NS);
		if (!holds_now(s, ring, samples))
			continue;
		mark(s, ring);
		return;
	}
}

/* Each thread waits for at most one other, so each belongs to at most one ring. */
void vt_find_deadlocks(struct vt_stacks *s)
{
	struct vt_model *model = s->c->model;
	size_t n = model->threads.n;
	struct vt_map index_of = { 0 };
	VT_FREE size_t *seen = calloc(n + 1, sizeof(*seen)); /* by which walk, from 1 */
	VT_FREE size_t *path = calloc(n + 1, sizeof(*path));
	bool ok = seen && path && n == s->list.threads.n;

	for (size_t i = 0; ok && i < n; i++)
		ok = vt_map_put(&index_of, (uint64_t)model->threads.data[i].tid, i);
	for (size_t start = 0; ok && start < n; start++) {
		size_t length = 0, i = start;
		const uint64_t *next = &(uint64_t){ start };

		while (next && !seen[*next]) {
			i = *next;
			seen[i] = start + 1;
			path[length++] = i;
			next = vt_map_get(&index_of, (uint64_t)model->threads.data[i].waits_for);
		}
		if (!next || seen[*next] != start + 1 || length == 0)
			continue;

		/* The walk came back to a thread that it had visited: the ring begins there. */
		size_t first = 0;

		while (path[first] != *next)
			first++;
		confirm(s, &(struct ring){ .members = path + first, .n = length - first });
	}
	vt_map_deinit(&index_of);
}
