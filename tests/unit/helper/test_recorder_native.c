/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes that go while another thread walks: what it has taken of them must not stay in its memo.
 * The source is the library's; call frame information and the loader's counters are what the test
 * says. The other thread walks where this one is interrupted: in a lock, or in a store to the
 * cache, which the test has made read-only.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "recorder/memo.h"
#include "recorder/unwind.h"

#define PAGE 4096
/* Its place in the cache is in the first page, but it is not the first one. */
#define INNER 0x1000
/* Where the library that was there before, and that is there now, are called from. */
#define OLD_OUTER 0x2000
#define NEW_OUTER 0x3000
/* Frames of four words. */
#define BY_SP 0x4000
#define SAVES_BP 0x5000 /* in the second word from its end */
#define BY_BP 0x6000

static struct vt_unwind_epoch loader;
static uint32_t inner_recipe;
static void *cache;
static void (*in_store)(void), (*in_lock)(void); /* once */
static uint64_t stack[64] __attribute__((aligned(PAGE)));
static const struct vt_rec_regs regs = { .pc = INNER, .sp = (uintptr_t)stack };
static struct vt_rec_memo_fresh fresh;
static struct vt_rec_memo other = { .fresh = &fresh };
static uint64_t now;

void vt_unwind_epoch(uint64_t dl_iterate_phdr, struct vt_unwind_epoch *epoch)
{
	(void)dl_iterate_phdr;
	*epoch = loader;
}

uint32_t vt_unwind_find(uint64_t dl_iterate_phdr, uint64_t pc, struct vt_unwind_epoch *epoch)
{
	(void)dl_iterate_phdr;
	*epoch = loader;
	switch (pc) {
	case INNER:
		return inner_recipe;
	case BY_SP:
		return vt_recipe(VT_RECIPE_SP, 4, 0);
	case SAVES_BP:
		return vt_recipe(VT_RECIPE_SP, 4, 2);
	case BY_BP:
		return vt_recipe(VT_RECIPE_BP, 2, 2);
	default:
		return vt_recipe(VT_RECIPE_OUTER, 0, 0);
	}
}

static void once(void (**what)(void))
{
	void (*function)(void) = *what;

	*what = NULL;
	if (function)
		function();
}

uint32_t vt_rec_tid(void)
{
	return 1;
}

bool vt_rec_lock(uint32_t *lock)
{
	if (*lock)
		return false;
	once(&in_lock);
	*lock = 1;
	return true;
}

void vt_rec_unlock(uint32_t *lock)
{
	*lock = 0;
}

uint64_t vt_rec_now(void)
{
	return now;
}

void *vt_rec_map(uint64_t size)
{
	cache = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return cache == MAP_FAILED ? NULL : cache;
}

void vt_rec_unmap(void *at, uint64_t size)
{
	munmap(at, size);
}

static void on_fault(int signal)
{
	(void)signal;
	if (mprotect(cache, PAGE, PROT_READ | PROT_WRITE))
		__builtin_trap();
	once(&in_store);
}

/* At the next store to the cache. */
static void interrupt(void (*function)(void))
{
	in_store = function;
	assert_int_equal(mprotect(cache, PAGE, PROT_READ), 0);
}

/* ---- walks ---- */

static void walk_of_another(void)
{
	vt_rec_native_again(&regs, &other, now);
}

/* It walks twice: the second time its memo has all of it. */
static void check_other(uint64_t outer)
{
	struct vt_rec_frames frames = { 0 };

	walk_of_another();
	walk_of_another();
	vt_rec_native_recall(&other, &frames);
	assert_int_equal(frames.n_native, 2);
	assert_int_equal(frames.words[0], INNER);
	assert_int_equal(frames.words[1], outer);
}

static void replace_library(void)
{
	loader.adds++;
	loader.subs++;
	inner_recipe = vt_recipe(VT_RECIPE_SP, 10, 0);
}

static void begin(void)
{
	const struct vt_recorder_config config = {
		.native = 1,
		.imports = { .dl_iterate_phdr = 1,
			     .main_stack_low = (uintptr_t)stack,
			     .main_stack_high = (uintptr_t)stack + sizeof(stack) },
	};
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
	loader = (struct vt_unwind_epoch){ 1, 0 };
	inner_recipe = vt_recipe(VT_RECIPE_SP, 4, 0);
	stack[3] = OLD_OUTER;
	stack[9] = NEW_OUTER;
	now = 5;
	assert_true(vt_rec_native_init(&config));
	vt_rec_memo_clear(&other);
}

static void end(void)
{
	assert_true(!in_store && !in_lock);
	vt_rec_native_deinit();
	signal(SIGSEGV, SIG_DFL);
}

/* While one thread forgets all recipes, another one walks by those that are still there. */
static void test_walk_while_recipes_go(void **state)
{
	struct vt_rec_frames frames = { 0 };

	(void)state;
	begin();
	check_other(OLD_OUTER);
	vt_rec_memo_clear(&other);
	replace_library();
	now++;
	interrupt(walk_of_another);
	vt_rec_native_capture(&regs, &frames);
	assert_int_equal(frames.words[1], NEW_OUTER);
	check_other(NEW_OUTER);
	end();
}

