/* SPDX-License-Identifier: Apache-2.0 */
/* The base layer: errors, arena, vectors, hash map, strings and what they make of hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "base/map.h"
#include "base/room.h"
#include "base/str.h"
#include "base/vec.h"

static struct vt_error *fails_with(struct vt_error *err)
{
	VT_TRY(NULL);
	VT_TRY(err);
	return vt_error_create(VT_ERR_FORMAT, "not reached");
}

static void errors(void **state)
{
	struct vt_error *err = vt_error_create(VT_ERR_BUSY, "%s holds %d", "gdb", 4711);
	(void)state;

	assert_int_equal(err->code, VT_ERR_BUSY);
	assert_string_equal(err->message, "gdb holds 4711");
	assert_int_equal(err->errnum, 0);
	err = vt_error_prefix(err, "rank %d", 3);
	assert_int_equal(err->code, VT_ERR_BUSY);
	assert_string_equal(err->message, "rank 3: gdb holds 4711");
	assert_ptr_equal(fails_with(err), err);
	assert_false(vt_error_catch(&err, VT_ERR_GONE));
	assert_non_null(err);
	assert_true(vt_error_catch(&err, VT_ERR_BUSY));
	assert_null(err);
	assert_false(vt_error_catch(&err, VT_ERR_BUSY));

	err = vt_error_create_os(EACCES, "cannot open %s", "x");
	assert_int_equal(err->code, VT_ERR_OS);
	assert_int_equal(err->errnum, EACCES);
	assert_string_equal(err->message, "cannot open x: Permission denied");
	vt_error_destroy(err);

	err = vt_error_create_fault(0xdead, "no such page");
	assert_int_equal(err->code, VT_ERR_FAULT);
	assert_int_equal(err->address, 0xdead);
	vt_error_destroy(err);

	/* Out of memory is one static object that survives everything. */
	err = vt_error_prefix(&vt_enomem, "rank 3");
	assert_ptr_equal(err, &vt_enomem);
	vt_error_destroy(err);
	vt_error_destroy(NULL);
	assert_string_equal(vt_enomem.message, "out of memory");
	err = &vt_enomem;
	assert_true(vt_error_catch(&err, VT_ERR_NOMEM));
}

static void error_codes_have_distinct_names(void **state)
{
	(void)state;
	for (int i = VT_ERR_NOMEM; i <= VT_ERR_INTERRUPTED; i++) {
		assert_non_null(vt_error_code_name((enum vt_error_code)i));
		for (int k = VT_ERR_NOMEM; k < i; k++)
			assert_string_not_equal(vt_error_code_name((enum vt_error_code)i),
						vt_error_code_name((enum vt_error_code)k));
	}
}

static void scope_cleanup(void **state)
{
	int fds[2];
	(void)state;

	assert_int_equal(pipe(fds), 0);
	{
		VT_CLOSE int fd = fds[0];
		VT_FREE char *text = strdup("x");
		VT_CLOSE int none = -1;
		VT_FREE char *stolen = strdup("y");
		char *kept = vt_steal(stolen);

		assert_non_null(text);
		assert_null(stolen);
		assert_int_equal(none, -1);
		free(kept);
		assert_true(fd >= 0);
	}
	errno = 0;
	assert_int_equal(close(fds[0]), -1);
	assert_int_equal(errno, EBADF);
	{
		VT_CLOSE int fd = fds[1];
		int kept = vt_steal_fd(fd);

		assert_int_equal(fd, -1);
		assert_int_equal(kept, fds[1]);
	}
	assert_int_equal(close(fds[1]), 0);
}

static void arena(void **state)
{
	struct vt_arena arena = { 0 };
	char *texts[2000];
	(void)state;

	for (size_t i = 0; i < 2000; i++) {
		size_t n = i * 37 % 500;
		char *p = vt_arena_alloc(&arena, n);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(p[k], 0);
		memset(p, 0xff, n);
		texts[i] = vt_arena_printf(&arena, "text %zu", i);
	}
	/* Larger than a chunk; and what no memory has room for. */
	memset(vt_arena_alloc(&arena, 10 << 20), 1, 10 << 20);
	assert_null(vt_arena_alloc(&arena, SIZE_MAX));
	assert_null(vt_arena_alloc(&arena, SIZE_MAX - 15));
	assert_null(vt_arena_alloc(&arena, SIZE_MAX / 2 + 1));
	for (size_t i = 0; i < 2000; i++) {
		char want[32];

		snprintf(want, sizeof(want), "text %zu", i);
		assert_string_equal(texts[i], want);
	}
	assert_string_equal(vt_arena_strndup(&arena, "abcdef", 3), "abc");
	assert_string_equal(vt_arena_strdup(&arena, ""), "");
	vt_arena_deinit(&arena);
	vt_arena_deinit(&arena);
}

