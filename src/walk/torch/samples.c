/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some blocks of every table of every device, to look at what a Block is; and whether they make
 * sense with a given layout.
 */
#include <string.h>

#include "walk/torch/finder.h"

#define NONE VT_TORCH_NO_FIELD
#define SLOTS 64 /* of a hash table in one read; about a third of them are used */
#define ACTIVE_SAMPLES 64
#define SET_SAMPLES 4 /* of each side of a set */

static void add_sample(struct vt_torch_finder *f, uint64_t addr, int device,
		       enum vt_torch_sample_table table, uint64_t pool)
{
	struct vt_torch_sample *sample = &f->samples[f->n_samples];

	if (f->n_samples == VT_TORCH_SAMPLES_MAX || !vt_is_object(addr))
		return;
	*sample = (struct vt_torch_sample){
		.addr = addr, .device = device, .table = table, .pool = pool
	};
	/*
	 * a Block at the very end of the heap may be shorter than a sample; what is missing stays
	 * zero
	 */
	if (vt_torch_read_some(f->src, addr, sample->bytes, sizeof(sample->bytes)) >=
	    VT_TORCH_BLOCK_MIN)
		f->n_samples++;
}

/* Adds the block of the first slot in [from, to) that is used. */
static void sample_slots(struct vt_torch_finder *f, int device, const struct vt_ska *table,
			 uint64_t from, uint64_t to)
{
	uint8_t slots[SLOTS * VT_SKA_SET_SLOT];
	uint64_t n = to - from < SLOTS ? to - from : SLOTS;

	if (vt_mem_read(f->src, table->entries + from * VT_SKA_SET_SLOT, slots,
			n * VT_SKA_SET_SLOT))
		return;
	for (uint64_t i = 0; i < n; i++) {
		if ((int8_t)slots[i * VT_SKA_SET_SLOT] >= 0) {
			add_sample(f, vt_load64(slots + i * VT_SKA_SET_SLOT + VT_SKA_VALUE), device,
				   VT_SAMPLE_ACTIVE, 0);
			return;
		}
	}
}

/*
 * From all over the table: neighbouring slots have blocks at regular distances, which may have
 * something in common.
 */
static void sample_active(struct vt_torch_finder *f, int device, uint64_t max)
{
	struct vt_ska table;
	uint64_t n;

	if (vt_mem_read(f->src, f->dcas[device] + f->layout.active_blocks, &table, sizeof(table)) ||
	    !vt_ska_plausible(&table))
		return;
	n = vt_ska_slots(&table);
	f->has_blocks |= n > 0;
	for (uint64_t i = 0; i < max; i++) {
		if (i * n / max < (i + 1) * n / max)
			sample_slots(f, device, &table, i * n / max, (i + 1) * n / max);
	}
}

/* Down the left and the right side of the tree. */
static void sample_set(struct vt_torch_finder *f, int device, const struct vt_rbset *set,
		       enum vt_torch_sample_table table, uint64_t pool)
{
	f->has_blocks |= set->n > 0;
	for (int side = 0; side < 2 && set->n; side++) {
		uint64_t at = set->root;

		for (size_t i = 0; i < SET_SAMPLES && vt_is_object(at); i++) {
			struct vt_rbnode node;

			if (vt_mem_read(f->src, at, &node, sizeof(node)))
				break;
			if (i || !side) /* the root once */
				add_sample(f, node.value, device, table, pool);
			at = side ? node.right : node.left;
		}
	}
}

static void sample_pool(struct vt_torch_finder *f, int device, uint64_t addr)
{
	struct vt_torch_pool pool;

	if (vt_torch_read_pool(f->src, &f->layout, addr, &pool))
		return;
	sample_set(f, device, &pool.blocks, VT_SAMPLE_CACHED, addr);
	sample_set(f, device, &pool.unmapped, VT_SAMPLE_UNMAPPED, addr);
}

