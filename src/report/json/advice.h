/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_ADVICE_H
#define VT_REPORT_JSON_ADVICE_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

/* The members "advice" and "next": what to do. */
void vt_json_advice(struct vt_json *json, const struct vt_model *model);

/* Members of "process": its parent, its children that use CUDA, limits of its host memory. */
void vt_json_around(struct vt_json *json, const struct vt_model_around *around);

/* Reads them again: not all that they follow from is in a file. */
void vt_json_in_advice(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_advices *advice);

void vt_json_in_around(struct vt_json_in *in, const struct vt_json_value *process,
		       struct vt_model_around *around);

#endif
