/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_AGAIN_H
#define VT_REPORT_JSON_AGAIN_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

/* The member "again": further looks; null when there were none. */
void vt_json_again(struct vt_json *json, const struct vt_model_again *again);
/* What follows for the process; not its threads, which no report is loaded with. */
void vt_json_in_again(struct vt_json_in *in, const struct vt_json_value *root,
		      struct vt_model_again *again);

#endif
