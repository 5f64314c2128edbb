/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/choose.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/arch/arch.h"
#include "target/proc.h"
#include "vramtap/recorder.h"

/* The search ends after so many threads without any objection. */
#define ENOUGH 2

/* How much of a stack is examined. */
#define STACK_WORDS 1024u

/* The return address of the function that made the system call is within these. */
#define NEAR_WORDS 16u

/*
 * The return address into the caller of glibc's __nptl_setxid(), whose frame has a few hundred
 * bytes at most, is within these.
 */
#define SETXID_WORDS 128u

/* System calls */

struct call {
	pid_t tid;
	struct vt_memsrc *src;
	const uint64_t *args;
};

/*
 * A wait for a word to change. glibc's own locks and mutexes wait with the value 2 ("locked, with
 * waiters"). A thread that waits for a lock of the allocator or the loader may hold another one, so
 * a thread that waits with this value is never touched.
 */
static int futex_exposure(const struct call *call, int base)
{
	int op = (int)call->args[1] & FUTEX_CMD_MASK;

	if (op == FUTEX_WAIT_BITSET || (op == FUTEX_WAIT && (uint32_t)call->args[2] != 2))
		return base;
	return VT_EXPOSURE_NEVER;
}

/* A temporary signal mask: the call would return EINTR although it is restarted. */
static int no_mask_exposure(const struct call *call, int base)
{
	return call->args[3] ? VT_EXPOSURE_NEVER : base;
}

static int epoll_mask_exposure(const struct call *call, int base)
{
	return call->args[4] ? VT_EXPOSURE_NEVER : base;
}

/* The sixth argument points to a pair of mask and size; glibc passes the pair always. */
static int pselect_exposure(const struct call *call, int base)
{
	uint64_t pair[2] = { 0, 0 };

	if (call->args[5] && vt_mem_read(call->src, call->args[5], pair, sizeof(pair)))
		return VT_EXPOSURE_NEVER;
	return pair[0] ? VT_EXPOSURE_NEVER : base;
}

/* With MSG_WAITALL an interruption can give a short result. */
static int recv_exposure(const struct call *call, int base)
{
	return call->args[3] & MSG_WAITALL ? VT_EXPOSURE_NEVER : base;
}

/*
 * A socket with a time limit (SO_RCVTIMEO) returns EINTR like epoll_wait(); the limit is not
 * visible from outside.
 */
static int read_exposure(const struct call *call, int base)
{
	char path[64], name[16];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)call->tid, (int)call->args[0]);

	ssize_t n = readlink(path, name, sizeof(name));

	return n >= 7 && !strncmp(name, "socket:", 7) ? VT_EXPOSURE_VISIBLE : base;
}

/*
 * The white list: calls in which a thread can be for long, and which the kernel restarts after an
 * interruption without a signal, or (epoll) which we restart ourselves. Not listed: calls that
 * transfer data piecemeal, change the signal mask, or are not restarted (semop, io_getevents,
 * sigsuspend and others).
 */
static const struct {
	long nr;
	int exposure;
	int (*look)(const struct call *call, int base);
} white_list[] = {
	{ SYS_futex, 0, futex_exposure },
	{ SYS_nanosleep, 1, NULL },
	{ SYS_clock_nanosleep, 1, NULL },
	/*
	 * nanosleep, poll and futex with a time limit continue as this call after an interruption,
	 * also after one of our reports.
	 */
	{ SYS_restart_syscall, 1, NULL },
	{ SYS_ppoll, 1, no_mask_exposure },
	{ SYS_pselect6, 1, pselect_exposure },
	{ SYS_wait4, 2, NULL },
	{ SYS_waitid, 2, NULL },
	{ SYS_read, 2, read_exposure },
	{ SYS_readv, 2, read_exposure },
	{ SYS_recvfrom, VT_EXPOSURE_VISIBLE, recv_exposure },
	{ SYS_accept, VT_EXPOSURE_VISIBLE, NULL },
	{ SYS_accept4, VT_EXPOSURE_VISIBLE, NULL },
	{ SYS_epoll_pwait, VT_EXPOSURE_VISIBLE, epoll_mask_exposure },
/* What newer architectures do not have: their C libraries use the others. */
#ifdef SYS_poll
	{ SYS_poll, 1, NULL },
	{ SYS_select, 1, NULL },
	{ SYS_pause, 1, NULL },
	{ SYS_epoll_wait, VT_EXPOSURE_VISIBLE, NULL },
#endif
};

