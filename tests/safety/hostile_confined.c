/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_confined ACTION SEED PROGRAM [ARGUMENT...]: executes a program under a seccomp filter
 * that allows what hostile programs call, and by chance half of everything else. Whatever else is
 * called ends the process (kill), ends it with a signal (trap), or fails (errno).
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_CALLS 462 /* up to Linux 6.10; later ones are not allowed */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static const int needed[] = {
	SYS_read,
	SYS_write,
	SYS_close,
	SYS_poll,
	SYS_mmap,
	SYS_mprotect,
	SYS_munmap,
	SYS_brk,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_ioctl,
	SYS_pread64,
	SYS_select,
	SYS_pselect6,
	SYS_ppoll,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_clock_gettime,
	SYS_recvfrom,
	SYS_sendto,
	SYS_accept4,
	SYS_connect,
	SYS_socket,
	SYS_bind,
	SYS_listen,
	SYS_socketpair,
	SYS_setsockopt,
	SYS_pipe2,
	SYS_eventfd2,
	SYS_timerfd_create,
	SYS_timerfd_settime,
	SYS_epoll_create1,
	SYS_epoll_wait,
	SYS_epoll_pwait,
	SYS_msgget,
	SYS_msgsnd,
	SYS_msgrcv,
	SYS_msgctl,
	SYS_semget,
	SYS_semop,
	SYS_semtimedop,
	SYS_semctl,
	SYS_futex,
	SYS_futex_waitv,
	SYS_clone,
	SYS_clone3,
	SYS_fork,
	SYS_vfork,
	SYS_execve,
	SYS_wait4,
	SYS_waitid,
	SYS_exit,
	SYS_exit_group,
	SYS_flock,
	SYS_openat,
	SYS_open,
	SYS_newfstatat,
	SYS_fstat,
	SYS_fcntl,
	SYS_arch_prctl,
	SYS_set_tid_address,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_prlimit64,
	SYS_getrandom,
	SYS_prctl,
	SYS_gettid,
	SYS_getpid,
	SYS_tgkill,
	SYS_unshare,
	SYS_memfd_create,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_rt_sigtimedwait,
	SYS_restart_syscall,
	SYS_pause,
	SYS_access,
	SYS_readlink,
	SYS_lseek,
	SYS_madvise,
	SYS_sched_yield,
	SYS_sigaltstack,
	SYS_timer_create,
	SYS_timer_settime,
	SYS_timer_delete,
	SYS_get_robust_list,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_rt_sigpending,
	SYS_getuid,
	SYS_kill,
	SYS_sched_getaffinity,
};

static uint32_t action_of(const char *name)
{
	if (!strcmp(name, "kill"))
		return SECCOMP_RET_KILL_PROCESS;
	return !strcmp(name, "trap") ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
}

static int confine(uint32_t action, unsigned int seed)
{
	static struct sock_filter code[2 * N_CALLS + 8];
	struct sock_fprog program = { 0, code };
	char allowed[N_CALLS];
	unsigned short n = 0;

	for (int i = 0; i < N_CALLS; i++)
		allowed[i] = (char)(rand_r(&seed) >> 4 & 1);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		allowed[needed[i]] = 1;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (uint32_t i = 0; i < N_CALLS; i++) {
		if (!allowed[i])
			continue;
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	program.len = n;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 64;
	if (confine(action_of(argv[1]), (unsigned int)strtoul(argv[2], NULL, 10)))
		return 1;
	execv(argv[3], argv + 3);
	return 2;
}
