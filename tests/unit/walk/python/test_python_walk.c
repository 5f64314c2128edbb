/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreters made by hand, whole and damaged, with every layout there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/walk/python/python_image.h"
#include "walk/python/internal.h"
#include "walk/python/pages.h"
#include "walk/python/value.h"

#define IMAGE_SIZE (1 << 20)

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static void fail_with(struct vt_error *err, enum vt_error_code code)
{
	assert_non_null(err);
	assert_int_equal(err->code, code);
	vt_error_destroy(err);
}

/* Runs a test with every layout. */
static void with_each_layout(void (*test)(struct python_image *, struct vt_python *), size_t size)
{
	const struct vt_python_layout *layout;

	for (size_t i = 0; (layout = vt_python_layout_nth(i)); i++) {
		struct python_image image;
		struct vt_python py;

		python_image_init(&image, layout, size);
		python_image_start(&image, &py);
		test(&image, &py);
		vt_python_deinit(&py);
		python_image_deinit(&image);
	}
}

#define TEST_EACH_LAYOUT(name)                                              \
	static void name(struct python_image *image, struct vt_python *py); \
	static void test_##name(void **state)                               \
	{                                                                   \
		(void)state;                                                \
		with_each_layout(name, IMAGE_SIZE);                         \
	}                                                                   \
	static void name(struct python_image *image, struct vt_python *py)

static uint64_t chain(struct python_image *image, int n, uint64_t previous)
{
	for (int i = 0; i < n; i++)
		previous = python_image_add_frame(image, image->code, 4 * (i % 10), previous);
	return previous;
}

static const struct vt_python_thread *walk(struct python_image *image, struct vt_python *py)
{
	succeed(vt_python_capture(py, &image->src));
	succeed(vt_python_resolve(py, &image->src));
	assert_true(py->threads.n > 0);
	return &py->threads.data[0];
}

TEST_EACH_LAYOUT(frames_and_lines)
{
	bool marked = vt_py_has(image->layout, VT_PY_OWNER_SHIM);

	/* Two calls of the evaluator: 3 frames, and 2 frames inside them. */
	uint64_t outer = chain(image, 3, python_image_add_shim(image, 0));

	python_image_set_top(image, image->thread,
			     chain(image, 2, python_image_add_shim(image, outer)));

	const struct vt_python_thread *thread = walk(image, py);

	assert_int_equal(thread->frames.n, 5);
	assert_false(thread->truncated);
	assert_string_equal(thread->why, "");
	assert_int_equal(thread->tstate, image->thread);
	for (size_t i = 0; i < 5; i++) {
		const struct vt_python_frame *frame = &thread->frames.data[i];
		int32_t lasti = (int32_t[]){ 4, 0, 8, 4, 0 }[i];

		assert_int_equal(frame->lasti, lasti);
		assert_int_equal(frame->line, python_image_line(lasti));
		assert_string_equal(frame->function, "run");
		assert_string_equal(frame->file, "/x.py");
		if (marked)
			assert_int_equal(frame->entry, i == 1 || i == 4);
	}
	assert_ptr_equal(thread->frames.data[0].file, thread->frames.data[4].file);
}

TEST_EACH_LAYOUT(entries_of_old_releases)
{
	uint64_t frame = chain(image, 3, 0);

	python_image_set_top(image, image->thread, frame);
	python_image_put(image, image->last_frame, VT_PY_FRAME_IS_ENTRY, 1, 1);

	const struct vt_python_thread *thread = walk(image, py);

	if (vt_py_has(image->layout, VT_PY_FRAME_LASTI)) {
		for (size_t i = 0; i < 3; i++)
			assert_true(thread->frames.data[i].entry);
	} else if (vt_py_has(image->layout, VT_PY_FRAME_IS_ENTRY)) {
		assert_true(thread->frames.data[0].entry);
		assert_false(thread->frames.data[1].entry);
	}
}

TEST_EACH_LAYOUT(frames_that_have_not_begun)
{
	/* The function's cells and generator are made in its first three instructions. */
	python_image_put(image, image->code, VT_PY_CODE_FIRSTTRACEABLE, 3, sizeof(int32_t));

	uint64_t outer =
		python_image_add_frame(image, image->code, 8, python_image_add_shim(image, 0));
	uint64_t hidden = python_image_add_frame(image, image->code, 2, outer);
	uint64_t generator = python_image_add_frame(image, image->code, 2, hidden);

	python_image_put(image, generator, VT_PY_FRAME_OWNER, 1, 1);
	python_image_set_top(image, image->thread, generator);

	const struct vt_python_thread *thread = walk(image, py);
	bool hides = vt_py_has(image->layout, VT_PY_CODE_FIRSTTRACEABLE);

	assert_int_equal(thread->frames.n, hides ? 2 : 3);
	assert_int_equal(thread->frames.data[0].frame, generator);
	assert_int_equal(thread->frames.data[hides ? 1 : 2].frame, outer);
}

/*
 * When such a frame began a call of the evaluator, the one inside it stands for it; alone it stays.
 */
TEST_EACH_LAYOUT(entry_frames_that_have_not_begun)
{
	if (!vt_py_has(image->layout, VT_PY_OWNER_SHIM))
		return;
	python_image_put(image, image->code, VT_PY_CODE_FIRSTTRACEABLE, 3, sizeof(int32_t));

	uint64_t hidden =
		python_image_add_frame(image, image->code, 2, python_image_add_shim(image, 0));

	python_image_set_top(image, image->thread,
			     python_image_add_frame(image, image->code, 8, hidden));

	const struct vt_python_thread *thread = walk(image, py);

	assert_int_equal(thread->frames.n, 1);
	assert_true(thread->frames.data[0].entry);
	python_image_set_top(image, image->thread, hidden);
	thread = walk(image, py);
	assert_int_equal(thread->frames.n, 1);
	assert_int_equal(thread->frames.data[0].frame, hidden);
}

