/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator, damaged: discovery and walk of a synthetic allocator
 * (tests/unit/walk/torch/torch_image.c) whose memory was changed before, or is changed during that.
 * They must come to an end without reading what is not there, and what a complete walk says must
 * hold: here it is checked again, from the memory itself.
 *
 * An input is two bytes (which release; how it is read) and edits of 12 bytes each.
 */
#include <string.h>

#include "fuzz.h"
#include "model/model.h"
#include "unit/walk/torch/torch_image.h"
#include "walk/torch/torch.h"
#include "walk/torch/abi.h"
#include "walk/torch/find.h"
#include "walk/torch/table.h"

#define N_BLOCKS 120
#define MAX_RECS 4096
#define MAX_EDITS 24
#define ROOM 40 /* blocks that there is scratch for beyond those that are counted */

/* How the memory is read: bits of the second byte. */
enum {
	HOW_DIRECT = 1,  /* through pointers, as the helper does */
	HOW_RUNNING = 2, /* not coherent: what fails a check is dropped */
	HOW_HELD = 4,    /* the allocator's lock is held */
	HOW_FIND = 8,    /* the layout is discovered, else it is the true one */
	HOW_HURRY = 16,  /* the time for the walk may not suffice */
	HOW_HIDDEN = 64, /* ... without the table of known releases */
	HOW_MOVING = 32, /* edits are made one after the other, while it is read */
};

enum where { IN_BLOCK, IN_DEVICE, IN_HEAP, IN_POOL, IN_SLOTS, IN_NODE, IN_OBJECT, N_WHERE };

enum what { SET, ADD, FLIP, POINT, N_WHAT };

struct edit {
	uint8_t where, what, arg, index;
	uint64_t value;
};

#define EDIT_BYTES 12

/* A synthetic allocator and its memory as it was made. */
struct original {
	struct image image;
	uint8_t *heap;
	struct vt_torch_layout layout;
};

static struct original originals[IMAGE_RELEASES];

/* The edits that are still to be made while it is read. */
static struct edit edits[MAX_EDITS];
static size_t n_edits, next_edit;

struct sink {
	struct vt_torch_sink base;
	struct vt_block_rec *recs;
	uint64_t n;
};

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	if (n > MAX_RECS)
		return NULL;
	sink->recs = calloc(n, sizeof(*sink->recs));
	sink->n = n;
	return sink->recs;
}

static uint64_t ticks;

static uint64_t now(void)
{
	return ++ticks;
}

static struct original *original_of(uint8_t release)
{
	struct original *o = &originals[release % IMAGE_RELEASES];

	if (o->heap)
		return o;
	image_init(&o->image, release % IMAGE_RELEASES, 2, N_BLOCKS, false);
	image_fill(&o->image, 1, N_BLOCKS, 2);
	image_finish(&o->image);
	image_layout(&o->image, &o->layout);
	o->heap = malloc(o->image.used);
	if (!o->heap)
		exit(1);
	memcpy(o->heap, o->image.base, o->image.used);
	return o;
}

/* ---- damage ---- */

/* Down one of the sets of free blocks: to the node that the bits of path lead to. */
static uint64_t node_of(const struct image *image, uint64_t set, uint8_t path)
{
	uint64_t at = set + VT_RBSET_HEADER,
		 next = image_peek64(image, set + offsetof(struct vt_rbset, root));
	uint64_t base = (uint64_t)(uintptr_t)image->base;

	for (; next >= base && next <= base + image->used - sizeof(struct vt_rbnode); path >>= 1) {
		at = next;
		if (path <= 1)
			break;
		next = image_peek64(image, at + (path & 1 ? offsetof(struct vt_rbnode, right) :
							    offsetof(struct vt_rbnode, left)));
	}
	return at;
}

