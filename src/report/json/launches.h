/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_LAUNCHES_H
#define VT_REPORT_JSON_LAUNCHES_H

#include "json/out.h"
#include "model/model.h"

/* The member "launches" of the recorder. */
void vt_json_launches(struct vt_json *json, const struct vt_model *model);

#endif
