/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that a debugger holds: we cannot stop it, because it is stopped already, and the
 * registers come from the debugger. For a thread without them, /proc's data must do: stack pointer
 * and instruction.
 */
#ifndef VT_COLLECT_ORIGIN_HELD_H
#define VT_COLLECT_ORIGIN_HELD_H

#include "collect/collect.h"
#include "collect/held.h"

extern const struct vt_origin vt_origin_held;

#endif