TEST_EACH_LAYOUT(lines_of_trace_functions)
{
	uint64_t frame = chain(image, 1, 0), object = frame;

	if (vt_py_has(image->layout, VT_PY_FRAME_OBJECT)) {
		object = python_image_alloc(image, 128);
		python_image_put_u64(image, frame, VT_PY_FRAME_OBJECT, object);
	}
	python_image_put(image, object, VT_PY_FRAMEOBJ_LINENO, 1234, sizeof(int32_t));
	python_image_set_top(image, image->thread, frame);
	if (vt_py_has(image->layout, VT_PY_FRAMEOBJ_TRACE)) {
		assert_int_equal(walk(image, py)->frames.data[0].line, python_image_line(0));
		python_image_put_u64(image, object, VT_PY_FRAMEOBJ_TRACE, image->code);
	}
	assert_int_equal(walk(image, py)->frames.data[0].line, 1234);
}

TEST_EACH_LAYOUT(instructions_outside_of_the_code)
{
	static const struct {
		int32_t at;
		int32_t lasti;
		int line;
	} cases[] = { { -1, -1, 10 },
		      { -2, -1, 10 },
		      { -4, INT32_MAX, 0 },
		      { 4000, 4000, 0 },
		      { 1 << 30, INT32_MAX, 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		python_image_set_top(image, image->thread,
				     python_image_add_frame(image, image->code, cases[i].at, 0));
		/* Of a generator: others are hidden before they begin. */
		python_image_put(image, image->last_frame, VT_PY_FRAME_OWNER, 1, 1);

		const struct vt_python_thread *thread = walk(image, py);

		assert_int_equal(thread->frames.n, 1);
		assert_int_equal(thread->frames.data[0].lasti, cases[i].lasti);
		/* The old table has no end: its last line goes on. */
		if (image->layout->lines != VT_PY_LINES_LNOTAB || cases[i].line)
			assert_int_equal(thread->frames.data[0].line, cases[i].line);
	}
}

/* 3.11 and 3.12: an evaluator has linked its _PyCFrame and not filled it in yet. */
TEST_EACH_LAYOUT(a_call_that_is_beginning)
{
	if (!vt_py_has(image->layout, VT_PY_TSTATE_CFRAME))
		return;

	uint64_t caller = chain(image, 3, python_image_add_shim(image, 0)), outer;
	uint64_t begun = python_image_add_frame(image, image->code, -2, caller);
	uint64_t stale = python_image_add_frame(image, image->code, 4, begun);
	uint64_t garbage = python_image_add_ascii(image, "no frame");
	uint64_t inner = python_image_alloc(image, 32);

	python_image_set_top(image, image->thread, caller);
	memcpy(&outer,
	       (const void *)(uintptr_t)(image->thread + image->layout->at[VT_PY_TSTATE_CFRAME]),
	       sizeof(outer));
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_CFRAME, inner);
	python_image_put_u64(image, inner, VT_PY_CFRAME_PREVIOUS, outer);
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_STACK_TOP, stale);
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_STACK_LIMIT, stale + 16384);

	/*
	 * What is there instead: garbage, a frame that is gone, the new one before it is linked;
	 * then the new one itself.
	 */
	const uint64_t tops[] = { 0, 8, 4096, garbage, stale + 64, begun };

	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
		python_image_put_u64(image, inner, VT_PY_CFRAME_FRAME, tops[i]);
		if (i == sizeof(tops) / sizeof(tops[0]) - 2)
			python_image_put_u64(image, stale + 64, VT_PY_FRAME_CODE, image->code);
		assert_int_equal(walk(image, py)->frames.n, 3);
		assert_int_equal(py->threads.data[0].frames.data[0].frame, caller);
		assert_false(py->threads.data[0].truncated);
	}
	python_image_put_u64(image, begun, VT_PY_FRAME_PREVIOUS, garbage);
	assert_int_equal(walk(image, py)->frames.n, 3);
	python_image_put_u64(image, begun, VT_PY_FRAME_PREVIOUS, caller);

	/* A frame that has not begun has called nothing. */
	python_image_put_u64(image, inner, VT_PY_CFRAME_FRAME, stale);
	python_image_put(image, image->code, VT_PY_CODE_FIRSTTRACEABLE, 0, sizeof(int32_t));
	assert_int_equal(walk(image, py)->frames.n, 3);

	/* Nor is the caller's _PyCFrame known yet. */
	python_image_put_u64(image, inner, VT_PY_CFRAME_FRAME, garbage);
	for (size_t i = 1; i < 4; i++) {
		python_image_put_u64(image, inner, VT_PY_CFRAME_PREVIOUS, tops[i]);
		assert_int_equal(walk(image, py)->frames.n, 0);
		assert_true(py->threads.data[0].truncated);
		assert_non_null(strstr(py->threads.data[0].why, "beginning a call"));
	}
}

TEST_EACH_LAYOUT(rings)
{
	uint64_t first = chain(image, 1, 0), last = chain(image, 50, first);

	/* The whole chain, a part of it, and one frame. */
	const uint64_t back_to[] = { last, chain(image, 0, last), first };

	python_image_set_top(image, image->thread, last);
	for (size_t i = 0; i < 3; i++) {
		python_image_put_u64(image, first, VT_PY_FRAME_PREVIOUS, back_to[i]);

		const struct vt_python_thread *thread = walk(image, py);

		assert_int_equal(thread->frames.n, 51);
		assert_true(thread->truncated);
		assert_string_equal(thread->why, "its chain of frames is a ring");
	}
	if (vt_py_has(image->layout, VT_PY_OWNER_SHIM)) { /* marks alone, for ever */
		uint64_t shim = python_image_add_shim(image, 0);

		python_image_put_u64(image, shim, VT_PY_FRAME_PREVIOUS, shim);
		python_image_put_u64(image, first, VT_PY_FRAME_PREVIOUS, shim);
		assert_int_equal(walk(image, py)->frames.n, 51);
		assert_true(py->threads.data[0].truncated);
	}
}

static void too_many(struct python_image *image, struct vt_python *py)
{
	python_image_set_top(image, image->thread, chain(image, VT_PYTHON_MAX_FRAMES + 10, 0));

	const struct vt_python_thread *thread = walk(image, py);

	assert_int_equal(thread->frames.n, VT_PYTHON_MAX_FRAMES);
	assert_true(thread->truncated);
	assert_string_equal(thread->why, "more than 20000 frames");
}

