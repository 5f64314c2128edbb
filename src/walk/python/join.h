/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_WALK_PYTHON_JOIN_H
#define VT_WALK_PYTHON_JOIN_H

#include "walk/python/python.h"

/*
 * A thread that runs code in several interpreters has a PyThreadState in each: makes one struct vt_python_thread of those that
 * have the same pthread, with the frames of all. Those of which it cannot be said which thread runs them (subinterpreters of
 * 3.8 and 3.9) lose their pthread and tid. Fails only when out of memory.
 */
struct vt_error *vt_py_join_threads(struct vt_python *py);

#endif
