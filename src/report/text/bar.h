/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bar of a device: its memory in shades, from what is taken to what is free. The rows of the
 * memory table that add up to a shade are marked with it, which is the bar's legend.
 */
#ifndef VT_REPORT_TEXT_BAR_H
#define VT_REPORT_TEXT_BAR_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "report/text/line.h"

enum vt_shade {
	VT_SHADE_OTHER,  /* used, and not PyTorch's of this process */
	VT_SHADE_IN_USE, /* by PyTorch; without PyTorch's blocks: by whomever */
	VT_SHADE_CACHED, /* by PyTorch */
	VT_SHADE_FREE,
	VT_N_SHADES
};

/* What each shade has of a device; false: PyTorch's part is not known, or does not fit in. */
bool vt_bar_parts(const struct vt_model_device *device, const struct vt_model_allocator *allocator,
		  uint64_t parts[VT_N_SHADES]);

/*
 * Shares n_cells among the parts in proportion to their bytes. A part that has any bytes has a
 * cell, as long as there are enough.
 */
void vt_bar_cells(const uint64_t *parts, size_t n, unsigned int n_cells, unsigned int *cells);

/* A line this wide has room for a bar beside every device's name and figures. */
bool vt_bar_fits(const struct vt_line *line);

/* allocator: NULL none. */
void vt_bar_add(struct vt_line *line, const struct vt_model_device *device,
		const struct vt_model_allocator *allocator, int columns);

/* A cell of that shade. */
void vt_bar_mark(struct vt_line *line, enum vt_shade shade);

#endif
