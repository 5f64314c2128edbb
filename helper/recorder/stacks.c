/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks, each stored once. A known stack is found without a lock: entries of the index are written
 * after the stack and its words, and neither ever changes or moves; an index that became too small
 * stays until the recorder is switched off.
 */
#include "internal.h"

#define FIRST_BITS 12 /* log2 of the entries of the first index; each next one has one bit more */
#define MAX_INDEXES (33 - FIRST_BITS)

/*
 * Open addressing, linear probing from the low bits of the hash. An entry is the hash's high 32
 * bits, then the stack's id; 0 is empty. All indexes since the recorder was switched on are kept;
 * the last one is in use.
 */
static uint64_t *indexes[MAX_INDEXES];
static uint32_t n_indexes;
static uint32_t lock; /* to add a stack */

static uint64_t n_entries_of(uint32_t index)
{
	return UINT64_C(1) << (FIRST_BITS + index);
}

static bool index_create(void)
{
	uint64_t *entries;

	if (n_indexes == MAX_INDEXES)
		return false;
	entries = vt_rec_map(n_entries_of(n_indexes) * sizeof(*entries));
	indexes[n_indexes] = entries;
	return entries;
}

static struct vt_recorder_stack *stack_at(uint64_t id)
{
	return (struct vt_recorder_stack *)(uintptr_t)vt_recorder.stacks.addr + id;
}

static uint64_t *words_at(uint64_t first)
{
	return (uint64_t *)(uintptr_t)vt_recorder.words.addr + first;
}

static uint64_t n_words(const struct vt_rec_frames *frames)
{
	return (uint64_t)frames->n_words_python + frames->n_native;
}

static bool is_same_stack(const struct vt_recorder_stack *stack, const struct vt_rec_frames *frames)
{
	const uint64_t *words = words_at(stack->first);
	uint64_t n = n_words(frames), differ = 0;

	if (stack->hash != frames->hash || stack->n_python != frames->n_python ||
	    stack->n_words_python != frames->n_words_python ||
	    stack->n_native != frames->n_native || stack->flags != frames->flags)
		return false;
	for (uint64_t i = 0; i < n; i++)
		differ |= words[i] ^ frames->words[i];
	return !differ;
}

static uint32_t find_stack(const struct vt_rec_frames *frames)
{
	uint32_t last = __atomic_load_n(&n_indexes, __ATOMIC_ACQUIRE) - 1;
	uint64_t mask = n_entries_of(last) - 1, entry;

	for (uint64_t i = frames->hash & mask;; i = (i + 1) & mask) {
		entry = __atomic_load_n(&indexes[last][i], __ATOMIC_ACQUIRE);
		if (!entry)
			return VT_RECORDER_NO_STACK;
		if (entry >> 32 == frames->hash >> 32 &&
		    is_same_stack(stack_at((uint32_t)entry), frames))
			return (uint32_t)entry;
	}
}

/* Adds a new stack. */
static void enter(uint32_t index, uint64_t hash, uint64_t id)
{
	uint64_t *entries = indexes[index], mask = n_entries_of(index) - 1, i = hash & mask;

	while (entries[i])
		i = (i + 1) & mask;
	__atomic_store_n(&entries[i], hash >> 32 << 32 | id, __ATOMIC_RELEASE);
}

/*
 * At three quarters full a larger index is made; without memory for it, this one is filled up to
 * nine tenths: a search must find an end.
 */
static bool index_room(void)
{
	uint64_t n = vt_recorder.stacks.n, n_entries = n_entries_of(n_indexes - 1);

	if (n < n_entries / 4 * 3)
		return true;
	if (!index_create())
		return n < n_entries / 10 * 9;
	for (uint64_t id = 1; id < n; id++)
		enter(n_indexes, stack_at(id)->hash, id);
	__atomic_store_n(&n_indexes, n_indexes + 1, __ATOMIC_RELEASE);
	return true;
}

static uint32_t add_stack(const struct vt_rec_frames *frames)
{
	struct vt_recorder_head *head = &vt_recorder;
	uint64_t n = n_words(frames), id = head->stacks.n, first = head->words.n;
	uint64_t *words = words_at(first);

	if (id >= UINT64_C(1) << VT_RECORDER_STACK_BITS || !index_room() ||
	    !vt_rec_array_reserve(&head->words, sizeof(uint64_t), n) ||
	    !vt_rec_array_grow(&head->stacks, sizeof(struct vt_recorder_stack)))
		return VT_RECORDER_NO_STACK;
	for (uint64_t i = 0; i < n; i++)
		words[i] = frames->words[i];
	*stack_at(id) = (struct vt_recorder_stack){
		.hash = frames->hash,
		.first = first,
		.n_python = frames->n_python,
		.n_words_python = frames->n_words_python,
		.n_native = frames->n_native,
		.flags = frames->flags,
	};
	__atomic_store_n(&head->words.n, first + n, __ATOMIC_RELEASE);
	__atomic_store_n(&head->stacks.n, id + 1, __ATOMIC_RELEASE);
	enter(n_indexes - 1, frames->hash, id);
	return (uint32_t)id;
}

uint32_t vt_rec_stack_intern(const struct vt_rec_frames *frames)
{
	uint32_t id = find_stack(frames);

	if (id != VT_RECORDER_NO_STACK)
		return id;
	if (vt_rec_lock(&lock)) {
		id = find_stack(frames);
		if (id == VT_RECORDER_NO_STACK)
			id = add_stack(frames);
		vt_rec_unlock(&lock);
	}
	if (id == VT_RECORDER_NO_STACK)
		__atomic_fetch_add(&vt_recorder.stacks_dropped, 1, __ATOMIC_RELAXED);
	return id;
}

bool vt_rec_stacks_init(void)
{
	struct vt_recorder_head *head = &vt_recorder;
	uint64_t half = head->max_memory / 2;

	lock = 0;
	n_indexes = 0;
	if (!index_create())
		return false;
	n_indexes = 1;
	if (!vt_rec_array_init(&head->words, half / sizeof(uint64_t), sizeof(uint64_t)) ||
	    !vt_rec_array_init(&head->stacks, half / sizeof(struct vt_recorder_stack),
			       sizeof(struct vt_recorder_stack)))
		return false;
	head->stacks.n = 1; /* none */
	return true;
}

void vt_rec_stacks_deinit(void)
{
	vt_rec_array_deinit(&vt_recorder.stacks, sizeof(struct vt_recorder_stack));
	vt_rec_array_deinit(&vt_recorder.words, sizeof(uint64_t));
	while (n_indexes) {
		n_indexes--;
		vt_rec_unmap(indexes[n_indexes], n_entries_of(n_indexes) * sizeof(uint64_t));
	}
}
