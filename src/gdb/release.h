/* SPDX-License-Identifier: Apache-2.0 */
/* Whether gdb may let go of a process for a while: this must get no signal that it would not have had. */
#ifndef VT_GDB_RELEASE_H
#define VT_GDB_RELEASE_H

#include "gdb/state.h"

/* The state has been compared with the process (held.tid). NULL: it may; else why not. */
struct vt_error *vt_gdb_may_release(const struct vt_gdb_state *state);

#endif
