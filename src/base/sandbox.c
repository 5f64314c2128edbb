/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/close.h"
#include "base/null.h"
#include "vramtap/arch.h"

/*
 * What malloc() and the standard library need to compute and to exit; AddressSanitizer calls
 * sigaltstack() at exit.
 */
static const uint16_t allowed[] = {
	SYS_write,        SYS_exit_group,     SYS_exit,         SYS_brk,
	SYS_mmap,         SYS_munmap,         SYS_mremap,       SYS_madvise,
	SYS_mprotect,     SYS_futex,          SYS_getrandom,    SYS_clock_gettime,
	SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sched_yield,
	SYS_gettid,       SYS_getpid,         SYS_sigaltstack,
};

#define N_ALLOWED (sizeof(allowed) / sizeof(allowed[0]))

static bool only_out(int out)
{
	int null = vt_open_null(0);

	for (int fd = 0; fd < VT_SANDBOX_OUT; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return false;
	/* The number may be null's. */
	if (out != VT_SANDBOX_OUT && dup2(out, VT_SANDBOX_OUT) < 0)
		return false;
	vt_close_from(VT_SANDBOX_OUT + 1);
	return true;
}

/*
 * What counts against RLIMIT_DATA now: private writable memory (VmData), terabytes with sanitizers.
 */
static bool data_size(uint64_t *bytes)
{
	FILE *file = fopen("/proc/self/status", "re");
	static const char key[] = "VmData:";
	char line[128];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		found = !strncmp(line, key, sizeof(key) - 1);
		if (found)
			*bytes = strtoull(line + sizeof(key) - 1, NULL, 10) * 1024;
	}
	if (file)
		fclose(file);
	return found;
}

bool vt_limit_data(size_t bytes, bool for_good)
{
	struct rlimit data;
	uint64_t now;

	if (!data_size(&now) || getrlimit(RLIMIT_DATA, &data))
		return false;
	if (data.rlim_cur > now + bytes)
		data.rlim_cur = now + bytes;
	if (for_good && data.rlim_max > now + bytes)
		data.rlim_max = now + bytes;
	return setrlimit(RLIMIT_DATA, &data) == 0;
}

static bool set_limits(const struct vt_sandbox_limits *limits)
{
	struct rlimit none = { 0, 0 };
	struct itimerval cpu = { .it_value = { .tv_sec = (time_t)(limits->cpu_ns / VT_NS_PER_S),
					       .tv_usec =
						       (suseconds_t)(limits->cpu_ns % VT_NS_PER_S /
								     VT_NS_PER_US) } };

	if (!vt_limit_data(limits->memory_bytes, true))
		return false;
	/* SIGPROF ends the process. RLIMIT_CPU would also do, but it counts whole seconds. */
	return setrlimit(RLIMIT_CORE, &none) == 0 && setitimer(ITIMER_PROF, &cpu, NULL) == 0;
}

/* if (arch is ours) for each: if (nr is this one) allow; fail. */
static bool filter_calls(void)
{
	struct sock_filter code[N_ALLOWED + 6];
	struct sock_fprog program = { .filter = code };
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VT_ARCH_AUDIT, 0,
						 N_ALLOWED + 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_ALLOWED; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
							 (uint8_t)(N_ALLOWED - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return false;
	/*
	 * On a kernel without filters (CONFIG_SECCOMP_FILTER) only the limits and the closed
	 * descriptors remain.
	 */
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 || errno == EINVAL;
}

/* oom_score_adj before it was changed; "" unknown, or it was not. */
static char due[16];

static void write_due(int fd, const char *text)
{
	ssize_t ignored = write(fd, text, strlen(text));

	(void)ignored;
}

/* A container may lack the memory for this. Then this process has to end, not the target. */
void vt_be_first_to_go(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, due, sizeof(due) - 1, 0);

	due[n > 0 ? n : 0] = '\0';
	if (fd < 0)
		return;
	write_due(fd, "1000");
	close(fd);
}

/*
 * The kernel lets a process go back to the least value that a privileged one has set (proc(5)), so
 * no right is needed for this.
 */
static void be_like_others(void)
{
	int fd = *due ? open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	write_due(fd, due);
	close(fd);
}

void vt_be_as_before(void)
{
	static const int lowered[] = { RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE };
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(lowered) / sizeof(lowered[0]); i++) {
		if (getrlimit(lowered[i], &limit))
			continue;
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(lowered[i], &limit);
	}
	be_like_others();
}

/*
 * The parent's signal handlers are not for a child: a signal that asks the parent to end ends the
 * child at once. Some signals may be blocked since before the parent started.
 */
static void default_signals(void)
{
	static const int signals[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGCHLD, SIGPROF
	};
	sigset_t none;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

bool vt_sandbox_enter(pid_t parent, int out, const struct vt_sandbox_limits *limits)
{
	default_signals();
	/* If the parent has ended before this, another process is the parent by now. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent)
		return false;
	vt_be_first_to_go();
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && set_limits(limits) && only_out(out) &&
	       filter_calls();
}