static uint64_t address_of(const struct original *o, const struct edit *e)
{
	const struct image *image = &o->image;
	uint64_t dca = image->dcas[e->index % image->n_devices], slots;
	struct vt_ska table;

	switch (e->where % N_WHERE) {
	case IN_BLOCK:
		return image->blocks[e->index % image->n_blocks].object +
		       e->arg % o->layout.block.size_of;
	case IN_DEVICE:
		return dca + 8 * (e->value >> 32 & 0xff) + e->arg;
	case IN_POOL:
		return image->pools[e->index % image->n_pools].addr +
		       e->arg % o->layout.pool_size_of;
	case IN_SLOTS:
		memcpy(&table, (const void *)(uintptr_t)(dca + o->layout.active_blocks),
		       sizeof(table));
		slots = vt_ska_plausible(&table) ? vt_ska_slots(&table) : 0;
		return slots ? table.entries +
				       (e->index | (uint64_t)(e->arg & 0xf0) << 4) % slots *
					       VT_SKA_SET_SLOT +
				       e->arg % 16 :
			       dca + o->layout.active_blocks + e->arg % sizeof(table);
	case IN_NODE:
		return node_of(image, image->pools[e->index % image->n_pools].addr, e->arg >> 3) +
		       8 * (e->arg % 5);
	case IN_OBJECT:
		return image->allocator + 8 * (e->value >> 32) % 2048;
	default:
		return (uint64_t)(uintptr_t)image->base + (e->value >> 32) % image->used;
	}
}

static void apply(struct original *o, const struct edit *e)
{
	struct image *image = &o->image;
	uint64_t addr = address_of(o, e), base = (uint64_t)(uintptr_t)image->base, value;

	if (addr < base || addr > base + image->used - sizeof(value))
		return;
	value = image_peek64(image, addr);
	switch (e->what % N_WHAT) {
	case SET:
		value = e->value;
		break;
	case ADD:
		value += (uint64_t)(int64_t)(int32_t)e->value;
		break;
	case FLIP:
		value ^= UINT64_C(1) << e->value % 64;
		break;
	default:
		value = image->blocks[e->value % image->n_blocks].object;
	}
	image_poke64(image, addr, value);
}

static void keep_changing(struct image *image)
{
	if (image->reads % 3 == 0 && next_edit < n_edits)
		apply((struct original *)(void *)((char *)image - offsetof(struct original, image)),
		      &edits[next_edit++]);
}

static void read_edits(const uint8_t *data, size_t size)
{
	n_edits = next_edit = 0;
	for (; size >= EDIT_BYTES && n_edits < MAX_EDITS; data += EDIT_BYTES, size -= EDIT_BYTES) {
		struct edit *e = &edits[n_edits++];

		*e = (struct edit){
			.where = data[0], .what = data[1], .arg = data[2], .index = data[3]
		};
		memcpy(&e->value, data + 4, sizeof(e->value));
	}
}

/* ---- the oracle ---- */

static int64_t stat_at(const struct original *o, uint64_t dca, unsigned int which, bool late)
{
	uint64_t at = dca + o->layout.stats +
		      (late ? VT_STATS_BEFORE_EXTRA + o->layout.stats_extra : 0) +
		      which * VT_STATS_ARRAY;

	return (int64_t)image_peek64(&o->image, at);
}

/* Of the records alone. */
static void check_records(const struct vt_torch_device_result *result,
			  const struct vt_block_rec *recs)
{
	uint64_t bytes[4] = { 0 }, segments = 0;

	for (uint64_t i = 0; i < result->blocks; i++) {
		fuzz_check(recs[i].state <= VT_BLOCK_UNMAPPED && recs[i].size, "block %lu",
			   (unsigned long)i);
		fuzz_check(!i || recs[i - 1].addr + recs[i - 1].size <= recs[i].addr,
			   "blocks overlap at %lu", (unsigned long)i);
		fuzz_check(recs[i].device == result->device && !recs[i].pad, "block %lu",
			   (unsigned long)i);
		bytes[recs[i].state] += recs[i].size;
		segments += recs[i].state != VT_BLOCK_UNMAPPED &&
			    (recs[i].flags & VT_BLOCK_SEGMENT_START);
	}
	for (int i = 0; i < 4; i++)
		fuzz_check(bytes[i] == result->bytes[i], "bytes of state %d: %lu", i,
			   (unsigned long)bytes[i]);
	fuzz_check(segments == result->segments, "%lu segments", (unsigned long)segments);
}

/* The statistics that a complete walk shows with its sums. */
static void check_statistics(const struct vt_torch_device_result *r)
{
	fuzz_check(r->have_stats, "a complete walk without statistics");
	fuzz_check(r->stats.allocated_bytes.current == (int64_t)r->bytes[VT_BLOCK_ALLOCATED],
		   "allocated");
	fuzz_check(r->stats.active_bytes.current == (int64_t)(r->bytes[VT_BLOCK_ALLOCATED] +
							      r->bytes[VT_BLOCK_AWAITING_FREE]),
		   "active");
	fuzz_check(r->stats.reserved_bytes.current ==
			   (int64_t)(r->bytes[VT_BLOCK_ALLOCATED] +
				     r->bytes[VT_BLOCK_AWAITING_FREE] + r->bytes[VT_BLOCK_CACHED]),
		   "reserved");
}