static void test_too_many(void **state)
{
	(void)state;
	with_each_layout(too_many, 16 << 20);
}

TEST_EACH_LAYOUT(frames_that_cannot_be_read)
{
	const uint64_t bad[] = { 8,
				 4096,
				 UINT64_MAX - 7,
				 (uintptr_t)image->base + image->size,
				 (uintptr_t)image->base + image->size - 8,
				 (uintptr_t)image->base - 8 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		python_image_set_top(image, image->thread, chain(image, 3, bad[i]));

		const struct vt_python_thread *thread = walk(image, py);

		assert_int_equal(thread->frames.n, 3);
		assert_true(thread->truncated);
		assert_non_null(strstr(thread->why, "cannot be read"));
		python_image_set_top(image, image->thread, bad[i]);
		assert_int_equal(walk(image, py)->frames.n, 0);
		assert_true(py->threads.data[0].truncated);
	}
}

TEST_EACH_LAYOUT(what_is_no_code)
{
	uint64_t str = python_image_add_ascii(image, "not a code");
	uint64_t frame = chain(image, 1, 0);

	frame = python_image_add_frame(image, str, 0, frame);
	python_image_set_top(image, image->thread, chain(image, 2, frame));

	const struct vt_python_thread *thread = walk(image, py);

	/* Neither it nor its callers are believed. */
	assert_int_equal(thread->frames.n, 2);
	assert_true(thread->truncated);
	assert_non_null(strstr(thread->why, "no code object"));
}

TEST_EACH_LAYOUT(names_that_are_damaged)
{
	python_image_set_top(image, image->thread, chain(image, 1, 0));
	python_image_put_u64(image, image->code, VT_PY_CODE_FILENAME, image->code);
	python_image_put_u64(image, image->code, VT_PY_CODE_NAME, 0);
	python_image_put_u64(image, image->code, VT_PY_CODE_QUALNAME, UINT64_MAX - 3);
	python_image_put_u64(image, image->code, VT_PY_CODE_LINETABLE, image->thread);

	const struct vt_python_frame *frame = walk(image, py)->frames.data;

	assert_null(frame->function);
	assert_null(frame->file);
	assert_int_equal(frame->line, 0);
	/* A line table that claims to be longer than memory. */
	uint64_t bytes = python_image_alloc(image, 64);

	for (uint64_t size = 1; size; size <<= 4) {
		python_image_put_u64(image, bytes, VT_PY_OBJECT_TYPE,
				     image->types[VT_PYTHON_BYTES]);
		python_image_put_u64(image, bytes, VT_PY_OBJECT_SIZE, size - 1);
		python_image_put_u64(image, image->code, VT_PY_CODE_LINETABLE, bytes);
		walk(image, py);
	}
}

static const struct vt_python_gil *main_gil(const struct vt_python *py)
{
	for (size_t i = 0; i < py->gils.n; i++) {
		if (py->gils.data[i].of_main)
			return &py->gils.data[i];
	}
	fail_msg("the main interpreter has no GIL");
	return NULL;
}

TEST_EACH_LAYOUT(threads_and_interpreters)
{
	uint64_t second = python_image_alloc(image, 16384);
	uint64_t a = python_image_add_thread(image, second, 0),
		 b = python_image_add_thread(image, second, a);

	python_image_put_u64(image, second, VT_PY_INTERP_THREADS, b);
	python_image_put_u64(image, second, VT_PY_INTERP_ID, 1);
	python_image_put_u64(image, second, VT_PY_INTERP_GIL, image->gil);
	python_image_put_u64(image, image->interpreter, VT_PY_INTERP_NEXT, second);
	python_image_put(image, image->gil, VT_PY_GIL_LOCKED, 1, sizeof(int32_t));
	python_image_put_u64(image, image->gil, VT_PY_GIL_HOLDER, a);
	succeed(vt_python_capture(py, &image->src));
	assert_int_equal(py->threads.n, 3);
	assert_int_equal(py->threads.data[0].interpreter, image->interpreter);
	assert_int_equal(py->threads.data[2].tstate, a);
	assert_true(main_gil(py)->known);
	assert_int_equal(main_gil(py)->holder, a);
	assert_true(py->threads.data[2].holds_gil);
	assert_false(py->threads.data[1].holds_gil);

	/* Given up: the last holder is still named there. */
	python_image_put(image, image->gil, VT_PY_GIL_LOCKED, 0, sizeof(int32_t));
	succeed(vt_python_capture(py, &image->src));
	assert_true(main_gil(py)->known);
	assert_int_equal(main_gil(py)->holder, 0);

	/* Held by no existing thread, or not a lock at all. */
	python_image_put(image, image->gil, VT_PY_GIL_LOCKED, 1, sizeof(int32_t));
	python_image_put_u64(image, image->gil, VT_PY_GIL_HOLDER, second);
	succeed(vt_python_capture(py, &image->src));
	assert_false(main_gil(py)->known);
	python_image_put(image, image->gil, VT_PY_GIL_LOCKED, 77, sizeof(int32_t));
	succeed(vt_python_capture(py, &image->src));
	assert_false(main_gil(py)->known);

	/* A free-threaded build with its GIL off. */
	if (vt_py_has(image->layout, VT_PY_GIL_ENABLED)) {
		python_image_put(image, image->gil, VT_PY_GIL_LOCKED, 1, sizeof(int32_t));
		python_image_put(image, image->gil, VT_PY_GIL_ENABLED, 0, sizeof(int32_t));
		succeed(vt_python_capture(py, &image->src));
		assert_true(main_gil(py)->known);
		assert_int_equal(main_gil(py)->holder, 0);
	}

	/* Rings of threads and of interpreters, threads of another interpreter. */
	python_image_put_u64(image, a, VT_PY_TSTATE_NEXT, b);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FORMAT);
	python_image_put_u64(image, a, VT_PY_TSTATE_NEXT, image->thread);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FORMAT);
	python_image_put_u64(image, a, VT_PY_TSTATE_NEXT, 0);
	python_image_put_u64(image, second, VT_PY_INTERP_NEXT, image->interpreter);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FORMAT);
	python_image_put_u64(image, second, VT_PY_INTERP_NEXT, 64);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FAULT);
	python_image_put_u64(image, second, VT_PY_INTERP_NEXT, 0);
	python_image_put_u64(image, second, VT_PY_INTERP_ID, UINT64_MAX);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FORMAT);
	python_image_put_u64(image, second, VT_PY_INTERP_THREADS, 0);
	python_image_put_u64(image, second, VT_PY_INTERP_NEXT, second);
	python_image_put_u64(image, second, VT_PY_INTERP_ID, 1);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FORMAT);
}

