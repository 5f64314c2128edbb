/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's states in documents: the code, which is the same in every version, for machines; and
 * words for people, which no program compares. Both are NULL for an unknown state.
 */
#ifndef VT_REPORT_STATE_WORDS_H
#define VT_REPORT_STATE_WORDS_H

#include "model/model.h"

const char *vt_allocator_state_code(enum vt_allocator_state state);  /* "not-loaded" */
const char *vt_allocator_state_words(enum vt_allocator_state state); /* "not loaded" */
const char *vt_recording_code(enum vt_recording recording);          /* "other-version" */
const char *vt_recording_words(enum vt_recording recording);         /* "other version" */

/* Lines of the ledger: "raw cudaMalloc, unattributed", "cudaMallocAsync pools", ... */
const char *vt_range_kind_label(unsigned int kind);
/* Of blocks without a backtrace: "allocated before recording began, or while it was off", ... */
const char *vt_untraced_words(enum vt_untraced why);
const char *vt_claimer_label(unsigned int claimer); /* "PyTorch", "XLA", ... */

#endif
