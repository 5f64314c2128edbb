/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a return address to its recipe: the loader tells the module, the row of call frame
 * information is read from the module's memory, and is reduced to a recipe, which is almost always
 * possible. All of this happens in the callback of dl_iterate_phdr(), while dlclose() cannot unmap
 * anything. The C library holds a lock then that any C++ exception takes, too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct dl_phdr_info */
#endif
#include "unwind.h"

#include <link.h>
#include <stddef.h>

#include "target/arch/x86_64/regs.h"
#include "walk/native/cfi.h"

/*
 * Limits of records and of instructions: a hundredth of a second, for which a thread is delayed in
 * an allocation and the loader's lock is held. Only files without the sorted table need more than a
 * few hundred.
 */
#define MAX_WORK 100000

#define MAX_PHDRS 1024

struct search {
	uint64_t pc;
	struct vt_unwind_epoch *epoch;
	uint32_t recipe;
};

typedef int iterate_fn(int (*callback)(struct dl_phdr_info *info, size_t size, void *data),
		       void *data);

static const Elf64_Phdr *segment_of(const struct dl_phdr_info *info, uint64_t addr)
{
	for (unsigned int i = 0; i < info->dlpi_phnum && i < MAX_PHDRS; i++) {
		const Elf64_Phdr *phdr = &info->dlpi_phdr[i];

		if (phdr->p_type == PT_LOAD &&
		    addr - info->dlpi_addr - phdr->p_vaddr < phdr->p_memsz)
			return phdr;
	}
	return NULL;
}

static const uint32_t unknown = (uint32_t)VT_RECIPE_UNKNOWN << VT_RECIPE_OFFSET_BITS;

static const struct vt_arch_abi abi = VT_ABI_X86_64;

/* ---- rows ---- */

/*
 * A CFA rule that is "the word at rbp + n", as an expression: DW_OP_breg6 n, DW_OP_deref. n of one
 * byte.
 */
static bool is_at_bp(const struct vt_cfi *cfi, const struct vt_cfi_rule *rule, size_t len,
		     int64_t *n)
{
	const uint8_t *op = cfi->image + rule->offset;

	if (rule->len != len || op[0] != 0x76 || op[1] & 0x80 || (len == 3 && op[2] != 0x06))
		return false;
	*n = (int64_t)(int8_t)(uint8_t)(op[1] << 1) >> 1;
	return true;
}

/*
 * GCC realigns the stack of a function whose variables need it: rbp points to the caller's saved
 * rbp, and the CFA is kept in a word below. (Before and after that it is in r10, but there is no
 * call there.)
 */
static uint32_t realigned(const struct vt_cfi *cfi, const struct vt_cfi_row *row)
{
	const struct vt_cfi_rule *bp = &row->regs[VT_REG_RBP];
	int64_t cfa_at, bp_at;

	if (!is_at_bp(cfi, &row->cfa, 3, &cfa_at) || bp->how != VT_CFI_AT_EXPR ||
	    !is_at_bp(cfi, bp, 2, &bp_at) || bp_at != 0 || cfa_at >= 0 || cfa_at % 8)
		return unknown;
	return vt_recipe(VT_RECIPE_DRAP, (uint64_t)-cfa_at / 8, 0);
}

