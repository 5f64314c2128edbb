/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI in a process: the library that it has loaded, or one that it could load. */
#ifndef VT_INJECT_RECORDER_CUPTI_H
#define VT_INJECT_RECORDER_CUPTI_H

#include <stdbool.h>

#include "target/elfsym.h"
#include "vramtap/recorder.h"

/* Fills in the functions of a libcupti that is loaded. False: none is. */
bool vt_recorder_cupti_find(struct vt_modules *modules, struct vt_recorder_cupti *cupti);

/*
 * Fills in the path, as the process sees it, of a libcupti that belongs to the loaded CUDA runtime,
 * and the function that loads it. False: there is none near the runtime. The search happens in the
 * mount namespace of process pid.
 */
bool vt_recorder_cupti_choose(struct vt_modules *modules, pid_t pid,
			      struct vt_recorder_cupti *cupti);

#endif
