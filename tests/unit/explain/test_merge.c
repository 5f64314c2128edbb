/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks made by hand, from inside outwards: native frames are "module:function", Python ones
 * names, '!' an entry.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "explain/merge.h"

#define EVAL "libpython3.12.so.1.0:_PyEval_EvalFrameDefault"
#define PY "libpython3.12.so.1.0:"

static struct vt_module modules[] = {
	{ .path = "/usr/lib/libpython3.12.so.1.0", .build_id = { 0xab, 0x01 }, .build_id_len = 2 },
	{ .path = "/usr/bin/python3.12" },
	{ .path = "/usr/lib/x86_64-linux-gnu/libc.so.6", .build_id = { 0xcd }, .build_id_len = 1 },
	{ .path = "/opt/torch/lib/libtorch_cpu.so" },
	{ .path = "/opt/bin/server" },
};

static const struct vt_module *module_of(const char *text, size_t n)
{
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		const char *base = strrchr(modules[i].path, '/') + 1;

		if (strlen(base) == n && !strncmp(base, text, n))
			return &modules[i];
	}
	fail_msg("no module %s", text);
	return NULL;
}

struct input {
	struct vt_native_stack native;
	struct vt_python_thread python;
	struct vt_model_stack stack;
	struct vt_arena arena;
};

static void add_native(struct input *in, const char *text)
{
	const char *colon = strchr(text, ':');
	struct vt_native_frame *frame = vt_vec_append(&in->native.frames);

	assert_non_null(frame);
	*frame = (struct vt_native_frame){ .pc = 0x1000 + in->native.frames.n,
					   .module_offset = in->native.frames.n };
	if (!colon)
		return; /* in no module */
	frame->module = module_of(text, (size_t)(colon - text));
	if (colon[1])
		frame->symbol = frame->function = colon + 1;
	/* as the symboliser does */
	if (frame->function && !strncmp(frame->function, "_PyEval_EvalFrameDefault", 24))
		frame->function = "_PyEval_EvalFrameDefault";
}

static void add_python(struct input *in, const char *text)
{
	struct vt_python_frame *frame = vt_vec_append(&in->python.frames);
	size_t n = strlen(text);

	assert_non_null(frame);
	*frame = (struct vt_python_frame){ .function = text, .file = "/x/train.py", .line = 10 };
	if (n && text[n - 1] == '!') {
		frame->entry = true;
		frame->function = vt_arena_strndup(&in->arena, text, n - 1);
	}
}

static void add_frame_text(struct vt_str *text, const struct vt_model_frame *frame)
{
	const char *name = frame->function ? frame->function : frame->module ? frame->module : "?";

	vt_str_addf(text, "%s%s%s", text->n ? " " : "",
		    frame->kind == VT_FRAME_PYTHON ? "py:" :
		    frame->inlined                 ? "in:" :
						     "",
		    name);
}

/* What is said before to be shown are the native frames that are shown, in their order. */
static void check_shown(const struct input *in, const struct vt_python_thread *python)
{
	bool shown[64];
	size_t at = 0;

	assert_true(in->native.frames.n <= sizeof(shown) / sizeof(shown[0]));
	assert_true(vt_merge_shown(&in->native, python, shown));
	for (size_t i = 0; i < in->stack.n_frames; i++) {
		const struct vt_model_frame *frame = &in->stack.frames[i];

		if (frame->kind != VT_FRAME_NATIVE || frame->inlined)
			continue;
		while (at < in->native.frames.n && !shown[at])
			at++;
		assert_true(at < in->native.frames.n);
		assert_int_equal(frame->pc, in->native.frames.data[at++].pc);
	}
	while (at < in->native.frames.n)
		assert_false(shown[at++]);
}

/* Frames as "a b py:c"; a native one without a function as its module. */
static const char *merged(struct input *in, bool with_python)
{
	struct vt_str text = { 0 };
	const char *result;

	in->native.complete = !in->native.why[0] && !in->native.truncated;
	assert_true(vt_merge_stacks(&in->native, with_python ? &in->python : NULL, &in->stack,
				    &in->arena));
	check_shown(in, with_python ? &in->python : NULL);
	for (size_t i = 0; i < in->stack.n_frames; i++)
		add_frame_text(&text, &in->stack.frames[i]);
	result = vt_arena_strdup(&in->arena, vt_str_get(&text));
	vt_str_deinit(&text);
	return result;
}

