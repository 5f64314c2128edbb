/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's totals of many processes. Reading a process's memory may block in the kernel for any
 * time, so children do it, a few at once: each takes the next process, and one that makes no
 * progress is killed, and replaced.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/target.h"
#include "ps/ps.h"
#include "target/live.h"

enum { MAX_WORKERS = 8, TRIES = 10, MAX_LATE = 256 };

#define ONE_NS (400 * VT_NS_PER_MS)   /* for one process; a few milliseconds are usual */
#define ALL_NS (2 * VT_NS_PER_S)      /* for all of them */
#define POLL_NS (VT_NS_PER_MS / 2)    /* how often we look */
#define REAP_NS (20 * VT_NS_PER_MS)   /* one that hangs unkillably is not waited for */
#define PAUSE_NS (100 * VT_NS_PER_US) /* to the next try, in the middle of a change */

struct slot {
	atomic_bool done;
	struct vt_ps_totals totals;
};

/* Shared with the children. */
struct shared {
	atomic_size_t next;
	struct {
		_Atomic uint64_t since_ns; /* 0: between two, or ended */
	} workers[MAX_WORKERS];
	struct slot slots[];
};

/* ---- in a child ---- */

static void add_totals(struct vt_target *t, const struct vt_torch_found *found,
		       struct vt_ps_totals *totals)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	int n = vt_torch_devices(t->mem, &found->layout, found->allocator, dcas);

	totals->state = n < 0 ? VT_PS_TORCH_REFUSED : VT_PS_TORCH_KNOWN;
	totals->object = n > 0 ? dcas[0] : 0;
	for (int i = 0; i < n; i++) {
		uint64_t allocated, reserved;
		bool ok = false;

		for (int k = 0; k < TRIES && !ok; k++) {
			if (k)
				vt_sleep_ns(PAUSE_NS);
			ok = vt_torch_totals(t->mem, &found->layout, dcas[i], &allocated,
					     &reserved);
		}
		if (!ok) {
			totals->state = VT_PS_TORCH_REFUSED;
			return;
		}
		totals->allocated += allocated;
		totals->reserved += reserved;
	}
}

/* The place of the statistics must be sure: nothing else here would find out. */
static bool is_sure(const struct vt_torch_found *found)
{
	return !found->differs[0] &&
	       (found->row || found->how[VT_TORCH_STATS] == VT_TORCH_HOW_SIGNATURE);
}

static void read_allocator(struct vt_target *t, struct vt_ps_totals *totals)
{
	struct vt_torch_found found;

	vt_target_find_torch(t, &found);
	snprintf(totals->version, sizeof(totals->version), "%s", found.version);
	switch (found.backend) {
	case VT_TORCH_ABSENT:
	case VT_TORCH_UNUSED:
		totals->state = VT_PS_TORCH_NONE;
		break;
	case VT_TORCH_ASYNC:
		totals->state = VT_PS_TORCH_ASYNC;
		break;
	case VT_TORCH_NATIVE:
		totals->state = VT_PS_TORCH_REFUSED;
		if (is_sure(&found))
			add_totals(t, &found, totals);
		break;
	case VT_TORCH_PLUGGABLE:
	case VT_TORCH_UNKNOWN:
		totals->state = VT_PS_TORCH_REFUSED;
		break;
	}
}

static void read_one(pid_t pid, struct vt_ps_totals *totals)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = pid };
	struct vt_target t;
	struct vt_error *err = vt_target_open(&t, &subject);

	if (!err) {
		vt_live_wait_killably(t.live);
		read_allocator(&t, totals);
	} else {
		totals->state = err->code == VT_ERR_PERMISSION ? VT_PS_TORCH_DENIED :
				err->code == VT_ERR_GONE       ? VT_PS_TORCH_GONE :
								 VT_PS_TORCH_REFUSED;
	}
	vt_error_destroy(err);
	vt_target_close(&t);
}

static _Noreturn void work(struct shared *shared, size_t worker, const pid_t *pids, size_t n,
			   pid_t parent)
{
	size_t i;

	/* Ctrl-C is the parent's, and our end follows from its. */
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, signo == SIGINT || signo == SIGQUIT ? SIG_IGN : SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(1);
	while ((i = atomic_fetch_add(&shared->next, 1)) < n) {
		struct vt_ps_totals totals = { 0 };

		if (!pids[i])
			continue;
		atomic_store(&shared->workers[worker].since_ns, vt_now_ns());
		read_one(pids[i], &totals);
		shared->slots[i].totals = totals;
		atomic_store(&shared->slots[i].done, true);
	}
	_exit(0);
}

