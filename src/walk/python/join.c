/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "walk/python/layout.h"

#define FIRST_WITH_OWN_ID 13 /* minor of the first release that keeps thread_id right */

/*
 * Up to 3.12 the thread state of a subinterpreter keeps the thread_id of the thread that created
 * it, whichever thread runs it. Python code of the main interpreter on the same stack calls what it
 * runs: the code with the next evaluator outwards. Before 3.10 nothing tells where that is.
 */
struct owner {
	uint64_t c_stack;
	size_t thread;
};

static int by_stack(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return (x->c_stack > y->c_stack) - (x->c_stack < y->c_stack);
}

/* The first owner above an address, or n. */
static size_t owner_above(const struct owner *owners, size_t n, uint64_t addr)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (owners[middle].c_stack > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct vt_error *find_owners(struct vt_python *py)
{
	VT_FREE struct owner *owners = calloc(py->threads.n + 1, sizeof(*owners));
	size_t n = 0;

	if (!owners)
		return &vt_enomem;
	for (size_t i = 0; i < py->threads.n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		if (!thread->interpreter_id && thread->frames.n && thread->c_stack &&
		    thread->pthread)
			owners[n++] = (struct owner){ thread->c_stack, i };
	}
	qsort(owners, n, sizeof(*owners), by_stack);
	for (size_t i = 0; i < py->threads.n; i++) {
		struct vt_python_thread *thread = &py->threads.data[i];
		size_t at = thread->c_stack ? owner_above(owners, n, thread->c_stack) : n;

		if (!thread->interpreter_id || !thread->frames.n)
			continue;
		thread->pthread = at < n ? py->threads.data[owners[at].thread].pthread : 0;
		thread->tid = at < n ? py->threads.data[owners[at].thread].tid : 0;
	}
	return NULL;
}

/* Threads that hold a GIL may have got another tid. */
static void name_holders_again(struct vt_python *py)
{
	for (size_t i = 0; i < py->threads.n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		for (size_t g = 0; thread->holds_gil && g < py->gils.n; g++) {
			if (py->gils.data[g].holder == thread->tstate)
				py->gils.data[g].holder_tid = thread->tid;
		}
	}
}

/* An address in the C stack frame of an evaluator; 0 unknown. */
static uint64_t c_frame(const struct vt_python_thread *thread)
{
	return thread->c_stack ? thread->c_stack :
				 thread->frames.data[thread->frames.n - 1].c_frame;
}

/*
 * Whether a runs inside b. Stacks grow downwards. If the places are unknown: an older interpreter
 * runs the newer one, and the list has the newest first, so the earlier one is inside.
 */
static bool is_inside(const struct vt_python_thread *a, const struct vt_python_thread *b)
{
	if (!b->frames.n || !a->frames.n)
		return a->frames.n;
	if (c_frame(a) && c_frame(b))
		return c_frame(a) < c_frame(b);
	return true; /* a comes first in the list */
}

/*
 * Appends the frames of outer to those of inner, which becomes the thread. False when out of
 * memory.
 */
static bool append_frames(struct vt_python_thread *inner, struct vt_python_thread *outer)
{
	size_t n = inner->frames.n;

	if (!vt_vec_reserve(&inner->frames, n + outer->frames.n))
		return false;
	if (outer->frames.n)
		memcpy(inner->frames.data + n, outer->frames.data,
		       outer->frames.n * sizeof(outer->frames.data[0]));
	inner->frames.n = n + outer->frames.n;
	inner->holds_gil |= outer->holds_gil;
	inner->truncated |= outer->truncated;
	if (!inner->why[0])
		memcpy(inner->why, outer->why, sizeof(inner->why));
	if (!inner->tid)
		inner->tid = outer->tid;
	return true;
}

/* Joins second, which comes later in the list, into first. */
static bool join(struct vt_python_thread *first, struct vt_python_thread *second)
{
	if (!is_inside(first, second)) {
		struct vt_python_thread other = *first;

		*first = *second;
		*second = other;
	}

	bool ok = append_frames(first, second);

	vt_vec_deinit(&second->frames);
	return ok;
}

struct vt_error *vt_py_join_threads(struct vt_python *py)
{
	struct vt_map kept = { 0 }; /* pthread → index of the thread that stays */
	size_t n = 0;
	bool ok = true;

	if (py->layout->minor < FIRST_WITH_OWN_ID)
		VT_TRY(find_owners(py));
	name_holders_again(py);
	for (size_t i = 0; i < py->threads.n; i++) {
		struct vt_python_thread *thread = &py->threads.data[i];
		const uint64_t *first = thread->pthread ? vt_map_get(&kept, thread->pthread) : NULL;

		if (first && py->threads.data[*first].interpreter != thread->interpreter && ok) {
			ok = join(&py->threads.data[*first], thread);
			continue;
		}
		if (thread->pthread && !first)
			ok = vt_map_put(&kept, thread->pthread, n) && ok;
		if (n != i) {
			py->threads.data[n] = *thread;
			memset(&thread->frames, 0, sizeof(thread->frames));
		}
		n++;
	}
	vt_map_deinit(&kept);
	py->threads.n = n;
	return ok ? NULL : &vt_enomem;
}

const struct vt_python_gil *vt_python_waits_for_gil(const struct vt_python *py,
						    const struct vt_python_thread *thread,
						    uint64_t futex)
{
	const struct vt_python_gil *gil = thread->gil < py->gils.n ? &py->gils.data[thread->gil] :
								     NULL;

	return gil && futex - gil->addr < gil->size ? gil : NULL;
}

int vt_python_holds_gil(const struct vt_python *py, const struct vt_python_thread *thread)
{
	if (thread->gil >= py->gils.n || !py->gils.data[thread->gil].known)
		return -1;
	return thread->holds_gil;
}
