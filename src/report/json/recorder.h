/* SPDX-License-Identifier: Apache-2.0 */
/* JSON parts that reports and comparisons share, and the parts about vramtap's recorder. */
#ifndef VT_REPORT_JSON_RECORDER_H
#define VT_REPORT_JSON_RECORDER_H

#include "json/out.h"
#include "model/model.h"

/* The recorder's state, driver allocations, out-of-memory errors. */
void vt_json_recorder(struct vt_json *json, const struct vt_model *model);

/* Members of an object: ages and thread. */
void vt_json_ages(struct vt_json *json, const struct vt_model_ages *ages);
void vt_json_record(struct vt_json *json, const struct vt_model_record *record);

/* The member "headlines". */
void vt_json_headlines(struct vt_json *json, const struct vt_model_headline *headlines, size_t n);

/* The name of the member for blocks without a backtrace for this reason: "not_recorded", ... */
const char *vt_json_untraced_key(enum vt_untraced why);

#endif
