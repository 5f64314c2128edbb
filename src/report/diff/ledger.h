/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/report/diff. */
#ifndef VT_REPORT_DIFF_LEDGER_H
#define VT_REPORT_DIFF_LEDGER_H

#include "report/diff/diff.h"

/* Fills has_lines, line_known and lines. */
void vt_diff_compare_ledgers(struct vt_diff_device *d, const struct vt_model *before,
			     const struct vt_model *after);

#endif
