/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CuPy's blocks → memory → arrays. Memory takes the part of a storage, and arrays that of tensors.
 * Between them are MemoryPointers: each view has one, or shares that of its base.
 *
 * Memory that CuPy only borrows (UnownedMemory) is not its own: such an array names a block only if
 * nobody else does. So it is with a tensor of PyTorch's in memory of CuPy's.
 */
#include "owners/internal.h"

#include <stdlib.h>

struct arrays {
	struct vt_owners *o;
	const struct vt_owners_input *input;
	struct vt_arrays read;
	uint32_t *storage_of; /* by node: index in storages + 1, 0 none */
	uint32_t *lender_of;  /* the same of borrowed memory: the first storage of the block */
	uint32_t *of_block;   /* by block: index in storages + 1 of its first; 0 none */
};

static struct vt_arrays reader(struct vt_owners *o, const struct vt_owners_input *input)
{
	return (struct vt_arrays){ .heap = &o->heap, .now = input->now };
}

static bool is(const struct vt_owners *o, size_t node, uint16_t what)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, (uint32_t)node);

	return cls && cls->is & what;
}

bool vt_owners_memories(struct vt_owners *o, const struct vt_owners_input *input,
			bool (*visit)(void *arg, const struct vt_owners_memory *memory), void *arg)
{
	struct vt_arrays read = reader(o, input);

	for (size_t i = 0; i < o->graph.nodes.n; i++) {
		struct vt_arrays_pointer pointer;
		struct vt_arrays_memory memory;

		/* What no pointer leads to is a pool's own: its chunks are cut from it. */
		if (!is(o, i, VT_PYHEAP_IS_CUPY_POINTER) ||
		    !vt_arrays_pointer(&read, o->graph.nodes.data[i].addr, &pointer) ||
		    !vt_arrays_memory(&read, pointer.memory, &memory) || memory.borrowed)
			continue;
		if (!visit(arg, &(struct vt_owners_memory){ memory.start, memory.size,
							    memory.device, memory.pooled }))
			return false;
	}
	return true;
}

/* ---- memory ---- */

/*
 * What is freed and given out again since is another block. A pool's own memory is none of its
 * chunks, though one begins where it does.
 */
static bool fits(const struct vt_owners_block *block, const struct vt_arrays_memory *memory)
{
	if (block->is_chunk && !memory->borrowed)
		return memory->pooled && block->addr == memory->start &&
		       block->size == memory->size;
	return memory->size <= block->size - (memory->start - block->addr);
}

static uint32_t add(struct arrays *a, uint32_t node, uint32_t block,
		    const struct vt_arrays_memory *memory)
{
	struct vt_owned_storage *added = vt_vec_append(&a->o->storages);

	if (!added)
		return 0;
	*added = (struct vt_owned_storage){
		.node = node,
		.block = block,
		.data = memory->start,
		.bytes = memory->size,
		.best = node,
		.largest = VT_GRAPH_NONE,
		.is_array = true,
		.certain = a->input->one_moment && !memory->borrowed,
	};
	return (uint32_t)a->o->storages.n;
}

static bool add_memory(struct arrays *a, uint32_t node, bool borrowed)
{
	struct vt_arrays_memory memory;
	uint32_t block;

	if (!vt_arrays_memory(&a->read, a->o->graph.nodes.data[node].addr, &memory) ||
	    memory.borrowed != borrowed)
		return true;
	block = vt_owners_block_at(a->input, memory.start);
	if (block == UINT32_MAX || !fits(&a->input->blocks[block], &memory))
		return true;
	if (borrowed && a->of_block[block]) {
		a->lender_of[node] = a->of_block[block];
		return true;
	}
	a->storage_of[node] = add(a, node, block, &memory);
	if (!a->of_block[block])
		a->of_block[block] = a->storage_of[node];
	return a->storage_of[node];
}

static bool add_memories(struct arrays *a, bool borrowed)
{
	for (size_t i = 0; i < a->o->graph.nodes.n; i++) {
		if (is(a->o, i, VT_PYHEAP_IS_CUPY_MEMORY) && !add_memory(a, (uint32_t)i, borrowed))
			return false;
	}
	return true;
}

/* ---- pointers and arrays ---- */

static struct vt_owned_storage *storage_at(struct arrays *a, const uint32_t *of, uint32_t node)
{
	return of[node] ? &a->o->storages.data[of[node] - 1] : NULL;
}

