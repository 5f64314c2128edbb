/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_GROWTH_H
#define VT_REPORT_JSON_GROWTH_H

#include "json/out.h"
#include "model/model.h"

/* The member "growth". */
void vt_json_growth(struct vt_json *json, const struct vt_model *model);

#endif
