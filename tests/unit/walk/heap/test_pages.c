/* SPDX-License-Identifier: Apache-2.0 */
/* A child whose memory is known, since it was made before the fork, and changes when it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/live.h"
#include "walk/heap/pages.h"

#define PAGE ((size_t)VT_HEAP_PAGE)
#define N_PAGES 512

enum { HOLE = 101, END = N_PAGES - 1 }; /* not mapped */

static uint8_t *area;
static pid_t child;
static int to_child[2], from_child[2];
static struct vt_live *live;
static struct vt_memsrc *source;
static struct vt_pages pages;

static uint64_t word_at(size_t i)
{
	return i * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static uint64_t address(size_t page, size_t offset)
{
	return (uint64_t)(uintptr_t)area + page * PAGE + offset;
}

struct order {
	enum { SET, UNMAP } what;
	size_t page, offset;
	uint64_t value;
};

static void obey(void)
{
	struct order order;

	while (read(to_child[0], &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		if (order.what == SET)
			memcpy(area + order.page * PAGE + order.offset, &order.value, 8);
		else
			munmap(area + order.page * PAGE, PAGE);
		if (write(from_child[1], "", 1) != 1)
			break;
	}
	_exit(0);
}

static void tell(struct order order)
{
	char done;

	assert_int_equal(write(to_child[1], &order, sizeof(order)), sizeof(order));
	assert_int_equal(read(from_child[0], &done, 1), 1);
}

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static int setup(void **state)
{
	(void)state;
	/* Runs are aligned: the area begins at the beginning of one. */
	area = mmap(NULL, (N_PAGES + 64) * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	area += -(uintptr_t)area % (64 * PAGE);
	for (size_t i = 0; i < N_PAGES * PAGE / 8; i++)
		memcpy(area + 8 * i, &(uint64_t){ word_at(i) }, 8);
	munmap(area + HOLE * PAGE, PAGE);
	munmap(area + END * PAGE, PAGE);
	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(from_child), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		obey();
	}
	succeed(vt_live_create(child, &live));
	source = vt_live_source(live);
	succeed(vt_pages_init(&pages, source, N_PAGES * PAGE));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vt_pages_deinit(&pages);
	vt_live_destroy(live);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(from_child[i]);
	}
	munmap(area, N_PAGES * PAGE);
	return 0;
}

static uint64_t word(size_t page, size_t offset)
{
	uint64_t value = 0;

	assert_true(vt_pages_word(&pages, address(page, offset), &value));
	return value;
}

static uint64_t made(size_t page, size_t offset)
{
	return word_at((page * PAGE + offset) / 8);
}

static void words_are_those_of_the_process(void **state)
{
	(void)state;
	for (size_t page = 0; page < N_PAGES; page += 3)
		for (size_t offset = 0; page != HOLE && page != END && offset < PAGE; offset += 512)
			assert_int_equal(word(page, offset), made(page, offset));
	assert_false(pages.full);
}

static void unaligned_words_and_reads_go_across_pages(void **state)
{
	uint8_t mine[2 * PAGE + 7], bytes[8];
	uint64_t value;

	(void)state;
	for (size_t at = PAGE - 7; at < PAGE; at++) {
		assert_true(vt_pages_word(&pages, address(2, at), &value));
		memcpy(bytes, area + 2 * PAGE + at, 8);
		assert_memory_equal(&value, bytes, 8);
	}
	assert_true(vt_pages_read(&pages, address(7, 5), mine, sizeof(mine)));
	assert_memory_equal(mine, area + 7 * PAGE + 5, sizeof(mine));
	assert_int_equal(vt_mem_read(&pages.src, address(7, 9), mine, sizeof(mine)), 0);
	assert_memory_equal(mine, area + 7 * PAGE + 9, sizeof(mine));
	/* across the last page that is there, and across the end of all addresses */
	assert_false(vt_pages_word(&pages, address(HOLE, (size_t)-3), &value));
	assert_false(vt_pages_word(&pages, UINT64_MAX - 3, &value));
	assert_false(vt_pages_read(&pages, UINT64_MAX - 3, mine, 8));
	assert_false(vt_pages_read(&pages, address(END, (size_t)-PAGE), mine, sizeof(mine)));
}

static void pages_beside_unmapped_ones_can_be_read(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(word(HOLE - 1, 8), made(HOLE - 1, 8));
	assert_false(vt_pages_word(&pages, address(HOLE, 8), &value));
	assert_int_equal(vt_pages_u64(&pages, address(HOLE, 8)), 0);
	assert_int_equal(word(HOLE + 1, 8), made(HOLE + 1, 8));
	assert_int_equal(vt_mem_read_u64(&pages.src, address(HOLE, 16), &value), -EFAULT);
	assert_int_equal(pages.src.fault_addr, address(HOLE, 16));
	assert_null(vt_mem_direct(&pages.src, address(HOLE, 16), 8));
	assert_null(vt_mem_direct(&pages.src, address(3, PAGE - 4), 8));
	assert_memory_equal(vt_mem_direct(&pages.src, address(3, 16), 8), area + 3 * PAGE + 16, 8);
}

static void an_unreadable_page_is_asked_for_once(void **state)
{
	uint64_t value;

	(void)state;
	assert_null(vt_pages_page(&pages, address(HOLE, 0) / PAGE));
	pages.under = NULL; /* a read would crash */
	assert_null(vt_pages_page(&pages, address(HOLE, 0) / PAGE));
	assert_false(vt_pages_word(&pages, address(HOLE, 0), &value));
}

static void the_copy_has_what_the_process_changed(void **state)
{
	const uint8_t *page;

	(void)state;
	for (int together = 0; together < 2; together++) {
		uint64_t value = 4711 + (uint64_t)together;

		for (size_t i = 0; i < N_PAGES; i++)
			vt_pages_page(&pages, address(i, 0) / PAGE);
		page = vt_pages_page(&pages, address(300, 0) / PAGE);
		tell((struct order){ SET, 300, 80, value });
		assert_int_not_equal(word(300, 80), value);
		if (together)
			assert_true(vt_live_read_together(live, 1));
		succeed(vt_pages_copy_again(&pages));
		assert_int_equal(word(300, 80), value);
		assert_ptr_equal(vt_pages_page(&pages, address(300, 0) / PAGE), page);
		assert_true(vt_pages_have_changed(&pages, 1));
		assert_true(vt_pages_have_changed(&pages, 1));
		for (size_t i = 0; i < N_PAGES; i++)
			if (i != HOLE && i != END)
				assert_int_equal(word(i, 88), made(i, 88));
		/* Against what it was then, nothing changed. */
		succeed(vt_pages_copy_again(&pages));
		assert_false(vt_pages_have_changed(&pages, 1));
	}
	assert_int_equal(pages.n_late, 0);
}

static void a_change_of_any_bit_shows(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < 64; bit += 7) {
		size_t offset = bit * 64;
		uint64_t value = word(40, offset) ^ UINT64_C(1) << bit;

		tell((struct order){ SET, 40, offset, value });
		succeed(vt_pages_copy_again(&pages));
		assert_true(vt_pages_have_changed(&pages, 1));
	}
	/* The highest bits of two words of the same lane, which sums would lose. */
	for (size_t i = 0; i < 2; i++)
		tell((struct order){ SET, 40, 64 * i, word(40, 64 * i) ^ UINT64_C(1) << 63 });
	succeed(vt_pages_copy_again(&pages));
	assert_true(vt_pages_have_changed(&pages, 1));
}

