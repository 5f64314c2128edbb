/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the recorder in a target, live or in a core, by the name of the mapping that it was loaded
 * from.
 */
#ifndef VT_WALK_RECORDER_FIND_H
#define VT_WALK_RECORDER_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "target/maps.h"
#include "vramtap/mem.h"

/*
 * The address of vt_recorder (struct vt_recorder_head); 0: there is none. If there are several, it
 * prefers one that is on (recorders of other versions stay loaded, idle). It needs no symbols,
 * which few cores have: the head begins with the magic, in the library's writable memory.
 */
uint64_t vt_recorder_find(const struct vt_maps *maps, struct vt_memsrc *src);

#endif
