/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables as bytes. Tables of real functions are compared with the interpreter in
 * tests/functional/python_frames.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "walk/python/line.h"

#define PAGE 4096

/* The table right before an unmapped page. */
static int line_at_edge(enum vt_python_line_table kind, const void *table, size_t size, int first,
			int32_t lasti)
{
	uint8_t *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	memcpy(pages + PAGE - size, table, size);

	int line = vt_python_line(kind, pages + PAGE - size, size, first, lasti);

	munmap(pages, 2 * PAGE);
	return line;
}

struct expectation {
	int32_t lasti;
	int line;
};

static void check_table(enum vt_python_line_table kind, const void *table, size_t size, int first,
			const struct expectation *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(line_at_edge(kind, table, size, first, want[i].lasti),
				 want[i].line);
}

#define CHECK_TABLE(kind, table, first, ...)                         \
	do {                                                         \
		const struct expectation want[] = { __VA_ARGS__ };   \
		check_table(kind, table, sizeof(table), first, want, \
			    sizeof(want) / sizeof(want[0]));         \
	} while (0)

/*
 * Objects/lnotab_notes.txt of 3.9: a line of 300 later than the one before is written as several
 * pairs.
 */
static void lnotab(void **state)
{
	static const uint8_t table[] = {
		6, 1, 0, 127, 0, 127, 0, 46, 44, (uint8_t)-2, 255, 0, 45, 1
	};
	(void)state;

	CHECK_TABLE(VT_PY_LINES_LNOTAB, table, 100, { -1, 100 }, { 0, 100 }, { 5, 100 }, { 6, 401 },
		    { 49, 401 }, { 50, 399 }, { 349, 399 }, { 350, 400 }, { 10000, 400 });
}

static void pep626(void **state)
{
	static const uint8_t table[] = { 4, 0, 2, 0x80, 6, 5, 0, 127, 4, 3, 8, (uint8_t)-20 };
	(void)state;

	CHECK_TABLE(VT_PY_LINES_PEP626, table, 7, { -1, 7 }, { 0, 7 }, { 3, 7 }, { 4, 0 }, { 5, 0 },
		    { 6, 12 }, { 11, 12 }, { 12, 142 }, { 15, 142 }, { 16, 122 }, { 23, 122 },
		    { 24, 0 }, { INT32_MAX, 0 });
}

static void pep657(void **state)
{
	static const uint8_t table[] = {
		0x80 | 15 << 3 | 0, /* 1 unit: no line */
		0x80 | 13 << 3 | 1,
		2 << 1, /* 2 units: 2 lines on, no columns */
		0x80 | 3 << 3 | 7,
		0x15, /* 8 units: the same line, short form */
		0x80 | 12 << 3 | 0,
		4,
		9, /* 1 unit: 2 lines on */
		/* 1 unit: 100 lines on, long form */
		0x80 | 14 << 3 | 0,
		0x40 | (100 << 1 & 0x3f),
		100 << 1 >> 6,
		0,
		1,
		2,
		/* 1 unit: 50 lines back */
		0x80 | 14 << 3 | 0,
		0x40 | (50 << 1 & 0x3f) | 1,
		50 << 1 >> 6,
		0,
		1,
		2,
	};
	(void)state;

	CHECK_TABLE(VT_PY_LINES_PEP657, table, 10, { -1, 10 }, { 0, 0 }, { 2, 12 }, { 5, 12 },
		    { 6, 12 }, { 21, 12 }, { 22, 14 }, { 24, 114 }, { 26, 64 }, { 28, 0 },
		    { INT32_MAX, 0 });
}

static void damaged_tables(void **state)
{
	static const uint8_t odd[] = { 4, 1, 4 };
	static const uint8_t endless[] = { 0x80 | 14 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
					   0x7f,           0x7f, 0x7f, 0x7f, 0x7f };
	static const uint8_t no_start[] = { 0x10, 0x20, 0x30 };
	static const uint8_t down[] = { 2, 0x81, 2, 0x81 };
	(void)state;

	for (int kind = 0; kind <= VT_PY_LINES_PEP657; kind++) {
		assert_int_equal(line_at_edge(kind, odd, 0, 5, 2),
				 kind == VT_PY_LINES_LNOTAB ? 5 : 0);
		line_at_edge(kind, odd, sizeof(odd), 5, 100);
	}
	assert_int_equal(line_at_edge(VT_PY_LINES_PEP657, endless, sizeof(endless), 5, 0), 0);
	assert_int_equal(line_at_edge(VT_PY_LINES_PEP657, no_start, sizeof(no_start), 5, 0), 0);
	/* Lines below 1 do not exist. */
	assert_int_equal(line_at_edge(VT_PY_LINES_LNOTAB, down, sizeof(down), 5, 4), 0);
	assert_int_equal(line_at_edge(VT_PY_LINES_PEP626, down, sizeof(down), 5, 3), 0);
	assert_int_equal(line_at_edge(VT_PY_LINES_PEP626, down, sizeof(down), -5, -1), 0);
}

static void random_tables(void **state)
{
	uint8_t table[64];
	(void)state;

	srandom(1);
	for (int i = 0; i < 3000; i++) {
		size_t n = (size_t)random() % sizeof(table);

		for (size_t b = 0; b < n; b++)
			table[b] = (uint8_t)random();
		for (int kind = 0; kind <= VT_PY_LINES_PEP657; kind++)
			assert_true(line_at_edge(kind, table, n, (int)random(),
						 (int32_t)(random() % 200)) >= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lnotab),        cmocka_unit_test(pep626),
		cmocka_unit_test(pep657),        cmocka_unit_test(damaged_tables),
		cmocka_unit_test(random_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