static void a_change_of_pages_that_nobody_asked_for_is_none(void **state)
{
	(void)state;
	word(80, 0); /* its run has 81, too */
	tell((struct order){ SET, 81, 0, 1 });
	tell((struct order){ SET, 200, 0, 1 });
	succeed(vt_pages_copy_again(&pages));
	assert_false(vt_pages_have_changed(&pages, 1));
	/* They are read late, and not as they were when they were read ahead; so is a run. */
	assert_int_equal(pages.n_late, 0);
	assert_int_equal(word(81, 0), 1);
	assert_int_equal(word(200, 0), 1);
	assert_int_equal(word(201, 0), made(201, 0));
	assert_int_equal(pages.n_late, 1 + 8);
	assert_false(vt_pages_have_changed(&pages, 1));
	/* Next time they are pages like others. */
	tell((struct order){ SET, 201, 0, 1 });
	succeed(vt_pages_copy_again(&pages));
	assert_true(vt_pages_have_changed(&pages, 1));
	assert_int_equal(word(201, 0), 1);
}

/* A thread that polls changes its stack, and the kernel what it keeps in each thread. */
static void a_change_beside_what_was_read_is_none(void **state)
{
	uint64_t three[3];

	(void)state;
	word(90, 640);
	assert_true(vt_pages_read(&pages, address(91, 56), three, sizeof(three)));
	assert_non_null(vt_mem_direct(&pages.src, address(92, 1024), 128));
	vt_pages_remember(&pages, 0);
	tell((struct order){ SET, 90, 632, 1 });
	tell((struct order){ SET, 90, 704, 1 });
	tell((struct order){ SET, 91, 128, 1 });
	tell((struct order){ SET, 92, 1016, 1 });
	tell((struct order){ SET, 92, 1152, 1 });
	succeed(vt_pages_copy_again(&pages));
	assert_false(vt_pages_first_changed(&pages, SIZE_MAX, 1, UINT64_MAX));
	assert_false(vt_pages_have_changed(&pages, 1));
	assert_true(pages.moved);
	succeed(vt_pages_copy_again(&pages));
	assert_false(vt_pages_first_changed(&pages, SIZE_MAX, 0, UINT64_MAX));
	assert_false(vt_pages_have_changed(&pages, 1));
	assert_false(pages.moved);
	assert_int_equal(word(90, 632), 1);
	/* What was read only now counts from now on. */
	assert_int_equal(word(90, 704), 1);
	assert_true(vt_pages_first_changed(&pages, SIZE_MAX, 1, UINT64_MAX));
	assert_false(vt_pages_first_changed(&pages, SIZE_MAX, 1, 1)); /* no time to see it */
	for (size_t i = 0; i < 4; i++) {
		static const struct {
			size_t page, offset;
		} used[] = { { 90, 704 }, { 91, 56 }, { 91, 72 }, { 92, 1144 } };

		succeed(vt_pages_copy_again(&pages));
		(void)vt_pages_have_changed(&pages, 1);
		tell((struct order){ SET, used[i].page, used[i].offset, 2 });
		succeed(vt_pages_copy_again(&pages));
		assert_true(vt_pages_first_changed(&pages, SIZE_MAX, i % 2, UINT64_MAX));
		assert_true(vt_pages_have_changed(&pages, 1));
	}
}

