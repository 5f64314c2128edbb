/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the frame chains of all threads: the work that needs the target to be stopped. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "target/live.h"
#include "target/pthread.h"
#include "walk/python/internal.h"
#include "walk/python/pages.h"

#define MAX_INTERPRETERS 4096
#define MAX_FRAMES_IN_ALL 2000000 /* bounds our memory: about 100 MB */
#define BATCH 32                  /* threads whose pages are read together */
#define MAX_TRIES 3               /* of all, when the target runs */
#define AGREEING_PASSES 2         /* of one thread: in a row, after the first */
#define MAX_PASSES 5

#define MAX_TID (1 << 22) /* PID_MAX_LIMIT of 64-bit kernels */

struct capture {
	struct vt_python *py;
	struct vt_memsrc *src; /* the target through py->pages */
	size_t max_frames;     /* of a thread */
	struct vt_map seen;    /* tstate → index of its thread */
	size_t n_frames;
};

static void capture_deinit(struct capture *c)
{
	vt_map_deinit(&c->seen);
}

void vt_py_drop_threads(struct vt_python *py)
{
	for (size_t i = 0; i < py->threads.n; i++)
		vt_vec_deinit(&py->threads.data[i].frames);
	py->threads.n = 0;
	py->gils.n = 0;
	py->n_without_locals = 0;
}

/* ---- frames of one thread ---- */

/* Cuts the chain at the first repeated frame. */
static bool cut_ring(struct vt_python_thread *thread)
{
	struct vt_map seen = { 0 };
	bool ok = true;

	for (size_t i = 0; i < thread->frames.n && ok; i++) {
		if (vt_map_get(&seen, thread->frames.data[i].frame))
			thread->frames.n = i;
		else
			ok = vt_map_put(&seen, thread->frames.data[i].frame, 1);
	}
	vt_map_deinit(&seen);
	return ok;
}

