/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for a target: a thread that calls heartbeat() looks at the clock every 100 µs, and
 * writes down each time that it could not. So the process itself measures what a stop costs it;
 * bench/stacks.py reads that.
 *
 * The file has one struct slot for each such thread. Only the thread writes there; n goes up after
 * the entry is written.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000
#define SHORTEST_GAP_NS 300000 /* less is the scheduler's doing, not that of a tool */
#define GAPS 4095

struct slot {
	_Atomic uint64_t n; /* gaps ever; the last GAPS of them are kept, number i at i % GAPS */
	_Atomic uint64_t beats;
	struct {
		uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	} gaps[GAPS];
};

_Static_assert(sizeof(struct slot) == 65536, "bench/stacks.py relies on it");

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Returns only when the file cannot be used. */
int heartbeat(const char *path, unsigned int number)
{
	static const struct timespec period = { .tv_nsec = PERIOD_NS };
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct slot *slot;

	if (fd < 0)
		return -1;
	slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		    (off_t)(number * sizeof(*slot)));
	close(fd);
	if (slot == MAP_FAILED)
		return -1;
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	for (uint64_t before = now_ns();;) {
		uint64_t now;

		nanosleep(&period, NULL);
		now = now_ns();
		if (now - before > SHORTEST_GAP_NS) {
			uint64_t n = atomic_load(&slot->n);

			slot->gaps[n % GAPS].begin_ns = before;
			slot->gaps[n % GAPS].end_ns = now;
			atomic_store(&slot->n, n + 1);
		}
		atomic_fetch_add(&slot->beats, 1);
		before = now;
	}
}
