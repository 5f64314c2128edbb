/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_ALLOCATOR_H
#define VT_REPORT_JSON_ALLOCATOR_H

#include "report/json/report.h"

/* An object of the array "allocators". */
void vt_json_allocator(struct vt_json *json, const struct vt_model *model,
		       const struct vt_model_allocator *a, const struct vt_json_blocks *blocks);

#endif
