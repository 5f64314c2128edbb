/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we must know from outside before we may ask the target's interpreter: what it exports, and
 * that its GIL comes free. A thread that waits for a GIL cannot be called back, so we only send one
 * when the GIL comes free.
 */
#ifndef VT_WALK_PYTHON_ASK_H
#define VT_WALK_PYTHON_ASK_H

#include "vramtap/helper_abi.h"
#include "walk/python/python.h"

/*
 * Finds what the interpreter exports. VT_ERR_UNSUPPORTED: the release is too old, free-threaded, or
 * does not export everything needed (the message says which).
 */
struct vt_error *vt_python_imports(const struct vt_python *py, struct vt_modules *modules,
				   struct vt_python_imports *imports);

/* The same, of what only the question for owners needs: CPython 3.12 on. */
struct vt_error *vt_python_owner_imports(const struct vt_python *py, struct vt_modules *modules,
					 struct vt_python_owner_imports *imports);

/*
 * Watches the main interpreter's GIL until it is free, changes hands, or is held by a thread that
 * runs Python code (such a thread gives it up on request). VT_ERR_BUSY: none of this happened for
 * for_ns; the message names the holder. VT_ERR_UNSUPPORTED: a subinterpreter shares the GIL, and
 * would not give it up. The target runs: a thread can take the GIL for ever right afterwards.
 */
struct vt_error *vt_python_watch_gil(struct vt_python *py, struct vt_memsrc *src, uint64_t for_ns);

#endif
