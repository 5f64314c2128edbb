/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known releases (walk/torch/layouts.h, generated). It is the cross-check of discovery and gives the fields that a target
 * shows nothing of; the layout itself is always looked for in the target.
 */
#ifndef VT_WALK_TORCH_TABLE_H
#define VT_WALK_TORCH_TABLE_H

#include "walk/torch/finder.h"

enum vt_torch_origin {
	VT_ROW_SOURCE,  /* from the release's source, compiled with debug information */
	VT_ROW_LIBRARY, /* from the release's library at work: found by signature, and compared with the constants in its code */
};

struct vt_torch_row {
	const char *release;  /* "2.11" */
	const char *wheel;    /* whose library the row was verified against: "2.11.0+cu130" */
	const char *build_id; /* of that library, hexadecimal; "" it has none */
	enum vt_torch_origin origin;
	uint8_t cuda;         /* its major version */
	/*
	 * Since 2.10 a cudaDeviceProp lies between active_blocks and graph_pools. It depends on CUDA alone: the place of graph_pools
	 * in a build for another CUDA follows.
	 */
	bool has_device_prop;
	struct vt_torch_layout layout;
};

/* All rows, oldest release first, hidden ones as well. */
const struct vt_torch_row *vt_torch_rows(size_t *n);

/*
 * Does as if the table had no row of this release, or with "all" no row, from now on in this process. NULL: they are all there
 * again. False: there is no such row.
 */
bool vt_torch_hide_row(const char *release);
bool vt_torch_is_hidden(const struct vt_torch_row *row);

/* The value of a field; VT_TORCH_NO_FIELD when there is none (also for the one that is wider). */
uint32_t vt_torch_field_get(const struct vt_torch_layout *layout, enum vt_torch_field field);
const char *vt_torch_field_class(enum vt_torch_field field);
const char *vt_torch_field_name(enum vt_torch_field field);

/*
 * Compares f->layout, as discovered (block_found: with the fields of a Block), with the rows that are not hidden. Where it is a
 * row's, fields that were not told are taken from there. Fills found->row, ->differs and the name of the layout. False: the
 * layout is not to be used.
 */
bool vt_torch_compare_with_table(struct vt_torch_finder *f, bool block_found);

#endif
