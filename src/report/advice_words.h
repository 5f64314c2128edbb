/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words for advice, in one table, of both writers. Each adds one sentence without a full stop;
 * names of the target in it are as they came: hostile.
 */
#ifndef VT_REPORT_ADVICE_WORDS_H
#define VT_REPORT_ADVICE_WORDS_H

#include "base/str.h"
#include "model/model.h"

void vt_advice_verdict(struct vt_str *text, const struct vt_model_advice *advice);
void vt_advice_evidence(struct vt_str *text, const struct vt_model_advice *advice);
void vt_advice_remedy(struct vt_str *text, const struct vt_model_advice *advice);
/* What the setting or the command is good for: of the lines that a report ends with. */
void vt_next_purpose(struct vt_str *text, const struct vt_model_next *next);

#endif
