/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that a debugger holds: it cannot be stopped by us, since it stands already, and the
 * registers come from the debugger. Of a thread of which it gave none, what /proc shows has to do:
 * stack pointer and instruction.
 */
#ifndef VT_COLLECT_ORIGIN_HELD_H
#define VT_COLLECT_ORIGIN_HELD_H

#include "collect/collect.h"
#include "collect/held.h"

extern const struct vt_origin vt_origin_held;

#endif