static void input_deinit(struct input *in)
{
	vt_vec_deinit(&in->native.frames);
	vt_vec_deinit(&in->python.frames);
	vt_arena_deinit(&in->arena);
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void check(const char *const *native, size_t n_native, const char *const *python,
		  size_t n_python, const char *want)
{
	struct input in = { 0 };

	for (size_t i = 0; i < n_native; i++)
		add_native(&in, native[i]);
	for (size_t i = 0; i < n_python; i++)
		add_python(&in, python[i]);
	assert_string_equal(merged(&in, n_python > 0), want);
	assert_false(in.stack.merge_uncertain);
	assert_int_equal(in.stack.has_python, n_python > 0);
	input_deinit(&in);
}

/* A thread of CPython 3.8: each Python frame has its own evaluator; glue and start-up go. */
static void test_one_evaluator_each(void **state)
{
	static const char *const native[] = {
		"libc.so.6:clock_nanosleep",
		PY "time_sleep",
		PY "cfunction_vectorcall_O",
		PY "call_function",
		EVAL,
		PY "function_code_fastcall",
		PY "call_function",
		EVAL,
		PY "_PyFunction_Vectorcall",
		PY "method_vectorcall",
		PY "PyVectorcall_Call",
		PY "t_bootstrap",
		PY "pythread_wrapper",
		"libc.so.6:start_thread",
		"libc.so.6:__clone3",
	};
	static const char *const python[] = { "inner!", "outer!" };

	(void)state;
	check(native, COUNT(native), python, COUNT(python),
	      "clock_nanosleep time_sleep py:inner py:outer");
}

/*
 * Inlined functions come before the frame that they are in, and go with it; the interpreter's glue
 * goes also where inlined.
 */
static void test_inlined(void **state)
{
	static const struct vt_native_source in_sleep[] = {
		{ .function = "deepest", .file = "a.h", .line = 3 },
		{ .function = "pysleep", .file = "b.c", .line = 5 }
	};
	static const struct vt_native_source in_call[] = {
		{ .function = "_PyObject_VectorcallTstate", .line = 7 }, { .function = "own" }
	};
	static const char *const native[] = { PY "time_sleep",     EVAL, PY "list_sort",
					      PY "cfunction_call", EVAL, PY "run_mod" };
	static const char *const python[] = { "inner!", "outer!" };
	struct input in = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(native); i++)
		add_native(&in, native[i]);
	for (size_t i = 0; i < COUNT(python); i++)
		add_python(&in, python[i]);
	for (size_t i = 0; i < COUNT(native); i++) {
		in.native.frames.data[i].inlined = i == 0 ? in_sleep : in_call;
		in.native.frames.data[i].n_inlined = 2;
		in.native.frames.data[i].file = "time.c";
		in.native.frames.data[i].line = 9;
	}
	assert_string_equal(merged(&in, true),
			    "in:deepest in:pysleep time_sleep py:inner in:own list_sort py:outer");
	assert_string_equal(in.stack.frames[1].file, "b.c");
	assert_int_equal(in.stack.frames[1].line, 5);
	assert_int_equal(in.stack.frames[1].pc, in.stack.frames[2].pc);
	assert_string_equal(in.stack.frames[1].module, "libpython3.12.so.1.0");
	assert_string_equal(in.stack.frames[2].file, "time.c");
	assert_int_equal(in.stack.frames[2].line, 9);
	input_deinit(&in);
}

/* 3.11 and later: one evaluator for a run; C code between two of them keeps its place. */
static void test_runs(void **state)
{
	static const char *const native[] = {
		"libc.so.6:poll",
		EVAL ".cold",
		PY "PyEval_EvalCode",
		"libtorch_cpu.so:torch::autograd::PyNode::apply",
		"libtorch_cpu.so:torch::autograd::Engine::execute",
		PY "cfunction_call",
		EVAL ".constprop.0",
		PY "run_mod",
		PY "pymain_run_python",
		PY "Py_BytesMain",
		"libc.so.6:__libc_start_call_main",
		"libc.so.6:__libc_start_main",
		"python3.12:_start",
	};
	static const char *const python[] = { "hook", "hook_caller!", "backward", "step",
					      "<module>!" };

	(void)state;
	check(native, COUNT(native), python, COUNT(python),
	      "poll py:hook py:hook_caller torch::autograd::PyNode::apply torch::autograd::Engine::execute "
	      "py:backward py:step py:<module>");
}

/* A program that embeds Python keeps its own frames outside. */
static void test_embedded(void **state)
{
	static const char *const native[] = {
		"libc.so.6:poll",        EVAL,          PY "PyObject_CallObject",
		"server:handle_request", "server:main", "libc.so.6:__libc_start_main",
		"server:_start",
	};
	static const char *const python[] = { "handler!" };

	(void)state;
	check(native, COUNT(native), python, COUNT(python),
	      "poll py:handler handle_request main __libc_start_main _start");
}

