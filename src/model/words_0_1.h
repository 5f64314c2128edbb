/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentences of vramtap 0.1.0, which saved no codes. Only this code reads sentences, and only
 * where a file has no code. They are frozen: the meaning of a saved file must not depend on
 * today's words.
 */
#ifndef VT_MODEL_WORDS_0_1_H
#define VT_MODEL_WORDS_0_1_H

#include "base/arena.h"
#include "model/doing.h"

/* NONE for an unknown sentence. Strings are copied into the arena. False: out of memory. */
bool vt_verdict_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_verdict *verdict);
bool vt_waits_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_waits *waits);

#endif