void vt_torch_take_samples(struct vt_torch_finder *f)
{
	uint64_t each = ACTIVE_SAMPLES / f->n_dcas;

	f->n_samples = 0;
	f->has_blocks = false;
	for (size_t i = 0; i < f->n_dcas; i++)
		sample_active(f, (int)i, each);
	for (size_t i = 0; i < f->n_private_pools; i++)
		sample_pool(f, f->private_pools[i].device, f->private_pools[i].addr);
	for (size_t i = 0; i < f->n_dcas; i++) {
		sample_pool(f, (int)i, f->dcas[i] + f->layout.large_blocks);
		sample_pool(f, (int)i, f->dcas[i] + f->layout.small_blocks);
	}
}

bool vt_torch_is_pool_of(const struct vt_torch_finder *f, const struct vt_torch_sample *sample,
			 uint64_t addr)
{
	uint64_t dca = f->dcas[sample->device];
	struct vt_torch_pool pool, large, small;
	uint16_t at;

	if (sample->pool)
		return addr == sample->pool;
	if (addr == dca + f->layout.large_blocks || addr == dca + f->layout.small_blocks)
		return true;
	return vt_is_object(addr) && !vt_torch_read_pool(f->src, &f->layout, addr, &pool) &&
	       pool.owner &&
	       !vt_torch_read_private(f->src, &f->layout, pool.owner, &large, &small, &at) &&
	       (large.addr == addr || small.addr == addr);
}

/* There is no neighbour, or it has that value at offset. */
static bool neighbour_agrees(const struct vt_torch_finder *f, uint64_t neighbour, uint16_t offset,
			     uint64_t value)
{
	uint64_t there;

	return !neighbour ||
	       (vt_is_object(neighbour) && !vt_mem_read_u64(f->src, neighbour + offset, &there) &&
		there == value);
}

static uint64_t field64(const struct vt_torch_sample *sample, uint16_t offset)
{
	return offset == NONE ? 0 : vt_load64(sample->bytes + offset);
}

/* An object that a sample names, or none. */
static bool names_object(const struct vt_torch_finder *f, uint64_t addr)
{
	uint64_t word;

	return !addr || (vt_is_object(addr) && !vt_mem_read_u64(f->src, addr, &word));
}

static bool fits(const struct vt_torch_finder *f, const struct vt_torch_sample *sample,
		 const struct vt_torch_block_layout *l)
{
	const uint8_t *bytes = sample->bytes;
	uint64_t size = field64(sample, l->size), requested = field64(sample, l->requested_size);
	uint64_t pool = field64(sample, l->pool), dca = f->dcas[sample->device],
		 stream = field64(sample, l->stream);
	bool is_private = pool != dca + f->layout.large_blocks &&
			  pool != dca + f->layout.small_blocks;
	uint8_t allocated = bytes[l->allocated];
	struct vt_ska uses;

	memcpy(&uses, bytes + l->stream_uses, sizeof(uses));
	if (!vt_ska_plausible(&uses) || !vt_torch_is_stream(stream))
		return false;
	if ((l->device != NONE && (int8_t)bytes[l->device] != sample->device) || !size ||
	    !field64(sample, l->ptr))
		return false;
	if (allocated > 1 || (sample->table != VT_SAMPLE_ACTIVE && allocated) ||
	    (allocated && requested > size))
		return false;
	if (l->mapped != NONE && bytes[l->mapped] != (sample->table != VT_SAMPLE_UNMAPPED))
		return false;
	if (l->event_count != NONE && (int32_t)vt_load32(bytes + l->event_count) < 0)
		return false;
	if ((!is_private && size % 512) || !vt_torch_is_pool_of(f, sample, pool))
		return false;
	if (!names_object(f, field64(sample, l->context)) ||
	    !names_object(f, field64(sample, l->expandable_segment)))
		return false;
	return neighbour_agrees(f, field64(sample, l->next), l->prev, sample->addr) &&
	       neighbour_agrees(f, field64(sample, l->next), l->ptr,
				field64(sample, l->ptr) + size) &&
	       neighbour_agrees(f, field64(sample, l->prev), l->next, sample->addr);
}

bool vt_torch_samples_fit(const struct vt_torch_finder *f,
			  const struct vt_torch_block_layout *block)
{
	size_t bad = 0;

	for (size_t i = 0; i < f->n_samples; i++)
		bad += !fits(f, &f->samples[i], block);
	return vt_torch_tolerable(bad, f->n_samples);
}