/* ---- in ours ---- */

struct crew {
	struct shared *shared;
	const pid_t *pids;
	size_t n;
	pid_t workers[MAX_WORKERS]; /* 0: none, or ended */
	pid_t left[MAX_WORKERS];    /* killed, and not ended yet */
	size_t n_left;
};

static void start(struct crew *crew, size_t worker)
{
	pid_t parent = getpid();

	atomic_store(&crew->shared->workers[worker].since_ns, vt_now_ns());
	crew->workers[worker] = fork();
	if (crew->workers[worker] == 0)
		work(crew->shared, worker, crew->pids, crew->n, parent);
	if (crew->workers[worker] < 0)
		crew->workers[worker] = 0;
}

static void drop(struct crew *crew, size_t worker)
{
	kill(crew->workers[worker], SIGKILL);
	if (crew->n_left < MAX_WORKERS)
		crew->left[crew->n_left++] = crew->workers[worker];
	crew->workers[worker] = 0;
}

/* Whether any is at work. */
static bool look_after(struct crew *crew)
{
	bool any = false;

	for (size_t i = 0; i < MAX_WORKERS; i++) {
		uint64_t since = atomic_load(&crew->shared->workers[i].since_ns);

		if (!crew->workers[i])
			continue;
		if (waitpid(crew->workers[i], NULL, WNOHANG) == crew->workers[i]) {
			/* It died of what it read: the others are not lost. */
			crew->workers[i] = 0;
			if (atomic_load(&crew->shared->next) < crew->n)
				start(crew, i);
		} else if (vt_deadline_passed(since + ONE_NS)) {
			drop(crew, i);
			if (atomic_load(&crew->shared->next) < crew->n &&
			    crew->n_left < MAX_WORKERS)
				start(crew, i);
		}
		any = any || crew->workers[i];
	}
	return any;
}

/* Those of earlier looks that had not ended; more are nobody's, until we end. */
static pid_t late[MAX_LATE];

static void reap_late(void)
{
	for (size_t i = 0; i < MAX_LATE; i++)
		if (late[i] && waitpid(late[i], NULL, WNOHANG))
			late[i] = 0;
}

static void reap_later(pid_t pid)
{
	for (size_t i = 0; i < MAX_LATE; i++) {
		if (late[i])
			continue;
		late[i] = pid;
		return;
	}
}

static void dismiss(struct crew *crew)
{
	uint64_t until = vt_now_ns() + REAP_NS;
	pid_t ret = 0;

	for (size_t i = 0; i < MAX_WORKERS; i++)
		if (crew->workers[i])
			drop(crew, i);
	reap_late();
	for (size_t i = 0; i < crew->n_left; i++) {
		while ((ret = waitpid(crew->left[i], NULL, WNOHANG)) == 0 &&
		       !vt_deadline_passed(until))
			vt_sleep_ns(VT_NS_PER_MS);
		if (!ret)
			reap_later(crew->left[i]);
	}
}

static size_t useful_workers(const pid_t *pids, size_t n)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t wanted = 0;

	for (size_t i = 0; i < n; i++)
		wanted += pids[i] != 0;
	if (cpus > 0 && wanted > (size_t)cpus)
		wanted = (size_t)cpus;
	/* Two at least: one may block. */
	return wanted > MAX_WORKERS ? MAX_WORKERS : wanted;
}

bool vt_ps_read_torch(const pid_t *pids, size_t n, struct vt_ps_totals *totals)
{
	size_t size = sizeof(struct shared) + n * sizeof(struct slot);
	struct crew crew = { .pids = pids, .n = n };
	size_t workers = useful_workers(pids, n);
	uint64_t until = vt_now_ns() + ALL_NS;

	for (size_t i = 0; i < n; i++)
		totals[i] = (struct vt_ps_totals){ .state = VT_PS_TORCH_LATE };
	crew.shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (crew.shared == MAP_FAILED)
		return false;
	for (size_t i = 0; i < workers; i++)
		start(&crew, i);
	while (look_after(&crew) && !vt_deadline_passed(until))
		vt_sleep_ns(POLL_NS);
	dismiss(&crew);
	for (size_t i = 0; i < n; i++)
		if (atomic_load(&crew.shared->slots[i].done))
			totals[i] = crew.shared->slots[i].totals;
	munmap(crew.shared, size);
	return true;
}
