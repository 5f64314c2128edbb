/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of injection that need no target: they are shown this process itself, or made-up data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/choose.h"
#include "inject/image.h"
#include "inject/space.h"
#include "inject/refuse.h"
#include "inject/stub/stub.h"
#include "inject/symbols.h"
#include "inject/arch/xstate.h"

/* This process as a target. */
struct self {
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_target_symbols symbols;
};

static struct self self;

static void assert_ok(struct vt_error *err)
{
	if (err)
		fail_msg("%s: %s", vt_error_code_name(err->code), err->message);
}

static int open_self(void **state)
{
	(void)state;
	assert_ok(vt_maps_init(&self.maps, getpid()));
	assert_ok(vt_modules_init(&self.modules, getpid(), &self.maps));
	assert_ok(vt_live_create(getpid(), &self.live));
	assert_ok(vt_target_symbols_init(&self.symbols, &self.modules));
	return 0;
}

static int close_self(void **state)
{
	(void)state;
	vt_live_destroy(self.live);
	vt_modules_deinit(&self.modules);
	vt_maps_deinit(&self.maps);
	return 0;
}

/* Symbols */

static void symbols_are_those_of_libc(void **state)
{
	(void)state;
	assert_int_equal(vt_code_kind_of(&self.symbols, self.symbols.pthread_create + 1),
			 VT_CODE_CREATE);
	assert_int_equal(vt_code_kind_of(&self.symbols, self.symbols.errno_location), VT_CODE_LIBC);
	assert_int_equal(vt_code_kind_of(&self.symbols,
					 (uint64_t)(uintptr_t)symbols_are_those_of_libc),
			 VT_CODE_OTHER);
	assert_int_equal(vt_code_kind_of(&self.symbols, 0), VT_CODE_OTHER);
	assert_int_equal(vt_code_kind_of(&self.symbols, UINT64_MAX), VT_CODE_OTHER);
}

/* System calls */

static int exposure(long nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
		    uint64_t a5)
{
	const uint64_t args[6] = { a0, a1, a2, a3, a4, a5 };

	return vt_call_exposure(getpid(), vt_live_source(self.live), nr, args);
}

static uint64_t ptr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void only_harmless_calls_qualify(void **state)
{
	uint64_t mask = 0, pair[2] = { 0, 8 }, with_mask[2] = { ptr(&mask), 8 };
	static const long never[] = { SYS_write, SYS_sendto,          SYS_rt_sigsuspend,
				      SYS_semop, SYS_io_getevents,    SYS_mmap,
				      SYS_ioctl, SYS_clone,           SYS_execve,
				      SYS_exit,  SYS_rt_sigtimedwait, -1,
				      100000 };
	int fds[2], sockets[2];

	(void)state;
	assert_int_equal(exposure(SYS_futex, 0, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0), 0);
	assert_int_equal(exposure(SYS_futex, 0,
				  FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 0,
				  0, 0, 0),
			 0);
	/* 2 is a lock of libc, or a mutex. */
	assert_int_equal(exposure(SYS_futex, 0, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, 0, 0, 0),
			 VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_futex, 0, FUTEX_WAIT, 2, 0, 0, 0), VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_futex, 0, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0),
			 VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_futex, 0, FUTEX_WAIT_REQUEUE_PI, 0, 0, 0, 0),
			 VT_EXPOSURE_NEVER);
#ifdef SYS_poll
	assert_true(exposure(SYS_poll, 0, 0, 0, 0, 0, 0) <= VT_EXPOSURE_QUIET);
	assert_int_equal(exposure(SYS_vfork, 0, 0, 0, 0, 0, 0), VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_epoll_wait, 0, 0, 0, 0, 0, 0), VT_EXPOSURE_VISIBLE);
