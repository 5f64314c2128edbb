/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads may touch the recorder's mappings, and how off knows that no thread does so any
 * more:
 *
 * A thread raises `inside` of its lane, then checks whether the recorder is on (vt_rec_enter());
 * off clears `on`, then checks all lanes. All four accesses are sequentially consistent, so at
 * least one of the two sees the other: either the thread sees that the recorder is off and touches
 * nothing, or off sees that the thread is inside, and waits. Once a lane was 0 after `on` was
 * cleared, no thread is inside it any more: a later thread sees that the recorder is off, and may
 * raise the lane for a moment without harm. Only then is memory given back. So giving it back needs
 * no lock, and readers of the tables need no lock because of off. A thread that was interrupted
 * before vt_rec_enter() and goes on when the recorder is on again simply enters now; a thread that
 * is inside keeps off waiting, and so the next on. The data for all this is in memory that is never
 * given back: these two pages, vt_recorder, the code.
 *
 * An allocation of PyTorch's puts its thread into `owner` instead (vt_rec_visit_begin()), if nobody
 * is there. That does the same for off, and the thread leaves by a plain store in place of an
 * atomic addition. And until then it has what belongs to the lane to itself: its memo. Another
 * thread of the lane, or the same one in a signal handler, does without.
 *
 * fork(): the kernel gives the child zeros in place of these pages (MADV_WIPEONFORK, Linux 4.14),
 * so in the child the recorder is off with no thread inside; the tables are not inherited
 * (MADV_DONTFORK). A kernel without MADV_WIPEONFORK is refused: comparing process ids instead would
 * cost a system call for each allocation.
 */
#include "lanes.h"

#include "vramtap/freestanding.h"

#define OFF_PATIENCE_NS UINT64_C(1000000000)
#define CLOCK_COARSE 6 /* CLOCK_MONOTONIC_COARSE */

__attribute__((visibility("default"))) struct vt_recorder_head vt_recorder = {
	.magic = VT_RECORDER_MAGIC, .abi = VT_RECORDER_ABI, .size = sizeof(vt_recorder)
};

struct vt_rec_wiped vt_rec_wiped __attribute__((aligned(VT_REC_PAGE)));

/* imports.pthread_tid, if that is right; read by threads that have not entered */
static uint64_t tid_offset;
static bool inherited;

bool vt_rec_is_on(void)
{
	return __atomic_load_n(&vt_rec_wiped.on, __ATOMIC_RELAXED);
}

void vt_rec_set_inherited(bool is)
{
	__atomic_store_n(&inherited, is, __ATOMIC_RELAXED);
}

bool vt_rec_is_inherited(void)
{
	return __atomic_load_n(&inherited, __ATOMIC_RELAXED);
}

static uint32_t word_of_thread(uint64_t offset)
{
	uint32_t word;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

VT_REC_HOT uint32_t vt_rec_tid(void)
{
	uint64_t offset = __atomic_load_n(&tid_offset, __ATOMIC_RELAXED);
	uint32_t tid = offset ? word_of_thread(offset) : 0;

	/* 0 would mean that the lock is free. */
	return tid ? tid : (uint32_t)vt_sys0(SYS_gettid);
}

/* Checks what the tool says about the C library on this thread, whose tid the kernel tells. */
void vt_rec_learn_tid(uint64_t offset)
{
	/* The thread pointer points to a structure of the C library of more than 2 KiB. */
	if (offset && offset < 2048 && !(offset % 4) &&
	    word_of_thread(offset) == (uint32_t)vt_sys0(SYS_gettid))
		__atomic_store_n(&tid_offset, offset, __ATOMIC_RELAXED);
}

static struct vt_rec_lane *lane_here(void)
{
	return &vt_rec_wiped.lanes[vt_rec_tid() % VT_REC_LANES];
}

bool vt_rec_enter(void)
{
	struct vt_rec_lane *lane;

	if (!vt_rec_is_on())
		return false;
	lane = lane_here();
	__atomic_fetch_add(&lane->inside, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&vt_rec_wiped.on, __ATOMIC_SEQ_CST))
		return true;
	__atomic_fetch_sub(&lane->inside, 1, __ATOMIC_RELEASE);
	return false;
}

void vt_rec_leave(void)
{
	__atomic_fetch_sub(&lane_here()->inside, 1, __ATOMIC_RELEASE);
}

VT_REC_HOT bool vt_rec_visit_begin(struct vt_rec_visit *visit)
{
	struct vt_rec_lane *lane;
	uint32_t nobody = 0, tid;

	visit->owned = NULL;
	if (!vt_rec_is_on())
		return false;
	tid = vt_rec_tid();
	lane = &vt_rec_wiped.lanes[tid % VT_REC_LANES];
	if (!__atomic_compare_exchange_n(&lane->owner, &nobody, tid, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return vt_rec_enter();
	if (__atomic_load_n(&vt_rec_wiped.on, __ATOMIC_SEQ_CST)) {
		visit->owned = lane;
		return true;
	}
	__atomic_store_n(&lane->owner, 0, __ATOMIC_RELEASE);
	return false;
}

VT_REC_HOT void vt_rec_visit_end(const struct vt_rec_visit *visit)
{
	if (visit->owned)
		__atomic_store_n(&visit->owned->owner, 0, __ATOMIC_RELEASE);
	else
		vt_rec_leave();
}

uint64_t vt_rec_random(void)
{
	uint64_t *random = &lane_here()->random;
	uint64_t n = __atomic_load_n(random, __ATOMIC_RELAXED) + 1;

	/*
	 * Two threads of a lane may get the same number: that does not matter for random numbers.
	 */
	__atomic_store_n(random, n, __ATOMIC_RELAXED);
	return vt_recorder_hash(n + (uint64_t)(uintptr_t)random * UINT64_C(0x9e3779b97f4a7c15));
}

VT_REC_HOT uint64_t vt_rec_now_ns(void)
{
	int (*clock)(int, struct vt_sys_timespec *) = (int (*)(
		int, struct vt_sys_timespec *))(uintptr_t)vt_recorder.config.imports.clock_gettime;
	struct vt_sys_timespec ts = { 0, 0 };

	if (clock)
		clock(CLOCK_COARSE, &ts);
	else
		vt_sys2(SYS_clock_gettime, CLOCK_COARSE, (long)&ts);
	return (uint64_t)ts.sec * UINT64_C(1000000000) + (uint64_t)ts.nsec;
}

VT_REC_HOT uint64_t vt_rec_now(void)
{
	uint64_t now = vt_rec_now_ns();

	/* The coarse clock may be behind the clock of start_ns. */
	return now < vt_recorder.start_ns ? 0 : (now - vt_recorder.start_ns) / VT_RECORDER_TICK_NS;
}

static bool is_in_use(const struct vt_rec_lane *lane)
{
	return __atomic_load_n(&lane->inside, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&lane->owner, __ATOMIC_SEQ_CST);
}

bool vt_rec_wait_till_empty(void)
{
	uint64_t begin = vt_sys_now_ns();
	uint32_t rounds = 0;

	for (unsigned int i = 0; i < VT_REC_LANES; i++)
		while (is_in_use(&vt_rec_wiped.lanes[i])) {
			if (vt_sys_now_ns() - begin > OFF_PATIENCE_NS)
				return false;
			if (rounds++ < 100)
				vt_sys0(SYS_sched_yield);
			else
				vt_sys_sleep_ns(200 * 1000);
		}
	return true;
}