/* Stripped of names: what is left outside, and between Python frames, is the interpreter's own. */
static void test_stripped(void **state)
{
	static const char *const native[] = {
		"libc.so.6:poll",
		PY,
		EVAL,
		PY,
		PY "PyObject_Vectorcall",
		EVAL,
		PY,
		PY "Py_BytesMain",
		"libc.so.6:",
		"libc.so.6:__libc_start_main",
		"python3.12:",
	};
	static const char *const python[] = { "a!", "b!" };

	(void)state;
	check(native, COUNT(native), python, COUNT(python), "poll py:a py:b");
	check(native + 1, COUNT(native) - 1, python, COUNT(python),
	      "libpython3.12.so.1.0 py:a py:b");
}

/* Without any name of the evaluator: the runs know where on the C stack they began. */
static void test_by_address(void **state)
{
	static const char *const native[] = {
		"libc.so.6:poll", PY, PY, "libtorch_cpu.so:f", PY, PY, PY, "libc.so.6:"
	};
	struct input in = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(native); i++) {
		add_native(&in, native[i]);
		in.native.frames.data[i].cfa = 0x1000 * (i + 1);
	}
	add_python(&in, "a");
	add_python(&in, "b!");
	add_python(&in, "c!");
	in.python.frames.data[1].c_frame = 0x2800; /* in frame 2 */
	in.python.frames.data[2].c_frame = 0x5000; /* in frame 5 */
	assert_string_equal(merged(&in, true), "poll py:a py:b f py:c");
	assert_false(in.stack.merge_uncertain);

	/* an address in what is no evaluator, out of order, outside: then only names could help */
	static const uint64_t bad[][2] = { { 0x3800, 0x5000 },
					   { 0x5000, 0x2800 },
					   { 0x2800, 0x9000 },
					   { 0x2800, 0 },
					   { 0x2800, 0x2900 } };

	for (size_t i = 0; i < COUNT(bad); i++) {
		in.python.frames.data[1].c_frame = bad[i][0];
		in.python.frames.data[2].c_frame = bad[i][1];
		merged(&in, true);
		assert_true(in.stack.merge_uncertain);
		assert_int_equal(in.stack.n_frames, COUNT(native) + 3);
	}
	/* the native stack ends before the second */
	in.python.frames.data[1].c_frame = 0x2800;
	in.python.frames.data[2].c_frame = 0x9000;
	strcpy(in.native.why, "why");
	assert_string_equal(merged(&in, true), "poll py:a py:b f libc.so.6 py:c");
	assert_false(in.stack.merge_uncertain);
	input_deinit(&in);
}

static void test_native_only(void **state)
{
	static const char *const native[] = { "libc.so.6:poll", "?", "libc.so.6:start_thread",
					      "libc.so.6:__clone3" };
	static const char *const no_frames[] = { "libc.so.6:futex", PY "take_gil",
						 PY "PyEval_RestoreThread" };

	(void)state;
	check(native, COUNT(native), NULL, 0, "poll ? start_thread __clone3");
	/* a Python thread that has no Python frame yet keeps everything */
	check(no_frames, COUNT(no_frames), NULL, 0, "futex take_gil PyEval_RestoreThread");
}

static void test_python_only(void **state)
{
	struct input in = { 0 };

	(void)state;
	add_python(&in, "a");
	add_python(&in, "b!");
	assert_true(vt_merge_stacks(NULL, &in.python, &in.stack, &in.arena));
	assert_int_equal(in.stack.n_frames, 2);
	assert_false(in.stack.merge_uncertain);
	assert_true(in.stack.has_python && !in.stack.has_native);
	assert_true(vt_merge_stacks(NULL, NULL, &in.stack, &in.arena));
	assert_int_equal(in.stack.n_frames, 0);
	input_deinit(&in);
}

/* One side ends early: the inner ends still go together. */
static void test_cut_off(void **state)
{
	static const char *const native[] = { "libc.so.6:poll", EVAL, PY "call_function", EVAL,
					      PY "run_mod" };
	struct input in = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(native); i++)
		add_native(&in, native[i]);
	strcpy(in.native.why, "no unwind information at libfoo.so+0x12");
	add_python(&in, "a!");
	add_python(&in, "b!");
	add_python(&in, "c!");
	assert_string_equal(merged(&in, true), "poll py:a py:b py:c");
	assert_false(in.stack.merge_uncertain);
	assert_string_equal(in.stack.why, "no unwind information at libfoo.so+0x12");
	/* the same, with fewer Python frames because their number is bounded */
	in.native.why[0] = '\0';
	in.python.frames.n = 1;
	in.python.truncated = true;
	assert_string_equal(merged(&in, true), "poll py:a _PyEval_EvalFrameDefault");
	assert_false(in.stack.merge_uncertain);
	assert_true(in.stack.truncated);
	input_deinit(&in);
}

