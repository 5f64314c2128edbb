/* SPDX-License-Identifier: Apache-2.0 */
/* A child's memory, in which we know where the words are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"
#include "target/words.h"

#define PAGE ((size_t)4096)
#define N_PAGES 20000 /* enough for several threads */
#define VALUE UINT64_C(0x1234567890abcdef)
#define OFTEN UINT64_C(0xfedcba0987654321)
#define SELDOM UINT64_C(0x0badcafe0badcafe)
#define SELDOM_AT ((size_t)512 * 9000 + 3)
#define GONE 7000 /* a page that the child has not */

static uint64_t *area;
static pid_t child;
static struct vt_live *live;

/* In page GONE, too, and in the last word before it and the first one after it. */
static const size_t places[] = {
	0,
	511,
	512 * 64 - 1, /* at the ends of pieces of 256 KiB */
	512 * 64,
	512 * GONE - 1,
	512 * GONE + 5,
	512 * (GONE + 1),
	512 * 15000 + 77,
	512 * N_PAGES - 1,
};

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static int setup(void **state)
{
	(void)state;
	area = mmap(NULL, N_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_ptr_not_equal(area, MAP_FAILED);
	for (size_t i = 0; i < N_PAGES; i++)
		area[i * 512 + 9] = OFTEN;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		area[places[i]] = VALUE;
	area[SELDOM_AT] = SELDOM;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		munmap(area + GONE * 512, PAGE);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	succeed(vt_live_create(child, &live));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vt_live_destroy(live);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

static const uint64_t value = VALUE, often = OFTEN;

static struct vt_words_search search_for(const uint64_t *wanted, const struct vt_range *ranges,
					 size_t n)
{
	return (struct vt_words_search){ .live = live,
					 .src = vt_live_source(live),
					 .ranges = ranges,
					 .n_ranges = n,
					 .values = wanted,
					 .n_values = 1,
					 .deadline_ns = vt_now_ns() + 60 * VT_NS_PER_S };
}

static void assert_places(const struct vt_words *words)
{
	size_t k = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (places[i] / 512 != GONE)
			assert_true(k < words->at.n &&
				    words->at.data[k++] == (uintptr_t)&area[places[i]]);
	assert_int_equal(words->at.n, k);
	assert_false(words->late || words->many);
}

static void test_finds_all(void **state)
{
	const struct vt_range range = { (uintptr_t)area, (uintptr_t)(area + N_PAGES * 512) };
	struct vt_words_search search = search_for(&value, &range, 1);
	struct vt_words words = { 0 };

	(void)state;
	succeed(vt_words_init(&words, &search));
	assert_places(&words);
	vt_words_deinit(&words);
	search.live = NULL; /* as of a core */
	succeed(vt_words_init(&words, &search));
	assert_places(&words);
	vt_words_deinit(&words);
}

static void test_many_ranges(void **state)
{
	static struct vt_range ranges[N_PAGES];
	struct vt_words_search search = search_for(&value, ranges, N_PAGES);
	struct vt_words words = { 0 };

	(void)state;
	for (size_t i = 0; i < N_PAGES; i++)
		ranges[i] = (struct vt_range){ (uintptr_t)(area + i * 512),
					       (uintptr_t)(area + (i + 1) * 512) };
	succeed(vt_words_init(&words, &search));
	assert_places(&words);
	vt_words_deinit(&words);
}

static void test_many_values(void **state)
{
	static const uint64_t wanted[] = { 77, SELDOM, VALUE };
	const struct vt_range range = { (uintptr_t)area, (uintptr_t)(area + N_PAGES * 512) };
	struct vt_words_search search = search_for(wanted, &range, 1);
	struct vt_words words = { 0 };
	size_t n;

	(void)state;
	search.n_values = 3;
	succeed(vt_words_init(&words, &search));
	n = words.at.n;
	assert_int_equal(words.at.data[n - 3], (uintptr_t)&area[SELDOM_AT]); /* sorted */
	vt_words_deinit(&words);
	search.n_values = 2;
	succeed(vt_words_init(&words, &search));
	assert_int_equal(words.at.n, 1);
	vt_words_deinit(&words);
	search = search_for(&value, &range, 1);
	succeed(vt_words_init(&words, &search));
	assert_int_equal(words.at.n, n - 1);
	vt_words_deinit(&words);
}

static void test_bounds(void **state)
{
	const struct vt_range range = { (uintptr_t)area, (uintptr_t)(area + N_PAGES * 512) };
	struct vt_words_search search = search_for(&often, &range, 1);
	struct vt_words words = { 0 };

	(void)state;
	succeed(vt_words_init(&words, &search));
	assert_int_equal(words.at.n, VT_WORDS_MAX);
	assert_true(words.many);
	vt_words_deinit(&words);
	search.deadline_ns = 1;
	succeed(vt_words_init(&words, &search));
	assert_true(words.late);
	vt_words_deinit(&words);
}

/* Memory that cannot be read in one way nor the other. */
static void test_gone(void **state)
{
	const struct vt_range range = { (uintptr_t)area, (uintptr_t)(area + N_PAGES * 512) };
	struct vt_words_search search = search_for(&value, &range, 1);
	struct vt_words words = { 0 };
	struct vt_error *err;

	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	err = vt_words_init(&words, &search);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_GONE);
	vt_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_all),   cmocka_unit_test(test_many_ranges),
		cmocka_unit_test(test_many_values), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
