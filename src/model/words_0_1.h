/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentences of vramtap 0.1.0, which wrote no codes into what it saved: read here alone, and only where a file has no
 * code. They are frozen: what a saved file says must not depend on how today's vramtap words it.
 */
#ifndef VT_MODEL_WORDS_0_1_H
#define VT_MODEL_WORDS_0_1_H

#include "base/arena.h"
#include "model/doing.h"

/* NONE where the sentence is not known. Strings are copied into the arena. False: out of memory. */
bool vt_verdict_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_verdict *verdict);
bool vt_waits_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_waits *waits);

#endif