#endif
	assert_true(exposure(SYS_ppoll, 0, 0, 0, 0, 0, 0) <= VT_EXPOSURE_QUIET);
	assert_int_equal(exposure(SYS_ppoll, 0, 0, 0, ptr(&mask), 0, 0), VT_EXPOSURE_NEVER);
	assert_true(exposure(SYS_pselect6, 0, 0, 0, 0, 0, ptr(pair)) <= VT_EXPOSURE_QUIET);
	assert_int_equal(exposure(SYS_pselect6, 0, 0, 0, 0, 0, ptr(with_mask)), VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_pselect6, 0, 0, 0, 0, 0, 8), VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_epoll_pwait, 0, 0, 0, 0, ptr(&mask), 0), VT_EXPOSURE_NEVER);
	assert_int_equal(exposure(SYS_epoll_pwait, 0, 0, 0, 0, 0, 0), VT_EXPOSURE_VISIBLE);
	assert_int_equal(exposure(SYS_recvfrom, 0, 0, 0, MSG_WAITALL, 0, 0), VT_EXPOSURE_NEVER);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_int_equal(exposure(never[i], 0, 0, 0, 0, 0, 0), VT_EXPOSURE_NEVER);

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	assert_true(exposure(SYS_read, (uint64_t)fds[0], 0, 0, 0, 0, 0) <= VT_EXPOSURE_QUIET);
	assert_int_equal(exposure(SYS_read, (uint64_t)sockets[0], 0, 0, 0, 0, 0),
			 VT_EXPOSURE_VISIBLE);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(sockets[i]);
	}
}

/* Stacks */

/* A signal's frame: the address that its handler returns to, and words of a whole one. */
#ifdef __x86_64__
#define WHOLE_AT 24
#define WHOLE UINT64_C(0x002b000000000033) /* the saved code segment */

/* glibc's __restore_rt, which the kernel tells. */
static uint64_t signal_return(void)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} action = { 0 };

	signal(SIGUSR2, exit);
	syscall(SYS_rt_sigaction, SIGUSR2, NULL, &action, 8);
	signal(SIGUSR2, SIG_DFL);
	return action.restorer;
}
#else
#define WHOLE_AT 90
#define WHOLE UINT64_C(0x0000021046508001) /* the vectors' record */

static uint64_t return_address;

static void note_return(int sig)
{
	(void)sig;
	return_address = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* In the vDSO. */
static uint64_t signal_return(void)
{
	signal(SIGUSR2, note_return);
	raise(SIGUSR2);
	signal(SIGUSR2, SIG_DFL);
	return return_address;
}
#endif

#define WORDS 2048

static void stacks_are_judged(void **state)
{
	static uint64_t stack[WORDS];
	uint64_t in_malloc = vt_modules_symbol(&self.modules, "libc.so.6", "malloc") + 40;
	uint64_t in_libc = self.symbols.errno_location;
	uint64_t handler_frame = signal_return();
	struct vt_target_symbols symbols = self.symbols;

	(void)state;
	assert_int_not_equal(handler_frame, 0);
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), 0);
	stack[100] = in_libc;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), 0);
	/* malloc() on the stack: left over, since it does not wait in any of these calls ... */
	stack[200] = in_malloc;
	assert_in_range(vt_stack_exposure(self.live, &symbols, ptr(stack)), 1, VT_EXPOSURE_QUIET);
	/* ... unless a signal handler runs, whatever it interrupted. Its frame is whole then. */
	stack[150] = handler_frame;
	assert_in_range(vt_stack_exposure(self.live, &symbols, ptr(stack)), 1, VT_EXPOSURE_QUIET);
	stack[150 + WHOLE_AT] = WHOLE;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	stack[200] = 0;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	stack[150] = 0;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), 0);
#ifdef __x86_64__
	stack[1020] = handler_frame;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	stack[1020] = 0;
#else
	/* The frame is found by the frame record in front of the address. */
	stack[1020] = handler_frame;
	stack[1019] = ptr(&stack[1500]);
	assert_true(vt_stack_exposure(self.live, &symbols, ptr(stack)) < VT_EXPOSURE_NEVER);
	stack[1500 + (592 - 4688) / 8] = WHOLE;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	memset(stack + 900, 0, sizeof(stack) - 900 * sizeof(stack[0]));