/*
 * Against the memory, which has not changed since: each record is a block there, and its neighbours
 * are records, too.
 */
static void check_memory(const struct original *o, const struct vt_torch_device_result *r,
			 const struct vt_block_rec *recs)
{
	const struct vt_torch_block_layout *l = &o->layout.block;
	uint64_t n[4] = { 0 };

	for (uint64_t i = 0; i < r->blocks; i++) {
		uint64_t object = recs[i].object, next = image_peek64(&o->image, object + l->next);
		uint64_t prev = image_peek64(&o->image, object + l->prev);
		bool has_next = i + 1 < r->blocks && recs[i + 1].object == next,
		     has_prev = i && recs[i - 1].object == prev;

		n[recs[i].state]++;
		fuzz_check(image_peek64(&o->image, object + l->ptr) == recs[i].addr,
			   "address of %lu", (unsigned long)i);
		fuzz_check(image_peek64(&o->image, object + l->size) == recs[i].size, "size of %lu",
			   (unsigned long)i);
		fuzz_check(next ? has_next && recs[i].addr + recs[i].size == recs[i + 1].addr :
				  true,
			   "next of %lu", (unsigned long)i);
		fuzz_check(prev ? has_prev && recs[i - 1].addr + recs[i - 1].size == recs[i].addr :
				  true,
			   "previous of %lu", (unsigned long)i);
		/*
		 * a segment of expandable memory goes on behind what is not mapped, as one of
		 * several
		 */
		fuzz_check(prev || (recs[i].flags & VT_BLOCK_SEGMENT_START), "start of %lu",
			   (unsigned long)i);
		for (uint64_t k = 0; k < i; k++)
			fuzz_check(recs[k].object != object, "block %lu twice", (unsigned long)i);
	}
	fuzz_check(stat_at(o, r->allocator, 0, false) == (int64_t)n[VT_BLOCK_ALLOCATED],
		   "allocations");
	fuzz_check(stat_at(o, r->allocator, 4, false) == (int64_t)r->bytes[VT_BLOCK_ALLOCATED],
		   "allocated bytes");
	fuzz_check(stat_at(o, r->allocator, 0, true) == r->stats.active_bytes.current,
		   "active bytes");
	fuzz_check(image_peek64(&o->image, r->allocator + o->layout.active_blocks +
						   offsetof(struct vt_ska, n)) ==
			   n[VT_BLOCK_ALLOCATED] + n[VT_BLOCK_AWAITING_FREE],
		   "active blocks");
}

/* What is made of it for people: sums only of complete walks. */
static void check_model(const struct vt_torch_device_result *result, struct vt_block_rec *recs,
			uint64_t n)
{
	struct vt_model model;
	struct vt_model_allocator *a;

	vt_model_init(&model);
	model.blocks = recs;
	model.n_blocks = n;
	a = vt_vec_append(&model.allocators);
	if (!a)
		exit(1);
	*a = (struct vt_model_allocator){ .device = result->device,
					  .result = *result,
					  .n_blocks = result->blocks };
	vt_model_account(&model);
	a = &model.allocators.data[0];
	fuzz_check(a->exact == (result->result == VT_WALK_COMPLETE), "%s: %.96s",
		   vt_walk_result_name(result->result), a->result.why);
	fuzz_check(a->exact || model.completeness != VT_COMPLETE, "not exact, but called complete");
	fuzz_check(a->exact || (!a->reserved_bytes && !a->allocated_bytes && !a->cached_bytes &&
				!model.groups.n),
		   "sums of a part");
	fuzz_check(a->result.result != VT_WALK_REFUSED || !a->n_blocks, "blocks of a refused walk");
	vt_model_deinit(&model);
}

/* ---- one input ---- */

