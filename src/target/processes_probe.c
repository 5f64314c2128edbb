/* SPDX-License-Identifier: Apache-2.0 */
#include "target/processes_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/proc.h"

/*
 * A page from a busy disk takes a while. Where one process hangs, others do too, so the later ones
 * get less time.
 */
#define FIRST_NS (300 * VT_NS_PER_MS)
#define NEXT_NS (50 * VT_NS_PER_MS)
#define ALL_NS (4 * VT_NS_PER_S)
#define POLL_MS 10

/* Shared with the child. */
struct progress {
	size_t at; /* the process that is being read; n: done */
};

static void read_one(pid_t pid)
{
	char path[32], byte;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, &byte, 1);

	(void)n;
}

static _Noreturn void be_the_child(struct progress *progress, const pid_t *pids, size_t first,
				   size_t n, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(1);
	for (size_t i = first; i < n; i++) {
		__atomic_store_n(&progress->at, i, __ATOMIC_RELEASE);
		read_one(pids[i]);
	}
	__atomic_store_n(&progress->at, n, __ATOMIC_RELEASE);
	_exit(0);
}

/* Asleep or stopped; a thread that only waits for a processor is not. */
static bool is_stuck(pid_t child)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, child, child);

	return !err && info.state != 'R';
}

/*
 * Waits until the child has ended (fd is the end of a pipe that it holds), or has been stuck at one
 * process for ns. Returns where it is then.
 */
static size_t follow(const struct progress *progress, pid_t child, int fd, uint64_t ns)
{
	struct pollfd ended = { .fd = fd, .events = POLLIN };
	size_t at = __atomic_load_n(&progress->at, __ATOMIC_ACQUIRE);
	uint64_t since_ns = vt_now_ns(), at_ns = since_ns;

	while (poll(&ended, 1, POLL_MS) <= 0 && !vt_deadline_passed(at_ns + ALL_NS)) {
		size_t now = __atomic_load_n(&progress->at, __ATOMIC_ACQUIRE);

		if (now != at)
			at_ns = vt_now_ns();
		if (now != at || !is_stuck(child)) {
			at = now;
			since_ns = vt_now_ns();
		} else if (vt_deadline_passed(since_ns + ns)) {
			break;
		}
	}
	return __atomic_load_n(&progress->at, __ATOMIC_ACQUIRE);
}

/* A child that hangs where even SIGKILL does not reach it ends when the kernel lets it go. */
static void end(pid_t child)
{
	uint64_t until_ns = vt_now_ns() + NEXT_NS;

	kill(child, SIGKILL);
	while (waitpid(child, NULL, WNOHANG) == 0 && !vt_deadline_passed(until_ns))
		vt_sleep_ns(VT_NS_PER_MS);
}

/* The next process, from first on, that blocks; n when there is none. */
static size_t find_next(struct progress *progress, const pid_t *pids, size_t first, size_t n,
			uint64_t ns)
{
	pid_t parent = getpid(), child;
	size_t at = n;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return n;
	progress->at = first;
	child = fork();
	if (child == 0)
		be_the_child(progress, pids, first, n, parent);
	close(fds[1]);
	if (child > 0) {
		at = follow(progress, child, fds[0], ns);
		end(child);
	}
	close(fds[0]);
	return at;
}

void vt_processes_probe(const pid_t *pids, size_t n, bool *blocks)
{
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t deadline_ns = vt_now_ns() + ALL_NS, ns = FIRST_NS;

	if (progress == MAP_FAILED)
		return;
	for (size_t i = find_next(progress, pids, 0, n, ns); i < n;
	     i = find_next(progress, pids, i + 1, n, ns)) {
		blocks[i] = true;
		ns = NEXT_NS;
		/* Only names of processes are lost. */
		for (size_t k = i + 1; k < n && vt_deadline_passed(deadline_ns); k++)
			blocks[k] = true;
		if (vt_deadline_passed(deadline_ns))
			break;
	}
	munmap(progress, sizeof(*progress));
}
