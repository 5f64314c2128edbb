/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that only C++ holds: temporaries of functions that run, gradients on their way through
 * backward(), buckets of DistributedDataParallel. A search forwards, from the stacks of threads and
 * from Python's wrappers of C++ objects, through a few pieces of malloc()'s memory. It looks for
 * the blocks that nobody else holds, and reads little.
 *
 * A word of a stack may be left over from a function that returned, so this is never certain.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "owners/holders.h"
#include "owners/internal.h"
#include "walk/heap/chunk.h"

enum {
	MAX_STACK = 256 << 10, /* bytes of one: from its stack pointer on */
	MAX_WORDS = 4000000,   /* that are looked at */
	MAX_CHUNKS = 200000,
	CHUNK_MAX = 64 << 10,
	LEVELS = 2,       /* chunks from a word of a stack to a tensor */
	LEVELS_KNOWN = 5, /* from a holder that is known by its class */
	LEVELS_OPEN = LEVELS_KNOWN + 1,
	CONTROL_BLOCK = 16, /* std::make_shared(): counts and a virtual table before the object */
	PYBIND_WORDS = 2,   /* pybind11's instance: the object, and its holder or more of them */
};

#define DEADLINE_NS (100 * VT_NS_PER_MS)

/* A chunk whose words are still to be looked at. */
struct piece {
	uint64_t addr, bytes;
	const struct vt_known_holder *holder; /* NULL: a stack */
	pid_t tid;                            /* 0: none */
	uint8_t levels;                       /* how many chunks may follow it */
};

struct finder {
	struct vt_owners *o;
	struct vt_map wanted; /* address of a block → index in found + 1, 0: not found */
	struct vt_map seen;   /* chunk → how far it may lead, at most */
	VT_VEC(struct piece) pieces;
	const struct vt_map_entry *map; /* the last one that an object was looked for in */
	uint64_t words, deadline_ns;
	struct vt_owners_found *found;
	size_t n_found;
};

/* The memory of the tensor or storage at addr; 0: it is neither, or has none on a device. */
static uint64_t memory_of(struct finder *f, uint64_t addr)
{
	struct vt_tensors *tensors = &f->o->tensors;
	struct vt_tensors_storage storage;
	enum vt_node_kind kind;

	if (!vt_tensors_kind(tensors, addr, &kind))
		return 0;
	if (kind == VT_NODE_TENSOR) {
		addr = vt_pages_u64(f->o->pages, addr + tensors->layout.impl_storage);
		if (!vt_tensors_kind(tensors, addr, &kind))
			return 0;
	}
	if (kind != VT_NODE_STORAGE || !vt_tensors_storage(tensors, addr, &storage))
		return 0;
	return storage.data;
}

/* A known holder is a better answer than a stack. */
static void take_tensor(struct finder *f, uint64_t addr, const struct piece *from)
{
	uint64_t data = memory_of(f, addr);
	uint64_t *at = data ? vt_map_get(&f->wanted, data) : NULL;
	struct vt_owners_found *found;

	if (!at)
		return;
	if (!*at) {
		*at = ++f->n_found;
		f->found[*at - 1] = (struct vt_owners_found){ .addr = data };
	}
	found = &f->found[*at - 1];
	/* Both are in one table, the better answers first. */
	if (!found->holder || (from->holder && from->holder < found->holder))
		found->holder = from->holder;
	if (!found->tid)
		found->tid = from->tid;
}

static const struct vt_known_holder *known_class(struct finder *f, uint64_t addr)
{
	uint32_t cls = vt_rtti_of_vtable(&f->o->rtti, vt_pages_u64(f->o->pages, addr));

	return cls == VT_RTTI_NONE ? NULL : vt_known_holder(f->o->rtti.classes.data[cls].name);
}

/* The chunk that a word may point to, or just behind whose control block. */
static void take_chunk(struct finder *f, uint64_t word, const struct piece *from)
{
	struct piece piece = { .addr = word, .holder = from->holder, .tid = from->tid };
	const struct vt_known_holder *known;
	uint64_t *seen;

	if (f->pieces.n >= MAX_CHUNKS || word % CONTROL_BLOCK)
		return;
	piece.bytes = vt_chunk_guess(f->o->pages, word, CHUNK_MAX);
	if (!piece.bytes) {
		piece.addr = word - CONTROL_BLOCK;
		piece.bytes = vt_chunk_guess(f->o->pages, piece.addr, CHUNK_MAX);
	}
	if (!piece.bytes)
		return;
	known = known_class(f, piece.addr);
	if (known) {
		piece.holder = known;
		piece.levels = LEVELS_KNOWN;
	} else if (from->levels) {
		piece.levels = (uint8_t)(from->levels - 1);
	}
	seen = vt_map_get(&f->seen, piece.addr);
	if (seen && *seen > piece.levels)
		return;
	if (vt_map_put(&f->seen, piece.addr, piece.levels + 1ULL)) {
		struct piece *added = vt_vec_append(&f->pieces);

		if (added)
			*added = piece;
	}
}