TEST_EACH_LAYOUT(thread_ids)
{
	uint64_t pthread = python_image_alloc(image, 1024);
	uint8_t *p = (uint8_t *)(uintptr_t)pthread;

	python_image_put_u64(image, image->thread, VT_PY_TSTATE_PTHREAD, pthread);
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_TID, 77);
	assert_int_equal(walk(image, py)->tid, vt_py_has(image->layout, VT_PY_TSTATE_TID) ? 77 : 0);
	assert_int_equal(py->threads.data[0].pthread, pthread);
	memcpy(p, &pthread, 8);
	memcpy(p + 16, &pthread, 8);
	p[720] = 88;
	assert_int_equal(walk(image, py)->tid, 88);
	p[723] = 0x80; /* no tid is negative or that large: an ended thread has -1 there */
	assert_int_equal(walk(image, py)->tid, vt_py_has(image->layout, VT_PY_TSTATE_TID) ? 77 : 0);
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_TID, UINT64_MAX);
	assert_int_equal(walk(image, py)->tid, 0);

	/* A thread that has not started carries its creator's. */
	uint64_t unstarted = python_image_add_thread(image, image->interpreter, 0);

	p[723] = 0;
	python_image_put_u64(image, unstarted, VT_PY_TSTATE_PTHREAD, pthread);
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_NEXT, unstarted);
	python_image_set_top(image, image->thread, chain(image, 1, 0));
	assert_int_equal(walk(image, py)->tid, 88);
	assert_int_equal(py->threads.data[1].tid, 0);
	assert_int_equal(py->threads.data[1].pthread, 0);
}

/* ---- while the target runs ---- */

static void return_and_call(struct python_image *image)
{
	/* Each read finds the innermost frame at another instruction. */
	static int32_t lasti;

	lasti = (lasti + 2) % 8;
	python_image_put_u64(image, image->last_frame, VT_PY_FRAME_INSTR,
			     image->code + image->layout->at[VT_PY_CODE_BYTECODE] +
				     (uint64_t)lasti);
	python_image_put(image, image->last_frame, VT_PY_FRAME_LASTI,
			 (uint32_t)lasti / image->layout->at[VT_PY_LASTI_SCALE], sizeof(lasti));
}

TEST_EACH_LAYOUT(a_thread_that_runs)
{
	python_image_set_top(image, image->thread,
			     chain(image, 6, python_image_add_shim(image, 0)));
	image->src.coherent = false;
	assert_int_equal(walk(image, py)->frames.n, 6);
	assert_false(py->threads.data[0].truncated);
	image->before_read = return_and_call;

	const struct vt_python_thread *thread = walk(image, py);

	assert_int_equal(thread->frames.n, 0);
	assert_true(thread->truncated);
	assert_non_null(strstr(thread->why, "it ran"));

	/* A generator that is being left: its caller is gone. */
	image->before_read = NULL;

	uint64_t generator = python_image_add_frame(image, image->code, 4, 0);

	python_image_put(image, generator, VT_PY_FRAME_OWNER, 1, 1);
	python_image_put_u64(image, generator, VT_PY_FRAME_GENERATOR, image->code);
	python_image_set_top(image, image->thread, generator);
	assert_int_equal(walk(image, py)->frames.n, 0);
	image->src.coherent = true;
	assert_int_equal(walk(image, py)->frames.n, 1);
	assert_true(py->threads.data[0].frames.data[0].generator);
}

static void lose_thread(struct python_image *image)
{
	/* On the first pass the list leads to a thread that is gone already. */
	if (image->reads == 3)
		python_image_put_u64(image, image->thread, VT_PY_TSTATE_NEXT, 0);
}

TEST_EACH_LAYOUT(a_list_that_changes)
{
	python_image_set_top(image, image->thread, chain(image, 1, 0));
	python_image_put_u64(image, image->thread, VT_PY_TSTATE_NEXT, 4096);
	fail_with(vt_python_capture(py, &image->src), VT_ERR_FAULT);
	image->src.coherent = false;
	image->reads = 0;
	image->before_read = lose_thread;
	assert_int_equal(walk(image, py)->frames.n, 1);
	assert_int_equal(py->threads.n, 1);
}

/* ---- local variables ---- */

/* The values of the image's variables, and what should be made of them. */
static const char *const local_texts[] = { "1073741825", "-7",   "'text'",    "[-7, 'text']",
					   "(1.5,)",     "None", "<Own 1.5>", "1.5" };

enum { N_LOCALS = sizeof(local_texts) / sizeof(local_texts[0]) };

static uint64_t add_value_type(struct python_image *image, const char *name, unsigned int flag)
{
	enum { FLAG_READY = 1 << 12 };
	uint64_t type = python_image_alloc(image, 512), text = python_image_alloc(image, 16);

	strcpy((char *)(uintptr_t)text, name);
	python_image_put_u64(image, type, VT_PY_TYPE_NAME, text);
	python_image_put_u64(image, type, VT_PY_TYPE_FLAGS,
			     FLAG_READY | (flag ? UINT64_C(1) << flag : 0));
	return type;
}

static uint64_t add_object(struct python_image *image, uint64_t type, size_t size)
{
	uint64_t object = python_image_alloc(image, size);

	python_image_put_u64(image, object, VT_PY_OBJECT_TYPE, type);
	return object;
}

