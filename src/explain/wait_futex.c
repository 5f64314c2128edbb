/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a futex is for. The kernel knows only an address. glibc's structures around it and the
 * functions in the stack distinguish a mutex (and its owner) from a condition, a semaphore or a
 * thread that is being joined.
 */
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "explain/wait_internal.h"

#define MAX_TASKS 16384
#define MAX_READS 8 /* of all tasks: an owner that is no thread can have any value */
#define MAX_TRIES 20

/*
 * The start of glibc's pthread_mutex_t on x86-64 (sysdeps/x86/nptl/bits/struct_mutex.h), unchanged
 * since 2.4.
 */
struct mutex {
	int32_t lock; /* 0 free, 1 taken, 2 taken and a thread waits */
	uint32_t count;
	int32_t owner;
	uint32_t nusers;
	int32_t kind;
	int16_t spins;
	int16_t elision;
};

/* The pid_max of 64-bit kernels (PID_MAX_LIMIT). */
#define MAX_TID (4 * 1024 * 1024)
/*
 * Types and flags of mutex kinds in glibc: type 0 to 3, robust 16, PI 32, protected 64, shared 128,
 * elision 256, 512.
 */
#define ALL_KINDS 1023

static bool reads_as_mutex(const struct mutex *mutex)
{
	return mutex->lock == 2 && mutex->owner > 0 && mutex->owner <= MAX_TID &&
	       mutex->nusers > 0 && mutex->nusers <= MAX_TID && mutex->kind >= 0 &&
	       mutex->kind <= ALL_KINDS && mutex->count <= MAX_TID;
}

/*
 * The last number of the line NSpid, the id in the innermost pid namespace; 0 when unknown.
 * *nested: there are several.
 */
static pid_t innermost_id(const char *path, bool *nested)
{
	VT_FCLOSE FILE *file = fopen(path, "re");
	char line[256];

	*nested = false;
	while (file && fgets(line, sizeof(line), file)) {
		char *at = line + 6, *end;
		long id = 0;
		int n = 0;

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (;; n++) {
			long next = strtol(at, &end, 10);

			if (end == at)
				break;
			id = next;
			at = end;
		}
		*nested = n > 1;
		return id > 0 && id <= MAX_TID ? (pid_t)id : 0;
	}
	return 0;
}

static void task_status(char *path, size_t size, pid_t pid, pid_t tid)
{
	snprintf(path, size, "/proc/%d/task/%d/status", (int)pid, (int)tid);
}

/* False when there was no memory, or no permission. */
static bool read_ids(struct vt_wait_ids *ids, pid_t pid)
{
	char path[96];
	const struct dirent *entry;
	bool nested;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	ids->reads++;
	vt_map_deinit(&ids->by_inner);
	ids->by_inner = (struct vt_map){ 0 };
	ids->cut = !dir;
	for (int n = 0; dir && !ids->cut && (entry = readdir(dir)); n++) {
		long task = strtol(entry->d_name, NULL, 10);
		pid_t inner;

		if (task <= 0 || task > MAX_TID)
			continue;
		task_status(path, sizeof(path), pid, (pid_t)task);
		inner = innermost_id(path, &nested);
		ids->cut = n == MAX_TASKS ||
			   (inner && !vt_map_put(&ids->by_inner, (uint64_t)inner, (uint64_t)task));
	}
	return !ids->cut;
}

/* Our tid of the thread that has this tid in its own namespace, if it still has; 0 unknown. */
static pid_t find_inner(const struct vt_wait_ids *ids, pid_t pid, pid_t tid)
{
	const uint64_t *task = vt_map_get(&ids->by_inner, (uint64_t)tid);
	char path[96];
	bool nested;

	if (!task)
		return 0;
	task_status(path, sizeof(path), pid, (pid_t)*task);
	return innermost_id(path, &nested) == tid ? (pid_t)*task : 0;
}

