/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_JAX_H
#define VT_REPORT_JSON_JAX_H

#include "json/out.h"
#include "model/model.h"

/* "jax": where JAX's arrays were made, or null. */
void vt_json_jax(struct vt_json *json, const struct vt_model *model);

#endif
