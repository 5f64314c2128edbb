/* SPDX-License-Identifier: Apache-2.0 */
/* What a series of looks found, as a part of the model of the last one. */
#ifndef VT_REPORT_DIFF_GROWN_H
#define VT_REPORT_DIFF_GROWN_H

#include "base/str.h"
#include "report/diff/growth.h"

/* "blocks of 2.00 MiB on GPU 0, stream 0x7f00" */
void vt_grown_add_size(struct vt_str *text, const struct vt_growth_source *size);

/* Adds what grows of growth to model.growth. False when out of memory. */
bool vt_grown_take(struct vt_model *model, const struct vt_growth *growth);

/* Adds how the largest sources of growth went. False when out of memory. */
bool vt_grown_take_course(struct vt_model *model, const struct vt_growth *growth);

#endif
