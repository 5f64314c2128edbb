/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: how to find the caller from a return address, in 28 bits. The interface between the
 * recorder's walk of a stack (native.c), which caches them, and the code that makes them from call
 * frame information (unwind.c).
 */
#ifndef VT_RECORDER_UNWIND_H
#define VT_RECORDER_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtap/recorder.h"

/*
 * CFA: what the stack pointer will be in the caller (DWARF: canonical frame address). The return
 * address is right below it. "saved" is how far below the CFA the caller's frame pointer (rbp)
 * lies, in words; 0: it was not changed.
 */
enum vt_recipe_kind {
	VT_RECIPE_NONE, /* not known yet */
	VT_RECIPE_SP,   /* CFA = rsp + offset */
	VT_RECIPE_BP,   /* CFA = rbp + offset */
	/*
	 * CFA = the word at rbp - offset; rbp is saved where it points to (a realigned frame, GCC)
	 */
	VT_RECIPE_DRAP,
	VT_RECIPE_OUTER,   /* the thread's first frame */
	VT_RECIPE_UNKNOWN, /* no call frame information, or a kind that is not supported */
	VT_N_RECIPES
};

/*
 * From the low end: offset in words, 16 bits (first, because the walk waits for it); kind; saved;
 * one bit.
 */
#define VT_RECIPE_BITS 28
#define VT_RECIPE_OFFSET_BITS 16
#define VT_RECIPE_KIND_BITS 3
#define VT_RECIPE_SAVED_BITS 8
#define VT_RECIPE_SAVED_AT (VT_RECIPE_OFFSET_BITS + VT_RECIPE_KIND_BITS)
/* The address is right behind a call instruction. */
#define VT_RECIPE_AFTER_CALL (UINT32_C(1) << (VT_RECIPE_SAVED_AT + VT_RECIPE_SAVED_BITS))
_Static_assert(VT_RECIPE_SAVED_AT + VT_RECIPE_SAVED_BITS < VT_RECIPE_BITS, "the bits of a recipe");
_Static_assert(VT_N_RECIPES <= 1 << VT_RECIPE_KIND_BITS, "the kinds");

static inline uint32_t vt_recipe(enum vt_recipe_kind kind, uint64_t offset_words,
				 uint64_t saved_words)
{
	return (uint32_t)offset_words | (uint32_t)kind << VT_RECIPE_OFFSET_BITS |
	       (uint32_t)saved_words << VT_RECIPE_SAVED_AT;
}

static inline enum vt_recipe_kind vt_recipe_kind(uint64_t recipe)
{
	return recipe >> VT_RECIPE_OFFSET_BITS & ((1u << VT_RECIPE_KIND_BITS) - 1);
}

/* In bytes. */
static inline uint64_t vt_recipe_saved(uint64_t recipe)
{
	return (recipe >> VT_RECIPE_SAVED_AT & ((1u << VT_RECIPE_SAVED_BITS) - 1)) * 8;
}

static inline uint64_t vt_recipe_offset(uint64_t recipe)
{
	return (uint64_t)(uint16_t)recipe * 8;
}

/* How often modules were loaded and unloaded: the state in which a recipe was found. */
struct vt_unwind_epoch {
	uint64_t adds, subs;
};

/* dl_iterate_phdr: address of the target's function. */
void vt_unwind_epoch(uint64_t dl_iterate_phdr, struct vt_unwind_epoch *epoch);

/*
 * The recipe for a return address, by the call frame information of its module. Only for addresses
 * that were on the stack of the calling thread: their modules stay.
 */
uint32_t vt_unwind_find(uint64_t dl_iterate_phdr, uint64_t pc, struct vt_unwind_epoch *epoch);

#endif
