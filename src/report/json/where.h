/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_WHERE_H
#define VT_REPORT_JSON_WHERE_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

void vt_json_where(struct vt_json *json, const struct vt_model_where *where);
void vt_json_in_where(struct vt_json_in *in, const struct vt_json_value *root,
		      struct vt_model_where *where);

#endif