static uint32_t recipe_of_row(const struct vt_cfi *cfi, const struct vt_cfi_row *row)
{
	const struct vt_cfi_rule *cfa = &row->cfa, *bp = &row->regs[VT_REG_RBP],
				 *ra = &row->regs[VT_REG_RIP];
	uint64_t saved = 0;

	if (ra->how == VT_CFI_UNDEFINED)
		return vt_recipe(VT_RECIPE_OUTER, 0, 0);
	if (ra->how != VT_CFI_AT_CFA || ra->offset != -8 || row->signal_frame ||
	    row->regs[VT_REG_RSP].how != VT_CFI_CFA || row->regs[VT_REG_RSP].offset != 0)
		return unknown;
	if (cfa->how == VT_CFI_EXPR)
		return realigned(cfi, row);
	if (bp->how == VT_CFI_AT_CFA && bp->offset <= -16 && bp->offset % 8 == 0)
		saved = (uint64_t)-bp->offset / 8;
	else if (bp->how != VT_CFI_SAME)
		return unknown;
	if (cfa->how != VT_CFI_REGISTER || (cfa->reg != VT_REG_RSP && cfa->reg != VT_REG_RBP) ||
	    cfa->offset < 8 || cfa->offset % 8 || cfa->offset / 8 >= 1 << VT_RECIPE_OFFSET_BITS ||
	    saved >= 1 << VT_RECIPE_SAVED_BITS)
		return unknown;
	return vt_recipe(cfa->reg == VT_REG_RSP ? VT_RECIPE_SP : VT_RECIPE_BP,
			 (uint64_t)cfa->offset / 8, saved);
}

/* ---- modules ---- */

static uint32_t recipe_in(const struct dl_phdr_info *info, uint64_t pc)
{
	uint64_t work = MAX_WORK, at = pc - info->dlpi_addr;
	struct vt_cfi_row row;
	struct vt_cfi cfi;

	if (!vt_cfi_init_loaded(&cfi, &abi, info->dlpi_phdr,
				info->dlpi_phnum < MAX_PHDRS ? info->dlpi_phnum : MAX_PHDRS,
				info->dlpi_addr))
		return unknown;
	cfi.work_left = &work;
	/*
	 * A call may be the last instruction of its function: the byte before the return address
	 * counts.
	 */
	if (vt_cfi_find(&cfi, at - 1, &row))
		return recipe_of_row(&cfi, &row);
	/*
	 * makecontext() puts the start of a function that ends the stack where a return address
	 * would be.
	 */
	if (vt_cfi_find(&cfi, at, &row) && row.regs[VT_REG_RIP].how == VT_CFI_UNDEFINED)
		return vt_recipe(VT_RECIPE_OUTER, 0, 0);
	return unknown;
}

/* E8 and 32 bits, or FF /2 with ModRM, SIB and displacement: 2 to 7 bytes. */
static bool follows_call(const struct dl_phdr_info *info, const Elf64_Phdr *phdr, uint64_t pc)
{
	const uint8_t *code = (const uint8_t *)(uintptr_t)(pc - 7);

	if (!(phdr->p_flags & PF_X) || !(phdr->p_flags & PF_R) ||
	    pc - info->dlpi_addr - phdr->p_vaddr < 7)
		return false;
	if (code[2] == 0xe8)
		return true;
	for (int i = 0; i < 6; i++)
		if (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2)
			return true;
	return false;
}

static int take_epoch(struct dl_phdr_info *info, size_t size, void *data)
{
	/* All releases of musl, and of glibc since 2.4, have the counters. */
	if (size >= offsetof(struct dl_phdr_info, dlpi_tls_modid))
		*(struct vt_unwind_epoch *)data =
			(struct vt_unwind_epoch){ info->dlpi_adds, info->dlpi_subs };
	return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	const Elf64_Phdr *phdr = segment_of(info, search->pc - 1);

	take_epoch(info, size, search->epoch);
	if (!phdr)
		return 0;
	search->recipe = recipe_in(info, search->pc);
	if (follows_call(info, phdr, search->pc))
		search->recipe |= VT_RECIPE_AFTER_CALL;
	return 1;
}

void vt_unwind_epoch(uint64_t dl_iterate_phdr, struct vt_unwind_epoch *epoch)
{
	*epoch = (struct vt_unwind_epoch){ 0, 0 };
	((iterate_fn *)dl_iterate_phdr)(take_epoch, epoch);
}

uint32_t vt_unwind_find(uint64_t dl_iterate_phdr, uint64_t pc, struct vt_unwind_epoch *epoch)
{
	struct search search = { .pc = pc, .epoch = epoch, .recipe = unknown };

	((iterate_fn *)dl_iterate_phdr)(look_at, &search);
	return search.recipe;
}