int vt_call_exposure(pid_t tid, struct vt_memsrc *src, long nr, const uint64_t args[6])
{
	struct call call = { tid, src, args };

	for (size_t i = 0; i < sizeof(white_list) / sizeof(white_list[0]); i++)
		if (white_list[i].nr == nr)
			return white_list[i].look ?
				       white_list[i].look(&call, white_list[i].exposure) :
				       white_list[i].exposure;
	return VT_EXPOSURE_NEVER;
}

/* Stacks */

/*
 * What an address of this kind on the stack adds. Words may be left over from earlier calls, so few
 * of them decide alone.
 */
static const int kind_exposure[VT_CODE_N_KINDS] = {
	[VT_CODE_MALLOC] = 3,
	[VT_CODE_CREATE] = 3,
	[VT_CODE_ALLOCATOR] = VT_EXPOSURE_VISIBLE + 1,
	[VT_CODE_LOADER] = VT_EXPOSURE_VISIBLE + 1,
	[VT_CODE_DRIVER] = VT_EXPOSURE_VISIBLE + 1,
};

/* Reads as much as there is of the top of the stack, in words. */
static size_t read_stack(struct vt_live *live, uint64_t sp, uint64_t *words)
{
	struct vt_memsrc *src = vt_live_source(live);
	size_t bytes = STACK_WORDS * sizeof(*words);

	sp &= ~UINT64_C(7);
	if (!vt_mem_read(src, sp, words, bytes))
		return STACK_WORDS;
	bytes = src->fault_addr > sp && src->fault_addr - sp < bytes ?
			(size_t)(src->fault_addr - sp) :
			0;
	return bytes && !vt_mem_read(src, sp, words, bytes) ? bytes / sizeof(*words) : 0;
}

/*
 * A thread that sleeps in one of the listed system calls holds no lock that pthread_create() needs,
 * with three exceptions. A signal handler may sleep there after it interrupted malloc(),
 * pthread_create(), pthread_join() or a waiting setuid(): a signal frame shows this. The thread may
 * itself be in a waiting setuid(), or a replacement allocator may wait for its own lock: in both
 * cases their code is the first on the stack.
 */
int vt_stack_exposure(struct vt_live *live, const struct vt_target_symbols *symbols, uint64_t sp)
{
	uint64_t words[STACK_WORDS];
	size_t n = read_stack(live, sp, words);
	bool first = true;
	int worst = 0;

	if (!n)
		return VT_EXPOSURE_NEVER;
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = words[i] & symbols->address_mask;
		enum vt_code_kind kind = vt_code_kind_of(symbols, addr);

		if (kind == VT_CODE_OTHER)
			continue;
		if (kind == VT_CODE_LIBC || kind == VT_CODE_VDSO) {
			if (vt_stack_is_in_handler(vt_live_cached_source(live),
						   vt_live_source(live), words, n, i, addr))
				return VT_EXPOSURE_NEVER;
			continue;
		}
		if (kind == VT_CODE_SETXID) {
			if (i < SETXID_WORDS)
				return VT_EXPOSURE_NEVER;
			continue;
		}
		if (first && i < NEAR_WORDS && kind == VT_CODE_ALLOCATOR)
			return VT_EXPOSURE_NEVER;
		first = false;
		worst = kind_exposure[kind] > worst ? kind_exposure[kind] : worst;
	}
	return worst;
}

/* Threads */

/*
 * A thread that ran out of memory and sleeps in the recorder until the watcher has read what it
 * wants (helper/recorder/oom.c). It is in the middle of throwing an exception: neither the unwinder
 * nor PyTorch holds a lock then, whatever is on its stack.
 */
