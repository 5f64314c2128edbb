/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of one ledger that can be compared with those of a later one: what is not PyTorch's.
 * What a pool has in use and what it keeps are lines of their own, by the library's books.
 */
#ifndef VT_REPORT_DIFF_LINES_H
#define VT_REPORT_DIFF_LINES_H

#include "base/str.h"
#include "model/model.h"

enum {
	VT_LINE_USED = 0, /* + enum vt_libpool_kind; likewise: */
	VT_LINE_CACHED = VT_LINE_USED + VT_N_LIBPOOL_KINDS,
	VT_LINE_HELD = VT_LINE_CACHED + VT_N_LIBPOOL_KINDS, /* both */
	VT_LINE_KINDS = VT_LINE_HELD + VT_N_LIBPOOL_KINDS,  /* + enum vt_range_kind */
	VT_LINE_REST = VT_LINE_KINDS + VT_N_RANGE_KINDS,    /* of the process */
	VT_N_LINES
};

/* Whether there is a ledger, of all ranges: else what was not found would seem to grow. */
bool vt_lines_are_whole(const struct vt_model *model);

/*
 * The line of a device. False: it is not known, or not for certain: PyTorch's blocks are not known,
 * the library's pool was changing, the pools of the driver were not asked for.
 */
bool vt_line_amount(const struct vt_model *model, const struct vt_model_ledger_device *d,
		    unsigned int line, struct vt_model_amount *amount);

/* "xla_in_use", "xla_cached", "xla", "device_memory", ..., "rest_of_process" */
void vt_line_add_name(struct vt_str *text, unsigned int line);
/* "cached by XLA", "raw cudaMalloc, unattributed on GPU 0" */
void vt_line_add_label(struct vt_str *text, unsigned int line, int device);

#endif