/* Interrupted where the evaluator has no frame yet. */
static void test_evaluator_without_frame(void **state)
{
	static const char *const native[] = { EVAL, PY "_PyEval_Vector", EVAL, PY "run_mod" };
	static const char *const ending[] = { PY "PyErr_Occurred", PY "_Py_CheckFunctionResult",
					      EVAL, PY "call_function", EVAL };
	static const char *const python[] = { "a!" };

	(void)state;
	check(native, COUNT(native), python, COUNT(python), "_PyEval_EvalFrameDefault py:a");
	check(ending, COUNT(ending), python, COUNT(python),
	      "PyErr_Occurred _Py_CheckFunctionResult _PyEval_EvalFrameDefault py:a");
}

/* Numbers that do not fit: all is shown, apart, and said to be uncertain. */
static void test_uncertain(void **state)
{
	static const char *const native[] = { "libc.so.6:poll", EVAL, PY "run_mod" };
	struct input in = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(native); i++)
		add_native(&in, native[i]);
	add_python(&in, "a!");
	add_python(&in, "b!");
	assert_string_equal(merged(&in, true), "poll _PyEval_EvalFrameDefault run_mod py:a py:b");
	assert_true(in.stack.merge_uncertain);
	/* names that merely begin alike are no evaluators */
	in.native.frames.data[1].symbol = "_PyEval_EvalFrameDefaultX";
	merged(&in, true);
	assert_true(in.stack.merge_uncertain);
	input_deinit(&in);
}

/* What the frames say, and that nothing of the inputs is needed afterwards. */
static void test_fields(void **state)
{
	struct input in = { 0 };
	char function[] = "train_step", file[] = "/home/a/train.py", native_name[] = "poll";
	struct vt_python_frame *frame;

	(void)state;
	add_native(&in, "libc.so.6:poll");
	in.native.frames.data[0].function = native_name;
	add_native(&in, "?");
	add_native(&in, EVAL);
	frame = vt_vec_append(&in.python.frames);
	assert_non_null(frame);
	*frame = (struct vt_python_frame){
		.function = function, .file = file, .line = 88, .entry = true
	};
	assert_string_equal(merged(&in, true), "poll ? py:train_step");
	memset(function, 'x', sizeof(function) - 1);
	memset(file, 'x', sizeof(file) - 1);
	memset(native_name, 'x', sizeof(native_name) - 1);
	assert_string_equal(in.stack.frames[0].function, "poll");
	assert_string_equal(in.stack.frames[0].module, "libc.so.6");
	assert_string_equal(in.stack.frames[0].build_id, "cd");
	assert_int_equal(in.stack.frames[0].pc, 0x1001);
	assert_int_equal(in.stack.frames[0].module_offset, 1);
	assert_null(in.stack.frames[1].module);
	assert_string_equal(in.stack.frames[1].build_id, "");
	assert_string_equal(in.stack.frames[2].file, "/home/a/train.py");
	assert_string_equal(in.stack.frames[2].function, "train_step");
	assert_int_equal(in.stack.frames[2].line, 88);
	input_deinit(&in);
}

/* Any mixture: no frame of Python is ever lost, and none appears twice. */
static void test_random(void **state)
{
	static const char *const pieces[] = { EVAL,         EVAL ".cold",        PY "call_function",
					      PY,           "libc.so.6:poll",    "libc.so.6:",
					      "?",          "libtorch_cpu.so:f", "python3.12:main",
					      "server:main" };

	(void)state;
	srand(7);
	for (int round = 0; round < 5000; round++) {
		struct input in = { 0 };
		size_t n_python = (size_t)rand() % 8, seen = 0;

		for (int i = rand() % 12; i > 0; i--)
			add_native(&in, pieces[(size_t)rand() % COUNT(pieces)]);
		for (size_t i = 0; i < n_python; i++)
			add_python(&in, rand() % 2 ? "f!" : "f");
		for (size_t i = 0; i < n_python; i++)
			in.python.frames.data[i].c_frame = rand() % 3 ? (uint64_t)rand() % 0x3000 :
									0;
		for (size_t i = 0; i < in.native.frames.n; i++)
			in.native.frames.data[i].cfa = rand() % 9 ? i * 0x400 : 0;
		in.python.truncated = rand() % 2;
		if (rand() % 2)
			strcpy(in.native.why, "why");
		merged(&in, true);
		for (size_t i = 0; i < in.stack.n_frames; i++)
			seen += in.stack.frames[i].kind == VT_FRAME_PYTHON;
		assert_int_equal(seen, n_python);
		assert_true(in.stack.n_frames <= in.native.frames.n + n_python);
		input_deinit(&in);
	}
}

