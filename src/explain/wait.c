/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/wait.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "explain/verdicts.h"
#include "explain/wait_internal.h"
#include "target/arch/native.h"

#define MAX_POLLED 64

static void add_duration(struct wait_context *c, uint64_t ns)
{
	static const struct {
		uint64_t from, unit;
		const char *name;
	} units[] = {
		{ 2 * UINT64_C(86400) * VT_NS_PER_S, UINT64_C(86400) * VT_NS_PER_S, "d" },
		{ 2 * UINT64_C(3600) * VT_NS_PER_S, UINT64_C(3600) * VT_NS_PER_S, "h" },
		{ 2 * UINT64_C(60) * VT_NS_PER_S, UINT64_C(60) * VT_NS_PER_S, "min" },
		{ 1 * VT_NS_PER_S, VT_NS_PER_S, "s" },
		{ 1 * VT_NS_PER_MS, VT_NS_PER_MS, "ms" },
	};
	char text[64] = "less than 1 ms";

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (ns >= units[i].from) {
			snprintf(text, sizeof(text), "%" PRIu64 " %s", ns / units[i].unit,
				 units[i].name);
			break;
		}
	}
	wait_add_name(c, text);
}

/* Arguments. */

static int fd_argument(const struct wait_context *c, int n)
{
	return (int)c->info->syscall_args[n];
}

/* Reads a struct timespec of the target, in nanoseconds. False when it is unreadable or invalid. */
static bool timespec_argument(const struct wait_context *c, uint64_t addr, uint64_t *ns)
{
	struct timespec ts;

	if (addr == 0 || vt_mem_read(c->src, addr, &ts, sizeof(ts)) || ts.tv_sec < 0 ||
	    ts.tv_nsec < 0 || ts.tv_nsec >= (long)VT_NS_PER_S ||
	    (uint64_t)ts.tv_sec > UINT64_MAX / VT_NS_PER_S - 1)
		return false;
	*ns = (uint64_t)ts.tv_sec * VT_NS_PER_S + (uint64_t)ts.tv_nsec;
	return true;
}

/* ", for at most 5 s" */
static void add_timeout(struct wait_context *c, bool known, uint64_t ns)
{
	if (!known)
		return;
	wait_add(c, ", for at most ");
	add_duration(c, ns);
}

static void add_timeout_ms(struct wait_context *c, int n)
{
	int32_t ms = (int32_t)c->info->syscall_args[n];

	add_timeout(c, ms >= 0, (uint64_t)(ms >= 0 ? ms : 0) * VT_NS_PER_MS);
}

static void add_timeout_at(struct wait_context *c, int n)
{
	uint64_t ns = 0;
	bool known = timespec_argument(c, c->info->syscall_args[n], &ns);

	add_timeout(c, known, ns);
}

/* " on 3 descriptors (a socket, a pipe)", of the call; shown are the first of n. */
static void add_descriptors(struct wait_context *c, const char *call, const int *fds, size_t shown,
			    size_t n)
{
	char count[48];

	wait_for(c, VT_WAITS_CALL, call);
	wait_add(c, " on ");
	if (n == 1 && shown == 1) {
		wait_add_fd(c, fds[0]);
		return;
	}
	snprintf(count, sizeof(count), "%zu descriptor%s", n, n == 1 ? "" : "s");
	wait_add_name(c, count);
	wait_add_fds(c, fds, shown);
}

/* System calls. */

static void add_polled(struct wait_context *c)
{
	struct pollfd polled[MAX_POLLED];
	int fds[MAX_POLLED];
	uint64_t n = c->info->syscall_args[1];
	size_t shown = 0, readable = n < MAX_POLLED ? (size_t)n : MAX_POLLED;

	if (readable &&
	    vt_mem_read(c->src, c->info->syscall_args[0], polled, readable * sizeof(polled[0])))
		readable = 0;
	/* Negative ones are ignored by the kernel. */
	for (size_t i = 0; i < readable; i++) {
		if (polled[i].fd >= 0)
			fds[shown++] = polled[i].fd;
		else
			n--;
	}
	add_descriptors(c, "poll", fds, shown, (size_t)n);
}

static void describe_poll(struct wait_context *c)
{
	add_polled(c);
	add_timeout_ms(c, 2);
}

static void describe_signal(struct wait_context *c)
{
	wait_for(c, VT_WAITS_SIGNAL, NULL);
}

static void describe_ppoll(struct wait_context *c)
{
	/* What pause() does where the kernel has no such call: aarch64. */
	if (!c->info->syscall_args[1] && !c->info->syscall_args[2]) {
		describe_signal(c);
		return;
	}
	add_polled(c);
	add_timeout_at(c, 2);
}

