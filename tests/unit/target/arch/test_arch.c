/* SPDX-License-Identifier: Apache-2.0 */
/* What the architectures say of registers and machine code, in any build. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <elf.h>
#include <errno.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "target/arch/native.h"

#define CODE UINT64_C(0x400000)

struct fake {
	struct vt_memsrc src;
	uint8_t code[64]; /* at CODE */
};

static int fake_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct fake *fake = (struct fake *)src;

	if (addr < CODE || addr + len > CODE + sizeof(fake->code)) {
		src->fault_addr = addr;
		return -EFAULT;
	}
	memcpy(buf, fake->code + (addr - CODE), len);
	return 0;
}

static const struct vt_memsrc_ops fake_ops = { .read = fake_read };

static struct fake fake_with(const void *code, size_t n)
{
	struct fake fake = { .src = { .ops = &fake_ops } };

	memcpy(fake.code, code, n);
	return fake;
}

static void test_table(void **state)
{
	(void)state;
	assert_ptr_equal(vt_arch_of(EM_X86_64), &vt_arch_x86_64);
	assert_ptr_equal(vt_arch_of(EM_AARCH64), &vt_arch_aarch64);
	assert_null(vt_arch_of(EM_386));
	assert_string_equal(vt_arch_syscall(&vt_arch_x86_64, 202), "futex");
	assert_string_equal(vt_arch_syscall(&vt_arch_aarch64, 98), "futex");
	assert_string_equal(vt_arch_syscall(VT_NATIVE, SYS_ppoll), "ppoll");
	assert_string_equal(vt_arch_syscall(VT_NATIVE, VT_NATIVE->clone), "clone");
	assert_string_equal(vt_arch_syscall(VT_NATIVE, VT_NATIVE->clone3), "clone3");
	assert_null(vt_arch_syscall(&vt_arch_aarch64, -1));
	assert_null(vt_arch_syscall(&vt_arch_aarch64, 1 << 20));
	assert_null(vt_arch_syscall(&vt_arch_x86_64, INT64_MAX));
}

/* No register of a table is one that there is not. */
static void test_registers(void **state)
{
	static const struct vt_arch *const archs[] = { &vt_arch_x86_64, &vt_arch_aarch64 };

	(void)state;
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		const struct vt_arch *arch = archs[i];
		struct vt_regs regs = vt_regs_unknown(arch);

		assert_in_range(arch->abi.n_regs, 1, VT_MAX_REGS);
		assert_true(arch->abi.pc < arch->abi.n_regs && arch->abi.sp < arch->abi.n_regs);
		assert_true(arch->abi.fp < arch->abi.n_regs && arch->abi.ra < arch->abi.n_regs);
		assert_int_equal(arch->abi.preserved >> arch->abi.n_regs, 0);
		assert_int_equal(arch->sets[0].type, NT_PRSTATUS);
		for (size_t k = 0; k < 6; k++)
			assert_true(arch->syscall_args[k] < arch->abi.n_regs);
		regs.r[arch->abi.pc] = 1;
		regs.r[arch->abi.sp] = 2;
		assert_int_equal(vt_regs_pc(&regs), 1);
		assert_int_equal(vt_regs_sp(&regs), 2);
		regs.arch = NULL;
		assert_int_equal(vt_regs_pc(&regs), 0);
	}
}

static int64_t wait_of(const struct vt_arch *arch, struct fake *fake, uint64_t pc, int64_t result,
		       int64_t nr)
{
	struct vt_regs regs = { .arch = arch, .syscall_nr = nr };

	if (arch == &vt_arch_aarch64)
		regs.r[8] = 22;
	regs.r[arch->abi.pc] = pc;
	regs.r[arch->syscall_result] = (uint64_t)result;
	return arch->interrupted(&fake->src, &regs);
}

static void test_waits_of_x86_64(void **state)
{
	static const int64_t restarts[] = { -512, -513, -514, -516, -EINTR };
	struct fake fake = fake_with("\x0f\x05", 2);

	(void)state;
	for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++) {
		assert_int_equal(wait_of(&vt_arch_x86_64, &fake, CODE + 2, restarts[i], 202), 202);
		assert_int_equal(wait_of(&vt_arch_x86_64, &fake, CODE + 2, restarts[i], -1), -1);
	}
	assert_int_equal(wait_of(&vt_arch_x86_64, &fake, CODE + 2, -EAGAIN, 202), -1);
	assert_int_equal(wait_of(&vt_arch_x86_64, &fake, CODE + 2, 5, 202), -1);
}

/* nop; svc #0; nop */
static void test_waits_of_aarch64(void **state)
{
	static const uint32_t code[] = { 0xd503201f, 0xd4000001, 0xd503201f };
	struct fake fake = fake_with(code, sizeof(code));

	(void)state;
	/* to be restarted: pc is at the instruction, x0 the first argument, x8 the number */
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE + 4, 7, -1), 22);
	/* EINTR; and as a debugger's core has it, which lacks the number */
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE + 8, -EINTR, 22), 22);
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE + 8, -EINTR, -1), 22);
	/* none: it returned something else, or is elsewhere */
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE + 8, 7, 22), -1);
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE + 8, 7, -1), -1);
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, CODE, -EINTR, -1), -1);
	assert_int_equal(wait_of(&vt_arch_aarch64, &fake, 0x1000, 7, -1), -1);
}

/* bl back by 8 bytes and forth by 16; blr x8; blraa x8, x9; br x8, which is no call */
static void test_calls_of_aarch64(void **state)
{
	static const uint32_t code[] = { 0xd503201f, 0xd503201f, 0x97fffffe, 0x94000004,
					 0xd63f0100, 0xd73f0909, 0xd61f0100 };
	static const bool calls[] = { false, false, true, true, true, true, false };
	struct fake fake = fake_with(code, sizeof(code));
	const struct vt_arch *arch = &vt_arch_aarch64;

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_int_equal(arch->is_after_call(&fake.src, CODE + 4 * (i + 1)), calls[i]);
	assert_false(arch->is_after_call(&fake.src, CODE + 13));
	assert_false(arch->is_after_call(&fake.src, CODE));
	assert_int_equal(arch->called_before(&fake.src, CODE + 12), CODE);
	assert_int_equal(arch->called_before(&fake.src, CODE + 16), CODE + 12 + 16);
	assert_int_equal(arch->called_before(&fake.src, CODE + 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_waits_of_x86_64),
		cmocka_unit_test(test_waits_of_aarch64),
		cmocka_unit_test(test_calls_of_aarch64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