struct large {
	char bytes[4096];
};

static void vectors(void **state)
{
	VT_VEC(uint64_t) vec = { 0 };
	VT_VEC(struct large) large = { 0 };
	(void)state;

	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t *slot = vt_vec_append(&vec);

		assert_non_null(slot);
		*slot = i * i;
	}
	assert_int_equal(vec.n, 10000);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(vec.data[i], i * i);
	/* A size that overflows is refused and the contents stay. */
	assert_false(vt_vec_reserve(&vec, SIZE_MAX / 2));
	assert_false(vt_vec_reserve(&large, SIZE_MAX / 4096 + 1));
	assert_int_equal(vec.data[9999], UINT64_C(9999) * 9999);
	vt_vec_deinit(&vec);
	assert_null(vec.data);
	assert_int_equal(vec.n, 0);
	vt_vec_deinit(&vec);
	vt_vec_deinit(&large);
}

/* Hashes that are equal, in their upper half or altogether, and many others. */
static void indices(void **state)
{
	enum { N = 100000 };
	struct vt_index index = { 0 };
	uint32_t number;

	(void)state;
	for (size_t at = vt_index_first(&index, 7); vt_index_next(&index, 7, &at, &number);)
		fail();
	assert_false(vt_index_put(&index, 1, VT_INDEX_MOST));
	for (size_t i = 0; i < N; i++)
		assert_true(vt_index_put(&index, (uint64_t)(i / 3) * 0x9e3779b97f4a7c15, i));
	assert_int_equal(index.n, N);
	for (size_t i = 0; i < N / 3; i++) {
		uint64_t hash = i * 0x9e3779b97f4a7c15;
		unsigned int seen = 0;

		for (size_t at = vt_index_first(&index, hash);
		     vt_index_next(&index, hash, &at, &number);)
			if (number / 3 == i)
				seen |= 1u << number % 3;
		assert_int_equal(seen, 7);
	}
	vt_index_deinit(&index);
	vt_index_deinit(&index);
}

/*
 * Against a plain array; keys that are addresses, hostile multiples of large powers of two, and 0.
 */
static void maps(void **state)
{
	enum { N = 20000 };
	static const uint64_t strides[] = { 1, 16, 4096, UINT64_C(1) << 20, UINT64_C(1) << 44 };
	(void)state;

	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
		struct vt_map map = { 0 };

		assert_null(vt_map_get(&map, 0));
		for (uint64_t i = 0; i < N; i++)
			assert_true(vt_map_put(&map, i * strides[s], i));
		for (uint64_t i = 0; i < N; i += 3)
			assert_true(vt_map_put(&map, i * strides[s], i + 1000000));
		assert_int_equal(map.n, N);
		for (uint64_t i = 0; i < N; i++) {
			uint64_t *value = vt_map_get(&map, i * strides[s]);

			assert_non_null(value);
			assert_int_equal(*value, i % 3 ? i : i + 1000000);
		}
		assert_null(vt_map_get(&map, N * strides[s]));
		assert_null(vt_map_get(&map, UINT64_MAX));
		vt_map_deinit(&map);
		assert_null(vt_map_get(&map, 0));
		vt_map_deinit(&map);
	}
}

static void strings(void **state)
{
	struct vt_str str = { 0 };
	(void)state;

	assert_string_equal(vt_str_get(&str), "");
	vt_str_clear(&str);
	vt_str_add(&str, "");
	assert_string_equal(vt_str_get(&str), "");
	vt_str_addn(&str, "abcdef", 3);
	vt_str_addf(&str, " %d %s", 42, "x");
	assert_string_equal(vt_str_get(&str), "abc 42 x");
	assert_int_equal(str.n, 8);
	vt_str_clear(&str);
	assert_string_equal(vt_str_get(&str), "");
	for (int i = 0; i < 10000; i++)
		vt_str_addf(&str, "%04d", i);
	assert_int_equal(str.n, 40000);
	assert_memory_equal(str.data + 4 * 1234, "1234", 4);
	assert_false(str.failed);
	/* A failure sticks; nothing is added after it. */
	vt_str_addn(&str, "x", SIZE_MAX / 2);
	assert_true(str.failed);
	vt_str_add(&str, "y");
	assert_int_equal(str.n, 40000);
	vt_str_deinit(&str);
	assert_false(str.failed);
}

