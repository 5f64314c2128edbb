/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/report/diff. */
#ifndef VT_REPORT_DIFF_HEADLINES_H
#define VT_REPORT_DIFF_HEADLINES_H

#include "report/diff/diff.h"

/* From all that was compared; its sites are sorted. False when out of memory. */
bool vt_diff_make_headlines(struct vt_diff *diff);

#endif
