/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be known from outside before the interpreter of a target may be asked something: what it exports, and that
 * its GIL can be had. A thread that waits for a GIL cannot be called back; so it is only sent where the GIL comes free.
 */
#ifndef VT_WALK_PYTHON_ASK_H
#define VT_WALK_PYTHON_ASK_H

#include "vramtap/helper_abi.h"
#include "walk/python/python.h"

/* VT_ERR_UNSUPPORTED: a release that is too old or free-threaded, or one that does not export all of it (the message says). */
struct vt_error *vt_python_imports(const struct vt_python *py, struct vt_modules *modules, struct vt_python_imports *imports);

/*
 * Watches the main interpreter's GIL until it is seen to be free, to change hands, or to be held by a thread that runs
 * Python code meanwhile (which gives it up when it is asked to). VT_ERR_BUSY: none of that was seen for that long; the
 * message names the holder. VT_ERR_UNSUPPORTED: a subinterpreter shares the GIL, and would not give it up. The target
 * runs; its GIL can be taken for ever in the next moment.
 */
struct vt_error *vt_python_watch_gil(struct vt_python *py, struct vt_memsrc *src, uint64_t for_ns);

#endif
