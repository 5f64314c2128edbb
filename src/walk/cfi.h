/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of one ELF image (.eh_frame), found and parsed by libdw, turned into rows that can be kept and
 * applied to a set of registers. dwfl is not used: it would map every file a second time, look for debug files, bring
 * the debuginfod client into the program and evaluate all rules anew for every frame.
 */
#ifndef VT_WALK_CFI_H
#define VT_WALK_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>

#include "base/error.h"
#include "target/regs.h"
#include "vramtap/mem.h"

/* How one value of the caller is found. */
enum vt_cfi_how {
	VT_CFI_UNDEFINED,
	VT_CFI_SAME,      /* the callee has not changed it */
	VT_CFI_AT_CFA,    /* in memory at CFA + offset */
	VT_CFI_CFA,       /* CFA + offset itself */
	VT_CFI_REGISTER,  /* register `reg` of the callee + offset */
	VT_CFI_EXPR,      /* a DWARF expression; it says itself whether its result is an address or the value */
};

struct vt_cfi_rule {
	uint8_t how; /* enum vt_cfi_how */
	uint8_t reg;
	uint32_t n_ops;
	int64_t offset;
	const Dwarf_Op *ops; /* owned by the vt_cfi */
};

struct vt_cfi_row {
	struct vt_cfi_rule cfa; /* VT_CFI_REGISTER or VT_CFI_EXPR (there the result is the CFA) */
	struct vt_cfi_rule regs[VT_N_REGS];
	bool signal_frame; /* the caller was interrupted: its pc is the instruction itself */
};

struct vt_cfi; /* opaque */

/*
 * image is a whole ELF file and must outlive the result; only the pages that a look-up needs are touched.
 * VT_ERR_NOTFOUND when it has no call frame information, VT_ERR_FORMAT when it is no ELF file.
 */
struct vt_error *vt_cfi_create(const uint8_t *image, uint64_t size, struct vt_cfi **ret);
void vt_cfi_destroy(struct vt_cfi *cfi);

/* The row for an address in the file; false when none covers it. */
bool vt_cfi_find(struct vt_cfi *cfi, uint64_t vaddr, struct vt_cfi_row *row);

enum vt_cfi_result {
	VT_CFI_STEPPED,
	VT_CFI_OUTERMOST,  /* the row says that there is no caller */
	VT_CFI_NO_REGISTER, /* a register that the rules need is not known */
	VT_CFI_NO_MEMORY,  /* stack memory could not be read: src->fault_addr */
	VT_CFI_BAD_RULE,   /* an expression that does not make sense */
};

/*
 * Turns the registers of a frame into those of its caller; regs changes only when the result is VT_CFI_STEPPED. *cfa is
 * set for VT_CFI_STEPPED and, where it can be computed, for VT_CFI_OUTERMOST (else 0). bias is that of the module.
 */
enum vt_cfi_result vt_cfi_apply(const struct vt_cfi_row *row, uint64_t bias, struct vt_memsrc *src,
				struct vt_regs *regs, uint64_t *cfa);

#endif