static bool waits_for_watcher(const struct vt_choice *choice, const struct vt_thread_info *info)
{
	uint64_t interval[2];

	return info->state == 'S' && info->in_syscall &&
	       vt_code_kind_of(choice->symbols, info->pc) == VT_CODE_RECORDER &&
	       (info->syscall_nr == SYS_nanosleep || info->syscall_nr == SYS_restart_syscall) &&
	       !vt_mem_read(vt_live_source(choice->live), info->syscall_args[0], interval,
			    sizeof(interval)) &&
	       interval[0] == 0 && interval[1] == VT_RECORDER_WAIT_NS;
}

static int thread_exposure(const struct vt_choice *choice, const struct vt_thread_info *info)
{
	int exposure;

	if (waits_for_watcher(choice, info))
		return vt_stack_exposure(choice->live, choice->symbols, info->sp) ==
				       VT_EXPOSURE_NEVER ?
			       VT_EXPOSURE_NEVER :
			       VT_EXPOSURE_QUIET;
	/* It must sleep interruptibly; a thread in state D does not react to an interruption. */
	if (info->state != 'S' || !info->in_syscall ||
	    vt_code_kind_of(choice->symbols, info->pc) != VT_CODE_LIBC)
		return VT_EXPOSURE_NEVER;
	exposure = vt_call_exposure(info->tid, vt_live_source(choice->live), info->syscall_nr,
				    info->syscall_args);
	exposure += info->tid == choice->pid;
	/* Reading the stack is only worthwhile when the rest is good enough. */
	if (exposure > choice->max_exposure)
		return exposure;
	exposure += vt_stack_exposure(choice->live, choice->symbols, info->sp);
	/*
	 * While it stands, the end of a child of its wakes up another thread (target/session.c,
	 * enum turn): another one is better.
	 */
	if (exposure < VT_EXPOSURE_QUIET && vt_thread_has_children(choice->pid, info->tid))
		return VT_EXPOSURE_QUIET;
	return exposure;
}

static void insert(struct vt_candidate *candidates, size_t max, size_t *n,
		   struct vt_candidate candidate)
{
	size_t at = *n;

	while (at > 0 && candidates[at - 1].exposure > candidate.exposure)
		at--;
	if (at == max)
		return;
	if (*n < max)
		(*n)++;
	memmove(&candidates[at + 1], &candidates[at], (*n - at - 1) * sizeof(*candidates));
	candidates[at] = candidate;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

/* One thread; *candidate is set when it may be considered. */
static bool look_at(const struct vt_choice *choice, pid_t tid, struct vt_candidate *candidate,
		    uint64_t *scene)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, choice->pid, tid);

	if (err)
		return false;
	*scene = mix(mix(mix(*scene, (uint64_t)tid), info.sp), (uint64_t)info.syscall_nr);
	*candidate = (struct vt_candidate){
		.tid = tid,
		.exposure = thread_exposure(choice, &info),
		.wait = { .sp = info.sp, .pc = info.pc, .nr = info.syscall_nr },
	};
	memcpy(candidate->wait.args, info.syscall_args, sizeof(candidate->wait.args));
	return candidate->exposure <= choice->max_exposure &&
	       candidate->exposure < VT_EXPOSURE_NEVER;
}

struct vt_error *vt_choose(const struct vt_choice *choice, struct vt_candidate *candidates,
			   size_t max, size_t *n, uint64_t *scene)
{
	struct vt_candidate candidate;
	const struct dirent *entry;
	char path[64];
	size_t best = 0;

	*n = 0;
	*scene = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)choice->pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	if (!dir && (errno == ENOENT || errno == ESRCH))
		return vt_error_create(VT_ERR_GONE, "process %d does not exist", (int)choice->pid);
	if (!dir)
		return vt_error_create_os(errno, "cannot list the threads of process %d",
					  (int)choice->pid);
	while (best < ENOUGH && (entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || (choice->only_tid && tid != choice->only_tid) ||
		    !look_at(choice, tid, &candidate, scene))
			continue;
		insert(candidates, max, n, candidate);
		best += candidate.exposure == 0;
	}
	return NULL;
}
