/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, arrays and locks. All memory comes directly from the kernel, and each writable byte
 * counts against the bound; children do not inherit it.
 */
#include "vramtap/freestanding.h"

#include <linux/mman.h>

#include "internal.h"

#define PAGE UINT64_C(4096)
#define ARRAY_STEP (16 * PAGE) /* the least that an array grows by; it grows by an eighth */
#define PROT_RW (PROT_READ | PROT_WRITE)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

#define SPINS 200
#define YIELDS 50
#define SHORT_NAPS 20
#define SHORT_NAP_NS (50 * 1000)
#define NAPS 1000
#define NAP_NS (1000 * 1000)

static uint64_t round_up(uint64_t size, uint64_t to)
{
	return (size + to - 1) / to * to;
}

/*
 * The order of counting and the kernel's work matters: a thread that gets an address has then seen
 * (through the counter) all that was done at that address before. Memory is counted as free before
 * it is unmapped, and as used when it is mapped already.
 */
static bool charge(uint64_t size)
{
	if (__atomic_add_fetch(&vt_recorder.memory, size, __ATOMIC_ACQ_REL) <=
	    vt_recorder.max_memory)
		return true;
	__atomic_sub_fetch(&vt_recorder.memory, size, __ATOMIC_ACQ_REL);
	return false;
}

static void uncharge(uint64_t size)
{
	__atomic_sub_fetch(&vt_recorder.memory, size, __ATOMIC_ACQ_REL);
}

static void give_back(void *at, uint64_t size)
{
	if (!vt_rec_is_inherited())
		vt_sys2(SYS_munmap, (long)at, (long)size);
}

static void *map(uint64_t size, int prot, int flags)
{
	long at = vt_sys6(SYS_mmap, 0, (long)size, prot, flags, -1, 0);

	if (at < 0 && at > -4096)
		return NULL;
	/*
	 * A large page is zeroed at once, while a thread of the target waits, and is mostly not
	 * needed.
	 */
	vt_sys4(SYS_madvise, at, (long)size, MADV_NOHUGEPAGE, 0);
	if (vt_sys4(SYS_madvise, at, (long)size, MADV_DONTFORK, 0)) {
		vt_sys2(SYS_munmap, at, (long)size);
		return NULL;
	}
	return (void *)at;
}

static void *map_charged(uint64_t size, int flags)
{
	void *at;

	size = round_up(size, PAGE);
	if (!size || size > vt_recorder.max_memory)
		return NULL;
	at = map(size, PROT_RW, flags);
	if (at && !charge(size)) {
		give_back(at, size);
		return NULL;
	}
	return at;
}

bool vt_rec_may_map(uint64_t size)
{
	return __atomic_load_n(&vt_recorder.memory, __ATOMIC_RELAXED) + round_up(size, PAGE) <=
	       vt_recorder.max_memory - vt_recorder.max_memory / 8;
}

void *vt_rec_map(uint64_t size)
{
	return map_charged(size, ANONYMOUS);
}

void *vt_rec_map_pages(uint64_t size)
{
	return map_charged(size, ANONYMOUS | MAP_POPULATE);
}

void vt_rec_unmap(void *at, uint64_t size)
{
	size = round_up(size, PAGE);
	uncharge(size);
	give_back(at, size);
}

/* ---- arrays ---- */

bool vt_rec_array_init(struct vt_recorder_array *array, uint64_t max, uint64_t size)
{
	uint64_t bytes = max > (UINT64_C(1) << 46) / size ? UINT64_C(1) << 46 :
							    round_up(max * size, PAGE);
	void *at;

	*array = (struct vt_recorder_array){ 0 };
	if (bytes < ARRAY_STEP)
		bytes = ARRAY_STEP;
	at = map(bytes, PROT_NONE, ANONYMOUS);
	/* Address space only; a process may be short of that as well (RLIMIT_AS). */
	while (!at && bytes > ARRAY_STEP) {
		bytes = bytes / 2 < ARRAY_STEP ? ARRAY_STEP : round_up(bytes / 2, PAGE);
		at = map(bytes, PROT_NONE, ANONYMOUS);
	}
	if (!at)
		return false;
	array->addr = (uint64_t)(uintptr_t)at;
	array->max = bytes / size;
	if (vt_rec_array_grow(array, size))
		return true;
	vt_rec_array_deinit(array, size);
	return false;
}

/* Reserved bytes, and how many of them are usable. */
static uint64_t reserved(const struct vt_recorder_array *array, uint64_t size)
{
	return round_up(array->max * size, PAGE);
}

static uint64_t usable(const struct vt_recorder_array *array, uint64_t size)
{
	return round_up(array->room * size, PAGE);
}

bool vt_rec_array_reserve(struct vt_recorder_array *array, uint64_t size, uint64_t n)
{
	uint64_t have, want, step;

	if (array->n + n <= array->room)
		return true;
	if (array->n + n > array->max)
		return false;
	have = usable(array, size);
	want = round_up((array->n + n) * size, PAGE);
	step = round_up(have / 8, PAGE);
	if (want < have + (step > ARRAY_STEP ? step : ARRAY_STEP))
		want = have + (step > ARRAY_STEP ? step : ARRAY_STEP);
	if (want > reserved(array, size))
		want = reserved(array, size);
	if (!charge(want - have))
		return false;
	if (vt_sys4(SYS_mprotect, (long)(array->addr + have), (long)(want - have), PROT_RW, 0)) {
		uncharge(want - have);
		return false;
	}
	__atomic_store_n(&array->room, want / size, __ATOMIC_RELEASE);
	return true;
}

bool vt_rec_array_grow(struct vt_recorder_array *array, uint64_t size)
{
	return vt_rec_array_reserve(array, size, 1);
}

void vt_rec_array_deinit(struct vt_recorder_array *array, uint64_t size)
{
	if (!array->addr)
		return;
	uncharge(usable(array, size));
	give_back((void *)(uintptr_t)array->addr, reserved(array, size));
	*array = (struct vt_recorder_array){ 0 };
}

/* ---- locks ---- */

/*
 * Patience is counted in naps, not in time: on a busy machine, and in a process that was stopped
 * and goes on, the owner gets its turn as often as we do. It lasts at least a second. A thread
 * whose patience ends marks the lock, so that later threads do not wait as long; the owner removes
 * the mark when it goes on.
 */
VT_REC_HOT bool vt_rec_lock(uint32_t *lock)
{
	uint32_t me = vt_rec_tid(), seen;

	for (uint32_t n = 0;; n++) {
		seen = 0;
		if (__atomic_compare_exchange_n(lock, &seen, me, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
		if ((seen & ~VT_RECORDER_LOCK_STUCK) == me)
			return false;
		if (n < SPINS)
			__asm__ volatile("pause");
		else if (seen & VT_RECORDER_LOCK_STUCK)
			return false;
		else if (n < SPINS + YIELDS) /* its owner may be waiting for our processor */
			vt_sys0(SYS_sched_yield);
		else if (n < SPINS + YIELDS + NAPS)
			vt_sys_sleep_ns(n < SPINS + YIELDS + SHORT_NAPS ? SHORT_NAP_NS : NAP_NS);
		else
			__atomic_compare_exchange_n(lock, &seen, seen | VT_RECORDER_LOCK_STUCK,
						    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

VT_REC_HOT void vt_rec_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