/* Before its recipe is in the cache, another thread has seen the new library; then a walk. */
static void replaced_meanwhile(void)
{
	struct vt_rec_frames frames = { 0 };

	replace_library();
	now++;
	vt_rec_native_capture(&regs, &frames);
	vt_rec_memo_clear(&other);
	in_lock = walk_of_another;
}

/* A recipe that is put into the cache too late, and taken out, may have been used in between. */
static void test_recipe_that_comes_late(void **state)
{
	struct vt_rec_frames frames = { 0 };

	(void)state;
	begin();
	/* The epoch is known, and nothing is in the cache. */
	loader.adds++;
	vt_rec_native_capture(&(struct vt_rec_regs){ .pc = OLD_OUTER, .sp = regs.sp }, &frames);
	interrupt(replaced_meanwhile);
	vt_rec_native_capture(&regs, &frames);
	check_other(NEW_OUTER);
	end();
}

/* ---- frame pointers ---- */

static uint64_t bp_now; /* with which a walk begins */

static void put_stack(const uint64_t *pcs)
{
	memset(stack, 0, sizeof(stack));
	for (unsigned int i = 0; pcs[i]; i++)
		stack[4 * i + 3] = pcs[i];
}

/* What a walk with the memo says, which must find the frames that one without it finds. */
static enum vt_rec_again walk_both(void)
{
	const struct vt_rec_regs here = { .pc = BY_SP, .sp = (uintptr_t)stack, .bp = bp_now };
	struct vt_rec_frames with = { 0 }, without = { 0 };
	enum vt_rec_again again = vt_rec_native_again(&here, &other, now);

	vt_rec_native_recall(&other, &with);
	vt_rec_native_capture(&here, &without);
	assert_int_equal(with.n_native, without.n_native);
	assert_int_equal(with.flags, without.flags);
	assert_memory_equal(with.words, without.words, with.n_native * sizeof(with.words[0]));
	return again;
}

/* One that leads to no frame is some value of the program's: it does not make a stack another. */
static void test_frame_pointer_without_meaning(void **state)
{
	(void)state;
	begin();
	put_stack((const uint64_t[]){ SAVES_BP, BY_SP, BY_SP, OLD_OUTER, 0 });
	for (unsigned int i = 0; i < 8; i++) {
		bp_now = 1000 + i;
		/* saved by the second frame, and of no use to its callers */
		stack[6] = 2000 + i;
		assert_int_equal(walk_both(), i ? VT_REC_SAME : VT_REC_CHANGED);
	}
	end();
}

/* But once a frame needs it, it is what it was when it was saved, and not what it was before. */
static void test_frame_pointer_that_is_needed(void **state)
{
	(void)state;
	begin();
	put_stack((const uint64_t[]){ SAVES_BP, BY_SP, BY_SP, OLD_OUTER, 0 });
	stack[6] = 2000;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	stack[6] = (uintptr_t)&stack[18];
	assert_int_equal(walk_both(), VT_REC_SAME);
	/* The fourth frame, from stack[12] on, ends two words after the one at stack[18]. */
	stack[15] = BY_BP;
	stack[19] = NEW_OUTER;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	assert_int_equal(walk_both(), VT_REC_SAME);
	/* By now it matters. */
	stack[6] = (uintptr_t)&stack[22];
	stack[23] = OLD_OUTER;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	stack[6] = (uintptr_t)&stack[18];
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	/* And so does the one that a walk begins with, if nobody saves it. */
	put_stack((const uint64_t[]){ BY_SP, BY_SP, BY_SP, OLD_OUTER, 0 });
	bp_now = 1;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	bp_now = (uintptr_t)&stack[18];
	assert_int_equal(walk_both(), VT_REC_SAME);
	stack[15] = BY_BP;
	stack[19] = NEW_OUTER;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	bp_now = (uintptr_t)&stack[22];
	stack[23] = OLD_OUTER;
	assert_int_equal(walk_both(), VT_REC_CHANGED);
	end();
}

/* Chains of all kinds, that change at random places. */
static void test_frame_pointers_at_random(void **state)
{
	static const uint64_t kinds[] = { BY_SP, SAVES_BP, BY_BP };
	uint64_t random = 12345, same = 0;

	(void)state;
	begin();
	for (unsigned int i = 0; i < 200000; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		unsigned int at = (unsigned int)(random >> 33) % 14,
			     what = (unsigned int)(random >> 60);

		if (what < 5)
			stack[4 * at + 3] = at > 10 ? OLD_OUTER : kinds[(random >> 50) % 3];
		else if (what < 10)
			stack[4 * at + 2] = (uintptr_t)&stack[(random >> 40) % 62];
		else if (what < 12)
			bp_now = (uintptr_t)&stack[(random >> 40) % 62];
		same += walk_both() == VT_REC_SAME;
	}
	assert_in_range(same, 20000, 180000);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk_while_recipes_go),
		cmocka_unit_test(test_recipe_that_comes_late),
		cmocka_unit_test(test_frame_pointer_without_meaning),
		cmocka_unit_test(test_frame_pointer_that_is_needed),
		cmocka_unit_test(test_frame_pointers_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