/* ---- recorded stacks ---- */

/* Of all places one stack. */
static void check_recorded(const char *const *native, size_t n_native, const char *const *python,
			   size_t n_python, const char *want, bool uncertain)
{
	static const struct vt_native_source tiny = { .function = "tiny" };
	struct input in = { 0 };
	struct vt_recorded_places places;
	struct vt_model_trace trace = { 0 };
	struct vt_str text = { 0 };
	uint32_t numbers[32];

	for (size_t i = 0; i < n_native; i++)
		add_native(&in, native[i]);
	for (size_t i = 0; i < n_python; i++)
		add_python(&in, python[i]);
	if (n_native) { /* as DWARF has it */
		in.native.frames.data[0].inlined = &tiny;
		in.native.frames.data[0].n_inlined = 1;
	}
	for (uint32_t i = 0; i < 32; i++)
		numbers[i] = i;
	assert_true(vt_recorded_places_init(&places, &in.python, &in.native, &in.arena));
	assert_int_equal(places.n_python, n_python);
	assert_true(vt_merge_recorded(&places, numbers, n_python, numbers, n_native, &trace,
				      &in.arena));
	for (size_t i = 0; i < trace.n_frames; i++) {
		assert_true(trace.frames[i] < places.n);
		add_frame_text(&text, &places.frames[trace.frames[i]]);
	}
	assert_string_equal(vt_str_get(&text), want);
	assert_int_equal(trace.merge_uncertain, uncertain);
	vt_str_deinit(&text);
	input_deinit(&in);
}

#define RECORDED(native, python, want, uncertain) \
	check_recorded(native, COUNT(native), python, COUNT(python), want, uncertain)

static void test_recorded(void **state)
{
	static const char *const one[] = {
		"libtorch_cpu.so:empty", PY "_PyObject_Call", EVAL,
		PY "PyEval_EvalCode",    PY "Py_RunMain",     "libc.so.6:__libc_start_main",
		"python3.12:_start"
	};
	static const char *const two[] = { "libtorch_cpu.so:empty", EVAL,
					   PY "slot_tp_call",       EVAL,
					   PY "Py_RunMain",         "libc.so.6:" };
	static const char *const between[] = { "libtorch_cpu.so:empty", EVAL,
					       "libtorch_cpu.so:apply", EVAL, "server:main" };
	static const char *const none[] = { "libtorch_cpu.so:empty", "libtorch_cpu.so:thread_main",
					    "libc.so.6:start_thread" };
	static const char *const python[] = { "a", "b", "c" }, *const pair[] = { "a", "b" };

	(void)state;
	RECORDED(one, python, "in:tiny empty py:a py:b py:c", false);
	/* As many evaluators as Python frames: each has one. */
	RECORDED(between, pair, "in:tiny empty py:a apply py:b", false);
	RECORDED(two, pair, "in:tiny empty py:a py:b", false);
	/* Fewer: only what has native code between is in doubt. */
	RECORDED(two, python, "in:tiny empty py:a py:b py:c", false);
	RECORDED(between, python, "in:tiny empty py:a py:b py:c apply", true);
	/* No evaluator, though there are Python frames: no names, or the stack ended early. */
	RECORDED(none, pair, "in:tiny empty thread_main start_thread py:a py:b", true);
	check_recorded(none, COUNT(none), NULL, 0, "in:tiny empty thread_main start_thread", false);
	check_recorded(one, COUNT(one), NULL, 0,
		       "in:tiny empty _PyObject_Call _PyEval_EvalFrameDefault", false);
	check_recorded(NULL, 0, python, COUNT(python), "py:a py:b py:c", false);
	check_recorded(NULL, 0, NULL, 0, "", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_evaluator_each),
		cmocka_unit_test(test_inlined),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_embedded),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_by_address),
		cmocka_unit_test(test_native_only),
		cmocka_unit_test(test_python_only),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_evaluator_without_frame),
		cmocka_unit_test(test_uncertain),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
