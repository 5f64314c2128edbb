/* SPDX-License-Identifier: Apache-2.0 */
/* What the process allocated besides PyTorch, and what is in no allocation. */
#ifndef VT_REPORT_TEXT_LEDGER_H
#define VT_REPORT_TEXT_LEDGER_H

#include "report/text/table.h"

/*
 * The rows between PyTorch's and the free memory. False, and no row: nothing is known, or
 * PyTorch's part of it.
 */
bool vt_text_ledger_rows(const struct vt_table *t, const struct vt_model *model, int device);

/* Below the table: memory that is not the device's, or not always. */
void vt_text_ledger_beside(struct vt_line *line, const struct vt_model *model, int device);

/* All tables of a process without PyTorch's allocator. False: nothing is known. */
bool vt_text_ledger(struct vt_line *line, const struct vt_model *model);

#endif
