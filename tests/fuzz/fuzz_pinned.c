/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator of pinned host memory, damaged: synthetic ones
 * (tests/unit/walk/torch/pinned_image.h) whose memory was changed before or during
 * the read. Reading must end without touching what is not there, and what a complete list says must
 * be in the memory.
 *
 * An input is two bytes (which form; how it is read) and edits of 8 bytes each.
 */
#include <string.h>

#include "base/clock.h"
#include "fuzz.h"
#include "unit/walk/torch/pinned_image.h"
#include "walk/torch/pinned.h"

#define N_BLOCKS 30
#define N_PRIVATE 6
#define MAX_EDITS 16
#define EDIT_BYTES 8

/* How it is read: bits of the second byte. */
enum {
	HOW_RUNNING = 1, /* until two passes agree */
	HOW_MOVING = 2,  /* an edit is made after each read */
};

enum where { IN_OBJECT, IN_TABLES, IN_SLOTS, IN_BLOCK, IN_PRIVATE, IN_HEAP, N_WHERE };

enum what { SET_WORD, SET_BYTE, ADD, POINT, N_WHAT };

struct edit {
	uint8_t where, what;
	uint16_t index, offset, value;
};

static struct image images[FORMS];
static uint8_t *originals[FORMS];
static struct edit edits[MAX_EDITS];
static size_t n_edits, next_edit;

static struct image *image_of(uint8_t form)
{
	struct image *image = &images[form % FORMS];

	if (originals[form % FORMS])
		return image;
	image_init(image, form % FORMS, N_BLOCKS, forms[form % FORMS].graph_pools ? N_PRIVATE : 0);
	originals[form % FORMS] = malloc(image->used);
	if (!originals[form % FORMS])
		exit(1);
	memcpy(originals[form % FORMS], image->heap, image->used);
	return image;
}

static uint64_t address_of(const struct image *image, const struct edit *e)
{
	uint64_t heap = (uintptr_t)image->heap,
		 addr = heap + (uint64_t)e->index * 8 + e->offset % 8;

	switch (e->where % N_WHERE) {
	case IN_OBJECT:
		addr = image->object - 8 + e->offset % (forms[image->form].object_size + 8);
		break;
	case IN_TABLES:
		addr = image->tables[0] - 40 + e->offset % 152;
		break;
	case IN_SLOTS:
		addr = image->entries + e->offset % 1024;
		break;
	case IN_BLOCK:
		addr = image->blocks[e->index % N_BLOCKS] +
		       e->offset % forms[image->form].block_size;
		break;
	case IN_PRIVATE:
		addr = image->tables[image->tables[1] != 0] - 104 + e->offset % 256;
		break;
	default:
		break;
	}
	return addr - heap < image->used - 8 ? addr : heap;
}

static void apply(struct image *image, const struct edit *e)
{
	uint64_t addr = address_of(image, e), heap = (uintptr_t)image->heap;

	switch (e->what % N_WHAT) {
	case SET_WORD:
		poke(addr, e->value);
		break;
	case SET_BYTE:
		poke_byte(addr, (uint8_t)e->value);
		break;
	case ADD:
		poke(addr, peek(addr) + (uint64_t)(int64_t)(int16_t)e->value);
		break;
	default:
		poke(addr, heap + (uint64_t)e->value * 8 % image->used);
		break;
	}
}

static void edit_meanwhile(struct image *image)
{
	if (next_edit < n_edits)
		apply(image, &edits[next_edit++]);
}

/* In any case: in order, apart from each other, and in the memory that there is. */
static void check_list(const struct image *image, const struct vt_pinned_result *result)
{
	uint64_t end = 0;

	fuzz_check(result->result <= VT_WALK_TRUNCATED, "result %d", result->result);
	fuzz_check(result->n_blocks <= N_BLOCKS * 2, "%zu blocks", result->n_blocks);
	fuzz_check(!result->n_blocks || result->result == VT_WALK_COMPLETE ||
			   result->result == VT_WALK_UNSTABLE,
		   "blocks of nothing");
	for (size_t i = 0; i < result->n_blocks; i++) {
		const struct vt_pinned_block *b = &result->blocks[i];

		fuzz_check(b->size && b->addr >= end && b->state <= VT_BLOCK_CACHED, "block %zu",
			   i);
		end = b->addr + b->size;
		if (result->result == VT_WALK_COMPLETE)
			fuzz_check(b->addr >= image->map.start && end <= image->map.end,
				   "block %zu is not in memory", i);
	}
}

/*
 * When nothing changes any more: each block says of itself what the list says, and the tables count
 * them.
 */
static void check_memory(const struct image *image, const struct vt_pinned_result *result)
{
	uint64_t heap = (uintptr_t)image->heap, n = peek(image->tables[0] + 24);

	if (image->tables[1] && result->n_private)
		n = result->n_blocks; /* of more than one pool */
	fuzz_check(n == result->n_blocks, "%zu blocks, the table counts %llu", result->n_blocks,
		   (unsigned long long)n);
	for (size_t i = 0; i < result->n_blocks; i++) {
		const struct vt_pinned_block *b = &result->blocks[i];
		bool found = false;

		fuzz_check(b->object >= heap && b->object < heap + HEAP - 160,
			   "block %zu is nowhere", i);
		for (uint64_t at = 0; at <= 128 && !found; at += 8)
			found = peek(b->object + at) == b->size &&
				peek(b->object + at + 8) == b->addr;
		fuzz_check(found, "block %zu has not that size and address", i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_pinned_result result;
	struct vt_pinned_limits limits = { .max_blocks = N_BLOCKS * 2,
					   .max_passes = 3,
					   .maps_now = maps_now };
	struct image *image;

	if (size < 2)
		return 0;
	image = image_of(data[0]);
	memcpy(image->heap, originals[image->form], image->used);
	image->src.coherent = !(data[1] & HOW_RUNNING);
	image->after_read = data[1] & HOW_MOVING ? edit_meanwhile : NULL;
	n_edits = next_edit = 0;
	for (size_t at = 2; at + EDIT_BYTES <= size && n_edits < MAX_EDITS; at += EDIT_BYTES) {
		struct edit *e = &edits[n_edits++];

		e->where = data[at];
		e->what = data[at + 1];
		memcpy(&e->index, data + at + 2, 2);
		memcpy(&e->offset, data + at + 4, 2);
		memcpy(&e->value, data + at + 6, 2);
		if (!image->after_read)
			apply(image, e);
	}
	limits.deadline_ns = vt_now_ns() + 10 * VT_NS_PER_S;
	limits.arg = image;
	vt_pinned_read(&image->src, image->object, &limits, &result);
	check_list(image, &result);
	if (result.result == VT_WALK_COMPLETE && !image->after_read)
		check_memory(image, &result);
	if (!n_edits)
		fuzz_check(result.result == VT_WALK_COMPLETE && result.n_blocks == N_BLOCKS,
			   "form %d: %s", image->form, result.why);
	free(result.blocks);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const uint8_t edit[EDIT_BYTES] = { IN_BLOCK, SET_BYTE, 3, 0, 56, 0, 0, 0 };
	size_t n = 2 + (number / FORMS / 4 ? EDIT_BYTES : 0);

	if (number >= FORMS * 8 || max < n)
		return 0;
	data[0] = (uint8_t)(number % FORMS);
	data[1] = (uint8_t)(number / FORMS % 4);
	memcpy(data + 2, edit, n - 2);
	return n;
}
