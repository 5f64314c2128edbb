/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The evaluation of seccomp filters: against the kernel's own answer for random programs, and on
 * filters of the kinds that container engines and sandboxes use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/seccomp.h"
#include "vramtap/arch.h"

#define N(filter) (sizeof(filter) / sizeof((filter)[0]))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RET(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

static struct seccomp_data call(int nr, uint64_t arg0)
{
	return (struct seccomp_data){ .nr = nr, .arch = VT_ARCH_AUDIT, .args = { arg0 } };
}

/* Everything but the listed calls is allowed. */
static void one_forbidden_call_is_named(void **state)
{
	static const struct {
		uint32_t nr;
		const char *name;
	} cases[] = {
		{ SYS_mmap, "mmap" },
		{ SYS_clone, "clone" },
		{ SYS_memfd_create, "memfd_create" },
		{ SYS_futex, "futex" },
		{ SYS_rt_sigpending, "rt_sigpending" },
		{ SYS_exit, "exit" },
		{ SYS_ptrace, NULL },
		{ SYS_mount, NULL },
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		const struct sock_filter filter[] = {
			LOAD(nr),
			IF_EQUAL(cases[i].nr, 0, 1),
			RET(SECCOMP_RET_ERRNO | EPERM),
			RET(SECCOMP_RET_ALLOW),
		};
		const char *name = vt_seccomp_forbidden(filter, N(filter), VT_SECCOMP_RECORDER);

		if (cases[i].name)
			assert_string_equal(name, cases[i].name);
		else
			assert_null(name);
	}
}

/* What only the loader needs is only asked for the recorder. */
static void the_recorder_needs_more(void **state)
{
	static const struct sock_filter filter[] = {
		LOAD(nr),
		IF_EQUAL(SYS_openat, 0, 1),
		RET(SECCOMP_RET_ERRNO | EPERM),
		RET(SECCOMP_RET_ALLOW),
	};

	(void)state;
	assert_null(vt_seccomp_forbidden(filter, N(filter), VT_SECCOMP_HELPER));
	assert_string_equal(vt_seccomp_forbidden(filter, N(filter), VT_SECCOMP_RECORDER), "openat");
}

/*
 * clone3 answered with ENOSYS, as Docker does: glibc then uses clone. A signal instead of an error
 * is not fine.
 */
static void an_error_is_fine_where_nothing_depends_on_it(void **state)
{
	static const struct {
		uint32_t action;
		int fine;
	} cases[] = {
		{ SECCOMP_RET_ERRNO | ENOSYS, 1 }, { SECCOMP_RET_LOG, 1 },
		{ SECCOMP_RET_ALLOW, 1 },          { SECCOMP_RET_TRAP, 0 },
		{ SECCOMP_RET_KILL_THREAD, 0 },    { SECCOMP_RET_KILL_PROCESS, 0 },
		{ SECCOMP_RET_TRACE, 0 },          { SECCOMP_RET_USER_NOTIF, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		const struct sock_filter filter[] = {
			LOAD(nr),
			IF_EQUAL(SYS_clone3, 0, 1),
			RET(cases[i].action),
			RET(SECCOMP_RET_ALLOW),
		};

		assert_int_equal(vt_seccomp_forbidden(filter, N(filter), VT_SECCOMP_RECORDER) ==
					 NULL,
				 cases[i].fine);
	}
}

/* Docker's default profile: clone only without the flags that make namespaces. */
static void arguments_are_looked_at(void **state)
{
	const struct sock_filter namespaces[] = {
		LOAD(nr),
		IF_EQUAL(SYS_clone, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1),
		RET(SECCOMP_RET_ERRNO | EPERM),
		RET(SECCOMP_RET_ALLOW),
	};
	const struct sock_filter no_exec[] = {
		LOAD(nr),
		IF_EQUAL(SYS_mmap, 0, 3),
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4 /* PROT_EXEC */, 0, 1),
		RET(SECCOMP_RET_ERRNO | EPERM),
		RET(SECCOMP_RET_ALLOW),
	};

	(void)state;
	assert_null(vt_seccomp_forbidden(namespaces, N(namespaces), VT_SECCOMP_RECORDER));
	assert_string_equal(vt_seccomp_forbidden(no_exec, N(no_exec), VT_SECCOMP_RECORDER), "mmap");
}

static void other_architectures_are_not_ours(void **state)
{
	const struct sock_filter filter[] = {
		LOAD(arch),
		IF_EQUAL(VT_ARCH_AUDIT, 1, 0),
		RET(SECCOMP_RET_KILL_PROCESS),
		RET(SECCOMP_RET_ALLOW),
	};
	const struct sock_filter reversed[] = {
		LOAD(arch),
		IF_EQUAL(VT_ARCH_AUDIT, 0, 1),
		RET(SECCOMP_RET_KILL_PROCESS),
		RET(SECCOMP_RET_ALLOW),
	};

	(void)state;
	assert_null(vt_seccomp_forbidden(filter, N(filter), VT_SECCOMP_RECORDER));
	assert_non_null(vt_seccomp_forbidden(reversed, N(reversed), VT_SECCOMP_RECORDER));
}

