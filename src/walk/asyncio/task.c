/* SPDX-License-Identifier: Apache-2.0 */
/* One task: its name, its state, and the chain of coroutines that it awaits. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "walk/asyncio/internal.h"
#include "walk/python/object.h"

#define MAX_TASK 512 /* bytes of the struct, which has some 250 */

/* Values of gi_frame_state (Include/internal/pycore_frame.h), 3.11 on. */
#define STATE_EXECUTING 0

static bool is_named(struct vt_asyncio_reader *r, uint64_t object, const char *name)
{
	const struct vt_pyheap_class *cls = vt_asyncio_class(r, object);

	return cls && !strcmp(cls->name, name);
}

static bool is_coroutine(struct vt_asyncio_reader *r, uint64_t object)
{
	const struct vt_pyheap_class *cls = vt_asyncio_class(r, object);

	return cls && cls->shape == VT_PYHEAP_GENERATOR;
}

/*
 * A task has, one after the other, what it waits for, its coroutine, its name, and its context, in
 * 3.11 to 3.14; what is before and behind them differs. No other word of it is a coroutine.
 */
static uint32_t find_coroutine(struct vt_asyncio_reader *r, uint64_t task)
{
	for (uint32_t at = 8; at + 24 <= MAX_TASK; at += 8) {
		if (is_coroutine(r, vt_asyncio_word(r, task, at)) &&
		    is_named(r, vt_asyncio_word(r, task, at + 16), "Context"))
			return at;
	}
	return 0;
}

uint64_t vt_asyncio_awaited(struct vt_asyncio_reader *r, uint64_t task)
{
	uint64_t object = vt_asyncio_word(r, task, r->coroutine_at - 8);

	return is_named(r, object, "NoneType") ? 0 : object;
}

/*
 * A future that is done has given its callbacks to the loop, which has not run them yet. One of
 * another library than C's has its own ways.
 */
static bool is_done(struct vt_asyncio_reader *r, uint64_t future)
{
	return vt_asyncio_kind_of(r, future) != VT_ASYNCIO_OTHER &&
	       !vt_asyncio_word(r, future, VT_ASYNCIO_CALLBACK) &&
	       !vt_asyncio_word(r, future, VT_ASYNCIO_CALLBACKS);
}

/* A str; or, from 3.12 on, the number of a name that nobody has asked for yet. */
static const char *read_name(struct vt_asyncio_reader *r, uint64_t object)
{
	char buf[VT_PY_STR_MAX + 1];
	const struct vt_pyheap_class *cls = vt_asyncio_class(r, object);
	uint64_t tag;

	if (vt_py_str_read(r->py, &r->pages.src, object, buf) >= 0)
		return vt_arena_strdup(&r->out->arena, buf);
	/*
	 * PyLongObject of 3.12 on: lv_tag, with the number of digits above its lowest three bits,
	 * and digits of 30 bits.
	 */
	if (!cls || strcmp(cls->name, "int") != 0 || r->py->minor < 12)
		return "";
	tag = vt_asyncio_word(r, object, 0);
	if (tag >> 3 != 1 || tag & 3)
		return "";
	return vt_arena_printf(&r->out->arena, "Task-%" PRIu32,
			       (uint32_t)vt_asyncio_word(r, object, 8) & 0x3fffffff);
}

/* ---- the chain ---- */

static bool has_frame(struct vt_asyncio_reader *r, uint64_t coroutine, int8_t *state)
{
	const struct vt_python_layout *layout = r->py->layout;

	return vt_pages_read(&r->pages, coroutine + layout->at[VT_PY_GEN_STATE], state, 1) &&
	       *state < (int8_t)layout->at[VT_PY_FRAME_CLEARED];
}

/*
 * The coroutine that is behind what a coroutine awaits: itself; or what wraps one, which has it as
 * its first word: the object of coroutine.__await__(), and those of an asynchronous generator's
 * __anext__(), asend() and athrow(). 0: it is no coroutine.
 */
static uint64_t behind(struct vt_asyncio_reader *r, uint64_t awaited)
{
	static const char *const wrappers[] = { "coroutine_wrapper", "async_generator_asend",
						"async_generator_athrow" };

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (is_named(r, awaited, wrappers[i]))
			awaited = vt_asyncio_word(r, awaited, 0);
	return is_coroutine(r, awaited) ? awaited : 0;
}

/* Names and lines take longest: they are read once for each place. */
static bool read_frame(struct vt_asyncio_reader *r, uint64_t addr, struct vt_python_frame *frame)
{
	const struct vt_python_layout *layout = r->py->layout;
	struct vt_asyncio_place place = {
		.code = vt_pages_u64(&r->pages, addr + layout->at[VT_PY_FRAME_CODE]),
		.instruction = vt_pages_u64(&r->pages, addr + layout->at[VT_PY_FRAME_INSTR]),
	};
	uint64_t hash = place.code * UINT64_C(0x9e3779b97f4a7c15) ^ place.instruction;
	const uint64_t *index = vt_map_get(&r->by_place, hash);
	struct vt_asyncio_place *known = index ? &r->places.data[*index - 1] : NULL;

	if (!known || known->code != place.code || known->instruction != place.instruction) {
		if (!vt_python_frame_at(r->py, &r->pages.src, addr, &place.frame))
			return false;
		known = vt_vec_append(&r->places);
		if (!known || !vt_map_put(&r->by_place, hash, r->places.n)) {
			r->nomem = true;
			return false;
		}
		*known = place;
	}
	*frame = known->frame;
	frame->frame = addr;
	return true;
}