static uint64_t add_long(struct python_image *image, uint64_t type, bool negative,
			 const uint32_t *digits, size_t n)
{
	uint64_t object = add_object(image, type, 128);

	if (vt_py_has(image->layout, VT_PY_LONG_TAG))
		python_image_put_u64(image, object, VT_PY_LONG_TAG, n << 3 | (negative ? 2 : 0));
	else
		python_image_put_u64(image, object, VT_PY_OBJECT_SIZE, negative ? -(uint64_t)n : n);
	memcpy((void *)(uintptr_t)(object + image->layout->at[VT_PY_LONG_DIGITS]), digits, n * 4);
	return object;
}

static void put_word(uint64_t addr, size_t i, uint64_t value)
{
	memcpy((void *)(uintptr_t)(addr + i * 8), &value, sizeof(value));
}

static uint64_t add_tuple(struct python_image *image, uint64_t type, const uint64_t *items,
			  size_t n)
{
	uint64_t object = add_object(image, type, 64 + n * 8);

	python_image_put_u64(image, object, VT_PY_OBJECT_SIZE, n);
	for (size_t i = 0; i < n; i++)
		put_word(object + image->layout->at[VT_PY_TUPLE_ITEMS], i, items[i]);
	return object;
}

/* One frame with variables v0 to v7 and an unbound one; the last two are in cells. */
static void add_locals(struct python_image *image)
{
	enum { CELL = 0x40, PLAIN = 0x20 };
	const struct vt_python_layout *layout = image->layout;
	uint64_t meta = add_value_type(image, "type", 31);
	const struct {
		const char *name;
		unsigned int flag;
	} known[] = { { "int", 24 },     { "list", 25 }, { "tuple", 26 }, { "float", 0 },
		      { "NoneType", 0 }, { "Own", 0 },   { "cell", 0 } };
	uint64_t types[7], strings[N_LOCALS + 1], values[N_LOCALS + 1] = { 0 };
	uint8_t kinds[N_LOCALS + 1];
	double number = 1.5;

	python_image_put_u64(image, meta, VT_PY_OBJECT_TYPE, meta);
	for (size_t i = 0; i < 7; i++) {
		types[i] = add_value_type(image, known[i].name, known[i].flag);
		python_image_put_u64(image, types[i], VT_PY_OBJECT_TYPE, meta);
	}
	python_image_put_u64(image, types[5], VT_PY_TYPE_FLAGS, 1 << 12 | 1 << 9);
	python_image_put_u64(image, types[5], VT_PY_TYPE_BASE, types[3]);
	python_image_put_u64(image, image->types[VT_PYTHON_STR], VT_PY_TYPE_FLAGS,
			     1 << 12 | 1 << 28);
	python_image_put_u64(image, image->types[VT_PYTHON_STR], VT_PY_OBJECT_TYPE, meta);

	values[0] = add_long(image, types[0], false, (const uint32_t[]){ 1, 1 }, 2);
	values[1] = add_long(image, types[0], true, (const uint32_t[]){ 7 }, 1);
	values[2] = python_image_add_ascii(image, "text");
	values[3] = add_object(image, types[1], 64);
	python_image_put_u64(image, values[3], VT_PY_OBJECT_SIZE, 2);
	python_image_put_u64(image, values[3], VT_PY_LIST_ITEMS, python_image_alloc(image, 16));
	for (size_t i = 0; i < 2; i++) {
		uint64_t items;

		memcpy(&items, (const void *)(uintptr_t)(values[3] + layout->at[VT_PY_LIST_ITEMS]),
		       sizeof(items));
		put_word(items, i, values[i + 1]);
	}
	for (size_t i = 6; i < 8; i++) {
		values[i] = add_object(image, types[i == 6 ? 5 : 3], 64);
		memcpy((void *)(uintptr_t)(values[i] + layout->at[VT_PY_FLOAT_VALUE]), &number,
		       sizeof(number));
	}
	values[4] = add_tuple(image, types[2], &values[7], 1);
	values[5] = add_object(image, types[4], 64);
	for (size_t i = 6; i < 8; i++) {
		uint64_t cell = add_object(image, types[6], 64);

		python_image_put_u64(image, cell, VT_PY_CELL_VALUE, values[i]);
		values[i] = cell;
	}
	for (size_t i = 0; i <= N_LOCALS; i++) {
		char name[] = { 'v', (char)('0' + i), '\0' };

		strings[i] = python_image_add_ascii(image, name);
		kinds[i] = i == 6 || i == 7 ? CELL : PLAIN;
	}

	uint64_t bytes = add_object(image, image->types[VT_PYTHON_BYTES], 128), frame;

	python_image_put_u64(image, bytes, VT_PY_OBJECT_SIZE, N_LOCALS + 1);
	memcpy((void *)(uintptr_t)(bytes + layout->at[VT_PY_BYTES_DATA]), kinds, sizeof(kinds));
	python_image_put_u64(image, image->code, VT_PY_CODE_LOCALSKINDS, bytes);
	python_image_put_u64(image, image->code, VT_PY_CODE_LOCALSNAMES,
			     add_tuple(image, types[2], strings, N_LOCALS + 1));
	python_image_put_u64(image, image->code, VT_PY_CODE_VARNAMES,
			     add_tuple(image, types[2], strings, 6));
	python_image_put_u64(image, image->code, VT_PY_CODE_CELLVARS,
			     add_tuple(image, types[2], strings + 6, 1));
	python_image_put_u64(image, image->code, VT_PY_CODE_FREEVARS,
			     add_tuple(image, types[2], strings + 7, 2));
	frame = python_image_add_frame(image, image->code, 4, python_image_add_shim(image, 0));
	python_image_alloc(image, 512); /* the variables, behind the frame */
	for (size_t i = 0; i <= N_LOCALS; i++)
		put_word(frame + layout->at[VT_PY_FRAME_LOCALS], i, values[i]);
	python_image_set_top(image, image->thread, frame);
}

/*
 * Reading of local variables has a limit in time, which a loaded machine may let pass: a few tries.
 */
