/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what holds a device's memory. */
#ifndef VT_REPORT_TEXT_TABLE_H
#define VT_REPORT_TEXT_TABLE_H

#include "model/model.h"
#include "report/text/bar.h"
#include "report/text/line.h"

enum {
	VT_TABLE_BYTES_COLUMNS = 10,
	VT_TABLE_BLOCKS_COLUMNS = 11,
	VT_TABLE_SHARE_COLUMNS = 7,
};

struct vt_table {
	struct vt_line *line;
	const struct vt_model_device *device; /* with memory, or NULL */
	int label_columns;
	bool shaded; /* the rows are marked with the shades of the bar */
};

#define VT_NO_BLOCKS UINT64_MAX

struct vt_table_row {
	int depth; /* 1: a part of the row above; has no share, so that the shares add up */
	const char *label;
	uint64_t bytes;
	uint64_t blocks;  /* or VT_NO_BLOCKS */
	const char *note; /* or NULL */
	bool need_note;   /* otherwise it is left out if it does not fit beside the numbers */
	bool is_sum;      /* of rows above: bold, and has no share */
	enum vt_shade shade;
};

struct vt_table vt_table(struct vt_line *line, const struct vt_model_device *device);
void vt_table_row(const struct vt_table *t, const struct vt_table_row *row);

#endif
