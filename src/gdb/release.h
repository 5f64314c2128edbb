/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether gdb may detach for a while: the process must not get a signal that it would not get
 * otherwise.
 */
#ifndef VT_GDB_RELEASE_H
#define VT_GDB_RELEASE_H

#include "gdb/state.h"

/*
 * The caller has compared the state with the process (held.tid). NULL: gdb may detach; else why
 * not.
 */
struct vt_error *vt_gdb_may_release(const struct vt_gdb_state *state);

#endif
