/* SPDX-License-Identifier: Apache-2.0 */
/* model.faults as a part of a JSON document. */
#ifndef VT_MODEL_FAULTS_JSON_H
#define VT_MODEL_FAULTS_JSON_H

#include "json/in.h"
#include "json/out.h"
#include "model/faults.h"

void vt_faults_put(struct vt_json *json, const char *key, const struct vt_model *model);

/* The same without what follows for one process. */
void vt_faults_put_log(struct vt_json *json, const char *key, const struct vt_model_faults *faults);

/* from: NULL in a file of an older vramtap. */
void vt_faults_load(struct vt_json_in *in, const struct vt_json_value *from,
		    struct vt_model_faults *faults);

#endif
