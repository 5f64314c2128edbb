/* SPDX-License-Identifier: Apache-2.0 */
/* What stands out among the owners of blocks: the words, and which of it is an alarm. */
#ifndef VT_MODEL_NOTICES_H
#define VT_MODEL_NOTICES_H

#include "base/str.h"
#include "model/model.h"

const char *vt_notice_code(enum vt_notice code); /* "held-by-exception": never changes */
const char *vt_notice_why(enum vt_why why);      /* "off": the same; "" none */

/*
 * Something is wrong, and the evidence leaves no other reading. What a healthy program may do as
 * well is worth a line, but is no alarm.
 */
bool vt_notice_is_alarm(const struct vt_model_notice *notice);
/* A line for people. */
void vt_notice_words(struct vt_str *out, const struct vt_model_notice *notice);

#endif