static void a_line_that_is_read_after_the_copy_may_have_changed(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		word(95 + 10 * i, 0);
		vt_pages_remember(&pages, 0);
		/* Nobody knows which line it was, if any has changed. */
		if (i)
			tell((struct order){ SET, 95 + 10 * i, 1024, 1 });
		succeed(vt_pages_copy_again(&pages));
		word(95 + 10 * i, 2048);
		assert_int_equal(vt_pages_have_changed(&pages, 1), i);
		succeed(vt_pages_copy_again(&pages));
		assert_false(vt_pages_have_changed(&pages, 1));
	}
}

static void what_is_read_beside_does_not_count(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		word(121 + i, 0);
		vt_pages_remember(&pages, 0);
		tell((struct order){ SET, 121 + i, 1024, 1 });
		succeed(vt_pages_copy_again(&pages));
		vt_pages_beside(&pages, i);
		assert_int_equal(word(121 + i, 1024), 1);
		vt_pages_beside(&pages, false);
		assert_int_equal(vt_pages_first_changed(&pages, SIZE_MAX, 0, UINT64_MAX), !i);
		assert_int_equal(vt_pages_have_changed(&pages, 1), !i);
	}
}

static void what_is_read_after_the_moment_is_told(void **state)
{
	(void)state;
	word(80, 0);
	succeed(vt_pages_copy_again(&pages));
	word(120, 0);
	vt_pages_moment_is_over(&pages);
	vt_pages_watch_later(&pages);
	word(80, 8);
	word(120, 8);
	assert_false(pages.later);
	word(160, 0);
	assert_true(pages.later);
	vt_pages_watch_later(&pages);
	word(80, 0);
	assert_false(pages.later);
	/* Not only the first time, and what lies beside it was not read with it. */
	word(160, 8);
	assert_true(pages.later);
	tell((struct order){ SET, 161, 0, 1 });
	assert_int_equal(word(161, 0), 1);
}

