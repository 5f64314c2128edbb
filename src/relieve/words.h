/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/relieve: the words of its texts. */
#ifndef VT_RELIEVE_WORDS_H
#define VT_RELIEVE_WORDS_H

#include "base/str.h"
#include "relieve/relieve.h"

const char *vt_relieve_action_name(enum vt_relief what); /* "empty-cache" */
const char *vt_relieve_call_name(enum vt_relief what);   /* "torch.cuda.empty_cache()" */
const char *vt_relieve_cost(enum vt_relief what);        /* what it costs the program */
const char *vt_relieve_outcome_name(enum vt_relieve_outcome outcome);
const char *vt_relieve_why_name(unsigned int why); /* "capture" */

/* Why nothing was called, as a sentence without its end; hostile bytes may be in it. */
void vt_relieve_add_why(struct vt_str *text, const struct vt_relieve_result *result);

/* What the reader can do then; NULL nothing. */
const char *vt_relieve_remedy(unsigned int why);

/* By how much less PyTorch has in use after the call, on all devices; INT64_MIN: not known. */
int64_t vt_relieve_in_use_less(const struct vt_relieve_result *result);

/* Bytes that PyTorch, or its pinned memory, had less at the second look; INT64_MIN unknown. */
int64_t vt_relieve_given_back(const struct vt_relieve_result *result);

/*
 * What could be given back by the first look, at most: segments that no tensor uses, pinned memory
 * that is kept. -1 unknown.
 */
int64_t vt_relieve_at_most(const struct vt_relieve_result *result);

#endif
