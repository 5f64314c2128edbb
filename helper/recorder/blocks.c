/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live blocks of PyTorch's allocator: 64 hash tables, each under its own lock. The place of a
 * record is a fraction of the table, and the same fraction of a larger table. So a table is copied
 * in order and can grow by any factor: a record of 24 bytes takes 37.5 at most if a table grows by
 * a quarter when four fifths are in use.
 *
 * Without memory for a larger table, fewer allocations are recorded: at a rate r
 * (vt_recorder.sample_now) all of at least r bytes, and a fraction size / r of the smaller ones.
 * The rate is raised until half of the records of the full table remain: the records that would not
 * have been made at that rate are removed. The other tables follow when they are used next.
 *
 * An address whose new block leaves no record must not keep the record of the earlier block. If
 * even the lock is not available, the address is left to the thread that has the lock (`doomed`).
 */
#include "internal.h"

#define PAGE UINT64_C(4096)
#define MAX_CAPACITY (UINT64_C(1) << 31)
#define MAX_RATE (UINT64_C(1) << VT_RECORDER_SIZE_BITS)

static struct vt_recorder_shard *shard_of(uint64_t hash)
{
	return &vt_recorder.shards[hash % VT_RECORDER_SHARDS];
}

static struct vt_recorder_packed *table_of(const struct vt_recorder_shard *shard)
{
	return (struct vt_recorder_packed *)(uintptr_t)shard->table;
}

static uint32_t home(uint64_t hash, uint32_t capacity)
{
	return (uint32_t)((hash >> 32) * capacity >> 32);
}

static uint32_t next(uint32_t i, uint32_t capacity)
{
	return ++i == capacity ? 0 : i;
}

static bool is_empty(const struct vt_recorder_packed *slot)
{
	return !(slot->addr_stack >> VT_RECORDER_STACK_BITS);
}

static uint64_t hash_of(const struct vt_recorder_packed *slot)
{
	return vt_recorder_hash(vt_recorder_packed_addr(slot));
}

static void begin_moves(struct vt_recorder_shard *shard)
{
	/* The stores below must not become visible before it. */
	__atomic_fetch_add(&shard->resizes, 1, __ATOMIC_ACQ_REL);
}

static void end_moves(struct vt_recorder_shard *shard)
{
	__atomic_fetch_add(&shard->resizes, 1, __ATOMIC_RELEASE);
}

/*
 * The slot with the record of the address, or the empty slot where it belongs. There is always an
 * empty slot.
 */
static uint32_t find_block(const struct vt_recorder_packed *table, uint32_t capacity, uint64_t addr,
			   uint64_t hash)
{
	uint32_t i = home(hash, capacity);

	while (!is_empty(&table[i]) && vt_recorder_packed_addr(&table[i]) != addr)
		i = next(i, capacity);
	return i;
}

/* Where a record of another table, or of this one, belongs. */
static struct vt_recorder_packed *place_of(struct vt_recorder_packed *table, uint32_t capacity,
					   const struct vt_recorder_packed *record)
{
	return &table[find_block(table, capacity, vt_recorder_packed_addr(record),
				 hash_of(record))];
}

static uint32_t empty_slot(const struct vt_recorder_packed *table, uint32_t capacity)
{
	uint32_t i = 0;

	while (i + 1 < capacity && !is_empty(&table[i]))
		i++;
	return i;
}

/* Moves records behind the gap, which a search would no longer reach, into the gap. */
static void remove_at(struct vt_recorder_shard *shard, uint32_t gap)
{
	struct vt_recorder_packed *table = table_of(shard);
	uint32_t capacity = shard->capacity;

	begin_moves(shard);
	for (uint32_t i = next(gap, capacity); !is_empty(&table[i]); i = next(i, capacity)) {
		uint32_t from = home(hash_of(&table[i]), capacity);

		/* It stays if its home is behind the gap: cyclically in (gap, i]. */
		if (gap < i ? from > gap && from <= i : from > gap || from <= i)
			continue;
		table[gap] = table[i];
		gap = i;
	}
	table[gap] = (struct vt_recorder_packed){ 0 };
	shard->count--;
	end_moves(shard);
}