static bool add_frame(struct vt_asyncio_reader *r, struct vt_asyncio_task *task, uint64_t addr)
{
	struct vt_python_frame *frame, read;

	if (!read_frame(r, addr, &read)) {
		task->truncated = true;
		return false;
	}
	frame = vt_vec_append(&task->frames);
	if (!frame) {
		r->nomem = true;
		return false;
	}
	*frame = read;
	frame->entry = false; /* it is in no evaluator */
	frame->c_frame = 0;
	frame->locals = NULL;
	return true;
}

/* The outermost coroutine is the task's own; the frames come in that order. */
static void read_chain(struct vt_asyncio_reader *r, struct vt_asyncio_task *task,
		       uint64_t coroutine)
{
	int8_t state = 0;

	for (size_t i = 0; coroutine && has_frame(r, coroutine, &state); i++) {
		uint64_t frame = coroutine + r->py->layout->at[VT_PY_GEN_FRAME];

		if (i >= VT_ASYNCIO_MAX_FRAMES) {
			task->truncated = true;
			return;
		}
		if (!add_frame(r, task, frame))
			return;
		if (state == STATE_EXECUTING) {
			task->state = VT_ASYNCIO_RUNNING;
			return;
		}
		coroutine = behind(r, vt_pyheap_stack_top(&r->heap, frame));
	}
}

static void reverse(struct vt_asyncio_task *task)
{
	for (size_t i = 0, n = task->frames.n; i < n / 2; i++) {
		struct vt_python_frame frame = task->frames.data[i];

		task->frames.data[i] = task->frames.data[n - 1 - i];
		task->frames.data[n - 1 - i] = frame;
	}
}

/* ---- the thread ---- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = text ? strlen(text) : 0, m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* The first variable of BaseEventLoop.run_forever() is the loop. */
static bool runs_loop(struct vt_asyncio_reader *r, const struct vt_python_thread *thread,
		      uint64_t loop)
{
	const struct vt_python_layout *layout = r->py->layout;

	for (size_t i = 0; i < thread->frames.n; i++) {
		const struct vt_python_frame *f = &thread->frames.data[i];

		if (!f->function || !ends_with(f->function, "run_forever") ||
		    !ends_with(f->file, "asyncio/base_events.py"))
			continue;
		if ((vt_pages_u64(&r->pages, f->frame + layout->at[VT_PY_FRAME_LOCALS]) &
		     ~(uint64_t)layout->at[VT_PY_CODE_TAGS]) == loop)
			return true;
	}
	return false;
}

static size_t thread_of(struct vt_asyncio_reader *r, uint64_t loop)
{
	/* Mostly all tasks are of one loop. */
	if (r->out->tasks.n && r->out->tasks.data[r->out->tasks.n - 1].loop == loop)
		return r->out->tasks.data[r->out->tasks.n - 1].thread;
	for (size_t i = 0; loop && i < r->py->threads.n; i++)
		if (runs_loop(r, &r->py->threads.data[i], loop))
			return i;
	return VT_ASYNCIO_NONE;
}

void vt_asyncio_add(struct vt_asyncio_reader *r, uint64_t addr)
{
	struct vt_asyncio_task task = { .addr = addr }, *added;
	uint64_t awaited, coroutine;

	if (!addr || vt_map_get(&r->index, addr) || vt_asyncio_kind_of(r, addr) != VT_ASYNCIO_TASK)
		return;
	if (!r->coroutine_at)
		r->coroutine_at = find_coroutine(r, addr);
	coroutine = r->coroutine_at ? vt_asyncio_word(r, addr, r->coroutine_at) : 0;
	if (!is_coroutine(r, coroutine)) {
		/* Done, or of a kind that is not known: a coroutine in Cython has no frame. */
		r->out->cut |= !r->coroutine_at;
		return;
	}
	read_chain(r, &task, coroutine);
	if (!task.frames.n) { /* done */
		vt_vec_deinit(&task.frames);
		return;
	}
	reverse(&task);
	awaited = vt_asyncio_awaited(r, addr);
	task.name = read_name(r, vt_asyncio_word(r, addr, r->coroutine_at + 8));
	task.loop = vt_asyncio_word(r, addr, VT_ASYNCIO_LOOP);
	task.thread = thread_of(r, task.loop);
	if (awaited) {
		const struct vt_pyheap_class *cls = vt_asyncio_class(r, awaited);

		task.awaits = cls ? vt_arena_strdup(&r->out->arena, cls->name) : NULL;
	}
	if (task.state != VT_ASYNCIO_RUNNING && (!awaited || is_done(r, awaited)))
		task.state = VT_ASYNCIO_READY;
	added = vt_vec_append(&r->out->tasks);
	if (!task.name || !added || !vt_map_put(&r->index, addr, r->out->tasks.n)) {
		r->nomem = true;
		if (added)
			r->out->tasks.n--;
		vt_vec_deinit(&task.frames);
		return;
	}
	*added = task;
}
