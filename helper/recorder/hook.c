/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes words of the target; the first of them is the pointer to the virtual table of PyTorch's
 * allocator.
 *
 * A thread may have read our pointer just before it is taken out. So the copy of the table stays
 * unchanged for ever, and the entries call the original functions whether recording is on or not.
 */
#include "internal.h"

/* words before the one that a vptr points to: offset to top, type_info (Itanium C++ ABI, 2.5.2) */
#define TABLE_HEAD 2

/* What the entries (entry.S) call. */
uint64_t vt_rec_originals[VT_N_SLOTS];

void vt_rec_entry_allocate(void);
void vt_rec_entry_raw_alloc(void);
void vt_rec_entry_raw_alloc_with_stream(void);
void vt_rec_entry_allocate_with_address(void);

/* The copy and its origin. Made once: the table of another allocator is refused. */
static struct {
	uint64_t vptr; /* 0: not made yet */
	struct vt_recorder_torch torch;
	uint64_t words[VT_RECORDER_MAX_VTABLE];
} table;

static uint64_t entry_of(enum vt_recorder_slot slot)
{
	switch (slot) {
	case VT_SLOT_ALLOCATE:
		return (uint64_t)vt_rec_entry_allocate;
	case VT_SLOT_RAW_ALLOC:
		return (uint64_t)vt_rec_entry_raw_alloc;
	case VT_SLOT_RAW_ALLOC_WITH_STREAM:
		return (uint64_t)vt_rec_entry_raw_alloc_with_stream;
	case VT_SLOT_ALLOCATE_WITH_ADDRESS:
		return (uint64_t)vt_rec_entry_allocate_with_address;
	default:
		return 0;
	}
}

/* ---- words that are changed ---- */

static bool exchange(uint64_t where, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n((uint64_t *)where, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

static struct vt_recorder_hook *free_note(void)
{
	for (uint32_t i = 0; i < VT_RECORDER_MAX_HOOKS; i++)
		if (!vt_recorder.hooks[i].where)
			return &vt_recorder.hooks[i];
	return NULL;
}

/* The number of notes, up to and including the last one in use. */
static void count_notes(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < VT_RECORDER_MAX_HOOKS; i++)
		if (vt_recorder.hooks[i].where)
			n = i + 1;
	__atomic_store_n(&vt_recorder.n_hooks, n, __ATOMIC_RELEASE);
}

void vt_rec_hook_forget(struct vt_recorder_hook *note)
{
	__atomic_store_n(&note->where, 0, __ATOMIC_RELEASE);
	count_notes();
}

bool vt_rec_hook_in(uint64_t where, uint64_t original, uint64_t ours,
		    enum vt_recorder_hook_kind kind)
{
	struct vt_recorder_hook *note = free_note();

	if (!note)
		return false;
	note->original = original;
	note->ours = ours;
	note->kind = kind;
	__atomic_store_n(&note->where, where, __ATOMIC_RELEASE);
	count_notes();
	if (exchange(where, original, ours))
		return true;
	vt_rec_hook_forget(note);
	return false;
}

void vt_rec_hooks_out(enum vt_recorder_hook_kind kind)
{
	for (uint32_t i = 0; i < VT_RECORDER_MAX_HOOKS; i++) {
		struct vt_recorder_hook *note = &vt_recorder.hooks[i];

		if (!note->where || note->kind != kind)
			continue;
		exchange(note->where, note->ours, note->original);
		vt_rec_hook_forget(note);
	}
}

/* ---- PyTorch ---- */

static bool slots_make_sense(const struct vt_recorder_torch *torch)
{
	uint32_t n = 0;

	if (torch->n_words > VT_RECORDER_MAX_VTABLE - TABLE_HEAD)
		return false;
	for (uint32_t i = 0; i < VT_N_SLOTS; i++) {
		if (torch->slots[i] == VT_RECORDER_NONE)
			continue;
		if (torch->slots[i] >= torch->n_words)
			return false;
		n++;
	}
	return n > 0;
}

static bool same_slots(const struct vt_recorder_torch *a, const struct vt_recorder_torch *b)
{
	for (uint32_t i = 0; i < VT_N_SLOTS; i++)
		if (a->slots[i] != b->slots[i])
			return false;
	return a->n_words == b->n_words;
}

static void make_table(const struct vt_recorder_torch *torch)
{
	const uint64_t *from = (const uint64_t *)torch->vptr - TABLE_HEAD;

	for (uint32_t i = 0; i < torch->n_words + TABLE_HEAD; i++)
		table.words[i] = from[i];
	for (uint32_t i = 0; i < VT_N_SLOTS; i++) {
		if (torch->slots[i] == VT_RECORDER_NONE)
			continue;
		vt_rec_originals[i] = table.words[TABLE_HEAD + torch->slots[i]];
		table.words[TABLE_HEAD + torch->slots[i]] = entry_of((enum vt_recorder_slot)i);
	}
	table.torch = *torch;
	table.vptr = torch->vptr;
}

uint32_t vt_rec_torch_in(const struct vt_recorder_torch *torch)
{
	uint64_t ours = (uint64_t)&table.words[TABLE_HEAD];

	if (!torch->object || torch->object % 8 || !slots_make_sense(torch))
		return VT_RECORDER_BAD;
	/* In a child the parent's hook is in place, with its note; the child takes it over. */
	vt_rec_hooks_out(VT_HOOK_VTABLE);
	if (__atomic_load_n((uint64_t *)torch->object, __ATOMIC_ACQUIRE) != torch->vptr)
		return VT_RECORDER_CHANGED;
	if (!table.vptr)
		make_table(torch);
	else if (table.vptr != torch->vptr || !same_slots(&table.torch, torch))
		return VT_RECORDER_BAD;
	return vt_rec_hook_in(torch->object, torch->vptr, ours, VT_HOOK_VTABLE) ?
		       VT_RECORDER_OK :
		       VT_RECORDER_CHANGED;
}

void vt_rec_torch_out(void)
{
	vt_rec_hooks_out(VT_HOOK_VTABLE);
}