static pid_t live_thread_of(const struct wait_context *c, pid_t tid)
{
	char path[96];
	bool nested;
	pid_t found;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)c->pid);
	if (innermost_id(path, &nested) == 0)
		return WAIT_UNKNOWN_THREAD;
	if (!nested) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)c->pid, (int)tid);
		return access(path, F_OK) == 0 ? tid : 0;
	}
	found = find_inner(c->ids, c->pid, tid);
	if (found)
		return found;
	if (c->ids->reads == MAX_READS)
		return WAIT_UNKNOWN_THREAD;

	bool all = read_ids(c->ids, c->pid);

	found = find_inner(c->ids, c->pid, tid);
	return found || all ? found : WAIT_UNKNOWN_THREAD;
}

static void live_name_of(const struct wait_context *c, pid_t tid, char name[WAIT_NAME_MAX])
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)c->pid, (int)tid);

	VT_FCLOSE FILE *file = fopen(path, "re");

	if (!file || !fgets(name, WAIT_NAME_MAX, file))
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

/*
 * We read the lock after the thread, which may have got it since. It waits for itself only if it
 * still waits.
 */
static bool live_still_waits(const struct wait_context *c)
{
	struct vt_thread_info now = { 0 };

	/* After a stop the thread may not be asleep again yet. */
	for (int try = 0; try < MAX_TRIES && !now.syscall_known; try++) {
		if (try > 0)
			vt_sleep_ns(VT_NS_PER_MS);

		VT_ERROR struct vt_error *err = vt_thread_info_read(&now, c->pid, c->info->tid);

		if (err)
			return false;
	}
	return now.in_syscall && now.syscall_args[0] == c->info->syscall_args[0];
}

static bool live_now(clockid_t clock, struct timespec *now)
{
	return !clock_gettime(clock, now);
}

const struct vt_wait_ops vt_wait_live = {
	.absent = "which this process does not have",
	.thread_of = live_thread_of,
	.name_of = live_name_of,
	.still_waits = live_still_waits,
	.link_of = wait_live_link_of,
	.epoll_fds = wait_live_epoll_fds,
	.now = live_now,
};

/* "41530 (pt_nccl_watchdg)" */
static void add_thread(struct wait_context *c, pid_t tid)
{
	char name[WAIT_NAME_MAX];

	c->ops->name_of(c, tid, name);
	wait_add_own(c, "%d", (int)tid);
	if (!name[0])
		return;
	wait_add(c, " (");
	wait_add_name(c, name);
	wait_add(c, ")");
}

/* owner is the id in the target's own namespace. */
static void add_lock_of(struct wait_context *c, pid_t owner)
{
	pid_t tid = c->ops->thread_of(c, owner);

	wait_for(c, VT_WAITS_LOCK_HELD, NULL);
	if (tid == c->info->tid) {
		c->waits_for = !c->ops->still_waits || c->ops->still_waits(c) ? tid : 0;
		wait_for(c, c->waits_for ? VT_WAITS_LOCK_OWN : VT_WAITS_LOCK, NULL);
	} else if (tid == WAIT_UNKNOWN_THREAD) {
		wait_add(c, " held by another thread");
	} else if (tid) {
		wait_add(c, " held by ");
		add_thread(c, tid);
		c->waits_for = tid;
	} else {
		/*
		 * The owner ended, or it is a thread of the parent that held the lock at the fork.
		 */
		wait_add(c, " held by thread ");
		wait_add_own(c, "%d", (int)owner);
		wait_add(c, ", ");
		wait_add(c, c->ops->absent);
	}
}

/*
 * A wait for a glibc lock is inside glibc. Other waits call syscall() (Rust, libstdc++'s atomics,
 * LLVM's OpenMP): their address does not hold a pthread_mutex_t; a barrier counts its rounds there.
 */
static bool is_no_mutex(const struct vt_model_thread *thread)
{
	const struct vt_model_frame *frame = thread->stack.n_frames ? &thread->stack.frames[0] :
								      NULL;

	return (frame && frame->kind == VT_FRAME_NATIVE && frame->function &&
		!strcmp(frame->function, "syscall")) ||
	       wait_in_function(thread, "pthread_barrier_wait");
}

