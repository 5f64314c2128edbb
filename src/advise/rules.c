/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, what to do first, first. doc/advice.md has the same rows; a test compares them. */
#include "advise/internal.h"

/* clang-format off */
const struct vt_advise_rule vt_advise_rules[] = {
	{ VT_ADVICE_STOPPED, vt_advise_stopped, VT_REMEDY_CONTINUE, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_FRAGMENTED, vt_advise_fragmented, VT_REMEDY_EXPANDABLE_SEGMENTS, VT_SURE_LIKELY, true },
};
/* clang-format on */

const size_t vt_advise_n_rules = sizeof(vt_advise_rules) / sizeof(vt_advise_rules[0]);
