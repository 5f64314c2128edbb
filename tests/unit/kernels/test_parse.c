/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuda-gdb says, in its own words: the files beside this one are from cuda-gdb 13.0 and an
 * H100 (driver 580), with most rows of long tables left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static struct vt_model_kernels kernels;
static struct vt_arena arena;
static char *said;
static size_t n_said;

static void load(const char *name)
{
	const char *source = getenv("VRAMTAP_SOURCE_DIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/unit/kernels/%s", source ? source : ".", name);

	FILE *file = fopen(path, "re");

	if (!file)
		fail_msg("cannot open %s", path);
	free(said);
	said = malloc(65536);
	assert_non_null(said);
	n_said = fread(said, 1, 65536, file);
	fclose(file);
	assert_true(n_said > 0 && n_said < 65536);
}

static void parse(const char *text, size_t n)
{
	assert_true(vt_kernels_parse(&kernels, &arena, text, n, false));
}

static void end(void)
{
	vt_model_kernels_deinit(&kernels);
	vt_arena_deinit(&arena);
	kernels = (struct vt_model_kernels){ 0 };
}

static int release(void **state)
{
	(void)state;
	end();
	free(said);
	said = NULL;
	return 0;
}

static void check_said(const char *want)
{
	struct vt_str text = { 0 };

	vt_kernels_say(&text, &kernels);
	assert_string_equal(vt_str_get(&text), want);
	vt_str_deinit(&text);
}

static const struct vt_model_kernel *kernel(size_t i)
{
	assert_true(i < kernels.kernels.n);
	return &kernels.kernels.data[i];
}

static const struct vt_model_kernel_place *place(const struct vt_model_kernel *k, size_t i)
{
	assert_true(i < k->n_places);
	return &kernels.places.data[k->first_place + i];
}

static void test_two_kernels(void **state)
{
	const struct vt_model_kernel *k;

	(void)state;
	load("two.txt");
	parse(said, n_said);
	assert_int_equal(kernels.state, VT_KERNELS_TOLD);
	assert_int_equal(kernels.kernels.n, 2);
	k = kernel(0);
	assert_int_equal(k->number, 1);
	assert_int_equal(k->parent, -1);
	assert_int_equal(k->device, 0);
	assert_int_equal(k->grid, 2);
	assert_string_equal(k->status, "Active");
	assert_int_equal(k->sms, 1);
	assert_int_equal(vt_kernel_blocks(k), 1);
	assert_int_equal(vt_kernel_block_threads(k), 32);
	assert_string_equal(k->name, "spin_until");
	assert_true(k->have_begin);
	assert_int_equal(k->n_places, 0);
	k = kernel(1);
	assert_int_equal(k->sms, 132);
	assert_int_equal(vt_kernel_blocks(k), 5000);
	assert_int_equal(vt_kernel_block_threads(k), 1024);
	assert_int_equal(k->begin, 0x7fdf9b7ad1c0 - 192);
	/* The rows of 24 groups: each block has 1024 threads. */
	assert_int_equal(k->threads, 10 * 1024 + 64);
	assert_int_equal(k->n_places, 4);
	assert_int_equal(place(k, 0)->pc, 0x7fdf9b7ad220);
	assert_int_equal(place(k, 0)->offset, 0x120);
	assert_null(place(k, 0)->file);
	for (size_t i = 1; i < k->n_places; i++)
		assert_true(place(k, i)->threads <= place(k, i - 1)->threads);
	check_said(
		"2 kernels run on GPU 0, one of them spin_until (5,000 blocks of 1,024 threads)");
}

static void test_lines(void **state)
{
	const struct vt_model_kernel *k;

	(void)state;
	load("lines.txt");
	parse(said, n_said);
	assert_int_equal(kernels.kernels.n, 1);
	k = kernel(0);
	assert_int_equal(k->begin, 0x7fb21b7ad1b0 - 176);
	assert_string_equal(place(k, 0)->file, "/tmp/spin_src.cu");
	assert_int_equal(place(k, 0)->line, 5);
	assert_int_equal(place(k, 1)->line, 8);
	assert_true(place(k, 1)->have_offset);
	check_said("spin_until runs on GPU 0 (40 blocks of 128 threads)");
}

static void test_long_names(void **state)
{
	(void)state;
	load("pytorch.txt");
	parse(said, n_said);
	assert_int_equal(kernels.kernels.n, 1);
	assert_int_equal(
		strncmp(kernel(0)->name, "at::native::index_elementwise_kernel<128, 4, ", 45), 0);
	assert_int_equal(kernel(0)->name[strlen(kernel(0)->name) - 1], '>');
	assert_int_equal(kernel(0)->grid, 3);
	check_said(
		"at::native::index_elementwise_kernel<…> runs on GPU 0 (1 block of 128 threads)");
}

