/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks mean that a thread may keep a lock of the driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/collect.h"

#define MAX_FRAMES 8
#define LIBC(name)                                                                 \
	{                                                                          \
		.kind = VT_FRAME_NATIVE, .function = (name), .module = "libc.so.6" \
	}
#define DRIVER(name)                                                                           \
	{                                                                                      \
		.kind = VT_FRAME_NATIVE, .function = (name), .module = "libcuda.so.580.159.04" \
	}
#define RUNTIME(name)                                                                    \
	{                                                                                \
		.kind = VT_FRAME_NATIVE, .function = (name), .module = "libcudart.so.13" \
	}
#define PROGRAM(name)                                                          \
	{                                                                      \
		.kind = VT_FRAME_NATIVE, .function = (name), .module = "train" \
	}
#define PYTHON(name)                                        \
	{                                                   \
		.kind = VT_FRAME_PYTHON, .function = (name) \
	}

static const struct {
	const char *what;
	struct vt_model_frame frames[MAX_FRAMES];
	bool may_be;
} cases[] = {
	{ "outside of the driver", { LIBC("read"), PROGRAM("main") }, false },
	{ "waits for the device",
	  { LIBC("sched_yield"), DRIVER(NULL), DRIVER("cuCtxSynchronize"), PROGRAM("main") },
	  false },
	{ "waits for it by the runtime",
	  { DRIVER(NULL), DRIVER(NULL), RUNTIME(NULL), RUNTIME("cudaStreamSynchronize"),
	    PROGRAM("main") },
	  false },
	{ "frees", { DRIVER(NULL), DRIVER("cuMemFree_v2"), PROGRAM("main") }, true },
	{ "frees by the runtime",
	  { DRIVER(NULL), DRIVER(NULL), RUNTIME("cudaFree"), PROGRAM("main") },
	  true },
	{ "frees in a function of its own with the name of one that waits",
	  { DRIVER("cuMemFree_v2"), PROGRAM("cudaDeviceSynchronize"), PROGRAM("main") },
	  true },
	{ "frees below a Python function with such a name",
	  { DRIVER(NULL), RUNTIME("cudaFree"), PYTHON("cudaDeviceSynchronize"), PROGRAM("main") },
	  true },
	{ "frees in a callback within one that waits",
	  { DRIVER(NULL), DRIVER("cuMemFree_v2"), PROGRAM("callback"), DRIVER(NULL),
	    DRIVER("cuCtxSynchronize"), PROGRAM("main") },
	  true },
	{ "the driver's own thread",
	  { LIBC("poll"), DRIVER(NULL), DRIVER(NULL), LIBC("start_thread"), LIBC("clone3") },
	  false },
	{ "the driver's own thread, in a function of the program's that frees",
	  { LIBC("futex_wait"), DRIVER("cuMemFree_v2"), RUNTIME("cudaFree"), PROGRAM("on_host"),
	    DRIVER(NULL), LIBC("start_thread"), LIBC("clone3") },
	  true },
	{ "the driver's own thread, at work",
	  { DRIVER(NULL), DRIVER(NULL), LIBC("start_thread"), LIBC("clone3") },
	  true },
};

static struct vt_model_thread thread_of(const struct vt_model_frame *frames)
{
	struct vt_model_thread t = { .taken = VT_TAKEN_STOPPED, .syscall = "futex" };

	t.stack.frames = (struct vt_model_frame *)frames;
	t.stack.has_native = true;
	while (t.stack.n_frames < MAX_FRAMES &&
	       (frames[t.stack.n_frames].function || frames[t.stack.n_frames].module))
		t.stack.n_frames++;
	return t;
}

static void test_stacks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_thread t = thread_of(cases[i].frames);

		if (vt_collect_may_be_in_driver(&t) != cases[i].may_be)
			fail_msg("%s", cases[i].what);
	}
}

/* A stack that is not known says nothing. */
static void test_unknown(void **state)
{
	const struct vt_model_frame harmless[MAX_FRAMES] = { LIBC("read"), PROGRAM("main") };
	struct vt_model_thread t = thread_of(harmless);

	(void)state;
	assert_false(vt_collect_may_be_in_driver(&t));
	t.stack.truncated = true;
	assert_true(vt_collect_may_be_in_driver(&t));
	t.stack.truncated = false;
	t.stack.why = "no call frame information";
	assert_true(vt_collect_may_be_in_driver(&t));
	t.stack.why = NULL;
	t.stack.has_native = false;
	assert_true(vt_collect_may_be_in_driver(&t));
	t.stack.has_native = true;
	t.taken = VT_TAKEN_RUNNING;
	assert_true(vt_collect_may_be_in_driver(&t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