static void a_look_reads_what_is_used_and_the_copy_all(void **state)
{
	(void)state;
	word(80, 0);
	word(120, 0);
	word(160, 0);
	for (size_t i = 0; i < 2; i++) {
		tell((struct order){ SET, 80, 0, 1 + i });
		tell((struct order){ SET, 120, 0, 1 + i });
		succeed(vt_pages_look(&pages, 1));
		assert_true(vt_pages_first_changed(&pages, 1, 0, UINT64_MAX));
		tell((struct order){ SET, 120, 8, 1 + i }); /* not read yet: it is used now */
		assert_int_equal(word(80, 0), 1 + i);
		assert_int_equal(word(120, 0), 1 + i);
		assert_int_equal(word(120, 8), 1 + i);
		tell((struct order){ SET, 120, 8, 77 }); /* once in a look */
		assert_int_equal(word(120, 8), 1 + i);
	}
	/* What is new in a look is a page like others. */
	assert_int_equal(word(200, 0), made(200, 0));
	for (size_t i = 160; i <= 200; i += 40)
		tell((struct order){ SET, i, 0, 5 });
	succeed(vt_pages_copy_again(&pages));
	assert_int_equal(word(160, 0), 5);
	assert_int_equal(word(200, 0), 5);
	assert_int_equal(word(120, 8), 77);
	tell((struct order){ SET, 160, 0, 6 });
	assert_int_equal(word(160, 0), 5);
	assert_true(vt_pages_have_changed(&pages, 1));
}

static void a_page_that_vanished_is_missing_and_the_others_are_copied(void **state)
{
	uint64_t value;

	(void)state;
	for (int together = 0; together < 2; together++) {
		size_t gone = 256 + (size_t)together * 8;

		for (size_t i = 0; i < N_PAGES; i++)
			vt_pages_page(&pages, address(i, 0) / PAGE);
		assert_int_equal(word(gone, 0), made(gone, 0));
		tell((struct order){ UNMAP, gone, 0, 0 });
		tell((struct order){ SET, 10, 0, 77 });
		tell((struct order){ SET, gone + 1, 0, 78 });
		tell((struct order){ SET, N_PAGES - 2, 0, 79 });
		if (together)
			assert_true(vt_live_read_together(live, 1));
		succeed(vt_pages_copy_again(&pages));
		assert_true(vt_pages_have_changed(&pages, 1));
		assert_false(vt_pages_word(&pages, address(gone, 0), &value));
		assert_int_equal(word(10, 0), 77);
		assert_int_equal(word(gone + 1, 0), 78);
		assert_int_equal(word(N_PAGES - 2, 0), 79);
		succeed(vt_pages_copy_again(&pages));
		assert_false(vt_pages_have_changed(&pages, 1));
	}
}