static void test_none(void **state)
{
	(void)state;
	load("idle.txt");
	parse(said, n_said);
	assert_int_equal(kernels.state, VT_KERNELS_NONE);
	assert_int_equal(kernels.kernels.n, 0);
	check_said("");
}

static void test_no_answer(void **state)
{
	(void)state;
	load("refused.txt");
	parse(said, n_said);
	assert_int_equal(kernels.state, VT_KERNELS_FAILED);
	assert_string_equal(kernels.why, "ptrace: Operation not permitted.");
	end();
	load("crash.txt");
	parse(said, n_said);
	assert_int_equal(kernels.state, VT_KERNELS_FAILED);
	assert_string_equal(kernels.why,
			    "what():  vector::_M_range_check: __n (which is 4294967294) >= "
			    "this->size() (which is 64)");
	end();
	parse("", 0);
	assert_int_equal(kernels.state, VT_KERNELS_FAILED);
	assert_null(kernels.why);
}

/* It is attached, but sees no device: whether a kernel runs is not known. */
static void test_no_device(void **state)
{
	static const char text[] =
		"\n@@ devices\nNo CUDA devices.\n\n@@ kernels\nNo CUDA kernels.\n"
		"[Inferior 1 (process 1) detached]\n";

	(void)state;
	parse(text, sizeof(text) - 1);
	assert_int_equal(kernels.state, VT_KERNELS_FAILED);
	assert_string_equal(kernels.why, "it saw no CUDA device in the process");
}

#define TABLE(row)                                                                               \
	"@@ kernels\n  Kernel Parent Dev Grid Status SMs Mask GridDim BlockDim Invocation\n" row \
	"\n"

static void check_row(const char *text, size_t want)
{
	parse(text, strlen(text));
	assert_int_equal(kernels.kernels.n, want);
	assert_int_equal(kernels.state, want ? VT_KERNELS_TOLD : VT_KERNELS_FAILED);
	end();
}

static void test_rows(void **state)
{
	static const char columns[] =
		"  Dev Kernel Mood Grid Invocation BlockDim\n*   3      7 glad   9 f(int)(n=(2)) (4,5,6) \n";

	(void)state;
	check_row(TABLE("* 0 - 0 1 Active 0x1 (1,1,1) (1,1,1) f()"), 1);
	check_row(TABLE("* 0 - 0 1 Active 0x1 (1,1,1) (1,1,1)"), 1);
	check_row(TABLE("* 0 - 0 1 Active 0x1 (1,1,1)"), 0);
	check_row(TABLE("* x - 0 1 Active 0x1 (1,1,1) (1,1,1) f()"), 0);
	check_row(TABLE("* 4294967296 - 0 1 Active 0x1 (1,1,1) (1,1,1) f()"), 0);
	check_row(TABLE("* 0 - 0 99999999999999999999 Active 0x1 (1,1,1) (1,1,1) f()"), 0);
	check_row(TABLE("* 0 - 5000 1 Active 0x1 (1,1,1) (1,1,1) f()"), 0);
	/* Another version has other columns. */
	parse(columns, sizeof(columns) - 1);
	assert_int_equal(kernel(0)->number, 7);
	assert_int_equal(kernel(0)->device, 3);
	assert_int_equal(kernel(0)->grid, 9);
	assert_string_equal(kernel(0)->name, "f(int)");
	assert_int_equal(vt_kernel_block_threads(kernel(0)), 0); /* not without the grid's */
	check_said("f runs on GPU 3");
}

/* Grids that a kernel launches have numbers below 0; it sleeps until they have ended. */
static void test_launched_by_a_kernel(void **state)
{
	static const char text[] = TABLE("* 1 0 0 -5 Active 0x0050 (2,1,1) (32,1,1) kid()\n"
					 "  0 - 0 2 Sleeping 0x0000 (1,1,1) (1,1,1) mum()");

	(void)state;
	parse(text, sizeof(text) - 1);
	assert_int_equal(kernels.kernels.n, 2);
	assert_int_equal(kernel(0)->grid, -5);
	assert_int_equal(kernel(0)->parent, 0);
	assert_int_equal(kernel(1)->grid, 2);
	check_said("kid runs on GPU 0 (2 blocks of 32 threads)");
	end();
	parse(TABLE("  0 - 0 2 Sleeping 0x0000 (1,1,1) (1,1,1) mum()"),
	      sizeof(TABLE("  0 - 0 2 Sleeping 0x0000 (1,1,1) (1,1,1) mum()")) - 1);
	check_said("");
}