#endif
	/* Whoever waits in setgid() has the lock of the stacks. */
	stack[40] = vt_modules_symbol(&self.modules, "libc.so.6", "setgid") + 40;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	/* Beyond what is looked at. */
	memset(stack, 0, sizeof(stack));
	stack[1500] = in_malloc;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), 0);

	/*
	 * A replacement allocator that waits for its own lock, and one that was called some time
	 * ago.
	 */
	symbols.code[symbols.n_code].range = (struct vt_range){ 0x1000, 0x2000 };
	symbols.code[symbols.n_code++].kind = VT_CODE_ALLOCATOR;
	memset(stack, 0, sizeof(stack));
	stack[0] = 0x1800;
	assert_int_equal(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_NEVER);
	stack[0] = 0;
	stack[300] = 0x1800;
	assert_in_range(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_VISIBLE + 1,
			VT_EXPOSURE_LAST_RESORT);
	symbols.code[symbols.n_code - 1].kind = VT_CODE_LOADER;
	assert_in_range(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_VISIBLE + 1,
			VT_EXPOSURE_LAST_RESORT);
	symbols.code[symbols.n_code - 1].kind = VT_CODE_DRIVER;
	assert_in_range(vt_stack_exposure(self.live, &symbols, ptr(stack)), VT_EXPOSURE_VISIBLE + 1,
			VT_EXPOSURE_LAST_RESORT);
	assert_int_equal(vt_stack_exposure(self.live, &symbols, 0), VT_EXPOSURE_NEVER);
}

/* A stack that ends after a few words, at an unmapped page. */
static void short_stacks_are_judged(void **state)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *last = (uint64_t *)(void *)(p + 4096) - 2;

	(void)state;
	munmap(p + 4096, 4096);
	assert_int_equal(vt_stack_exposure(self.live, &self.symbols, ptr(last)), 0);
	last[1] = vt_modules_symbol(&self.modules, "libc.so.6", "malloc") + 40;
	assert_true(vt_stack_exposure(self.live, &self.symbols, ptr(last)) > 0);
	assert_int_equal(vt_stack_exposure(self.live, &self.symbols, ptr(p + 4096)),
			 VT_EXPOSURE_NEVER);
	munmap(p, 4096);
}

/* Places */

static void there_is_space_for_the_stub(void **state)
{
	uint8_t page[4096];
	uint64_t addr, again;
	bool present;
	uint8_t big[4096] = { 1 };

	(void)state;
	assert_ok(vt_space_for_stub(&self.modules, self.live, vt_stub_blob, vt_stub_size(), &addr,
				    &present));
	assert_false(present);
	assert_int_equal(addr % 64, 0);
	/* Within one page of executable memory that is all zeros. */
	assert_int_equal(addr / 4096, (addr + vt_stub_size() - 1) / 4096);
	assert_int_equal(vt_mem_read(vt_live_source(self.live), addr, page, vt_stub_size()), 0);
	for (size_t i = 0; i < vt_stub_size(); i++)
		assert_int_equal(page[i], 0);
	assert_true(vt_maps_find(&self.maps, addr)->flags & VT_MAP_EXEC);
	assert_ok(vt_space_for_stub(&self.modules, self.live, vt_stub_blob, vt_stub_size(), &again,
				    &present));
	assert_int_equal(addr, again);

	/* What another release has written there is left alone; its own bytes are found again. */
	assert_ok(vt_live_write(self.live, addr, "\1\2\3\4", 4));
	assert_ok(vt_space_for_stub(&self.modules, self.live, vt_stub_blob, vt_stub_size(), &again,
				    &present));
	assert_false(present);
	assert_true(again >= addr + 64 || again + vt_stub_size() <= addr);
	assert_ok(vt_live_write(self.live, again, vt_stub_blob, vt_stub_size()));
	assert_ok(vt_space_for_stub(&self.modules, self.live, vt_stub_blob, vt_stub_size(), &addr,
				    &present));
	assert_true(present);
	assert_int_equal(addr, again);

	struct vt_error *err =
		vt_space_for_stub(&self.modules, self.live, big, sizeof(big), &addr, &present);

	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_UNSUPPORTED);
	vt_error_destroy(err);
}

