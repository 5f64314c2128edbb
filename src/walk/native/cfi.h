/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information (.eh_frame) of one ELF image: finds the row for an address, and applies it
 * to a set of registers.
 *
 * Why not libdw: a damaged file can make 0.188 divide by zero or allocate gigabytes. dwfl would
 * also map every file a second time, look for debug files, and bring the debuginfod client into the
 * program. test_cfi.c compares this code with libdw, address by address.
 */
#ifndef VT_WALK_NATIVE_CFI_H
#define VT_WALK_NATIVE_CFI_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/arch/arch.h"
#include "vramtap/mem.h"

/* How to find one value of the caller. */
enum vt_cfi_how {
	VT_CFI_UNDEFINED,
	VT_CFI_SAME,     /* the callee has not changed it */
	VT_CFI_AT_CFA,   /* in memory at CFA + offset */
	VT_CFI_CFA,      /* CFA + offset itself */
	VT_CFI_REGISTER, /* register `reg` of the callee + offset */
	VT_CFI_AT_EXPR,  /* in memory at the result of an expression */
	VT_CFI_EXPR,     /* the result of an expression */
};

struct vt_cfi_rule {
	uint8_t how; /* enum vt_cfi_how */
	uint8_t reg;
	uint32_t len;   /* of the expression */
	int64_t offset; /* for an expression: where it is in the file */
};

struct vt_cfi_row {
	struct vt_cfi_rule cfa; /* VT_CFI_REGISTER or VT_CFI_EXPR */
	struct vt_cfi_rule regs[VT_MAX_REGS];
	uint8_t ra;        /* which of them has the return address: mostly the ABI's */
	bool signal_frame; /* the caller was interrupted: its pc is the instruction itself */
};

#define VT_CFI_MAX_SEGMENTS 64

/* Where the information of an image is; all private. */
struct vt_cfi {
	const struct vt_arch_abi *abi; /* not owned */
	const uint8_t *image;          /* not owned */
	uint64_t size;
	struct {
		uint64_t offset, vaddr, size; /* of a PT_LOAD in the file */
	} segments[VT_CFI_MAX_SEGMENTS];
	size_t n_segments;
	bool loaded; /* the loader mapped image: only bytes inside one segment can be read */
	uint64_t header_vaddr; /* of .eh_frame_hdr: the base of addresses relative to "data" */
	/* the sorted table in it: offset in the file, entries; n_table 0: none */
	uint64_t table, n_table;
	/* .eh_frame: offsets in the file; for a search without a table */
	uint64_t frames, frames_end;
	/*
	 * How many more records, instructions and operations may be read. The caller may set it.
	 * NULL: no limit.
	 */
	uint64_t *work_left;
};

/*
 * image is a whole ELF file, or its mapped parts at their file offsets. It must outlive cfi. A
 * look-up touches only the pages that it needs. False when image has no call frame information, or
 * is of another architecture.
 */
bool vt_cfi_init(struct vt_cfi *cfi, const struct vt_arch_abi *abi, const uint8_t *image,
		 uint64_t size);

/*
 * The same for an image that the loader has mapped into this process itself. phdrs are its program
 * headers; bias is what the loader added to addresses. Reads nothing outside its readable segments.
 * The image must stay mapped.
 */
bool vt_cfi_init_loaded(struct vt_cfi *cfi, const struct vt_arch_abi *abi, const Elf64_Phdr *phdrs,
			size_t n, uint64_t bias);

/* The row for an address in the file; false when none covers it. */
bool vt_cfi_find(const struct vt_cfi *cfi, uint64_t vaddr, struct vt_cfi_row *row);

enum vt_cfi_result {
	VT_CFI_STEPPED,
	VT_CFI_OUTERMOST,   /* the row says that there is no caller */
	VT_CFI_NO_REGISTER, /* the rules need a register whose value is unknown */
	VT_CFI_NO_MEMORY,   /* stack memory could not be read: src->fault_addr */
	VT_CFI_BAD_RULE,    /* an expression that makes no sense */
};

/*
 * Turns the registers of a frame into those of its caller. regs changes only when the result is
 * VT_CFI_STEPPED. *cfa is set for VT_CFI_STEPPED and, if it can be computed, for VT_CFI_OUTERMOST
 * (else 0). bias is the module's.
 */
enum vt_cfi_result vt_cfi_apply(const struct vt_cfi *cfi, const struct vt_cfi_row *row,
				uint64_t bias, struct vt_memsrc *src, struct vt_regs *regs,
				uint64_t *cfa);

#endif
