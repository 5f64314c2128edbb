/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/report/diff. */
#ifndef VT_REPORT_DIFF_OWNERS_H
#define VT_REPORT_DIFF_OWNERS_H

#include "report/diff/diff.h"

/* False when out of memory. After the devices. */
bool vt_diff_compare_owners(struct vt_diff *diff);

#endif