/* An array in memory of somebody else, who holds it himself, unless that was not seen. */
static void lend(struct arrays *a, uint32_t from, uint32_t to)
{
	struct vt_owned_storage *lender;

	a->lender_of[from] = a->lender_of[to];
	lender = storage_at(a, a->lender_of, from);
	if (!lender || a->o->reach.data[lender->node].distance < VT_COST_UNSEEN)
		return;
	lender->certain = false;
	vt_owners_prefer(a->o, lender, from);
	lender->category = (uint8_t)vt_owners_category(a->o, lender->best);
}

static void visit_pointer(struct arrays *a, uint32_t node)
{
	struct vt_arrays_pointer pointer;
	struct vt_owned_storage *storage;
	uint32_t memory;

	if (!vt_arrays_pointer(&a->read, a->o->graph.nodes.data[node].addr, &pointer))
		return;
	memory = vt_graph_find(&a->o->graph, pointer.memory);
	if (memory == VT_GRAPH_NONE)
		return;
	lend(a, node, memory);
	a->storage_of[node] = a->storage_of[memory];
	storage = storage_at(a, a->storage_of, node);
	if (!storage)
		return;
	vt_owners_prove(a->o, storage, node);
	vt_owners_prefer(a->o, storage, node);
}

static void visit_array(struct arrays *a, uint32_t node)
{
	struct vt_arrays_array array;
	struct vt_owned_storage *storage;
	uint32_t pointer;
	uint64_t bytes;

	if (!vt_arrays_array(&a->read, a->o->graph.nodes.data[node].addr, &array))
		return;
	pointer = vt_graph_find(&a->o->graph, array.pointer);
	if (pointer == VT_GRAPH_NONE)
		return;
	lend(a, node, pointer);
	storage = storage_at(a, a->storage_of, pointer);
	if (!storage)
		return;
	bytes = (uint64_t)array.last - (uint64_t)array.first;
	storage->n_tensors++;
	vt_owners_prove(a->o, storage, node);
	vt_owners_prefer(a->o, storage, node);
	if (bytes > storage->used || storage->largest == VT_GRAPH_NONE)
		storage->largest = node;
	if (bytes > storage->used)
		storage->used = bytes;
}

static void visit_all(struct arrays *a, uint16_t what,
		      void (*visit)(struct arrays *a, uint32_t node))
{
	for (size_t i = 0; i < a->o->graph.nodes.n; i++) {
		if (is(a->o, i, what))
			visit(a, (uint32_t)i);
	}
}

/* The other way round: a tensor in memory of CuPy's, which counts once. */
static void borrow(struct arrays *a, struct vt_owned_storage *tensor)
{
	struct vt_owned_storage *lender = storage_at(a, a->of_block, tensor->block);

	if (!a->input->blocks[tensor->block].is_foreign || !lender)
		return;
	tensor->bytes = tensor->used = 0;
	if (a->o->reach.data[lender->node].distance < VT_COST_UNSEEN)
		return;
	vt_owners_prefer(a->o, lender, tensor->best);
	lender->category = (uint8_t)vt_owners_category(a->o, lender->best);
}

static bool match(struct arrays *a)
{
	size_t first = a->o->storages.n;

	for (size_t i = first; i-- > 0;)
		if (!a->input->blocks[a->o->storages.data[i].block].is_foreign)
			a->of_block[a->o->storages.data[i].block] = (uint32_t)i + 1;
	if (!add_memories(a, false) || !add_memories(a, true))
		return false;
	visit_all(a, VT_PYHEAP_IS_CUPY_POINTER, visit_pointer);
	visit_all(a, VT_PYHEAP_IS_CUPY_ARRAY, visit_array);
	for (size_t i = first; i < a->o->storages.n; i++) {
		struct vt_owned_storage *storage = &a->o->storages.data[i];

		vt_owners_prove(a->o, storage, storage->node);
		storage->category = (uint8_t)vt_owners_category(a->o, storage->best);
	}
	for (size_t i = 0; i < first; i++)
		borrow(a, &a->o->storages.data[i]);
	return true;
}

bool vt_owners_arrays(struct vt_owners *o, const struct vt_owners_input *input)
{
	size_t n = o->graph.nodes.n + 1;
	struct arrays a = {
		.o = o,
		.input = input,
		.read = reader(o, input),
		.storage_of = calloc(n, sizeof(*a.storage_of)),
		.lender_of = calloc(n, sizeof(*a.lender_of)),
		.of_block = calloc(input->n_blocks + 1, sizeof(*a.of_block)),
	};
	bool ok = a.storage_of && a.lender_of && a.of_block && match(&a);

	free(a.storage_of);
	free(a.lender_of);
	free(a.of_block);
	return ok;
}