static void test_raised(void **state)
{
	static const char text[] =
		"CUDA Exception: Warp Illegal Address\nCUDA Exception: Warp Illegal Address\n"
		"Thread 1 \"x\" received signal CUDA_EXCEPTION_5, Warp Out-of-range Address.\n";

	(void)state;
	parse(text, sizeof(text) - 1);
	assert_int_equal(kernels.raised.n, 2);
	assert_string_equal(kernels.raised.data[0], "Warp Illegal Address");
	assert_string_equal(kernels.raised.data[1], "Warp Out-of-range Address");
}

/* More kernels, and more groups of threads, than are kept. */
static void test_bounds(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	vt_str_add(&text, TABLE("* 0 - 0 1 Active 0x1 (1,1,1) (2,1,1) f()"));
	for (int i = 1; i < 300; i++)
		vt_str_addf(&text, "%d - 0 1 Active 0x1 (1,1,1) (2,1,1) f()\n", i);
	vt_str_add(&text,
		   "BlockIdx ThreadIdx To BlockIdx ThreadIdx Count PC Filename Line\nKernel 2\n");
	for (int i = 0; i < 70000; i++)
		vt_str_addf(&text, "(0,0,0) (0,0,0) (0,0,0) (1,0,0) 2 0x%x a b.cu 3\n", i % 100);
	assert_false(text.failed);
	parse(vt_str_get(&text), text.n);
	assert_int_equal(kernels.kernels.n, VT_KERNELS_MAX);
	assert_int_equal(kernels.more, 300 - VT_KERNELS_MAX);
	assert_int_equal(kernel(2)->n_places, VT_KERNELS_MAX_PLACES);
	assert_int_equal(kernel(2)->more_places, 100 - VT_KERNELS_MAX_PLACES);
	assert_int_equal(kernel(2)->threads, 2 * 65536);
	assert_string_equal(place(kernel(2), 0)->file, "a b.cu");
	vt_str_deinit(&text);
}

/* Where there is no second kernel, its threads are those of the first, once more. */
static void test_shown_twice(void **state)
{
	static const char text[] = TABLE(
		"* 0 - 0 1 Active 0x1 (1,1,1) (2,1,1) f()") "@@ threads\nCUDA focus unchanged.\n"
							    "BlockIdx ThreadIdx To BlockIdx ThreadIdx Count PC Filename Line\nKernel 0\n"
							    "* (0,0,0) (0,0,0) (0,0,0) (1,0,0) 2 0x10 0\n\n"
							    "@@ threads\nInvalid coordinates requested. CUDA focus unchanged.\n"
							    "BlockIdx ThreadIdx To BlockIdx ThreadIdx Count PC Filename Line\nKernel 0\n"
							    "* (0,0,0) (0,0,0) (0,0,0) (1,0,0) 2 0x10 0\n";

	(void)state;
	parse(text, sizeof(text) - 1);
	assert_int_equal(kernel(0)->threads, 2);
	assert_int_equal(place(kernel(0), 0)->threads, 2);
}

/* Cut anywhere, and with any byte changed: no crash, nothing beyond the bounds. */
static void test_garbled(void **state)
{
	static const char *const names[] = { "two.txt",  "lines.txt", "pytorch.txt",
					     "idle.txt", "crash.txt", "refused.txt" };
	unsigned int random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		load(names[i]);
		for (size_t n = 0; n <= n_said; n++) {
			/* Of exactly this size, so that a sanitizer sees what is read behind it. */
			char *part = malloc(n ? n : 1);

			assert_non_null(part);
			memcpy(part, said, n);
			parse(part, n);
			free(part);
			assert_true(kernels.kernels.n <= 2);
			end();
		}
		for (int k = 0; k < 2000; k++) {
			random = random * 1103515245 + 12345;
			size_t at = (random >> 8) % n_said;
			char old = said[at];

			said[at] = (char)(random >> 24);
			parse(said, n_said);
			end();
			if (k % 8)
				said[at] = old;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_two_kernels, release),
		cmocka_unit_test_teardown(test_lines, release),
		cmocka_unit_test_teardown(test_long_names, release),
		cmocka_unit_test_teardown(test_none, release),
		cmocka_unit_test_teardown(test_no_answer, release),
		cmocka_unit_test_teardown(test_no_device, release),
		cmocka_unit_test_teardown(test_rows, release),
		cmocka_unit_test_teardown(test_launched_by_a_kernel, release),
		cmocka_unit_test_teardown(test_raised, release),
		cmocka_unit_test_teardown(test_bounds, release),
		cmocka_unit_test_teardown(test_shown_twice, release),
		cmocka_unit_test_teardown(test_garbled, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