static const struct vt_python_locals *walk_locals(struct python_image *image, struct vt_python *py)
{
	py->locals = true;
	for (int try = 0; try < 50; try++) {
		const struct vt_python_thread *thread = walk(image, py);

		if (thread->frames.data[0].locals)
			return thread->frames.data[0].locals;
	}
	fail_msg("no local variables");
	return NULL;
}

TEST_EACH_LAYOUT(local_variables)
{
	add_locals(image);

	const struct vt_python_locals *locals = walk_locals(image, py);

	assert_int_equal(locals->n, N_LOCALS);
	assert_false(locals->cut);
	for (uint32_t i = 0; i < N_LOCALS; i++) {
		char name[] = { 'v', (char)('0' + i), '\0' };

		assert_string_equal(locals->items[i].name, name);
		assert_string_equal(locals->items[i].value, local_texts[i]);
	}
	/* Not of a target that runs. */
	image->src.coherent = false;
	assert_null(walk(image, py)->frames.data[0].locals);
	assert_true(py->n_without_locals > 0);
}

/* A dict whose length is not known, or unreadable, is not an empty one. */
TEST_EACH_LAYOUT(lengths_that_are_not_known)
{
	struct vt_py_values values = { .py = py, .src = &image->src };
	struct vt_python_layout layout = *image->layout;
	uint64_t meta = add_value_type(image, "type", 31), type = add_value_type(image, "dict", 29);
	uint64_t object = add_object(image, type, 128);
	struct vt_str text = { 0 };

	python_image_put_u64(image, meta, VT_PY_OBJECT_TYPE, meta);
	python_image_put_u64(image, type, VT_PY_OBJECT_TYPE, meta);
	assert_true(vt_py_value_text(&values, object, &text));
	layout.at[VT_PY_DICT_USED] = VT_PY_NONE; /* a patched interpreter: see distrust() */
	py->layout = &layout;
	assert_true(vt_py_value_text(&values, object, &text));
	assert_string_equal(vt_str_get(&text), "{}?");
	py->layout = image->layout;
	vt_str_deinit(&text);
	vt_py_values_deinit(&values);
}

static int gone_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	(void)src;
	(void)addr;
	(void)buf;
	(void)len;
	return -ESRCH;
}

TEST_EACH_LAYOUT(a_target_that_ended)
{
	static const struct vt_memsrc_ops ops = { .read = gone_read };
	struct vt_memsrc gone = { .ops = &ops };

	fail_with(vt_python_capture(py, &gone), VT_ERR_GONE);
	python_image_set_top(image, image->thread, chain(image, 3, 0));
	succeed(vt_python_capture(py, &image->src));
	fail_with(vt_python_resolve(py, &gone), VT_ERR_GONE);
	assert_int_equal(py->threads.data[0].frames.n, 3);
}

/* Flips bits everywhere: whatever comes of it, it ends, and within bounds (the sanitizers look). */
TEST_EACH_LAYOUT(random_damage)
{
	add_locals(image);
	python_image_set_top(image, image->thread, chain(image, 30, image->last_frame));
	py->locals = true;

	size_t used = image->used;
	uint8_t *whole = malloc(used);

	assert_non_null(whole);
	memcpy(whole, image->base, used);
	srandom(image->layout->minor);
	for (int i = 0; i < 2000; i++) {
		for (int n = 0; n < 4; n++) {
			size_t at = (size_t)random() % used;

			/* Mostly where something is. */
			for (int tries = 0; !image->base[at] && tries < 200; tries++)
				at = (size_t)random() % used;
			image->base[at] ^= (uint8_t)(1 << random() % 8);
		}
		image->src.coherent = i % 2;

		struct vt_error *err = vt_python_capture(py, &image->src);

		if (!err)
			err = vt_python_resolve(py, &image->src);
		vt_error_destroy(err);
		memcpy(image->base, whole, used);
	}
	free(whole);
}

/* ---- strings ---- */

static void expect_text(struct python_image *image, struct vt_python *py, uint64_t str,
			const char *want)
{
	char text[VT_PY_STR_MAX + 1];
	int n = vt_py_str_read(py, &image->src, str, text);

	if (!want) {
		assert_true(n < 0);
		return;
	}
	assert_int_equal(n, strlen(want));
	assert_string_equal(text, want);
}

TEST_EACH_LAYOUT(strings)
{
	static const uint16_t two[] = { 'a', 0xe9, 0x6587, 0xdcff, 0xd800 };
	static const uint32_t four[] = { 0x1f40d, 'b', 0x110000, 0xdc80 };
	uint64_t str;

	expect_text(image, py, python_image_add_ascii(image, ""), "");
	expect_text(image, py, python_image_add_ascii(image, "plain"), "plain");
	expect_text(image, py, python_image_add_str(image, 1, false, "\xe9", 1), "\u00e9");
	/*
	 * A byte that was no UTF-8 comes back; half a surrogate pair and what is no character do
	 * not.
	 */
	expect_text(image, py, python_image_add_str(image, 2, false, two, 5),
		    "a\u00e9\u6587\xff\ufffd");
	expect_text(image, py, python_image_add_str(image, 4, false, four, 4),
		    "\U0001f40d"
		    "b\ufffd\x80");
	expect_text(image, py, 0, NULL);
	expect_text(image, py, image->code, NULL);
	expect_text(image, py, UINT64_MAX - 15, NULL);

	/* Damaged heads. */
	uint32_t shift = image->layout->at[VT_PY_STATE_KIND_SHIFT];

	for (uint32_t kind = 0; kind < 8; kind++) {
		str = python_image_add_ascii(image, "plain");
		python_image_put(image, str, VT_PY_UNICODE_STATE,
				 kind << shift | image->layout->at[VT_PY_STATE_COMPACT] |
					 image->layout->at[VT_PY_STATE_ASCII] |
					 (vt_py_has(image->layout, VT_PY_STATE_READY) ?
						  image->layout->at[VT_PY_STATE_READY] :
						  0),
				 sizeof(uint32_t));
		expect_text(image, py, str, kind == 1 ? "plain" : NULL);
	}
	if (vt_py_has(image->layout, VT_PY_STATE_READY)) {
		python_image_put(image, str, VT_PY_UNICODE_STATE,
				 1u << shift | image->layout->at[VT_PY_STATE_COMPACT] |
					 image->layout->at[VT_PY_STATE_ASCII],
				 sizeof(uint32_t));
		expect_text(image, py, str, NULL);
	}
	str = python_image_add_ascii(image, "plain");
	python_image_put_u64(image, str, VT_PY_UNICODE_LENGTH, UINT64_MAX);
	expect_text(image, py, str, NULL);
}

