/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text report: properties that hold for every model and terminal, and the pieces that it is
 * made of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

#include "base/str.h"
#include "model/cxxname.h"
#include "base/format.h"
#include "report/text/line.h"
#include "base/width.h"
#include "report/writer.h"
#include "unit/report/report_models.h"
#include "unit/report/report_parts.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)

/* ---- numbers ---- */

static void test_sizes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 1029, "1.00 KiB" },
		{ 1030, "1.01 KiB" },
		{ 10234, "9.99 KiB" },
		{ 10239, "10.0 KiB" },
		{ 102348, "99.9 KiB" },
		{ 102400, "100 KiB" },
		{ 1048063, "1023 KiB" },
		{ 1048064, "1.00 MiB" },
		{ 1048575, "1.00 MiB" },
		{ MIB, "1.00 MiB" },
		{ 529 * MIB, "529 MiB" },
		{ GIB - 1, "1.00 GiB" },
		{ 79 * GIB + 100 * MIB, "79.1 GiB" },
		{ UINT64_MAX, "16.0 EiB" },
		{ UINT64_C(1) << 63, "8.00 EiB" },
	};
	char buf[VT_NUM_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(vt_format_size(buf, cases[i].bytes), cases[i].text);
}

/*
 * Never further from the truth than half of the last digit, and never more than seven columns of
 * digits.
 */
static void test_sizes_are_close(void **state)
{
	static const char units[] = "BKMGTPE";
	char buf[VT_NUM_MAX];

	(void)state;
	for (uint64_t bytes = 3; bytes < UINT64_MAX / 3; bytes += bytes / 4 + 1) {
		double value, truth = (double)bytes;
		char unit;

		assert_true(strlen(vt_format_size(buf, bytes)) <= 8);
		assert_int_equal(sscanf(buf, "%lf %c", &value, &unit), 2);
		value *= (double)(UINT64_C(1) << (10 * (strchr(units, unit) - units)));
		assert_true(value >= truth * 0.994 && value <= truth * 1.006);
	}
}

static void test_numbers(void **state)
{
	char buf[VT_NUM_MAX];

	(void)state;
	assert_string_equal(vt_format_count(buf, 0), "0");
	assert_string_equal(vt_format_count(buf, 999), "999");
	assert_string_equal(vt_format_count(buf, 14211), "14,211");
	assert_string_equal(vt_format_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
	assert_string_equal(vt_format_share(buf, 0, 10), "0 %");
	assert_string_equal(vt_format_share(buf, 1, 1000), "<1 %");
	assert_string_equal(vt_format_share(buf, 999, 1000), ">99 %");
	assert_string_equal(vt_format_share(buf, 1000, 1000), "100 %");
	assert_string_equal(vt_format_share(buf, UINT64_MAX / 2, UINT64_MAX), "50 %");
	assert_string_equal(vt_format_share(buf, 1, 0), "");
	assert_string_equal(vt_format_ms(buf, 0.012), "12 µs");
	assert_string_equal(vt_format_ms(buf, 0.2), "0.2 ms");
	assert_string_equal(vt_format_ms(buf, 9.94), "9.9 ms");
	assert_string_equal(vt_format_ms(buf, 84.4), "84 ms");
	assert_string_equal(vt_format_ms(buf, 999.6), "1.0 s");
	assert_string_equal(vt_format_ms(buf, 0.0 / 0.0), "0 µs");
	assert_string_equal(vt_format_age(buf, 59.9), "59 s");
	assert_string_equal(vt_format_age(buf, 60 * 38), "38 min");
	assert_string_equal(vt_format_age(buf, 3600 * 5 + 60 * 7), "5 h 7 min");
	assert_string_equal(vt_format_age(buf, 86400 * 9 + 3600 * 4), "9 d 4 h");
	assert_string_equal(vt_format_age(buf, -1), "0 s");
}

/* ---- widths ---- */

/*
 * The C library's idea of widths is the truth; ours may be larger (it is coarser), never smaller.
 */
static void test_width_against_libc(void **state)
{
	size_t larger = 0, n = 0;

	(void)state;
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		skip();
	for (unsigned int c = 0x20; c < 0x110000; c++) {
		int truth = wcwidth((wchar_t)c);

		if (truth < 0)
			continue;
		if (vt_width_char(c) < truth)
			fail_msg("U+%04X is %d columns wide, not %d", c, truth, vt_width_char(c));
		larger += vt_width_char(c) > truth && truth > 0;
		n++;
	}
	assert_true(n > 100000);
	assert_true(larger < n / 50);
	setlocale(LC_CTYPE, "C");
}

/* A copy of text that ends at a page that cannot be read. */
static char *at_page_end(const char *text, size_t n)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	assert_true(p != MAP_FAILED && n <= (size_t)page);
	assert_int_equal(mprotect(p + page, (size_t)page, PROT_NONE), 0);
	return memcpy(p + page - n, text, n);
}

