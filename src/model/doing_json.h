/* SPDX-License-Identifier: Apache-2.0 */
/* What threads do, in the JSON of reports and of jobs: the words for people, and the codes beside them for machines. */
#ifndef VT_MODEL_DOING_JSON_H
#define VT_MODEL_DOING_JSON_H

#include "json/out.h"
#include "model/words.h"

/* "verdict", "verdict_code", and of a function "verdict_function", "verdict_purpose", "verdict_for". Nothing for NONE. */
void vt_put_verdict(struct vt_json *json, const struct vt_verdict *verdict);

/* "waits", with so much detail, "waits_code" and "waits_call". Nothing for NONE. */
void vt_put_waits(struct vt_json *json, const struct vt_waits *waits, enum vt_detail detail);

#endif