static void add_epoll(struct wait_context *c)
{
	int fds[MAX_POLLED];
	size_t n;

	if (c->ops->epoll_fds && c->ops->epoll_fds(c, fd_argument(c, 0), fds, MAX_POLLED, &n))
		add_descriptors(c, "epoll", fds, n < MAX_POLLED ? n : MAX_POLLED, n);
	else
		wait_for(c, VT_WAITS_CALL, "epoll");
}

static void describe_epoll(struct wait_context *c)
{
	add_epoll(c);
	add_timeout_ms(c, 3);
}

static void describe_epoll_pwait2(struct wait_context *c)
{
	add_epoll(c);
	add_timeout_at(c, 3);
}

static void add_selected(struct wait_context *c)
{
	int fds[MAX_POLLED];
	size_t n = 0, limit = c->info->syscall_args[0] < FD_SETSIZE ?
				      (size_t)c->info->syscall_args[0] :
				      FD_SETSIZE;
	fd_set any;

	FD_ZERO(&any);
	for (int i = 1; i <= 3; i++) {
		fd_set set;
		size_t bytes = (limit + 63) / 64 * 8;

		if (!c->info->syscall_args[i] ||
		    vt_mem_read(c->src, c->info->syscall_args[i], &set, bytes))
			continue;
		for (size_t fd = 0; fd < limit; fd++)
			if (FD_ISSET(fd, &set))
				FD_SET(fd, &any);
	}
	for (size_t fd = 0; fd < limit; fd++) {
		if (!FD_ISSET(fd, &any))
			continue;
		if (n < MAX_POLLED)
			fds[n] = (int)fd;
		n++;
	}
	/* Without descriptors select() is an old way to sleep. */
	if (n > 0)
		add_descriptors(c, "select", fds, n < MAX_POLLED ? n : MAX_POLLED, n);
	else
		wait_for(c, VT_WAITS_SELECT_NOTHING, NULL);
}

static void describe_select(struct wait_context *c)
{
	/* struct timeval: seconds and microseconds */
	int64_t tv[2];

	add_selected(c);
	if (!c->info->syscall_args[4] ||
	    vt_mem_read(c->src, c->info->syscall_args[4], tv, sizeof(tv)))
		return;
	if (tv[0] >= 0 && (uint64_t)tv[0] < UINT64_MAX / VT_NS_PER_S - 1 && tv[1] >= 0 &&
	    tv[1] < 1000000)
		add_timeout(c, true,
			    (uint64_t)tv[0] * VT_NS_PER_S + (uint64_t)tv[1] * VT_NS_PER_US);
}

static void describe_pselect(struct wait_context *c)
{
	add_selected(c);
	add_timeout_at(c, 4);
}

static void add_sleep(struct wait_context *c, uint64_t ns)
{
	wait_add(c, " for ");
	add_duration(c, ns);
}

static void describe_nanosleep(struct wait_context *c)
{
	uint64_t ns;

	wait_for(c, VT_WAITS_SLEEP, "nanosleep");
	if (timespec_argument(c, c->info->syscall_args[0], &ns))
		add_sleep(c, ns);
}

static void describe_clock_nanosleep(struct wait_context *c)
{
	int32_t clock = (int32_t)c->info->syscall_args[0];
	struct timespec now;
	uint64_t ns;

	wait_for(c, VT_WAITS_SLEEP, "clock_nanosleep");
	if (!timespec_argument(c, c->info->syscall_args[2], &ns))
		return;
	if (!(c->info->syscall_args[1] & TIMER_ABSTIME)) {
		add_sleep(c, ns);
		return;
	}
	/*
	 * Only these two clocks are the same for us (unless the target has a time namespace of its
	 * own, which is rare).
	 */
	if ((clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME) || !c->ops->now ||
	    !c->ops->now(clock, &now))
		return;

	uint64_t now_ns = (uint64_t)now.tv_sec * VT_NS_PER_S + (uint64_t)now.tv_nsec;

	/* This number changes all the time, so it is not in the shared part. */
	if (ns > now_ns) {
		size_t before = c->shared.n;

		wait_add(c, ", ");
		add_duration(c, ns - now_ns);
		wait_add(c, " to go");
		vt_str_cut(&c->shared, before);
	}
}

static void wait_for_child(struct wait_context *c, int32_t pid)
{
	wait_for(c, VT_WAITS_CHILD, NULL);
	wait_add(c, " ");
	wait_add_own(c, "%d", (int)pid);
}

/* wait4(pid, ...): a child, any child, a process group. */
static void describe_wait4(struct wait_context *c)
{
	int32_t pid = (int32_t)c->info->syscall_args[0];

	if (pid > 0)
		wait_for_child(c, pid);
	else
		wait_for(c, VT_WAITS_ANY_CHILD, NULL);
}