static void release_page(char *p, size_t n)
{
	long page = sysconf(_SC_PAGESIZE);

	munmap(p + n - page, (size_t)page * 2);
}

static void test_width_cuts(void **state)
{
	static const char text[] = "a\u4e2d\u6587e\u0301z\xf0\x9f"; /* ends inside a character */
	size_t n = sizeof(text) - 1;
	char *p = at_page_end(text, n);

	(void)state;
	assert_int_equal(vt_width(p, n), 1 + 2 + 2 + 1 + 0 + 1 + 2);
	assert_int_equal(vt_width_prefix(p, n, 0), 0);
	assert_int_equal(vt_width_prefix(p, n, 2), 1); /* half of a wide character is none */
	assert_int_equal(vt_width_prefix(p, n, 3), 4);
	assert_int_equal(vt_width_prefix(p, n, 6), 10); /* with its accent */
	assert_int_equal(vt_width_prefix(p, n, 100), n);
	assert_int_equal(vt_width_suffix(p, n, 0), 0);
	assert_int_equal(vt_width_suffix(p, n, 2), 2);
	assert_int_equal(vt_width_suffix(p, n, 3), 5); /* the accent takes no column */
	assert_int_equal(vt_width_suffix(p, n, 100), n);
	for (int max = 0; max < 12; max++) {
		size_t k = vt_width_suffix(p, n, max);

		assert_true(vt_width(p + n - k, k) <= max);
		assert_true(vt_width(p, vt_width_prefix(p, n, max)) <= max);
	}
	release_page(p, n);
}

/* No columns, but not for nothing either. */
static void test_width_of_accents(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++)
		vt_str_add(&text, "\u0301");
	assert_int_equal(vt_width(text.data, text.n), 0);
	assert_true(vt_width_prefix(text.data, text.n, 10) < 200);
	assert_true(vt_width_suffix(text.data, text.n, 10) < 200);
	vt_str_deinit(&text);
}

/* ---- C++ names ---- */

static void test_cxx_names(void **state)
{
	static const struct {
		const char *name, *shorter;
	} cases[] = {
		{ "main", "main" },
		{ "", "" },
		{ "__libc_start_call_main", "__libc_start_call_main" },
		{ "foo.cold", "foo.cold" },
		{ "c10::ThreadPool::main_loop(unsigned long)", "c10::ThreadPool::main_loop" },
		{ "void c10::f<int, std::vector<long> >(int) const", "c10::f<…>" },
		{ "std::vector<at::Tensor, std::allocator<at::Tensor> >::push_back(at::Tensor&&)",
		  "std::vector<…>::push_back" },
		{ "at::native::(anonymous namespace)::kernel(int)",
		  "at::native::(anonymous namespace)::kernel" },
		{ "f(int)::{lambda(int)#1}::operator()(int) const", "f::{lambda#1}::operator()" },
		{ "a::f(int) const::{lambda()#2}::operator()() const",
		  "a::f::{lambda#2}::operator()" },
		{ "A::operator<<(std::ostream&)", "A::operator<<" },
		{ "A::operator->() const", "A::operator->" },
		{ "bool operator< <int>(A<int> const&)", "operator<<…>" },
		{ "A::operator bool() const", "A::operator bool" },
		{ "operator new(unsigned long)", "operator new" },
		{ "operator delete[](void*)", "operator delete[]" },
		{ "c10::operators::run(int)", "c10::operators::run" },
		{ "my_operator(int)", "my_operator" },
		{ "f[abi:cxx11](int)", "f" },
		{ "decltype(auto) at::f<int>(int)", "at::f<…>" },
		{ "decltype (({parm#1}.f)()) at::g<int>(int)", "at::g<…>" },
		{ "A::{unnamed type#1}::f()", "A::{unnamed type#1}::f" },
		{ "a::b(int) [clone .cold]", "a::b" },
		{ "a::b [clone .part.0]", "a::b" },
		{ "f<(c10::DeviceType)1>(int)", "f<…>" },
		{ "f<&(a::b(int))>(int)", "f<…>" },
		/* Not understood: kept whole. */
		{ "f<", "f<" },
		{ "f(", "f(" },
		{ "(*f)(int)", "(*f)(int)" },
		{ "a::b<c>>>(d", "a::b<c>>>(d" },
		{ "::", "::" },
		{ "operator", "operator" },
		{ "x::operator", "x::operator" },
		{ "{", "{" },
		{ "a::{lambda(", "a::{lambda(" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].name);
		char *name = at_page_end(cases[i].name, n);
		struct vt_str out = { 0 };

		vt_cxx_short_name(&out, name, n, "…");
		assert_string_equal(vt_str_get(&out), cases[i].shorter);
		vt_str_deinit(&out);
		release_page(name, n);
	}
}