static void holes_are_free(void **state)
{
	static struct vt_map_entry full[] = { { .start = 0, .end = UINT64_C(1) << 47 } };
	/* Every other TiB is taken. */
	static struct vt_map_entry half[64];
	struct vt_maps maps = { .entries = { .data = full, .n = 1 } };
	struct vt_error *err;
	uint64_t addr;

	(void)state;
	err = vt_space_for_region(&maps, 4096, &addr);
	assert_non_null(err);
	vt_error_destroy(err);
	for (size_t i = 0; i < 64; i++)
		half[i] = (struct vt_map_entry){ .start = (2 * i) << 40, .end = (2 * i + 1) << 40 };
	maps.entries.data = half;
	maps.entries.n = 64;
	for (int i = 0; i < 1000; i++) {
		assert_ok(vt_space_for_region(&maps, 64 << 20, &addr));
		assert_int_equal(addr % 4096, 0);
		assert_true((addr >> 40) % 2 == 1 && ((addr + (64 << 20)) >> 40) % 2 == 1);
	}
}

/* Images */

/*
 * The image is that of the file, moved: every word that differs between two addresses differs by
 * their distance.
 */
static void image_is_relocated(void **state)
{
	const uint64_t bases[] = { UINT64_C(0x100000000000), UINT64_C(0x2345678a0000) };
	struct vt_helper_image image;
	size_t size, moved = 0;
	uint8_t *p[2];

	(void)state;
	assert_ok(vt_helper_image_describe(&image));
	assert_int_equal(image.text_size % 4096, 0);
	assert_int_equal(image.data_size % 4096, 0);
	assert_true(image.entry > 0 && image.entry < image.text_size);
	assert_int_equal(strlen(image.build_id), 40);
	size = image.text_size + image.data_size;
	for (int i = 0; i < 2; i++) {
		p[i] = calloc(1, size);
		assert_non_null(p[i]);
		assert_ok(vt_helper_image_build(&image, bases[i], p[i]));
	}
	assert_memory_equal(p[0], "\177ELF", 4);
	assert_memory_equal(p[0], p[1], image.text_size);
	for (size_t at = image.text_size; at < size; at += 8) {
		uint64_t a, b;

		memcpy(&a, p[0] + at, 8);
		memcpy(&b, p[1] + at, 8);
		if (a == b)
			continue;
		moved++;
		assert_int_equal(b - a, bases[1] - bases[0]);
		assert_in_range(a, bases[0], bases[0] + size);
	}
	/* There is a table of functions at least. */
	assert_true(moved > 0);
	free(p[0]);
	free(p[1]);
}

static void extended_state_has_a_size(void **state)
{
	uint64_t mask;
	uint32_t size;

	(void)state;
	assert_ok(vt_xstate_describe(&mask, &size));
	assert_true(size <= VT_XSAVE_MAX);
#ifdef __x86_64__
	assert_int_equal(mask & 3, 3);
	assert_int_equal(mask & (UINT64_C(1) << 9 | UINT64_C(3) << 17), 0);
	assert_true(size >= 576);
#endif
}

/* Refusals */

static void refusals_have_reasons(void **state)
{
	struct vt_proc proc = { 0 };
	static const struct {
		size_t flag;
		const char *part;
	} cases[] = {
		{ offsetof(struct vt_proc, kernel_thread), "kernel" },
		{ offsetof(struct vt_proc, is_32bit), "32-bit" },
		{ offsetof(struct vt_proc, is_musl), "musl" },
		{ offsetof(struct vt_proc, shadow_stack), "shadow stack" },
	};

	(void)state;
	assert_ok(vt_proc_init(&proc, getpid()));
	assert_null(vt_inject_refusal(&proc));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool *flag = (bool *)((char *)&proc + cases[i].flag);
		struct vt_error *err;

		*flag = true;
		err = vt_inject_refusal(&proc);
		*flag = false;
		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_UNSUPPORTED);
		assert_non_null(strstr(err->message, cases[i].part));
		vt_error_destroy(err);
	}
	vt_proc_deinit(&proc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_are_those_of_libc),
		cmocka_unit_test(only_harmless_calls_qualify),
		cmocka_unit_test(stacks_are_judged),
		cmocka_unit_test(short_stacks_are_judged),
		cmocka_unit_test(there_is_space_for_the_stub),
		cmocka_unit_test(holes_are_free),
		cmocka_unit_test(image_is_relocated),
		cmocka_unit_test(extended_state_has_a_size),
		cmocka_unit_test(refusals_have_reasons),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
