/* SPDX-License-Identifier: Apache-2.0 */
#include "triage/latch.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

struct vt_gate *vt_gates_create(size_t n)
{
	void *gates = mmap(NULL, n * sizeof(struct vt_gate), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return gates == MAP_FAILED ? NULL : gates;
}

void vt_gates_destroy(struct vt_gate *gates, size_t n)
{
	if (gates)
		munmap(gates, n * sizeof(*gates));
}

void vt_gate_open(struct vt_gate *gate)
{
	gate->opened_ns = vt_now_ns();
	__atomic_store_n(&gate->is_open, 1, __ATOMIC_RELEASE);
	/* Not FUTEX_PRIVATE: processes share it. */
	(void)syscall(SYS_futex, &gate->is_open, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool vt_gate_is_open(const struct vt_gate *gate)
{
	return __atomic_load_n(&gate->is_open, __ATOMIC_ACQUIRE);
}

bool vt_gate_wait(struct vt_gate *gate, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / VT_NS_PER_S),
				  .tv_nsec = (long)(deadline_ns % VT_NS_PER_S) };

	/* With a bitset the timeout is absolute (CLOCK_MONOTONIC), not a duration. */
	while (!vt_gate_is_open(gate) && !vt_deadline_passed(deadline_ns))
		(void)syscall(SYS_futex, &gate->is_open, FUTEX_WAIT_BITSET, 0, &until, NULL,
			      FUTEX_BITSET_MATCH_ANY);
	return vt_gate_is_open(gate);
}
