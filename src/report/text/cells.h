/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of memory as cells of one size: what is in each, and its character. A cell shows what share
 * of it is taken, so that a hole is seen also where it is smaller than a cell.
 */
#ifndef VT_REPORT_TEXT_CELLS_H
#define VT_REPORT_TEXT_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "model/owners.h"
#include "vramtap/torch.h"

/* What memory is, to a cell. */
enum vt_cell_state {
	VT_MEMORY_IN_USE,
	VT_MEMORY_AWAITING,
	VT_MEMORY_HOLE,     /* cached, in a segment of which some is taken */
	VT_MEMORY_SPARE,    /* cached, and so is all of its segment: it can be given back */
	VT_MEMORY_UNMAPPED, /* addresses only */
	VT_N_MEMORY
};

struct vt_cell {
	uint64_t bytes[VT_N_MEMORY];
	uint64_t owned[VT_N_CATEGORIES]; /* of those in use; UNKNOWN: nobody is known */
};

struct vt_cells {
	struct vt_cell *cells;
	size_t n;
	uint64_t scale; /* bytes of a cell; not 0 */
	uint64_t at;    /* bytes of the run so far */
};

/* The memory behind what was added before; what is beyond the last cell is left out. */
void vt_cells_add(struct vt_cells *cells, uint64_t bytes, enum vt_cell_state state,
		  enum vt_category category);

/* Cells of so many bytes. */
size_t vt_cells_of(uint64_t bytes, uint64_t scale);

/* What a cell is. */
enum vt_cell_kind {
	VT_CELL_EMPTY,    /* nothing was added */
	VT_CELL_UNMAPPED, /* addresses only */
	VT_CELL_SPARE,    /* nothing of it is taken, most of it can be given back */
	VT_CELL_HOLE,     /* nothing of it is taken */
	VT_CELL_AWAITING, /* most of what is taken awaits its free */
	VT_CELL_PART,     /* some of it is taken */
	VT_CELL_FULL,     /* all of it is in use */
	VT_N_CELL_KINDS
};

enum vt_cell_kind vt_cell_kind(const struct vt_cell *cell);

/* Of a PART: how many eighths are taken, 1 to 7. */
unsigned int vt_cell_eighths(const struct vt_cell *cell);

/* What most of it in use is. */
enum vt_category vt_cell_category(const struct vt_cell *cell);

/*
 * A scale for total bytes in so many cells, or a few more: a power of two, so that it is a round
 * number, of smallest bytes at least.
 */
uint64_t vt_cells_scale(uint64_t total, uint64_t n_cells, uint64_t smallest);

#endif
