/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of vramtap's recorder in a target's memory (vramtap/recorder.h): it begins with a magic,
 * in writable memory of the library.
 */
#ifndef VT_TARGET_RECORDER_HEAD_H
#define VT_TARGET_RECORDER_HEAD_H

#include <stdint.h>

#include "vramtap/mem.h"

/*
 * The address of the first head, of any version, in [start, end), both page-aligned; 0: there is
 * none. Reads at most *budget bytes and subtracts them from it.
 */
uint64_t vt_recorder_head_find(struct vt_memsrc *src, uint64_t start, uint64_t end,
			       uint64_t *budget);

#endif
