/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_HOST_H
#define VT_REPORT_JSON_HOST_H

#include "json/out.h"
#include "model/model.h"

/* The member "host": pinned and shared memory. */
void vt_json_host(struct vt_json *json, const struct vt_model *model);

#endif