/* Strings whose text is elsewhere: of subclasses, and of the old API. */
TEST_EACH_LAYOUT(legacy_strings)
{
	uint64_t str = python_image_alloc(image, 128), text = python_image_alloc(image, 16);
	uint32_t state = 2u << image->layout->at[VT_PY_STATE_KIND_SHIFT];

	if (vt_py_has(image->layout, VT_PY_STATE_READY))
		state |= image->layout->at[VT_PY_STATE_READY];
	memcpy((void *)(uintptr_t)text, u"\u6587x", 4);
	python_image_put_u64(image, str, VT_PY_OBJECT_TYPE, image->types[VT_PYTHON_STR]);
	python_image_put_u64(image, str, VT_PY_UNICODE_LENGTH, 2);
	python_image_put(image, str, VT_PY_UNICODE_STATE, state, sizeof(state));
	python_image_put_u64(image, str, VT_PY_UNICODE_DATA, text);
	expect_text(image, py, str, "\u6587x");
	python_image_put_u64(image, str, VT_PY_UNICODE_DATA, 0);
	expect_text(image, py, str, NULL);
	python_image_put_u64(image, str, VT_PY_UNICODE_DATA, 16);
	expect_text(image, py, str, NULL);
}

TEST_EACH_LAYOUT(long_strings)
{
	static uint32_t text[3 * VT_PY_STR_MAX];
	char out[VT_PY_STR_MAX + 1];

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		text[i] = 0x1f40d;

	int n = vt_py_str_read(py, &image->src,
			       python_image_add_str(image, 4, false, text, 3 * VT_PY_STR_MAX), out);

	assert_true(n <= VT_PY_STR_MAX && n > VT_PY_STR_MAX - 4 && n % 4 == 0);
	assert_int_equal(strlen(out), n);
	/* Longer than memory: the part that is kept lies in it or not. */
	uint64_t str = python_image_add_ascii(image, "x");

	python_image_put_u64(image, str, VT_PY_UNICODE_LENGTH, INT64_MAX);
	n = vt_py_str_read(py, &image->src, str, out);
	assert_true(n < 0 || n == VT_PY_STR_MAX || n == VT_PY_STR_MAX - 3);
}

/* ---- layouts ---- */

static void test_layout_from_debug(void **state)
{
	const struct vt_python_layout *row = vt_python_layout_find(3, 13, false);
	uint8_t runtime[VT_PYTHON_DEBUG_MAX] = VT_PYTHON_DEBUG_COOKIE;
	struct vt_python_layout layout;
	uint64_t version = 0x030d00f0;
	(void)state;

	assert_non_null(row);
	memcpy(runtime + VT_PYTHON_DEBUG_VERSION, &version, sizeof(version));
	/*
	 * All words zero: valid offsets, though not of any build. What only our row knows of those
	 * structs is given up.
	 */
	assert_true(vt_python_layout_from_debug(runtime, sizeof(runtime), &layout));
	assert_int_equal(layout.at[VT_PY_CODE_NAME], 0);
	assert_int_equal(layout.at[VT_PY_CODE_FIRSTTRACEABLE], VT_PY_NONE);
	assert_int_equal(layout.at[VT_PY_FRAME_OBJECT], VT_PY_NONE);
	assert_int_equal(layout.at[VT_PY_GIL_LOCKED], row->at[VT_PY_GIL_LOCKED]);
	/* Too large, each word in turn. */
	for (size_t at = 24; at + 8 <= 700; at += 8) {
		memset(runtime + at, 0xff, 8);
		vt_python_layout_from_debug(runtime, sizeof(runtime), &layout);
		memset(runtime + at, 0, 8);
	}
	memset(runtime + 40, 0xff, 8);
	assert_false(vt_python_layout_from_debug(runtime, sizeof(runtime), &layout));
	memset(runtime + 40, 0, 8);
	/* Releases that are not known, and a head that is cut off. */
	for (size_t size = 0; size < 600; size += 8)
		assert_false(vt_python_layout_from_debug(runtime, size < 400 ? size : 24, &layout));
	version = 0x04000000;
	memcpy(runtime + VT_PYTHON_DEBUG_VERSION, &version, sizeof(version));
	assert_false(vt_python_layout_from_debug(runtime, sizeof(runtime), &layout));
	version = UINT64_MAX;
	memcpy(runtime + VT_PYTHON_DEBUG_VERSION, &version, sizeof(version));
	assert_false(vt_python_layout_from_debug(runtime, sizeof(runtime), &layout));
}

