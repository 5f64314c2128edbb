/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's live allocations: one table, one lock. Allocations of the driver cost microseconds
 * to milliseconds, so one lock is enough, and removing a record may move others (open addressing
 * without tombstones). A reader from outside sees by vt_recorder.driver.resizes that records moved:
 * it is odd during the move, and has changed afterwards.
 */
#include "driver.h"

#define FIRST_CAPACITY 1024
#define MAX_CAPACITY (UINT32_C(1) << 22)

static struct vt_recorder_driver_block *table(void)
{
	return (struct vt_recorder_driver_block *)vt_recorder.driver.table;
}

static uint32_t slot_of(uint64_t addr, uint32_t capacity)
{
	return (uint32_t)((addr * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
}

/* The slot of addr, or the empty slot where it belongs. There is always an empty slot. */
static uint32_t find_driver_block(const struct vt_recorder_driver_block *blocks, uint32_t capacity,
				  uint64_t addr)
{
	uint32_t i = slot_of(addr, capacity);

	while (blocks[i].addr && blocks[i].addr != addr)
		i = (i + 1) & (capacity - 1);
	return i;
}

static void begin_change(void)
{
	__atomic_add_fetch(&vt_recorder.driver.resizes, 1, __ATOMIC_SEQ_CST);
}

static void end_change(void)
{
	__atomic_add_fetch(&vt_recorder.driver.resizes, 1, __ATOMIC_RELEASE);
}

static bool lock_table(void)
{
	if (!vt_rec_lock(&vt_recorder.driver.lock))
		return false;
	if (vt_recorder.driver.table)
		return true;
	vt_rec_unlock(&vt_recorder.driver.lock);
	return false;
}

static void unlock_table(void)
{
	vt_rec_unlock(&vt_recorder.driver.lock);
}

bool vt_rec_driver_table_init(void)
{
	void *memory = vt_rec_map(FIRST_CAPACITY * sizeof(struct vt_recorder_driver_block));

	if (!memory)
		return false;
	/*
	 * No thread has the lock yet: a value that was inherited, or left by a thread that ended,
	 * is stale.
	 */
	vt_recorder.driver.lock = 0;
	begin_change();
	vt_recorder.driver.capacity = FIRST_CAPACITY;
	vt_recorder.driver.count = 0;
	vt_recorder.driver.table = (uint64_t)memory;
	end_change();
	return true;
}

void vt_rec_driver_table_deinit(void)
{
	uint64_t memory = vt_recorder.driver.table;
	uint64_t size = vt_recorder.driver.capacity * sizeof(struct vt_recorder_driver_block);

	if (!memory)
		return;
	begin_change();
	vt_recorder.driver.table = 0;
	vt_recorder.driver.capacity = 0;
	vt_recorder.driver.count = 0;
	end_change();
	vt_rec_unmap((void *)memory, size);
}

uint32_t vt_rec_driver_serial(void)
{
	return __atomic_load_n(&vt_recorder.driver.serial, __ATOMIC_ACQUIRE);
}

/* Doubles the table. False: there is no room; the old table stays in use. */
static bool grow(void)
{
	uint32_t old_capacity = vt_recorder.driver.capacity;
	uint32_t capacity = old_capacity * 2;
	struct vt_recorder_driver_block *old = table();
	struct vt_recorder_driver_block *blocks;

	if (capacity > MAX_CAPACITY)
		return false;
	blocks = vt_rec_map(capacity * sizeof(*blocks));
	if (!blocks)
		return false;
	for (uint32_t i = 0; i < old_capacity; i++)
		if (old[i].addr)
			blocks[find_driver_block(blocks, capacity, old[i].addr)] = old[i];
	begin_change();
	vt_recorder.driver.table = (uint64_t)blocks;
	vt_recorder.driver.capacity = capacity;
	end_change();
	vt_rec_unmap(old, old_capacity * sizeof(*old));
	return true;
}

/* Empties slot i, and moves later records to where a search finds them. */
static void remove_slot(uint32_t i)
{
	struct vt_recorder_driver_block *blocks = table();
	uint32_t mask = vt_recorder.driver.capacity - 1;

	begin_change();
	for (uint32_t k = (i + 1) & mask; blocks[k].addr; k = (k + 1) & mask) {
		uint32_t home = slot_of(blocks[k].addr, mask + 1);

		/* It may move to i only if i is not before the start of its search. */
		if (((k - home) & mask) < ((k - i) & mask))
			continue;
		blocks[i] = blocks[k];
		i = k;
	}
	__builtin_memset(&blocks[i], 0, sizeof(blocks[i]));
	vt_recorder.driver.count--;
	end_change();
}

void vt_rec_driver_put(const struct vt_recorder_driver_block *block)
{
	struct vt_recorder_driver_block *slot;

	if (!lock_table()) {
		__atomic_add_fetch(&vt_recorder.driver_lost, 1, __ATOMIC_RELAXED);
		return;
	}
	slot = &table()[find_driver_block(table(), vt_recorder.driver.capacity, block->addr)];
	if (!slot->addr) {
		bool crowded = (vt_recorder.driver.count + 1) * UINT64_C(4) >
			       vt_recorder.driver.capacity * UINT64_C(3);

		if (crowded && !grow()) {
			unlock_table();
			__atomic_add_fetch(&vt_recorder.driver_lost, 1, __ATOMIC_RELAXED);
			return;
		}
		slot = &table()[find_driver_block(table(), vt_recorder.driver.capacity,
						  block->addr)];
		vt_recorder.driver.count++;
	}

	uint32_t serial = vt_recorder.driver.serial + 1;

	begin_change();
	*slot = *block;
	slot->serial = serial;
	slot->check = vt_recorder_block_check(block->addr, block->size, block->time, serial,
					      block->stack, block->tid);
	end_change();
	__atomic_store_n(&vt_recorder.driver.serial, serial, __ATOMIC_RELEASE);
	unlock_table();
}

/*
 * Whether a record is no newer than the call that frees it: otherwise its address is already in use
 * again.
 */
static bool is_older(const struct vt_recorder_driver_block *block, uint32_t before)
{
	return (int32_t)(block->serial - before) <= 0;
}

/* Call with the lock. Returns the size of the removed allocation; 0: none. */
static uint64_t remove_one(uint64_t addr, uint32_t before)
{
	uint32_t i = find_driver_block(table(), vt_recorder.driver.capacity, addr);
	uint64_t size = table()[i].size;

	if (!table()[i].addr || !is_older(&table()[i], before))
		return 0;
	remove_slot(i);
	return size;
}

void vt_rec_driver_remove(uint64_t addr, uint32_t before)
{
	if (!addr || !lock_table())
		return;
	remove_one(addr, before);
	unlock_table();
}

/*
 * Call with the lock. Removes every record for which doomed() is true. A removal may move another
 * record into the slot, so the slot is checked again.
 */
static void sweep(bool (*doomed)(const struct vt_recorder_driver_block *block, const void *arg),
		  const void *arg, uint32_t before)
{
	for (uint32_t i = 0; i < vt_recorder.driver.capacity;) {
		const struct vt_recorder_driver_block *block = &table()[i];

		if (block->addr && is_older(block, before) && doomed(block, arg))
			remove_slot(i);
		else
			i++;
	}
}

struct range {
	uint64_t start, end;
};

static bool is_mapping_within(const struct vt_recorder_driver_block *block, const void *arg)
{
	const struct range *range = arg;

	return block->kind == VT_DRIVER_VMM && block->addr >= range->start &&
	       block->addr < range->end;
}

void vt_rec_driver_remove_range(uint64_t addr, uint64_t size, uint32_t before)
{
	struct range range = { addr, addr + size };

	if (!addr || range.end < addr || !lock_table())
		return;
	/*
	 * Removes mappings one after the other, in the order of their creation: memory is usually
	 * unmapped like this.
	 */
	while (range.start < range.end) {
		uint64_t removed = remove_one(range.start, before);

		if (!removed || removed > range.end - range.start)
			break;
		range.start += removed;
	}
	if (range.start < range.end)
		sweep(is_mapping_within, &range, before);
	unlock_table();
}

static bool is_of_device(const struct vt_recorder_driver_block *block, const void *arg)
{
	int device = *(const int *)arg;

	/* No context owns a mapping: mappings stay. */
	return block->kind != VT_DRIVER_VMM &&
	       (device < 0 || block->device < 0 || block->device == device);
}

void vt_rec_driver_remove_device(int device, uint32_t before)
{
	if (!lock_table())
		return;
	sweep(is_of_device, &device, before);
	unlock_table();
}

/* ---- handles ---- */

/*
 * Only the last ones: a handle is usually mapped soon after it was made, and a forgotten one costs
 * only the device of a record.
 */
static struct {
	uint64_t handle;
	int device;
} handles[256];

static uint32_t handle_slot(uint64_t handle)
{
	return slot_of(handle, sizeof(handles) / sizeof(handles[0]));
}

void vt_rec_handle_put(uint64_t handle, int device)
{
	uint32_t i = handle_slot(handle);

	if (!lock_table())
		return;
	handles[i].handle = handle;
	handles[i].device = device;
	unlock_table();
}

void vt_rec_handle_remove(uint64_t handle)
{
	uint32_t i = handle_slot(handle);

	if (!lock_table())
		return;
	if (handles[i].handle == handle)
		handles[i].handle = 0;
	unlock_table();
}

int vt_rec_handle_map(uint64_t handle)
{
	uint32_t i = handle_slot(handle);
	int device = -1;

	if (!lock_table())
		return -1;
	if (handle && handles[i].handle == handle) {
		device = handles[i].device;
		handles[i].device = -1;
	}
	unlock_table();
	return device;
}
