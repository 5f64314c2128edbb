/* SPDX-License-Identifier: Apache-2.0 */
/* What threads do, in the JSON of reports and jobs: words for people, and codes for machines. */
#ifndef VT_MODEL_DOING_JSON_H
#define VT_MODEL_DOING_JSON_H

#include "json/out.h"
#include "model/words.h"

/*
 * Writes "verdict" and "verdict_code"; for a function also "verdict_function", "verdict_purpose"
 * and "verdict_for". Nothing for NONE.
 */
void vt_put_verdict(struct vt_json *json, const struct vt_verdict *verdict);

/* Writes "waits" with this much detail, "waits_code" and "waits_call". Nothing for NONE. */
void vt_put_waits(struct vt_json *json, const struct vt_waits *waits, enum vt_detail detail);

#endif
