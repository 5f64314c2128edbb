/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of libraries, exchanged and put back, and the entries that they then point to: pages that a
 * library has made read-only itself, arguments on the stack, a stack that ends behind its caller.
 * What happens around the calls is given here.
 */
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/driver.h"

#define PAGE 4096

struct vt_recorder_head vt_recorder;

/* ---- the recorder's other parts ---- */

static uint64_t seen_args[6], seen_more[3];
static unsigned int n_begun, n_ended;
static int result_seen;

void vt_rec_launch_begins(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			  struct vt_rec_launch *launch)
{
	n_begun++;
	memcpy(seen_args, args, sizeof(seen_args));
	if (which == VT_CALL_cuLaunchKernel)
		memcpy(seen_more, more, sizeof(seen_more));
	*launch = (struct vt_rec_launch){ 1, 2 };
}

void vt_rec_launch_ended(enum vt_recorder_call which, int result,
			 const struct vt_rec_launch *launch)
{
	(void)which;
	n_ended++;
	result_seen = result;
	assert_int_equal(launch->number, 2);
}

void vt_rec_launch_late(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			int result)
{
	(void)which, (void)args, (void)more, (void)result;
	fail();
}

bool vt_rec_launch_has_more(enum vt_recorder_call which)
{
	return which == VT_CALL_cuLaunchKernel;
}

uint32_t vt_rec_driver_serial(void)
{
	return 0;
}

void vt_rec_driver_call(enum vt_recorder_call which, const uint64_t *args, int result,
			uint32_t before, const struct vt_rec_regs *regs)
{
	(void)which, (void)args, (void)result, (void)before, (void)regs;
}

/* driver_entry.S has CUPTI's entry, too. */
void vt_rec_cupti_callback(void);
void vt_rec_cupti_callback(void)
{
}

bool vt_rec_hook_in(uint64_t where, uint64_t original, uint64_t ours,
		    enum vt_recorder_hook_kind kind)
{
	vt_recorder.hooks[vt_recorder.n_hooks++] =
		(struct vt_recorder_hook){ where, original, ours, kind, 0 };
	*(volatile uint64_t *)where = ours;
	return true;
}

void vt_rec_hook_forget(struct vt_recorder_hook *note)
{
	note->where = 0;
}

/* ---- the library: this program ---- */

typedef int launch_fn(uint64_t f, unsigned int gx, unsigned int gy, unsigned int gz,
		      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		      uint64_t stream, void **params, void **extra);
typedef int wait_fn(uint64_t stream);

static uint64_t got_stack[5];

static int launch_really(uint64_t f, unsigned int gx, unsigned int gy, unsigned int gz,
			 unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			 uint64_t stream, void **params, void **extra)
{
	got_stack[0] = bz;
	got_stack[1] = shared;
	got_stack[2] = stream;
	got_stack[3] = (uint64_t)(uintptr_t)params;
	got_stack[4] = (uint64_t)(uintptr_t)extra;
	return (int)(f + gx + gy + gz + bx + by);
}

static int wait_really(uint64_t stream)
{
	return (int)stream + 1;
}

/* A page of its own in the data segment. */
static struct {
	launch_fn *launch;
	wait_fn *wait;
	uint8_t rest[PAGE - 16];
} words __attribute__((aligned(PAGE))) = { launch_really, wait_really, { 1 } };

static uint32_t in(void)
{
	const struct vt_recorder_got got[] = {
		{ (uintptr_t)&words.launch, (uintptr_t)launch_really, (uintptr_t)launch_really,
		  VT_CALL_cuLaunchKernel, 0 },
		{ (uintptr_t)&words.wait, (uintptr_t)wait_really, (uintptr_t)wait_really,
		  VT_CALL_cuStreamSynchronize, 0 },
	};

	vt_recorder.n_hooks = 0;
	return vt_rec_got_in(got, 2, true, (uintptr_t)dl_iterate_phdr);
}

static void out(void)
{
	vt_rec_got_out((uintptr_t)dl_iterate_phdr);
}

static bool are_original(void)
{
	return *(launch_fn *volatile *)&words.launch == launch_really &&
	       *(wait_fn *volatile *)&words.wait == wait_really;
}

static void test_arguments(void **state)
{
	static const uint64_t more[] = { 7, 8, 9 };
	launch_fn *volatile *launch = &words.launch;

	(void)state;
	assert_int_equal(in(), 2);
	assert_int_equal(vt_recorder.launches.n_left, 0);
	assert_false(are_original());
	n_begun = n_ended = 0;
	assert_int_equal((*launch)(1, 2, 3, 4, 5, 6, 7, 8, 9, (void **)10, (void **)11), 21);
	assert_int_equal(n_begun, 1);
	assert_int_equal(n_ended, 1);
	assert_int_equal(result_seen, 21);
	for (unsigned int i = 0; i < 6; i++)
		assert_int_equal((uint32_t)seen_args[i], i + 1);
	assert_memory_equal(seen_more, more, sizeof(more));
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal((uint32_t)got_stack[i], i + 7);
	out();
	assert_true(are_original());
}

/* Nothing is written, and nothing crashes, whenever the library seals its page. */
static void test_sealed_page(void **state)
{
	static const int seals[] = { PROT_READ, PROT_NONE };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(mprotect(&words, PAGE, seals[i]), 0);
		assert_int_equal(in(), 0);
		assert_int_equal(vt_recorder.launches.n_left, 2);
		assert_int_equal(mprotect(&words, PAGE, PROT_READ | PROT_WRITE), 0);
		assert_true(are_original());

		assert_int_equal(in(), 2);
		assert_int_equal(mprotect(&words, PAGE, seals[i]), 0);
		out(); /* the words stay: their entries stay, too */
		assert_int_equal(mprotect(&words, PAGE, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(words.wait(5), 6);
		words.launch = launch_really;
		words.wait = wait_really;
	}
}

/* ---- a stack of which nothing is left above its first function ---- */

static ucontext_t outside, inside;
static int waited;

static void wait_on_it(void)
{
	waited = words.wait(5);
}

static void test_end_of_stack(void **state)
{
	uint8_t *stack =
		mmap(NULL, 17 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(stack, MAP_FAILED);
	assert_int_equal(mprotect(stack + 16 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(in(), 2);
	assert_int_equal(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = 16 * PAGE;
	inside.uc_link = &outside;
	makecontext(&inside, wait_on_it, 0);
	assert_int_equal(swapcontext(&outside, &inside), 0);
	assert_int_equal(waited, 6);
	out();
	munmap(stack, 17 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_sealed_page),
		cmocka_unit_test(test_end_of_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