/* Programs that the kernel would never have loaded: what matters is that they end, and forbid. */
static void damaged_programs_forbid(void **state)
{
	const struct sock_filter no_return[] = { LOAD(nr) };
	const struct sock_filter far_jump[] = { BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX),
						RET(SECCOMP_RET_ALLOW) };
	const struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64),
					       RET(SECCOMP_RET_ALLOW) };
	const struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 3),
					   RET(SECCOMP_RET_ALLOW) };
	struct seccomp_data data = call(SYS_getpid, 0);
	struct sock_filter random[64];
	unsigned int seed = 7;

	(void)state;
	assert_int_equal(vt_seccomp_run(NULL, 0, &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(vt_seccomp_run(no_return, N(no_return), &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(vt_seccomp_run(far_jump, N(far_jump), &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(vt_seccomp_run(outside, N(outside), &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(vt_seccomp_run(odd, N(odd), &data), SECCOMP_RET_KILL_PROCESS);
	for (int i = 0; i < 100000; i++) {
		for (size_t k = 0; k < sizeof(random); k++)
			((uint8_t *)random)[k] = (uint8_t)(rand_r(&seed) >> 8);
		vt_seccomp_run(random, N(random), &data);
	}
}

/*
 * A program that computes something from the call's first argument and answers with it as an errno,
 * so that the kernel can be asked what it comes to.
 */
static size_t random_program(unsigned int *seed, struct sock_filter *f)
{
	static const uint16_t alu[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR,
					BPF_AND, BPF_XOR, BPF_LSH, BPF_RSH };
	static const uint16_t jumps[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	size_t n = 0, head;

	/* Only the call with this number is played with. */
	f[n++] = (struct sock_filter)LOAD(nr);
	f[n++] = (struct sock_filter)IF_EQUAL(SYS_getpgid, 1, 0);
	f[n++] = (struct sock_filter)RET(SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)LOAD(args[0]);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
	for (head = n; n < head + 20;) {
		uint32_t k = (uint32_t)rand_r(seed) % 40;

		switch (rand_r(seed) % 6) {
		case 0:
			f[n++] = (struct sock_filter)BPF_STMT(BPF_ST, k % BPF_MEMWORDS);
			f[n++] = (struct sock_filter)BPF_STMT(BPF_LDX | BPF_MEM, k % BPF_MEMWORDS);
			break;
		case 1:
			f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM,
							      (uint32_t)rand_r(seed));
			break;
		case 2:
			f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | jumps[k % 4] | BPF_K,
							      (uint32_t)rand_r(seed) % 64, 1, 0);
			f[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_NEG, 0);
			f[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TXA, 0);
			break;
		default: {
			uint16_t op = alu[(size_t)rand_r(seed) % N(alu)];
			/*
			 * Shifts by a register may be undefined in older kernels' eyes; by a
			 * constant they are not.
			 */
			bool by_x = op != BPF_LSH && op != BPF_RSH && rand_r(seed) & 1;

			f[n++] = (struct sock_filter)BPF_STMT(
				BPF_ALU | op | (by_x ? BPF_X : BPF_K),
				op == BPF_LSH || op == BPF_RSH ? k % 32 : k);
		}
		}
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x3ff);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return n;
}

/*
 * What the kernel answers, in a child that gets the filter. -1 when filters cannot be installed
 * here.
 */
static int ask_kernel(struct sock_filter *filter, size_t n, uint64_t arg)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = filter };
	int fds[2], answer = -1;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		    !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
			errno = 0;
			syscall(SYS_getpgid, arg);
			answer = errno;
		}
		_exit(write(fds[1], &answer, sizeof(answer)) != sizeof(answer));
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &answer, sizeof(answer)), sizeof(answer));
	close(fds[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return answer;
}

static void agrees_with_the_kernel(void **state)
{
	unsigned int seed = 4711;

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct sock_filter filter[128];
		size_t n = random_program(&seed, filter);
		uint64_t arg = (uint64_t)rand_r(&seed);
		struct seccomp_data data = call(SYS_getpgid, arg);
		int kernel = ask_kernel(filter, n, arg);
		uint32_t ours = vt_seccomp_run(filter, n, &data);

		if (kernel < 0)
			skip();
		assert_int_equal(ours & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
		assert_int_equal(ours & SECCOMP_RET_DATA, kernel);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_forbidden_call_is_named),
		cmocka_unit_test(the_recorder_needs_more),
		cmocka_unit_test(an_error_is_fine_where_nothing_depends_on_it),
		cmocka_unit_test(arguments_are_looked_at),
		cmocka_unit_test(other_architectures_are_not_ours),
		cmocka_unit_test(damaged_programs_forbid),
		cmocka_unit_test(agrees_with_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