static void describe_waitid(struct wait_context *c)
{
	if (c->info->syscall_args[0] == P_PID)
		wait_for_child(c, (int32_t)c->info->syscall_args[1]);
	else
		wait_for(c,
			 c->info->syscall_args[0] == P_PIDFD ? VT_WAITS_PROCESS :
							       VT_WAITS_ANY_CHILD,
			 NULL);
}

/*
 * posix_spawn() and vfork(): nothing wakes the parent before the child is done (kernel/fork.c,
 * wait_for_vfork_done()).
 */
static void describe_vfork(struct wait_context *c)
{
	if (c->info->state == 'D' || c->info->state == 'S')
		wait_for(c, VT_WAITS_VFORK, NULL);
}

static void describe_clone(struct wait_context *c)
{
	if (c->info->syscall_args[0] & CLONE_VFORK)
		describe_vfork(c);
}

/* clone3(struct clone_args *): the flags come first. */
static void describe_clone3(struct wait_context *c)
{
	uint64_t flags;

	if (!vt_mem_read_u64(c->src, c->info->syscall_args[0], &flags) && flags & CLONE_VFORK)
		describe_vfork(c);
}

static void describe_exec(struct wait_context *c)
{
	wait_for(c, VT_WAITS_EXEC, NULL);
}

/* The rest: the system call's first argument is a descriptor. */
static void describe_fd(struct wait_context *c)
{
	int fd = fd_argument(c, 0);

	if (fd < 0)
		return;
	wait_for(c, VT_WAITS_CALL, c->thread->syscall);
	wait_add(c, " on ");
	wait_add_fd(c, fd);
}

static const struct {
	const char *name; /* numbers differ between architectures */
	void (*describe)(struct wait_context *c);
} descriptions[] = {
	{ "futex", wait_futex },
	{ "poll", describe_poll },
	{ "ppoll", describe_ppoll },
	{ "epoll_wait", describe_epoll },
	{ "epoll_pwait", describe_epoll },
	{ "epoll_pwait2", describe_epoll_pwait2 },
	{ "select", describe_select },
	{ "pselect6", describe_pselect },
	{ "nanosleep", describe_nanosleep },
	{ "clock_nanosleep", describe_clock_nanosleep },
	{ "wait4", describe_wait4 },
	{ "waitid", describe_waitid },
	{ "vfork", describe_vfork },
	{ "clone", describe_clone },
	{ "clone3", describe_clone3 },
	{ "execve", describe_exec },
	{ "execveat", describe_exec },
	{ "pause", describe_signal },
	{ "rt_sigsuspend", describe_signal },
	{ "rt_sigtimedwait", describe_signal },
	{ "read", describe_fd },
	{ "pread64", describe_fd },
	{ "readv", describe_fd },
	{ "write", describe_fd },
	{ "pwrite64", describe_fd },
	{ "writev", describe_fd },
	{ "recvfrom", describe_fd },
	{ "recvmsg", describe_fd },
	{ "recvmmsg", describe_fd },
	{ "sendto", describe_fd },
	{ "sendmsg", describe_fd },
	{ "connect", describe_fd },
	{ "accept", describe_fd },
	{ "accept4", describe_fd },
	{ "ioctl", describe_fd },
	{ "flock", describe_fd },
	{ "fcntl", describe_fd },
	{ "fsync", describe_fd },
	{ "fdatasync", describe_fd },
	{ "io_uring_enter", describe_fd },
};

static bool is_in_kernel_function(const struct vt_model_thread *thread, const char *name)
{
	for (size_t i = 0; i < thread->n_kernel; i++)
		if (!strncmp(thread->kernel[i], name, strlen(name)))
			return true;
	return false;
}

/*
 * A system call that a signal or a tracer interrupted may go on as restart_syscall, with the
 * original's arguments in the registers. The functions in the stack, or the kernel function that
 * restarts it, tell which call it was.
 */
static const char *original_syscall(const struct vt_model_thread *thread, const char *name)
{
	static const struct {
		const char *function, *name;
	} restarts[] = {
		{ "futex_wait_restart", "futex" },
		{ "do_restart_poll", "poll" },
	}, originals[] = {
		{ "clock_nanosleep", "clock_nanosleep" },
		{ "nanosleep", "nanosleep" },
		{ "futex", "futex" },
		{ "pthread_cond_", "futex" },
		{ "sem_", "futex" },
		{ "ppoll", "ppoll" },
		{ "poll", "poll" },
	};

	if (strcmp(name, "restart_syscall") != 0)
		return name;
	for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++)
		if (is_in_kernel_function(thread, restarts[i].function))
			return restarts[i].name;
	for (size_t i = 0; i < sizeof(originals) / sizeof(originals[0]); i++)
		if (wait_in_function(thread, originals[i].function))
			return originals[i].name;
	return name;
}

