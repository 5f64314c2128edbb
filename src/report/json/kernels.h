/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_KERNELS_H
#define VT_REPORT_JSON_KERNELS_H

#include "json/out.h"
#include "model/model.h"

/* "kernels": what runs on the devices, or null: the CUDA debugger was not asked. */
void vt_json_kernels(struct vt_json *json, const struct vt_model *model);

#endif