static void a_process_that_ended_is_an_error(void **state)
{
	struct vt_error *err;

	(void)state;
	word(1, 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	err = vt_pages_copy_again(&pages);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_GONE);
	vt_error_destroy(err);
	assert_null(vt_pages_page(&pages, address(400, 0) / PAGE));
}

static void pages_over_the_bound_are_not_read(void **state)
{
	struct vt_pages few;
	uint64_t value;

	(void)state;
	succeed(vt_pages_init(&few, source, 20 * PAGE));
	/* Runs are read ahead as long as there is room; then single pages. */
	for (size_t i = 0; i < 20; i++)
		if (!few.full)
			vt_pages_word(&few, address(8 * i, 8), &value);
	assert_true(few.full);
	assert_true(few.n_slots == 20);
	assert_true(vt_pages_word(&few, address(0, 8), &value));
	assert_int_equal(value, made(0, 8));
	assert_false(vt_pages_word(&few, address(500, 8), &value));
	succeed(vt_pages_copy_again(&few));
	assert_false(vt_pages_have_changed(&few, 1));
	assert_true(vt_pages_word(&few, address(0, 8), &value));
	vt_pages_deinit(&few);
}

static void bad_addresses_without_end_take_bounded_memory(void **state)
{
	struct vt_pages few;

	(void)state;
	succeed(vt_pages_init(&few, source, 100 * PAGE));
	for (uint64_t i = 0; i < 10000; i++)
		assert_null(vt_pages_page(&few, i << 36 | 1));
	assert_true(few.n_pages <= 200);
	assert_int_equal(few.n_slots, 0);
	assert_true(few.full);
	vt_pages_deinit(&few);
}

static void pointers_stay_when_the_index_grows(void **state)
{
	enum { MANY = 40000 };
	struct vt_pages many;
	const uint8_t *first, *second;
	uint8_t *big = mmap(NULL, MANY * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct vt_live *self;

	(void)state;
	assert_ptr_not_equal(big, MAP_FAILED);
	big[5] = 42;
	big[1000 * PAGE + 5] = 43;
	succeed(vt_live_create(getpid(), &self));
	succeed(vt_pages_init(&many, vt_live_source(self), 2 * MANY * PAGE));
	first = vt_pages_page(&many, (uintptr_t)big / PAGE);
	second = vt_pages_page(&many, (uintptr_t)big / PAGE + 1000);
	for (size_t i = 0; i < MANY; i++)
		assert_non_null(vt_pages_page(&many, (uintptr_t)big / PAGE + i));
	assert_ptr_equal(vt_pages_page(&many, (uintptr_t)big / PAGE), first);
	assert_ptr_equal(vt_pages_page(&many, (uintptr_t)big / PAGE + 1000), second);
	assert_int_equal(first[5], 42);
	assert_int_equal(second[5], 43);
	vt_pages_deinit(&many);
	vt_live_destroy(self);
	munmap(big, MANY * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(words_are_those_of_the_process),
		TEST(unaligned_words_and_reads_go_across_pages),
		TEST(pages_beside_unmapped_ones_can_be_read),
		TEST(an_unreadable_page_is_asked_for_once),
		TEST(the_copy_has_what_the_process_changed),
		TEST(a_change_of_any_bit_shows),
		TEST(a_change_of_pages_that_nobody_asked_for_is_none),
		TEST(a_change_beside_what_was_read_is_none),
		TEST(a_line_that_is_read_after_the_copy_may_have_changed),
		TEST(what_is_read_beside_does_not_count),
		TEST(what_is_read_after_the_moment_is_told),
		TEST(a_look_reads_what_is_used_and_the_copy_all),
		TEST(a_page_that_vanished_is_missing_and_the_others_are_copied),
		TEST(a_process_that_ended_is_an_error),
		TEST(pages_over_the_bound_are_not_read),
		TEST(bad_addresses_without_end_take_bounded_memory),
		TEST(pointers_stay_when_the_index_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