/* What the readers take for granted of every row. */
static void test_rows(void **state)
{
	static const enum vt_py_field always[] = {
		VT_PY_RUNTIME_INTERPRETERS,
		VT_PY_INTERP_NEXT,
		VT_PY_INTERP_ID,
		VT_PY_INTERP_THREADS,
		VT_PY_GIL_LOCKED,
		VT_PY_GIL_HOLDER,
		VT_PY_TSTATE_NEXT,
		VT_PY_TSTATE_INTERP,
		VT_PY_TSTATE_PTHREAD,
		VT_PY_FRAME_PREVIOUS,
		VT_PY_FRAME_CODE,
		VT_PY_FRAMEOBJ_LINENO,
		VT_PY_CODE_NAME,
		VT_PY_CODE_FILENAME,
		VT_PY_CODE_FIRSTLINENO,
		VT_PY_CODE_LINETABLE,
		VT_PY_OBJECT_TYPE,
		VT_PY_OBJECT_SIZE,
		VT_PY_TYPE_NAME,
		VT_PY_BYTES_DATA,
		VT_PY_UNICODE_LENGTH,
		VT_PY_UNICODE_STATE,
		VT_PY_UNICODE_ASCII_DATA,
		VT_PY_UNICODE_COMPACT_DATA,
		VT_PY_UNICODE_DATA,
		VT_PY_STATE_KIND_SHIFT,
		VT_PY_STATE_COMPACT,
		VT_PY_STATE_ASCII,
		VT_PY_LASTI_SCALE,
		VT_PY_CODE_TAGS,
	};
	const struct vt_python_layout *row;
	size_t n = 0;
	(void)state;

	for (; (row = vt_python_layout_nth(n)); n++) {
		for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
			assert_int_not_equal(row->at[always[i]], VT_PY_NONE);
		assert_true(vt_py_has(row, VT_PY_TSTATE_FRAME) !=
			    vt_py_has(row, VT_PY_TSTATE_CFRAME));
		assert_true(vt_py_has(row, VT_PY_FRAME_LASTI) != vt_py_has(row, VT_PY_FRAME_INSTR));
		assert_true(vt_py_has(row, VT_PY_FRAME_INSTR) ==
			    vt_py_has(row, VT_PY_CODE_BYTECODE));
		assert_true(vt_py_has(row, VT_PY_RUNTIME_GIL) != vt_py_has(row, VT_PY_INTERP_GIL));
		assert_ptr_equal(vt_python_layout_find(row->major, row->minor, row->free_threaded),
				 row);
	}
	assert_true(n >= 7);
}

/* ---- pages ---- */

static void test_pages(void **state)
{
	struct python_image image;
	struct vt_py_pages *pages = malloc(sizeof(*pages));
	uint8_t want[300], got[300];
	(void)state;

	assert_non_null(pages);
	python_image_init(&image, vt_python_layout_nth(0), 4 << 20);
	for (size_t i = 0; i < image.size; i++)
		image.base[i] = (uint8_t)(i * 31 + i / 4096);
	vt_py_pages_init(pages, &image.src);
	srandom(2);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)random() % sizeof(got),
		       at = (size_t)random() % (image.size - len);
		uint64_t hints[600];

		for (size_t h = 0; h < 600; h++)
			hints[h] = i % 100 ? 0 :
					     (uintptr_t)image.base +
						     (size_t)random() % (image.size + 200000);
		vt_py_pages_prefetch(pages, hints, i % 600);
		memcpy(want, image.base + at, len);
		assert_int_equal(vt_mem_read(&pages->src, (uintptr_t)image.base + at, got, len), 0);
		assert_memory_equal(got, want, len);
	}
	/* Over the end: the first bad address is told. */
	assert_int_equal(vt_mem_read(&pages->src, (uintptr_t)image.base + image.size - 10, got, 20),
			 -EFAULT);
	assert_int_equal(pages->src.fault_addr, (uintptr_t)image.base + image.size);
	/* Kept until dropped. */
	assert_int_equal(vt_mem_read(&pages->src, (uintptr_t)image.base, got, 1), 0);
	image.base[0] ^= 1;
	assert_int_equal(vt_mem_read(&pages->src, (uintptr_t)image.base, want, 1), 0);
	assert_int_equal(got[0], want[0]);
	vt_py_pages_drop(pages);
	assert_int_equal(vt_mem_read(&pages->src, (uintptr_t)image.base, want, 1), 0);
	assert_int_not_equal(got[0], want[0]);
	python_image_deinit(&image);
	free(pages);
}

/* Of a stripped program only its pointers tell where _PyRuntime is, whatever they end in. */
TEST_EACH_LAYOUT(a_runtime_without_symbols)
{
	uint64_t start = (uintptr_t)image->base, end = start + image->size;
	struct vt_map_entry entry = {
		.start = start, .end = end, .flags = VT_MAP_READ | VT_MAP_WRITE, .path = "/a"
	};
	struct vt_maps maps = { .entries = { .data = &entry, .n = 1 } };
	struct vt_modules modules = { .maps = &maps };
	struct vt_module module = { .start = start, .end = end };
	uint64_t head = image->runtime + image->layout->at[VT_PY_RUNTIME_INTERPRETERS];

	(void)py;
	for (size_t last = 0; last < 256; last += 16) {
		image->used = (image->used + 255) / 256 * 256 + last;

		uint64_t interpreter = python_image_alloc(image, 16384);
		uint64_t interpreters[] = { interpreter, interpreter, 1 };

		python_image_put_u64(image, interpreter, VT_PY_INTERP_THREADS,
				     python_image_add_thread(image, interpreter, 0));
		memcpy((void *)(uintptr_t)head, interpreters, sizeof(interpreters));
		/* Other places have such pointers, too, but not the count behind them. */
		memcpy((void *)(uintptr_t)(image->types[VT_PYTHON_CODE] + 128), interpreters,
		       sizeof(interpreters) - sizeof(interpreters[0]));
		assert_int_equal(vt_py_scan_runtime(&modules, &module, &image->src, image->layout),
				 image->runtime);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_layout_from_debug),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_frames_and_lines),
		cmocka_unit_test(test_entries_of_old_releases),
		cmocka_unit_test(test_frames_that_have_not_begun),
		cmocka_unit_test(test_entry_frames_that_have_not_begun),
		cmocka_unit_test(test_lines_of_trace_functions),
		cmocka_unit_test(test_instructions_outside_of_the_code),
		cmocka_unit_test(test_a_call_that_is_beginning),
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_frames_that_cannot_be_read),
		cmocka_unit_test(test_what_is_no_code),
		cmocka_unit_test(test_names_that_are_damaged),
		cmocka_unit_test(test_threads_and_interpreters),
		cmocka_unit_test(test_thread_ids),
		cmocka_unit_test(test_a_thread_that_runs),
		cmocka_unit_test(test_a_list_that_changes),
		cmocka_unit_test(test_a_target_that_ended),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_local_variables),
		cmocka_unit_test(test_lengths_that_are_not_known),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_legacy_strings),
		cmocka_unit_test(test_long_strings),
		cmocka_unit_test(test_a_runtime_without_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