static void walk(struct original *o, const struct vt_torch_layout *layout, uint64_t dca,
		 int ordinal, uint8_t how)
{
	struct image *image = &o->image;
	int64_t count = vt_torch_count_blocks(&image->src, layout, dca);
	struct vt_torch_walk_limits limits = { .max_blocks = MAX_RECS,
					       .deadline_ns = how & HOW_HURRY ? ticks + 9 :
										UINT64_MAX,
					       .now_ns = now };
	struct vt_torch_device_result result = { .lock = how & HOW_HELD ? VT_LOCK_HELD_BY :
									  VT_LOCK_NONE };
	struct vt_torch_scratch scratch = { 0 };
	struct sink sink = { .base.reserve = reserve };
	bool moved = how & HOW_MOVING;

	if (count < 0 || count > MAX_RECS)
		count = 0;
	/* exactly as much as is asked for, so that a sanitizer sees a byte too many */
	scratch.size = vt_torch_scratch_size((uint64_t)count + ROOM);
	scratch.base = malloc(scratch.size);
	if (!scratch.base)
		exit(1);
	vt_torch_walk_device(&image->src, layout, dca, ordinal, &limits, &scratch, &sink.base,
			     &result);
	free(scratch.base);
	fuzz_check(result.blocks <= sink.n, "%lu blocks", (unsigned long)result.blocks);
	if (result.result == VT_WALK_COMPLETE) {
		check_records(&result, sink.recs);
		check_statistics(&result);
		if (!moved)
			check_memory(o, &result, sink.recs);
	} else {
		fuzz_check(result.why[0], "no reason is given");
		fuzz_check(n_edits || (how & HOW_HURRY), "a good allocator: %s", result.why);
	}
	check_model(&result, sink.recs, sink.n);
	free(sink.recs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_torch_found found = { 0 };
	struct original *o;
	uint8_t how;

	if (size < 2)
		return 0;
	o = original_of(data[0]);
	how = data[1];
	read_edits(data + 2, size - 2);
	ticks = 0;
	o->image.src.coherent = !(how & HOW_RUNNING);
	image_set_direct(&o->image, (how & HOW_DIRECT) && !(how & HOW_MOVING));
	if (how & HOW_MOVING) {
		/* The walk is given, and nothing is coherent: as from outside, without a stop. */
		o->image.src.coherent = false;
		o->image.after_read = keep_changing;
	} else {
		for (size_t i = 0; i < n_edits; i++)
			apply(o, &edits[i]);
	}
	vt_torch_hide_row(how & HOW_HIDDEN ? "all" : NULL);
	if ((how & HOW_FIND) && !(how & (HOW_MOVING | HOW_RUNNING)))
		vt_torch_find_layout(&o->image.maps, &o->image.src, o->image.allocator, &found);
	else
		found = (struct vt_torch_found){ .backend = VT_TORCH_NATIVE, .layout = o->layout };
	fuzz_check(n_edits || found.backend == VT_TORCH_NATIVE, "a good allocator: %s", found.why);
	if (found.backend == VT_TORCH_NATIVE) {
		uint64_t dcas[VT_TORCH_MAX_DEVICES];
		int n = vt_torch_devices(&o->image.src, &found.layout, o->image.allocator, dcas);

		for (int i = 0; i < n; i++)
			walk(o, &found.layout, dcas[i], i, how);
	}
	o->image.after_read = NULL;
	memcpy(o->image.base, o->heap, o->image.used);
	return 0;
}

/* Good ones, read in each way; then one with an edit of each kind, before and while it is read. */
size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const uint8_t ways[] = {
		HOW_FIND,
		HOW_FIND | HOW_HIDDEN | HOW_DIRECT,
		HOW_RUNNING,
		HOW_FIND,
		HOW_FIND | HOW_HIDDEN,
		HOW_RUNNING,
		HOW_MOVING,
	};
	unsigned int way = number / IMAGE_RELEASES;
	size_t size = 2;

	if (way >= sizeof(ways) || max < 2 + N_WHERE * EDIT_BYTES)
		return 0;
	data[0] = (uint8_t)(number % IMAGE_RELEASES);
	data[1] = ways[way];
	for (unsigned int where = 0; way >= 3 && where < N_WHERE; where++, size += EDIT_BYTES) {
		memset(data + size, 0, EDIT_BYTES);
		data[size] = (uint8_t)where;
		data[size + 1] = (uint8_t)(where % N_WHAT);
		data[size + 2] = (uint8_t)(8 * where);
		data[size + 3] = (uint8_t)(number + where);
	}
	return size;
}