/*
 * Most words of a stack that are addresses lead back to code, whose pages are not to be read.
 * Memory of malloc() may have become accessible since the maps were read.
 */
static bool may_be_object(struct finder *f, uint64_t word)
{
	if (word < VT_HEAP_PAGE || word & 7 || word >> 47)
		return false;
	if (!f->map || word < f->map->start || word >= f->map->end) {
		const struct vt_map_entry *map = vt_maps_find(f->o->rtti.maps, word);

		if (!map || (map->flags && !(map->flags & VT_MAP_WRITE)))
			return false;
		f->map = map;
	}
	return true;
}

static void take_word(struct finder *f, uint64_t word, const struct piece *from)
{
	enum vt_node_kind kind;

	if (!may_be_object(f, word))
		return;
	if (vt_tensors_kind(&f->o->tensors, word, &kind))
		take_tensor(f, word, from);
	else if (from->levels)
		take_chunk(f, word, from);
}

static void take_words(struct finder *f, const struct piece *from)
{
	for (uint64_t at = 0; at + 8 <= from->bytes && f->words < MAX_WORDS; at += 8, f->words++)
		take_word(f, vt_pages_u64(f->o->pages, from->addr + at), from);
}

/* All that is reached from a piece; nothing of it is kept. */
static void search_from(struct finder *f, const struct piece *first)
{
	f->pieces.n = 0;
	take_words(f, first);
	for (size_t i = 0; i < f->pieces.n && vt_now_ns() < f->deadline_ns; i++) {
		struct piece piece = f->pieces.data[i]; /* they move when there are more */

		take_words(f, &piece);
	}
}

static void search_stacks(struct finder *f, const struct vt_owners_stack *stacks, size_t n)
{
	for (size_t i = 0; i < n && vt_now_ns() < f->deadline_ns; i++) {
		uint64_t bytes = stacks[i].end - stacks[i].sp;
		struct piece piece = {
			.addr = stacks[i].sp & ~UINT64_C(7),
			.bytes = bytes < MAX_STACK ? bytes : MAX_STACK,
			.tid = stacks[i].tid,
			.levels = LEVELS,
		};

		search_from(f, &piece);
	}
}

/* Python's wrappers of C++ objects that are known to hold tensors, made by pybind11. */
static void search_wrappers(struct finder *f)
{
	const struct vt_graph *graph = &f->o->graph;

	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct vt_pyheap_class *cls = vt_owners_class(f->o, (uint32_t)i);
		struct piece piece = {
			.addr = graph->nodes.data[i].addr + f->o->heap.head,
			.bytes = PYBIND_WORDS * sizeof(uint64_t),
			.levels = LEVELS_OPEN,
		};

		if (!cls || strcmp(cls->module, "torch._C._distributed_c10d") != 0)
			continue;
		piece.holder = vt_known_holder(cls->name);
		if (piece.holder)
			search_from(f, &piece);
	}
}

static void finder_deinit(struct finder *f)
{
	vt_map_deinit(&f->wanted);
	vt_map_deinit(&f->seen);
	vt_vec_deinit(&f->pieces);
}

void vt_owners_touch_stacks(struct vt_owners *o, const struct vt_owners_stack *stacks,
			    size_t n_stacks, uint64_t deadline_ns)
{
	struct finder f = { .o = o, .deadline_ns = deadline_ns };

	search_stacks(&f, stacks, n_stacks);
	finder_deinit(&f);
}

struct vt_error *vt_owners_find_native(struct vt_owners *o, const struct vt_owners_stack *stacks,
				       size_t n_stacks, const uint64_t *blocks, size_t n,
				       struct vt_owners_found *found, size_t *n_found)
{
	struct finder f = {
		.o = o,
		.found = found,
		.deadline_ns = vt_now_ns() + DEADLINE_NS,
	};
	bool ok = true;

	for (size_t i = 0; i < n && ok; i++)
		ok = vt_map_put(&f.wanted, blocks[i], 0);
	if (ok) {
		search_wrappers(&f);
		search_stacks(&f, stacks, n_stacks);
		*n_found = f.n_found;
	}
	finder_deinit(&f);
	return ok ? NULL : &vt_enomem;
}