/*
 * Every prefix of a name, and random brackets, end at an unmapped page: nothing is read past the
 * end.
 */
static void test_cxx_names_broken(void **state)
{
	static const char name[] =
		"void a::b<c, (d)1>(e) const::{lambda(f)#1}::operator()<g>(h) [clone .i] operator<< [abi:j]";
	static const char alphabet[] = "ab:<>(){}[] -operator const";
	unsigned int seed = 1;

	(void)state;
	for (size_t n = 0; n < sizeof(name); n++) {
		char *p = at_page_end(name, n);
		struct vt_str out = { 0 };

		vt_cxx_short_name(&out, p, n, "…");
		vt_str_deinit(&out);
		release_page(p, n);
	}
	for (int i = 0; i < 20000; i++) {
		char text[40];
		struct vt_str out = { 0 };
		size_t n = (size_t)rand_r(&seed) % sizeof(text);

		for (size_t k = 0; k < n; k++)
			text[k] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
		vt_cxx_short_name(&out, text, n, "…");
		assert_true(n == 0 || out.n > 0);
		vt_str_deinit(&out);
	}
}

/* ---- lines ---- */

static char *print(const struct vt_model *model, vt_write_fn *writer,
		   const struct vt_writer_options *options)
{
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	assert_non_null(file);
	assert_null(writer(model, options, file));
	assert_int_equal(fclose(file), 0);
	assert_int_equal(strlen(text), n);
	return text;
}

/* The length of one of our colour sequences at p, else 0. */
static size_t sequence_length(const char *p)
{
	static const char *const ours[] = { "\033[0m",  "\033[1m",  "\033[2m",
					    "\033[31m", "\033[33m", "\033[36m" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strncmp(p, ours[i], strlen(ours[i])))
			return strlen(ours[i]);
	return 0;
}

static void check_line(const char *line, size_t n, const struct vt_writer_options *options,
		       int columns)
{
	struct vt_str plain = { 0 };
	bool coloured = false;

	for (size_t i = 0; i < n;) {
		size_t len = options->colour ? sequence_length(line + i) : 0;

		if (len > 0) {
			coloured = strncmp(line + i, "\033[0m", 4) != 0;
			i += len;
			continue;
		}

		unsigned int c = 0;

		len = vt_utf8_sequence(line + i, n - i, &c);
		assert_true(len > 0);
		assert_true(c >= 0x20 && !(c >= 0x7f && c < 0xa0));
		assert_false((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
			     (c >= 0x2066 && c <= 0x2069));
		assert_true(c < 0x80 || !options->ascii);
		vt_str_addn(&plain, line + i, len);
		i += len;
	}
	assert_false(coloured);
	if (vt_width(vt_str_get(&plain), plain.n) > columns)
		fail_msg("wider than %d columns: %s", columns, vt_str_get(&plain));
	assert_true(plain.n < 16 * (size_t)columns + 1024);
	vt_str_deinit(&plain);
}

/*
 * At each width two sets of options that differ in all of them, others at the next width; at 80
 * columns every set.
 */
static bool is_tried(size_t w, int columns, unsigned int bits)
{
	return columns == 80 || bits == w % 4 || bits == 7 - w % 4;
}

static void check_writer(vt_write_fn *writer)
{
	static const int widths[] = { 0, -7, 1, 40, 41, 57, 79, 80, 100, 133, 160, 400, 100000 };

	for (size_t m = 0; report_model_names[m]; m++) {
		struct vt_model model;

		assert_true(report_model_build(&model, report_model_names[m]));
		for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
			for (unsigned int bits = 0; bits < 8; bits++) {
				if (!is_tried(w, widths[w], bits))
					continue;

				struct vt_writer_options options = {
					.columns = widths[w],
					.colour = bits & 1,
					.ascii = bits & 2,
					.threads = bits & 4 ? VT_THREADS_ALL : VT_THREADS_GROUPS,
					.all_blocks = bits == 4 && w == 3,
					.map = !(bits & 4),
				};
				int columns = widths[w] <= 0 ? 100 :
					      widths[w] < 40 ? 40 :
							       widths[w];
				char *text = print(&model, writer, &options);

				for (char *line = text, *end; *line; line = end + 1) {
					end = strchr(line, '\n');
					assert_non_null(end);
					check_line(line, (size_t)(end - line), &options, columns);
				}
				free(text);
			}
		}
		vt_model_deinit(&model);
	}
}