static void end_early(struct vt_python_thread *thread, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void end_early(struct vt_python_thread *thread, const char *format, ...)
{
	va_list args;

	thread->truncated = true;
	va_start(args, format);
	vsnprintf(thread->why, sizeof(thread->why), format, args);
	va_end(args);
}

/* Follows the chain from its innermost frame on. Errors are only those of the whole target. */
static struct vt_error *walk_chain(struct capture *c, struct vt_python_thread *thread,
				   uint64_t addr)
{
	/*
	 * Brent's ring detection: a mark that moves to the current place after 1, 2, 4, … hops.
	 * Shims count as hops too.
	 */
	uint64_t mark = 0;

	for (size_t hop = 0; addr; hop++) {
		struct vt_py_frame_info info;

		if (addr == mark) {
			end_early(thread, "its chain of frames is a ring");
			return cut_ring(thread) ? NULL : &vt_enomem;
		}
		if (!(hop & (hop - 1)))
			mark = addr;
		if (thread->frames.n >= c->max_frames || hop >= 2 * VT_PYTHON_MAX_FRAMES) {
			end_early(thread, "more than %zu frames", thread->frames.n);
			return NULL;
		}
		if (c->n_frames + thread->frames.n >= MAX_FRAMES_IN_ALL) {
			end_early(thread, "more than %d frames in all threads", MAX_FRAMES_IN_ALL);
			return NULL;
		}

		int ret = vt_py_frame_read(c->py, c->src, addr, &info);

		if (ret == -ESRCH || ret == -EPERM)
			return vt_mem_error(c->src, ret, "a Python frame");
		if (ret) {
			end_early(thread, "the frame at 0x%" PRIx64 " cannot be read", addr);
			return NULL;
		}
		/*
		 * 3.11 and 3.12 (see vt_py_frame_top()): a frame that has not run one instruction
		 * has called nothing. What seems to be inside it is left over from an earlier call.
		 */
		if (vt_py_has(c->py->layout, VT_PY_TSTATE_CFRAME) && info.frame.lasti < 0 &&
		    !info.frame.generator)
			thread->frames.n = 0;
		if (!info.shim) {
			struct vt_python_frame *frame = vt_vec_append(&thread->frames);

			if (!frame)
				return &vt_enomem;
			*frame = info.frame;
			frame->interpreter = thread->interpreter_id;
		} else if (thread->frames.n) {
			/* The shim is a local variable of the evaluator. */
			thread->frames.data[thread->frames.n - 1].entry = true;
			thread->frames.data[thread->frames.n - 1].c_frame = addr;
		}
		addr = info.previous;
	}
	return NULL;
}

/* One pass over the frames of a thread, from *top on (0: it has none, or that is not known). */
static struct vt_error *read_chain(struct capture *c, struct vt_python_thread *thread,
				   uint64_t *top)
{
	int ret = vt_py_frame_top(c->py, c->src, thread->tstate, top);

	thread->frames.n = 0;
	thread->truncated = false;
	thread->why[0] = '\0';
	if (ret == -ESRCH || ret == -EPERM)
		return vt_mem_error(c->src, ret, "a Python thread");
	if (ret) {
		*top = 0;
		end_early(thread, ret == -EAGAIN ? "it was beginning a call at this very instant" :
						   "its innermost frame cannot be read");
		return NULL;
	}
	return walk_chain(c, thread, *top);
}

static bool same_frame(const struct vt_python_frame *a, const struct vt_python_frame *b)
{
	return a->frame == b->frame && a->code == b->code && a->lasti == b->lasti &&
	       a->entry == b->entry && a->generator == b->generator;
}

static bool same_chain(const struct vt_python_thread *a, const struct vt_python_thread *b)
{
	if (a->frames.n != b->frames.n)
		return false;
	for (size_t i = 0; i < a->frames.n; i++) {
		if (!same_frame(&a->frames.data[i], &b->frames.data[i]))
			return false;
	}
	return true;
}

/*
 * Whether the outermost frame is one: memory that was a frame's a moment ago is anything, and often
 * has no caller.
 */
static bool is_whole(struct capture *c, const struct vt_python_thread *thread)
{
	size_t n = thread->frames.n;

	return !thread->truncated &&
	       (!n || vt_py_is(c->py, c->src, thread->frames.data[n - 1].code, VT_PYTHON_CODE));
}

/* A generator that was left during the read has no caller any more: its chain ends too early. */
static bool ends_well(const struct vt_python_thread *thread)
{
	return !thread->frames.n || !thread->frames.data[thread->frames.n - 1].generator;
}

/*
 * While the target runs, a chain counts if it is the same several times in a row: a tight loop can
 * show the same wrong chain twice. Permanent damage is the same every time; it is reported as far
 * as the chain goes, as for a stopped target.
 */
static struct vt_error *read_changing(struct capture *c, struct vt_python_thread *thread,
				      uint64_t top)
{
	struct vt_python_thread before = { 0 };
	struct vt_error *err = NULL;
	bool whole = is_whole(c, thread);
	int agreed = 0, wanted = whole ? AGREEING_PASSES : MAX_PASSES;

	for (int pass = 0; pass < MAX_PASSES && agreed < wanted && !err; pass++) {
		__typeof__(before.frames) spare = before.frames;
		uint64_t top_before = top;

		before = *thread; /* with its frames; thread gets the older array */
		thread->frames = spare;
		vt_py_pages_drop(c->py->pages);
		err = read_chain(c, thread, &top);
		whole = !err && is_whole(c, thread);
		wanted = whole ? AGREEING_PASSES : MAX_PASSES;
		agreed = top == top_before && same_chain(&before, thread) &&
					 !strcmp(before.why, thread->why) ?
				 agreed + 1 :
				 0;
	}
	if (!err && (agreed < wanted || (whole && !ends_well(thread)))) {
		thread->frames.n = 0;
		end_early(thread, "it ran: its frames changed while they were read");
	}
	vt_vec_deinit(&before.frames);
	return err;
}

static struct vt_error *walk_frames(struct capture *c, struct vt_python_thread *thread)
{
	uint64_t top = 0;

	VT_TRY(read_chain(c, thread, &top));
	return c->src->coherent ? NULL : read_changing(c, thread, top);
}

/* ---- threads ---- */

static pid_t valid_tid(uint64_t tid)
{
	return tid <= MAX_TID ? (pid_t)tid : 0;
}

static struct vt_error *damaged(const char *what, uint64_t addr)
{
	return vt_error_create(VT_ERR_FORMAT, "Python's %s at 0x%" PRIx64 " does not make sense",
			       what, addr);
}

/* What the threads of one interpreter share. */
struct interpreter {
	uint64_t addr;
	uint32_t id;
	size_t gil; /* index in py->gils, or VT_PYTHON_NO_GIL */
};

static struct vt_error *add_thread(struct capture *c, const struct interpreter *interpreter,
				   uint64_t tstate, uint64_t *next)
{
	struct vt_python *py = c->py;
	struct vt_py_view view;
	int ret = vt_py_view_read(c->src, py->layout, tstate, VT_PY_TSTATE_NEXT, VT_PY_TSTATE_TID,
				  &view);

	if (ret)
		return ret == -EINVAL ? damaged("thread", tstate) :
					vt_mem_error(c->src, ret, "a Python thread");
	if (vt_py_view_u64(&view, py->layout, VT_PY_TSTATE_INTERP) != interpreter->addr ||
	    vt_map_get(&c->seen, tstate))
		return damaged("thread", tstate);
	*next = vt_py_view_u64(&view, py->layout, VT_PY_TSTATE_NEXT);

	struct vt_python_thread *thread = vt_vec_append(&py->threads);

	if (!thread)
		return &vt_enomem;

	uint64_t pthread = vt_py_view_u64(&view, py->layout, VT_PY_TSTATE_PTHREAD);

	uint64_t c_stack = vt_py_view_u64(&view, py->layout, VT_PY_TSTATE_CSTACK);

	*thread = (struct vt_python_thread){
		.tstate = tstate,
		/* Outside all evaluators it points to a member of the thread state. */
		.c_stack = c_stack - tstate < sizeof(view.bytes) ? 0 : c_stack,
		.interpreter = interpreter->addr,
		.interpreter_id = interpreter->id,
		.gil = interpreter->gil,
		.pthread = pthread,
		.tid = valid_tid(vt_py_view_u64(&view, py->layout, VT_PY_TSTATE_TID)),
	};
	return vt_map_put(&c->seen, tstate, py->threads.n - 1) ? NULL : &vt_enomem;
}

/*
 * Pages of some threads that will be needed: the tops of their stacks (struct pthread, and below it
 * the evaluator's marks of the outermost calls), the pointers to their innermost frames
 * (_PyCFrame), these frames, and the pages before, which have the callers.
 */
static void prefetch(struct capture *c, const struct vt_python_thread *threads, size_t n)
{
	uint64_t addrs[BATCH * 4];

	for (size_t i = 0; i < n; i++) {
		for (uint64_t page = 0; page < 3; page++)
			addrs[i * 4 + page] =
				threads[i].pthread ? threads[i].pthread - page * VT_PY_PAGE : 0;
		addrs[i * 4 + 3] = threads[i].c_stack;
	}
	vt_py_pages_prefetch(c->py->pages, addrs, n * 4);
	for (size_t i = 0; i < n; i++)
		addrs[i] = vt_py_frame_hint(c->py, c->src, threads[i].tstate);
	vt_py_pages_prefetch(c->py->pages, addrs, n);
	for (size_t i = 0; i < n; i++) {
		if (vt_py_frame_top(c->py, c->src, threads[i].tstate, &addrs[i]))
			addrs[i] = 0;
	}
	vt_py_pages_prefetch(c->py->pages, addrs, n);
	/* Separately: these may be absent, which would cost the others their prefetch. */
	for (size_t i = 0; i < n; i++)
		addrs[i] = addrs[i] ? addrs[i] - VT_PY_PAGE : 0;
	vt_py_pages_prefetch(c->py->pages, addrs, n);
}

static struct vt_error *read_threads(struct capture *c)
{
	size_t n = c->py->threads.n;

	for (size_t i = 0; i < n; i++) {
		struct vt_python_thread *thread = &c->py->threads.data[i];

		/* While the target runs, each pass over a thread starts anew. */
		if (c->src->coherent && i % BATCH == 0)
			prefetch(c, thread, n - i < BATCH ? n - i : BATCH);

		pid_t tid = vt_pthread_tid(c->src, c->py->arch, thread->pthread);

		/*
		 * struct pthread is more reliable than CPython's native_thread_id: after a fork
		 * some releases leave the parent's in the child, glibc does not.
		 */
		if (tid)
			thread->tid = tid;
		VT_TRY(walk_frames(c, thread));
		c->n_frames += thread->frames.n;
	}
	return NULL;
}

/*
 * Up to 3.11 a thread that is about to start has its creator's thread_id until it runs. Then two
 * thread states of one interpreter have the same thread_id, and the one without frames has no
 * running thread yet.
 */
static struct vt_error *disown_unstarted(struct capture *c)
{
	struct vt_map running = { 0 };
	struct vt_error *err = NULL;

	for (size_t i = 0; i < c->py->threads.n && !err; i++) {
		const struct vt_python_thread *thread = &c->py->threads.data[i];

		if (thread->frames.n && !vt_map_put(&running, thread->pthread, thread->interpreter))
			err = &vt_enomem;
	}
	for (size_t i = 0; i < c->py->threads.n && !err; i++) {
		struct vt_python_thread *thread = &c->py->threads.data[i];
		const uint64_t *interpreter = vt_map_get(&running, thread->pthread);

		if (!thread->frames.n && !thread->truncated && interpreter &&
		    *interpreter == thread->interpreter) {
			thread->pthread = 0;
			thread->tid = 0;
		}
	}
	vt_map_deinit(&running);
	return err;
}

/* ---- the GIL ---- */

static void read_gil(struct capture *c, struct vt_python_gil *gil)
{
	const struct vt_python_layout *layout = c->py->layout;
	int32_t enabled = 1, locked;

	if (vt_py_has(layout, VT_PY_GIL_ENABLED) &&
	    vt_py_field_i32(c->src, layout, gil->addr, VT_PY_GIL_ENABLED, &enabled))
		return;
	if (vt_py_field_i32(c->src, layout, gil->addr, VT_PY_GIL_LOCKED, &locked) || locked < -1 ||
	    locked > 1)
		return;
	if (vt_py_field_u64(c->src, layout, gil->addr, VT_PY_GIL_HOLDER, &gil->holder))
		return;
	/* The field names the last holder too, long after it released the GIL. */
	if (locked != 1 || !enabled)
		gil->holder = 0;
	gil->known = true;
}

/* The GIL of an interpreter: others may share it. */
static struct vt_error *add_gil(struct capture *c, struct interpreter *interpreter)
{
	const struct vt_python_layout *layout = c->py->layout;
	struct vt_python_gil gil = { .size = layout->at[VT_PY_GIL_SIZE],
				     .of_main = interpreter->id == 0 };

	interpreter->gil = VT_PYTHON_NO_GIL;
	if (vt_py_has(layout, VT_PY_RUNTIME_GIL))
		gil.addr = c->py->runtime + layout->at[VT_PY_RUNTIME_GIL];
	else if (vt_py_field_u64(c->src, layout, interpreter->addr, VT_PY_INTERP_GIL, &gil.addr))
		return NULL;
	for (size_t i = 0; i < c->py->gils.n; i++) {
		if (c->py->gils.data[i].addr == gil.addr) {
			c->py->gils.data[i].of_main |= gil.of_main;
			interpreter->gil = i;
			return NULL;
		}
	}
	read_gil(c, &gil);

	struct vt_python_gil *added = vt_vec_append(&c->py->gils);

	if (!added)
		return &vt_enomem;
	*added = gil;
	interpreter->gil = c->py->gils.n - 1;
	return NULL;
}

/*
 * If the holder is not one of our threads, we read the GIL at a wrong address, or it changed during
 * the read.
 */
static void name_holders(struct capture *c)
{
	for (size_t i = 0; i < c->py->gils.n; i++) {
		struct vt_python_gil *gil = &c->py->gils.data[i];
		const uint64_t *index = gil->holder ? vt_map_get(&c->seen, gil->holder) : NULL;

		gil->known &= !gil->holder || index;
		if (!gil->known)
			gil->holder = 0;
		if (!gil->holder)
			continue;
		c->py->threads.data[*index].holds_gil = true;
		gil->holder_tid = c->py->threads.data[*index].tid;
	}
}

/* ---- interpreters ---- */

static struct vt_error *add_interpreter(struct capture *c, uint64_t addr, uint64_t *next)
{
	const struct vt_python_layout *layout = c->py->layout;
	uint64_t id, tstate;
	int ret = vt_py_field_u64(c->src, layout, addr, VT_PY_INTERP_NEXT, next);

	if (!ret)
		ret = vt_py_field_u64(c->src, layout, addr, VT_PY_INTERP_ID, &id);
	if (!ret)
		ret = vt_py_field_u64(c->src, layout, addr, VT_PY_INTERP_THREADS, &tstate);
	if (ret)
		return vt_mem_error(c->src, ret, "a Python interpreter");
	if (id > UINT32_MAX) /* a counter that starts at 0 */
		return damaged("interpreter", addr);

	struct interpreter interpreter = { .addr = addr, .id = (uint32_t)id };

	VT_TRY(add_gil(c, &interpreter));
	while (tstate && c->py->threads.n < VT_PYTHON_MAX_THREADS)
		VT_TRY(add_thread(c, &interpreter, tstate, &tstate));
	return NULL;
}

static struct vt_error *capture_all(struct capture *c)
{
	uint64_t interpreter;
	int ret = vt_py_field_u64(c->src, c->py->layout, c->py->runtime, VT_PY_RUNTIME_INTERPRETERS,
				  &interpreter);

	if (ret)
		return vt_mem_error(c->src, ret, "_PyRuntime");
	for (int n = 0; interpreter; n++) {
		if (n >= MAX_INTERPRETERS)
			return damaged("list of interpreters", c->py->runtime);
		VT_TRY(add_interpreter(c, interpreter, &interpreter));
	}
	VT_TRY(read_threads(c));
	name_holders(c);
	VT_TRY(disown_unstarted(c));
	return vt_py_join_threads(c->py);
}

struct vt_error *vt_py_capture(struct vt_python *py, struct vt_memsrc *src, size_t max_frames)
{
	/*
	 * Kept for the next capture, so that the first one, before the target is stopped, pays for
	 * the memory.
	 */
	if (!py->pages)
		py->pages = malloc(sizeof(*py->pages));
	if (!py->pages)
		return &vt_enomem;
	for (int try = 1;; try++) {
		struct capture c = { .py = py, .src = &py->pages->src, .max_frames = max_frames };

		vt_py_drop_threads(py);
		vt_py_pages_init(py->pages, src);

		struct vt_error *err = capture_all(&c);

		capture_deinit(&c);
		/*
		 * A list that changed during the read looks damaged, but not when it is read again.
		 */
		if (!err || src->coherent || try == MAX_TRIES ||
		    !(vt_error_catch(&err, VT_ERR_FORMAT) || vt_error_catch(&err, VT_ERR_FAULT)))
			return err;
	}
}

struct vt_error *vt_python_capture(struct vt_python *py, struct vt_memsrc *src)
{
	VT_TRY(vt_py_capture(py, src, VT_PYTHON_MAX_FRAMES));
	return py->locals ? vt_py_read_locals(py, &py->pages->src) : NULL;
}

void vt_python_deinit(struct vt_python *py)
{
	vt_py_drop_threads(py);
	vt_vec_deinit(&py->threads);
	vt_vec_deinit(&py->gils);
	vt_arena_deinit(&py->arena);
	free(py->pages);
	*py = (struct vt_python){ 0 };
}