static const char *syscall_name(const struct wait_context *c)
{
	const struct vt_arch *arch = c->wait->arch ? c->wait->arch : VT_NATIVE;
	const char *name = vt_arch_syscall(arch, c->info->syscall_nr);

	return name ? original_syscall(c->thread, name) :
		      vt_arena_printf(c->wait->arena, "system call %ld", c->info->syscall_nr);
}

static void describe_syscall(struct wait_context *c)
{
	for (size_t i = 0; i < sizeof(descriptions) / sizeof(descriptions[0]); i++)
		if (!strcmp(descriptions[i].name, c->thread->syscall))
			descriptions[i].describe(c);
}

/* What the thread's state adds: the processor, or that no signal can end the wait. */
static void describe_state(struct wait_context *c)
{
	const struct vt_thread_info *info = c->info;
	bool asleep = info->state == 'S' || info->state == 'D';

	/* In the kernel, but not in a system call. */
	if (asleep && info->syscall_known && !info->in_syscall)
		wait_for(c, VT_WAITS_PAGE_FAULT, NULL);
	if (info->state == 'D' && info->wchan[0] && c->waits.code) {
		wait_add(c, ", stuck in the kernel in ");
		wait_add_name(c, info->wchan);
	} else if (info->state == 'D' && info->wchan[0]) {
		wait_for(c, VT_WAITS_KERNEL, vt_arena_strdup(c->wait->arena, info->wchan));
	} else if (info->state == 'R' && info->cpu >= 0 && !c->waits.code &&
		   c->kept != VT_KEPT_YES) {
		wait_for(c, VT_WAITS_RUNNING, NULL);
		wait_add(c, " on CPU ");
		wait_add_own(c, "%d", info->cpu);
	}
}

/* No description is better than half of one. */
static void keep_waits(struct wait_context *c, struct vt_model_thread *thread)
{
	struct vt_arena *arena = c->wait->arena;

	if (!c->waits.code)
		return;
	thread->waits = c->waits;
	thread->waits.detail = c->detail.n ? vt_arena_strdup(arena, vt_str_get(&c->detail)) : NULL;
	thread->waits.shared = c->shared.n ? vt_arena_strdup(arena, vt_str_get(&c->shared)) : "";
	if (c->detail.failed || c->shared.failed || (c->detail.n && !thread->waits.detail) ||
	    !thread->waits.shared)
		thread->waits = (struct vt_waits){ 0 };
}

/* What cannot be translated (the process has ended, it is of another namespace) is no thread. */
static void translate_kept(const struct wait_context *c, struct vt_wait_kept *kept)
{
	for (size_t i = 0; !kept->ours && i < kept->n; i++)
		kept->tids[i] = c->ops->thread_of(c, kept->tids[i]);
	kept->ours = true;
}

static enum vt_kept is_kept(const struct wait_context *c, struct vt_wait_kept *kept)
{
	if (!kept->known)
		return VT_KEPT_UNKNOWN;
	translate_kept(c, kept);
	for (size_t i = 0; i < kept->n; i++)
		if (kept->tids[i] == c->thread->tid)
			return vt_may_be_in_recorder(c->thread) ? VT_KEPT_YES : VT_KEPT_NO;
	return VT_KEPT_NO;
}

void vt_wait_describe(struct vt_wait *wait, struct vt_model_thread *thread,
		      const struct vt_thread_info *info)
{
	struct wait_context c = {
		.ops = wait->ops ? wait->ops : &vt_wait_live,
		.wait = wait,
		.thread = thread,
		.info = info,
		.pid = wait->pid,
		.src = wait->src,
		.sockets = &wait->sockets,
		.ids = &wait->ids,
	};
	bool blocked = info->state == 'S' || info->state == 'D';
	bool in_futex = false;

	c.kept = is_kept(&c, &wait->kept);
	if (info->syscall_known && info->in_syscall && info->syscall_nr >= 0) {
		thread->syscall = syscall_name(&c);
		in_futex = thread->syscall && !strcmp(thread->syscall, "futex");
		if (thread->syscall && info->state != 'R')
			describe_syscall(&c);
	}
	describe_state(&c);
	keep_waits(&c, thread);
	thread->waits_for = c.waits_for;
	thread->waits_address = c.futex;
	vt_str_deinit(&c.detail);
	vt_str_deinit(&c.shared);
	vt_find_verdict(thread, blocked, in_futex || strstr(info->wchan, "futex"), c.kept);
}

void vt_wait_deinit(struct vt_wait *wait)
{
	vt_map_deinit(&wait->sockets.by_inode);
	vt_map_deinit(&wait->ids.by_inner);
	vt_arena_deinit(&wait->sockets.arena);
}