static void remove_addr(struct vt_recorder_shard *shard, uint64_t addr)
{
	uint32_t i;

	if (!shard->capacity)
		return;
	i = find_block(table_of(shard), shard->capacity, addr, vt_recorder_hash(addr));
	if (!is_empty(&table_of(shard)[i]))
		remove_at(shard, i);
}

/* ---- fewer records ---- */

/*
 * Whether a record made at the rate `old` remains at the rate `rate`: always the same answer for
 * the same record.
 */
static bool is_kept(const struct vt_recorder_packed *record, uint64_t old, uint64_t rate)
{
	uint64_t size = vt_recorder_packed_size(record), chance;

	if (size >= rate)
		return true;
	chance = vt_recorder_hash(vt_recorder_packed_addr(record) ^
				  vt_recorder_hash(record->stamp_check) ^ rate);
	/*
	 * Of all allocations size / rate remain; of those recorded with probability size / old,
	 * that is old / rate.
	 */
	return (uint64_t)((unsigned __int128)chance * rate >> 64) < (size < old ? old : size);
}

/*
 * Each record is taken out and put back, starting behind an empty slot: it lands in its home or in
 * a slot before its old one, and no search meets a gap.
 */
static __attribute__((cold)) void thin(struct vt_recorder_shard *shard, uint64_t rate)
{
	struct vt_recorder_packed *table = table_of(shard);
	uint32_t capacity = shard->capacity, start, kept = 0;

	if (shard->count) {
		begin_moves(shard);
		start = empty_slot(table, capacity);
		for (uint32_t n = 0, i = start; n < capacity; n++) {
			struct vt_recorder_packed record;

			i = next(i, capacity);
			record = table[i];
			if (is_empty(&record))
				continue;
			table[i].addr_stack = 0;
			if (!is_kept(&record, shard->sample, rate))
				continue;
			*place_of(table, capacity, &record) = record;
			kept++;
		}
		shard->evicted += shard->count - kept;
		shard->count = kept;
		end_moves(shard);
	}
	shard->sample = rate;
}

/* The rate, doubled until half of the records must go, judging by their sizes. */
static uint64_t next_rate(const struct vt_recorder_shard *shard)
{
	const struct vt_recorder_packed *table = table_of(shard);
	uint64_t n[VT_RECORDER_SIZE_BITS + 1] = { 0 }, rate = shard->sample ? shard->sample : 256,
					   stay;

	/* Counted by the power of two that is above the size. */
	for (uint32_t i = 0; i < shard->capacity; i++) {
		uint64_t size = vt_recorder_packed_size(&table[i]);

		if (!is_empty(&table[i]))
			n[size ? 64 - __builtin_clzll(size) : 0]++;
	}
	do {
		rate *= 2;
		stay = 0;
		for (uint32_t bits = 0; bits <= VT_RECORDER_SIZE_BITS; bits++) {
			uint64_t size = UINT64_C(1) << bits;

			if (size < shard->sample)
				size = shard->sample;
			stay += size > rate ? n[bits] : n[bits] * ((size << 15) / rate) >> 15;
		}
	} while (stay > shard->count / 2 && rate < MAX_RATE);
	return rate;
}