/*
 * A mutex waits with FUTEX_WAIT for its word to change from 2. A lock inside libc does too, but has
 * no owner.
 */
static bool add_mutex(struct wait_context *c, uint64_t addr, uint32_t expected)
{
	struct mutex mutex;

	if (expected != 2 || is_no_mutex(c->thread))
		return false;
	if (vt_mem_read(c->src, addr, &mutex, sizeof(mutex)) || !reads_as_mutex(&mutex))
		wait_for(c, VT_WAITS_LOCK, NULL);
	else
		add_lock_of(c, mutex.owner);
	return true;
}

/* Priority-inheriting mutex: the word itself holds the owner's id. */
static void add_pi_mutex(struct wait_context *c, uint64_t addr)
{
	uint32_t word;

	if (vt_mem_read_u32(c->src, addr, &word) || (word & FUTEX_TID_MASK) == 0)
		wait_for(c, VT_WAITS_LOCK, NULL);
	else
		add_lock_of(c, (pid_t)(word & FUTEX_TID_MASK));
}

/*
 * pthread_join() waits until the kernel clears the tid in the thread's descriptor: not a private
 * futex.
 */
static bool add_join(struct wait_context *c, uint32_t op, uint32_t expected)
{
	pid_t tid;

	if (op & FUTEX_PRIVATE_FLAG || expected == 0 || expected > MAX_TID ||
	    !wait_in_function(c->thread, "join"))
		return false;
	tid = c->ops->thread_of(c, (pid_t)expected);
	if (tid <= 0)
		return false;
	wait_for(c, VT_WAITS_JOIN, NULL);
	wait_add(c, " ");
	add_thread(c, tid);
	c->waits_for = tid;
	return true;
}

void wait_futex(struct wait_context *c)
{
	static const struct {
		const char *function;
		enum vt_waits_code code;
	} kinds[] = {
		{ "pthread_cond_", VT_WAITS_CONDITION },
		{ "condition_variable", VT_WAITS_CONDITION },
		{ "sem_wait", VT_WAITS_SEMAPHORE },
		{ "sem_timedwait", VT_WAITS_SEMAPHORE },
		{ "sem_clockwait", VT_WAITS_SEMAPHORE },
		{ "__new_sem_wait", VT_WAITS_SEMAPHORE },
		{ "pthread_rwlock_", VT_WAITS_RWLOCK },
		{ "pthread_barrier_wait", VT_WAITS_BARRIER },
		{ "gomp_", VT_WAITS_OPENMP_BARRIER },
		{ "pthread_once", VT_WAITS_INITIALISATION },
		{ "__cxa_guard_acquire", VT_WAITS_INITIALISATION },
	};
	uint64_t addr = c->info->syscall_args[0];
	uint32_t op = (uint32_t)c->info->syscall_args[1],
		 expected = (uint32_t)c->info->syscall_args[2];

	c->futex = addr;
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_LOCK_PI:
#ifdef FUTEX_LOCK_PI2
	case FUTEX_LOCK_PI2:
#endif
		add_pi_mutex(c, addr);
		return;
	case FUTEX_WAIT:
		if (add_mutex(c, addr, expected))
			return;
		break;
	case FUTEX_WAIT_BITSET:
		if (add_join(c, op, expected))
			return;
		break;
	case FUTEX_WAIT_REQUEUE_PI: /* on a condition: the mutex comes later */
		break;
	default: /* it does not wait */
		c->futex = 0;
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (wait_in_function(c->thread, kinds[i].function)) {
			wait_for(c, kinds[i].code, NULL);
			return;
		}
	}
	wait_for(c, VT_WAITS_FUTEX, NULL);
	wait_add(c, " ");
	wait_add_own(c, "0x%" PRIx64, addr);
}
