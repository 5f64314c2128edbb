/* SPDX-License-Identifier: Apache-2.0 */
/* The memory pools of libraries other than PyTorch. */
#ifndef VT_REPORT_TEXT_LIBPOOLS_H
#define VT_REPORT_TEXT_LIBPOOLS_H

#include "report/text/table.h"

/* Rows of the table of a device: what the pools use and keep of the driver's memory. */
void vt_text_libpool_rows(const struct vt_table *t, const struct vt_model *model,
			  const struct vt_model_ledger_device *d);

/* Lines below the table: what is no memory of the device, peaks and limits. */
void vt_text_libpools_beside(struct vt_line *line, const struct vt_model *model, int device);

/* Without the driver's list of allocations: what the pools' own books say. */
void vt_text_libpools_alone(struct vt_line *line, const struct vt_model *model);

/* What the largest blocks in use are for. */
void vt_text_libpool_blocks(struct vt_line *line, const struct vt_model *model);

#endif
