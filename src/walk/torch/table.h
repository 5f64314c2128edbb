/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known releases (walk/torch/layouts.h, generated). It cross-checks discovery, and
 * supplies fields that a target does not reveal. Discovery always searches the target for the
 * layout itself.
 */
#ifndef VT_WALK_TORCH_TABLE_H
#define VT_WALK_TORCH_TABLE_H

#include "walk/torch/finder.h"

enum vt_torch_origin {
	VT_ROW_SOURCE,  /* from the release's source, compiled with debug information */
	VT_ROW_LIBRARY, /* from its running library: by signature, checked with its code */
};

struct vt_torch_row {
	const char *release;  /* "2.11" */
	const char *wheel;    /* the row was verified against its library: "2.11.0+cu130" */
	const char *build_id; /* of that library, hexadecimal; "" none */
	enum vt_torch_origin origin;
	uint8_t cuda; /* its major version */
	/*
	 * Since 2.10 a cudaDeviceProp is between active_blocks and graph_pools. Its size depends on
	 * CUDA alone, so we can derive the place of graph_pools in a build for another CUDA.
	 */
	bool has_device_prop;
	struct vt_torch_layout layout;
};

/* All rows, oldest release first, including hidden ones. */
const struct vt_torch_row *vt_torch_rows(size_t *n);

/*
 * Hides the row of this release, or with "all" every row, from now on in this process. NULL: shows
 * all rows again. False: the table has no row of this release.
 */
bool vt_torch_hide_row(const char *release);
bool vt_torch_is_hidden(const struct vt_torch_row *row);

/* The value of a field; VT_TORCH_NO_FIELD when there is none (also for the one wider field). */
uint32_t vt_torch_field_get(const struct vt_torch_layout *layout, enum vt_torch_field field);
const char *vt_torch_field_class(enum vt_torch_field field);
const char *vt_torch_field_name(enum vt_torch_field field);

/*
 * Compares the discovered f->layout with the rows that are not hidden. block_found: the layout has
 * the fields of a Block. If it matches a row, fields that discovery did not find come from the row.
 * Fills found->row, ->differs and the name of the layout. False: do not use the layout.
 */
bool vt_torch_compare_with_table(struct vt_torch_finder *f, bool block_found);

#endif