static void test_every_line(void **state)
{
	(void)state;
	check_writer(vt_write_report_text);
	check_writer(report_write_parts);
}

static void test_wrap(void **state)
{
	struct vt_writer_options options = { .columns = 40 };
	struct vt_line line;
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	(void)state;
	vt_line_init(&line, file, &options);
	vt_line_add(&line, VT_PLAIN, "!");
	vt_line_pad(&line, 2);
	vt_line_wrap(&line, VT_PLAIN, "one two three four five six seven eight nine ten eleven", 4,
		     9);
	vt_line_pad(&line, 2);
	vt_line_wrap(
		&line, VT_PLAIN,
		"0123456789012345678901234567890123456789012345678901234567890123456789abcdefgh", 2,
		2);
	vt_line_wrap(&line, VT_PLAIN, "", 2, 2);
	vt_line_right(&line, VT_PLAIN, "12", 6);
	vt_line_cell(&line, VT_PLAIN, "left", 6, VT_CUT_END);
	vt_line_cell(&line, VT_PLAIN, "too long", 6, VT_CUT_START);
	vt_line_cell(&line, VT_PLAIN, "too long", 6, VT_CUT_END);
	vt_line_end(&line);
	assert_null(vt_line_finish(&line));
	fclose(file);
	assert_string_equal(text, "! one two three four five six seven\n"
				  "    eight nine ten eleven\n"
				  "  01234567890123456789012345678901234567\n"
				  "  89012345678901234567890123456789abcde…\n"
				  "\n"
				  "    12left  … longtoo l…\n");
	free(text);
}

/* ---- what it says ---- */

static bool says(const char *name, const struct vt_writer_options *options, const char *part)
{
	struct vt_model model;
	char *text;
	bool found;

	assert_true(report_model_build(&model, name));
	text = print(&model, vt_write_report_text, options);
	found = strstr(text, part);
	free(text);
	vt_model_deinit(&model);
	return found;
}