static void raise_rate(uint64_t rate)
{
	uint64_t now = __atomic_load_n(&vt_recorder.sample_now, __ATOMIC_RELAXED);

	while (now < rate &&
	       !__atomic_compare_exchange_n(&vt_recorder.sample_now, &now, rate, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* ---- more records ---- */

static bool is_full(const struct vt_recorder_shard *shard)
{
	return shard->count >= (uint64_t)shard->capacity * 4 / 5;
}

static bool grow(struct vt_recorder_shard *shard)
{
	struct vt_recorder_packed *old = table_of(shard), *table;
	uint32_t old_capacity = shard->capacity, new_capacity;
	uint64_t pages = (old_capacity * sizeof(*old) + PAGE - 1) / PAGE, size;

	pages += pages < 4 ? 1 : pages / 4;
	size = pages * PAGE;
	if (size / sizeof(*table) > MAX_CAPACITY || !vt_rec_may_map(size))
		return false;
	table = vt_rec_map_pages(size);
	if (!table)
		return false;
	new_capacity = (uint32_t)(size / sizeof(*table));

	for (uint32_t n = 0, i = old ? empty_slot(old, old_capacity) : 0; n < old_capacity; n++) {
		i = next(i, old_capacity);
		if (!is_empty(&old[i]))
			*place_of(table, new_capacity, &old[i]) = old[i];
	}
	begin_moves(shard);
	__atomic_store_n(&shard->table, (uint64_t)(uintptr_t)table, __ATOMIC_RELAXED);
	__atomic_store_n(&shard->capacity, new_capacity, __ATOMIC_RELAXED);
	end_moves(shard);
	if (old)
		vt_rec_unmap(old, (uint64_t)old_capacity * sizeof(*old));
	return true;
}

/* False: there is no room at all. */
static __attribute__((noinline)) bool make_room(struct vt_recorder_shard *shard)
{
	if (!is_full(shard) || grow(shard))
		return true;
	while (is_full(shard) && shard->sample < MAX_RATE) {
		uint64_t rate = next_rate(shard);

		raise_rate(rate);
		thin(shard, rate);
	}
	return !is_full(shard);
}

/* ---- under the lock ---- */

static __attribute__((cold)) void remove_doomed(struct vt_recorder_shard *shard)
{
	uint64_t addr = __atomic_exchange_n(&shard->doomed, 0, __ATOMIC_ACQ_REL);
	struct vt_recorder_packed *table = table_of(shard);

	if (addr != VT_RECORDER_ALL_DOOMED) {
		remove_addr(shard, addr);
		return;
	}
	begin_moves(shard);
	for (uint32_t i = 0; i < shard->capacity; i++)
		table[i] = (struct vt_recorder_packed){ 0 };
	shard->evicted += shard->count;
	shard->count = 0;
	end_moves(shard);
}

/* For when the lock is not available. */
static __attribute__((cold)) void doom(struct vt_recorder_shard *shard, uint64_t addr)
{
	uint64_t none = 0;

	if (!__atomic_compare_exchange_n(&shard->doomed, &none, addr, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED) &&
	    none != addr)
		__atomic_store_n(&shard->doomed, VT_RECORDER_ALL_DOOMED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&vt_recorder.lost, 1, __ATOMIC_RELAXED);
}

/* Also does the work that was left over. */
VT_REC_HOT static bool take_record(struct vt_recorder_shard *shard, uint64_t addr)
{
	uint64_t rate;

	if (!vt_rec_lock(&shard->lock)) {
		doom(shard, addr);
		return false;
	}
	if (__atomic_load_n(&shard->doomed, __ATOMIC_RELAXED))
		remove_doomed(shard);
	rate = __atomic_load_n(&vt_recorder.sample_now, __ATOMIC_RELAXED);
	if (shard->sample < rate)
		thin(shard, rate);
	shard->allocations++;
	return true;
}

VT_REC_HOT static void give(struct vt_recorder_shard *shard)
{
	if (__atomic_load_n(&shard->doomed, __ATOMIC_RELAXED))
		remove_doomed(shard);
	vt_rec_unlock(&shard->lock);
}

/* The next stamp at this time: a tick has room for 65,536. */
static void stamp(struct vt_recorder_shard *shard, struct vt_recorder_block *block, uint64_t now)
{
	uint64_t at = now << VT_RECORDER_SERIAL_BITS;

	shard->stamp = shard->stamp < at ? at : shard->stamp + 1;
	block->time = (uint32_t)(shard->stamp >> VT_RECORDER_SERIAL_BITS);
	block->serial = (uint32_t)vt_recorder_low(shard->stamp, VT_RECORDER_SERIAL_BITS);
}

VT_REC_HOT static void put(struct vt_recorder_shard *shard, uint64_t hash,
			   struct vt_recorder_block *block, uint64_t rate, uint64_t now)
{
	struct vt_recorder_packed *at, record;

	if (!shard->capacity && !make_room(shard))
		goto lost;
	at = &table_of(shard)[find_block(table_of(shard), shard->capacity, block->addr, hash)];
	if (is_empty(at)) {
		if (!make_room(shard))
			goto lost;
		at = &table_of(
			shard)[find_block(table_of(shard), shard->capacity, block->addr, hash)];
	}
	stamp(shard, block, now);
	record = vt_recorder_pack(block);
	/* The rate may have been raised since this record was chosen, even by this thread. */
	if (rate < shard->sample && !is_kept(&record, rate, shard->sample)) {
		if (!is_empty(at))
			remove_at(shard, (uint32_t)(at - table_of(shard)));
		return;
	}
	if (is_empty(at))
		shard->count++;
	*at = record;
	return;
lost:
	shard->allocations--;
	__atomic_fetch_add(&vt_recorder.lost, 1, __ATOMIC_RELAXED);
}

static bool can_record(uint64_t addr)
{
	if (__builtin_expect(vt_recorder_can_pack(addr), 1))
		return true;
	__atomic_fetch_add(&vt_recorder.lost, 1, __ATOMIC_RELAXED);
	return false;
}

/*
 * Runs without the lock: the table that it reads may be gone, but a prefetched address need not be
 * mapped.
 */
VT_REC_HOT void vt_rec_block_expect(uint64_t addr)
{
	uint64_t hash = vt_recorder_hash(addr);
	const struct vt_recorder_shard *shard = shard_of(hash);
	uint64_t table = __atomic_load_n(&shard->table, __ATOMIC_RELAXED);
	uint32_t capacity = __atomic_load_n(&shard->capacity, __ATOMIC_RELAXED);

	__builtin_prefetch(
		(const void *)(uintptr_t)(table +
					  home(hash, capacity) * sizeof(struct vt_recorder_packed)),
		1);
}

VT_REC_HOT void vt_rec_block_put(uint64_t addr, uint64_t size, uint32_t stack, uint64_t rate,
				 uint64_t now)
{
	uint64_t hash = vt_recorder_hash(addr);
	struct vt_recorder_shard *shard = shard_of(hash);
	struct vt_recorder_block block = {
		.addr = addr,
		.size = size,
		.stack = stack,
		.tid = vt_rec_tid(),
	};

	if (!can_record(addr) || !take_record(shard, addr))
		return;
	put(shard, hash, &block, rate, now);
	give(shard);
}

void vt_rec_block_drop(uint64_t addr)
{
	struct vt_recorder_shard *shard = shard_of(vt_recorder_hash(addr));

	if (!can_record(addr) || !take_record(shard, addr))
		return;
	remove_addr(shard, addr);
	give(shard);
}

void vt_rec_blocks_init(void)
{
	for (unsigned int i = 0; i < VT_RECORDER_SHARDS; i++)
		vt_recorder.shards[i] =
			(struct vt_recorder_shard){ .sample = vt_recorder.sample_bytes };
}

void vt_rec_blocks_deinit(void)
{
	for (unsigned int i = 0; i < VT_RECORDER_SHARDS; i++) {
		struct vt_recorder_shard *shard = &vt_recorder.shards[i];

		if (!shard->capacity)
			continue;
		begin_moves(shard);
		vt_rec_unmap(table_of(shard),
			     (uint64_t)shard->capacity * sizeof(struct vt_recorder_packed));
		shard->table = 0;
		shard->capacity = shard->count = 0;
		end_moves(shard);
	}
}
