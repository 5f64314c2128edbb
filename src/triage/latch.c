/* SPDX-License-Identifier: Apache-2.0 */
#include "triage/latch.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

struct vt_latch *vt_latches_create(size_t n)
{
	void *latches = mmap(NULL, n * sizeof(struct vt_latch), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return latches == MAP_FAILED ? NULL : latches;
}

void vt_latches_destroy(struct vt_latch *latches, size_t n)
{
	if (latches)
		munmap(latches, n * sizeof(*latches));
}

void vt_latch_open(struct vt_latch *latch)
{
	latch->opened_ns = vt_now_ns();
	__atomic_store_n(&latch->is_open, 1, __ATOMIC_RELEASE);
	/* Not FUTEX_PRIVATE: processes share it. */
	(void)syscall(SYS_futex, &latch->is_open, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool vt_latch_is_open(const struct vt_latch *latch)
{
	return __atomic_load_n(&latch->is_open, __ATOMIC_ACQUIRE);
}

bool vt_latch_wait(struct vt_latch *latch, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / VT_NS_PER_S),
				  .tv_nsec = (long)(deadline_ns % VT_NS_PER_S) };

	/* With a bitset the timeout is absolute (CLOCK_MONOTONIC), not a duration. */
	while (!vt_latch_is_open(latch) && !vt_deadline_passed(deadline_ns))
		(void)syscall(SYS_futex, &latch->is_open, FUTEX_WAIT_BITSET, 0, &until, NULL,
			      FUTEX_BITSET_MATCH_ANY);
	return vt_latch_is_open(latch);
}
