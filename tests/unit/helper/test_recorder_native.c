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

static struct vt_unwind_epoch loader;
static uint32_t inner_recipe;
static void *cache;
static void (*in_store)(void), (*in_lock)(void); /* once */
static uint64_t stack[64] __attribute__((aligned(PAGE)));
static const struct vt_rec_regs regs = { .pc = INNER, .sp = (uintptr_t)stack };
static struct vt_rec_memo other;
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
	return pc == INNER ? inner_recipe : vt_recipe(VT_RECIPE_OUTER, 0, 0);
}

static void once(void (**what)(void))
{
	void (*function)(void) = *what;

	*what = NULL;
	if (function)
		function();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk_while_recipes_go),
		cmocka_unit_test(test_recipe_that_comes_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