static void test_contents(void **state)
{
	struct vt_writer_options options = { .columns = 100 };

	(void)state;
	assert_true(says("training", &options,
			 "79.1 of 79.6 GiB used by all processes, 529 MiB free\n"));
	assert_true(says("training", &options,
			 "read from inside in 84 ms, one thread borrowed for 0.2 ms"));
	assert_true(says("training", &options,
			 "\non node17 · 2026-11-21 14:14:34 UTC (15:14 CET) · vramtap 0.1.0\n"));
	assert_true(says("training", &options, "container 5f2c1e · pod trainer-0 · there pid 7"));
	assert_true(says("training", &options, "job slurm 4711\n"));
	assert_true(says("training", &options, "\n▓ everything else"));
	assert_true(
		says("training", &options,
		     "○ 24 threads idle in thread pools: pt_autograd_* ×16, cuda-EvtHandlr ×8\n"));
	assert_true(says("training", &options, "torch/nn/modules/module.py:1773\n"));
	assert_true(says("training", &options, "\nComplete."));
	assert_false(says("training", &options, "vectorcall_NOARGS@"));
	assert_false(says("training", &options, "GPU 1  H100"));
	assert_true(says("training", &options, "GPU 1  no context of this process\n"));
	assert_true(says("shared", &options,
			 "free\n  PCI 00000000:1B:00.0, GPU-00010203-0405-0607-0809-0a0b0c0d0e0f\n"
			 "  this process                        71.2 GiB\n"
			 "  pid 5151 (python3)                  3.95 GiB   alice, "
			 "rank 4, pod serve-0, container 0123456789ab"));
	assert_true(says("shared", &options,
			 "1.98 GiB   has ended, but its memory stays\n"
			 "  pid 7171                            1012 MiB   is gone, but "
			 "its memory stays\n"));
	assert_true(says("shared", &options,
			 "! 2.97 GiB of its devices: held by 2 processes that have ended\n"));
	assert_true(says("shared", &options, " 977 KiB   MPS\n  3 more processes      "));
	assert_true(
		says("shared", &options, "\n  no process                          1007 MiB   "));
	assert_true(says("shared", &options, "\n    of which of others                7.91 GiB"));
	/* No number without the right to it. */
	assert_false(says("unstable", &options, "in use by PyTorch"));
	assert_false(says("unstable", &options, "everything else"));
	assert_false(says("unstable", &options, "Largest groups"));
	assert_true(says("unstable", &options, "no exact totals"));
	assert_true(says("unstable", &options, "\nPartial: 3 things are missing"));
	assert_true(says(
		"training", &options,
		"\nPinned host memory of PyTorch             size     blocks\n"
		"  in use                              2.00 GiB          2   host memory, in no total above\n"));
	assert_true(says(
		"unstable", &options,
		"\n  in all                              6.00 GiB          7   how much is in use is not known\n"));
	assert_false(says("refused", &options, "\nPinned host memory"));
	assert_true(says("refused", &options, "its allocator failed a check (two blocks overlap)"));
	assert_false(says("refused", &options, "PyTorch's own counter"));
	assert_true(says("refused", &options, "not shown: PyTorch's allocator failed a check"));
	assert_false(says("contradiction", &options, "in use by PyTorch"));
	assert_true(says("no-cuda", &options, "This process does not use CUDA"));
	assert_true(says("nothing", &options, "\nNothing could be learned"));
	assert_true(says("deadlock", &options, "! deadlock: 41273 (sleep) waits for"));
	assert_true(says("deadlock", &options,
			 "  in the kernel: folio_wait_bit_common < filemap_read\n"));
	assert_true(says("deadlock", &options,
			 "          batch = tensor float16 [8, 4096] on cuda:0\n"));
	assert_true(says("deadlock", &options, "(no native frames: it was running)"));
	options.threads = VT_THREADS_ALL;
	assert_true(says("training", &options, "__libc_start_call_main"));
	assert_true(says("training", &options, "○ 41723 cuda-EvtHandlr"));
	options.all_blocks = true;
	assert_true(says("training", &options, "\nBlocks of GPU 0\n"));
	assert_true(says(
		"training", &options,
		"\nBlocks of pinned host memory\n"
		"    0x7f1200000000       1.00 GiB   in use, used by 1 stream\n"
		"    0x7f1240000000       1.00 GiB   in use\n"
		"    0x7f1280000000        256 KiB   awaiting free, 1 event pending, private 3:0\n"));
	assert_false(says("refused", &options, "\nBlocks of pinned"));
	options.threads = VT_THREADS_GROUPS;
	assert_true(
		says("unstable", &options, "\nBlocks of GPU 0, as far as they could be read\n"));
	assert_false(says("refused", &options, "\nBlocks of GPU 0"));
}

/* What a reader looks for first: the own code bold, the GPU by its name, --sites never silent. */
static void test_habits(void **state)
{
	struct vt_writer_options options = { .columns = 100, .colour = true };

	(void)state;
	assert_true(says("training", &options, "\033[1mTrainer.train_step"));
	assert_true(says("training", &options, "Module._call_impl"));
	assert_false(says("training", &options, "\033[1mModule._call_impl"));
	options.colour = false;
	assert_true(says("training", &options, "of GPU\n"));
	assert_true(says("many-devices", &options, "\n  GPU 4 "));
	assert_false(says("training", &options, "It was not recorded where"));
	options.all_sites = true;
	assert_true(says("training", &options,
			 "It was not recorded where the blocks in use were allocated.\n"
			 "To record it from now on: vramtap record"));
	assert_false(says("recorder", &options, "It was not recorded where"));
	assert_false(says("no-cuda", &options, "It was not recorded where"));
}

static void test_write_error(void **state)
{
	struct vt_writer_options options = { .all_blocks = true };
	struct vt_model model;
	FILE *full = fopen("/dev/full", "w");
	struct vt_error *err;

	(void)state;
	if (!full)
		skip();
	assert_true(report_model_build(&model, "training"));
	err = vt_write_report_text(&model, &options, full);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_OS);
	vt_error_destroy(err);
	fclose(full);
	vt_model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),       cmocka_unit_test(test_sizes_are_close),
		cmocka_unit_test(test_numbers),     cmocka_unit_test(test_width_against_libc),
		cmocka_unit_test(test_width_cuts),  cmocka_unit_test(test_width_of_accents),
		cmocka_unit_test(test_cxx_names),   cmocka_unit_test(test_cxx_names_broken),
		cmocka_unit_test(test_wrap),        cmocka_unit_test(test_every_line),
		cmocka_unit_test(test_contents),    cmocka_unit_test(test_habits),
		cmocka_unit_test(test_write_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
