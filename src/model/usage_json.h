/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses the devices, as JSON: reports and results of triage have it in one form. */
#ifndef VT_MODEL_USAGE_JSON_H
#define VT_MODEL_USAGE_JSON_H

#include "json/in.h"
#include "json/out.h"
#include "model/usage.h"

/* An object. */
void vt_usage_put(struct vt_json *json, const char *key, const struct vt_model_usage *usage);

/* from may be NULL: an older version wrote none. usage must be zeroed. */
void vt_usage_load(struct vt_json_in *in, const struct vt_json_value *from,
		   struct vt_model_usage *usage);

#endif
