/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into the interpreter of the target, from inside. doc/SAFETY.md tells what can go wrong; the
 * rules here:
 *
 * - We hold nothing of the target while we wait for the GIL. That wait cannot have a time limit: if
 *   the GIL comes too late, or after the tool went on, it is released at once.
 * - No Python code is evaluated. Only built-in functions of torch._C are called, and attributes are
 *   looked up in the modules' own dictionaries: no import, no audit event, no call that a profiler
 *   or debugger sees. No finaliser runs either: since 3.12 the garbage collector runs only between
 *   two instructions of Python code, and in older releases it is off during the call. So the GIL is
 *   not released in between (2.11 and 2.15 do not release it in these functions).
 * - Exceptions end here; nothing is printed.
 *
 * Objects are borrowed references unless a function is called make_ or call_.
 */
#ifndef VT_HELPER_PYTHON_H
#define VT_HELPER_PYTHON_H

#include <stdint.h>

#include "vramtap/helper_abi.h"

struct object; /* PyObject */

typedef struct object *vt_py_from_long_fn(long value);
typedef int vt_py_int_of_object_fn(struct object *object);
typedef struct object *vt_py_object_fn(void);
typedef struct object *vt_py_of_one_fn(struct object *object);
typedef struct object *vt_py_of_two_fn(struct object *object, struct object *other);
typedef struct object *vt_py_of_text_fn(struct object *object, const char *text);
typedef struct object *vt_py_at_fn(struct object *object, long index);
typedef void vt_py_void_fn(void);
typedef long vt_py_size_fn(struct object *object);
typedef long long vt_py_value_fn(struct object *object);
typedef struct object *vt_py_new_fn(long size);
typedef int vt_py_set_fn(struct object *object, long index, struct object *item);
typedef const char *vt_py_text_fn(struct object *object);
typedef struct object *vt_py_make_text_fn(const char *text);
typedef int vt_py_next_fn(struct object *dict, long *at, struct object **key,
			  struct object **value);

struct vt_py {
	struct vt_helper_shared *shared;
	struct vt_ask_python_args args; /* a copy: the tool could change it */
	int stopped_collector;          /* it was on, and is off as long as we have the GIL */
};

#define VT_PY(py, name, type) ((vt_py_##type *)(py)->args.imports.name)

/* VT_HELPER_FAILED, and why. */
uint32_t vt_py_fail(struct vt_py *py, const char *why);

void vt_py_drop(struct vt_py *py, struct object *object); /* NULL is fine */
int vt_py_is_text(struct vt_py *py, struct object *object, const char *text);

struct object *vt_py_type(struct vt_py *py, struct object *object); /* borrowed */

/*
 * What a dictionary has for a name, or NULL. Every key is looked at, as a look-up would call
 * __eq__() of a key that has the same hash.
 */
struct object *vt_py_find(struct vt_py *py, struct object *dict, const char *name);

/* The dictionary of an imported module, or NULL. */
struct object *vt_py_module(struct vt_py *py, const char *name);

/* The calling convention of a built-in function. */
#define VT_PY_NOARGS 4
#define VT_PY_O 8

/* A built-in function of a module; NULL when there is none, or something else has replaced it. */
struct object *vt_py_function(struct vt_py *py, struct object *module, const char *name,
			      int *flags);

/* Calls it with the arguments, a tuple (stolen; NULL: there was no memory for it). */
struct object *vt_py_call(struct vt_py *py, struct object *called, struct object *arguments);
/* The same with one argument (stolen), or with none. */
struct object *vt_py_call_with(struct vt_py *py, struct object *called, struct object *argument);

/*
 * Takes the GIL for ask(), and releases it. It can wait for the GIL longer than the tool does, even
 * for ever. Fills shared->gil.
 */
uint32_t vt_py_with_gil(struct vt_py *py, uint32_t (*ask)(struct vt_py *py));

/* From ask(), before a call that gives the GIL up: what other threads see is as they left it. */
void vt_py_restart_collector(struct vt_py *py);

#endif