static void escaping(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *want;
	} cases[] = {
		{ "plain text ~!", 13, "plain text ~!" },
		{ "a\nb\tc\r\x1b[31m\x7f", 12, "a\\x0ab\\x09c\\x0d\\x1b[31m\\x7f" },
		{ "nul\0byte", 8, "nul\\x00byte" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		  "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		/* C1 control (CSI), right-to-left override, zero width space, byte order mark. */
		{ "\xc2\x9b", 2, "\\xc2\\x9b" },
		{ "\xe2\x80\xae", 3, "\\xe2\\x80\\xae" },
		{ "\xe2\x81\xa6", 3, "\\xe2\\x81\\xa6" },
		{ "\xe2\x80\x8b", 3, "\\xe2\\x80\\x8b" },
		{ "\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf" },
		/* Invalid UTF-8: lone continuation, cut off, overlong, surrogate, too large. */
		{ "\x80x", 2, "\\x80x" },
		{ "\xe2\x82", 2, "\\xe2\\x82" },
		{ "\xc0\xaf", 2, "\\xc0\\xaf" },
		{ "\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf" },
		{ "\xed\xa0\x80", 3, "\\xed\\xa0\\x80" },
		{ "\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80" },
		{ "\xff\xfe", 2, "\\xff\\xfe" },
		{ "", 0, "" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_str str = { 0 };

		vt_str_add_escaped(&str, cases[i].bytes, cases[i].n);
		assert_string_equal(vt_str_get(&str), cases[i].want);
		vt_str_deinit(&str);
	}
}

/*
 * All byte sequences of two and many of three and four, with the end of the buffer at an unmapped
 * page.
 */
static void utf8_at_the_end_of_a_page(void **state)
{
	uint8_t *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;

	assert_ptr_not_equal(page, MAP_FAILED);
	munmap(page + 4096, 4096);
	for (unsigned int v = 0; v < 0x10000; v++) {
		for (size_t n = 0; n <= 4; n++) {
			uint8_t *p = page + 4096 - n;
			uint8_t all[4] = { (uint8_t)(v >> 8), (uint8_t)v,
					   (uint8_t)(0x80 | (v & 0x3f)), 0xbf };
			unsigned int cp = 0xabcd;
			size_t len;

			memcpy(p, all, n);
			len = vt_utf8_sequence((const char *)p, n, &cp);
			assert_true(len <= n);
			assert_true(len || cp == 0xabcd);
			assert_true(!len || (cp <= 0x10ffff && (cp < 0xd800 || cp >= 0xe000)));
			/* The length must be the one that this code point needs. */
			if (len)
				assert_int_equal(len, cp < 0x80    ? 1 :
						      cp < 0x800   ? 2 :
						      cp < 0x10000 ? 3 :
								     4);
		}
	}
	munmap(page, 4096);
}

static void deadlines(void **state)
{
	uint64_t now = vt_now_ns();
	(void)state;

	assert_true(vt_deadline_passed(now));
	assert_false(vt_deadline_passed(now + 3600 * VT_NS_PER_S));
	vt_sleep_ns(2 * VT_NS_PER_MS);
	assert_true(vt_now_ns() - now >= 2 * VT_NS_PER_MS);
}

static void room_is_at_most_the_machines_memory(void **state)
{
	uint64_t room = vt_memory_room();
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	(void)state;

	assert_true(room > 0);
	assert_true(room < all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors),
		cmocka_unit_test(error_codes_have_distinct_names),
		cmocka_unit_test(scope_cleanup),
		cmocka_unit_test(arena),
		cmocka_unit_test(vectors),
		cmocka_unit_test(indices),
		cmocka_unit_test(maps),
		cmocka_unit_test(strings),
		cmocka_unit_test(escaping),
		cmocka_unit_test(utf8_at_the_end_of_a_page),
		cmocka_unit_test(deadlines),
		cmocka_unit_test(room_is_at_most_the_machines_memory),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
