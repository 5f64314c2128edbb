/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a process through which its libraries call the driver and the CUDA runtime. */
#ifndef VT_INJECT_RECORDER_GOT_H
#define VT_INJECT_RECORDER_GOT_H

#include <stddef.h>

#include "target/elfsym.h"
#include "vramtap/mem.h"
#include "vramtap/recorder.h"

#define VT_MAX_GOT 480 /* of VT_RECORDER_MAX_HOOKS */

/* Which functions of recorder_calls.h. */
enum vt_got_calls { VT_GOT_ALLOCATIONS, VT_GOT_LAUNCHES };

/*
 * All entries of global offset tables for these functions, as far as it is certain what they call.
 * Modules that cannot be read are left out. Returns how many were found; no more than room are
 * written.
 */
size_t vt_recorder_got_find(struct vt_modules *modules, struct vt_memsrc *src,
			    enum vt_got_calls calls, struct vt_recorder_got *got, size_t room);

#endif
