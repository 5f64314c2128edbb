/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel [--calls] COMMAND [ARGUMENT...]: runs a command for which the kernel is Linux 4.18.
 * System calls that are younger do not exist, and those that are older know none of the younger
 * requests and flags that vramtap or its libraries might use. --calls: the system calls only, for a
 * target: from outside a filter that forbids a flag is one that forbids the call.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAST_OF_4_18 334 /* rseq; the next that x86-64 got is 424, with Linux 5.1 */

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL(number) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number))
/* The call fails with number if the low half of its argument is at least value, or has a bit. */
#define AT_LEAST(call, argument, value, number)                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4), LOAD(args[argument]), \
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1), FAIL(number), LOAD(nr)
#define BETWEEN(call, argument, least, most, number)                           \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5), LOAD(args[argument]), \
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 2),              \
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 1, 0), FAIL(number), LOAD(nr)
#define ANY_BIT(call, argument, bits, number)                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4), LOAD(args[argument]), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), FAIL(number), LOAD(nr)

#define N_CALLS 3 /* instructions for them */
static struct sock_filter filter[] = {
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_OF_4_18, 0, 1),
	FAIL(ENOSYS),
	AT_LEAST(SYS_ptrace, 0, 0x420e,
		 EIO), /* PTRACE_GET_SYSCALL_INFO (5.3), PTRACE_GET_RSEQ_CONFIGURATION, ... */
	ANY_BIT(SYS_memfd_create, 1, 0x18, EINVAL), /* MFD_NOEXEC_SEAL, MFD_EXEC (6.3) */
	AT_LEAST(SYS_waitid, 0, 3, EINVAL),         /* P_PIDFD (5.4) */
	BETWEEN(SYS_madvise, 2, 20, 25,
		EINVAL), /* MADV_COLD (5.4) ... MADV_POPULATE_WRITE (5.14), MADV_COLLAPSE */
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv)
{
	struct sock_fprog program = { .len = N(filter), .filter = filter };

	if (argc > 2 && !strcmp(argv[1], "--calls")) {
		filter[N_CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		argv++;
		argc--;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: old_kernel COMMAND [ARGUMENT...]\n");
		return 64;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) {
		perror("old_kernel: no filter");
		return 77;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
