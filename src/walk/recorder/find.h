/* SPDX-License-Identifier: Apache-2.0 */
/* Where the recorder is in a target: known by the name of the mapping that it was loaded from, live or in a core. */
#ifndef VT_WALK_RECORDER_FIND_H
#define VT_WALK_RECORDER_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "target/maps.h"
#include "vramtap/mem.h"

/*
 * The address of vt_recorder (struct vt_recorder_head), of one that is on if there are several (those of other versions stay, idle);
 * 0: there is none. Symbols are not needed, which few cores have of it: the head begins with the magic, in the library's
 * writable memory.
 */
uint64_t vt_recorder_find(const struct vt_maps *maps, struct vt_memsrc *src);

#endif
