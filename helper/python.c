/* SPDX-License-Identifier: Apache-2.0 */
#include "python.h"

#include "ops.h"
#include "vramtap/freestanding.h"

#define METH_CALL 0x8f /* VARARGS, KEYWORDS, NOARGS, O, FASTCALL: the calling convention */

typedef int int_fn(void);
typedef void void_fn(void);
typedef void release_fn(int state);
typedef void of_object_fn(struct object *object);

/* Types of functions that only this file needs. */
#define PY(py, name, type) ((type *)(py)->args.imports.name)

uint32_t vt_py_fail(struct vt_py *py, const char *why)
{
	vt_helper_say_why(py->shared, why, NULL);
	return VT_HELPER_FAILED;
}

/* ---- objects ---- */

void vt_py_drop(struct vt_py *py, struct object *object)
{
	PY(py, Py_DecRef, of_object_fn)(object);
}

int vt_py_is_text(struct vt_py *py, struct object *object, const char *text)
{
	const char *theirs = object ? VT_PY(py, PyUnicode_AsUTF8, text_fn)(object) : NULL;

	while (theirs && *theirs == *text) {
		if (!*text)
			return 1;
		theirs++;
		text++;
	}
	return 0;
}

struct object *vt_py_type(struct vt_py *py, struct object *object)
{
	struct object *type = VT_PY(py, PyObject_Type, of_one_fn)(object);

	vt_py_drop(py, type); /* the object has it */
	return type;
}

struct object *vt_py_find(struct vt_py *py, struct object *dict, const char *name)
{
	struct object *key, *value, *text = (struct object *)py->args.imports.PyUnicode_Type;
	long at = 0;

	while (VT_PY(py, PyDict_Next, next_fn)(dict, &at, &key, &value))
		if (vt_py_type(py, key) == text && vt_py_is_text(py, key, name))
			return value;
	return NULL;
}

struct object *vt_py_module(struct vt_py *py, const char *name)
{
	struct object *modules = VT_PY(py, PyImport_GetModuleDict, object_fn)();
	struct object *module = modules ? vt_py_find(py, modules, name) : NULL;

	return module ? VT_PY(py, PyModule_GetDict, of_one_fn)(module) : NULL;
}

/* ---- functions ---- */

struct object *vt_py_function(struct vt_py *py, struct object *module, const char *name, int *flags)
{
	struct object *found = vt_py_find(py, module, name);

	*flags = found ? VT_PY(py, PyCFunction_GetFlags, int_of_object_fn)(found) : -1;
	if (*flags < 0)
		return NULL;
	*flags &= METH_CALL;
	return found;
}

struct object *vt_py_call(struct vt_py *py, struct object *called, struct object *arguments)
{
	struct object *result;

	if (!arguments)
		return NULL;
	PY(py, Py_IncRef, of_object_fn)(called); /* it must live until it returns */
	result = VT_PY(py, PyObject_CallObject, of_two_fn)(called, arguments);
	vt_py_drop(py, called);
	vt_py_drop(py, arguments);
	return result;
}

struct object *vt_py_call_with(struct vt_py *py, struct object *called, struct object *argument)
{
	struct object *tuple = VT_PY(py, PyTuple_New, new_fn)(argument ? 1 : 0);

	if (!tuple) {
		vt_py_drop(py, argument);
		return NULL;
	}
	if (argument && VT_PY(py, PyTuple_SetItem, set_fn)(tuple, 0, argument)) {
		vt_py_drop(py, tuple);
		return NULL;
	}
	return vt_py_call(py, called, tuple);
}

/* ---- the GIL ---- */

/* Whether the tool still waits for this request. */
static int is_wanted(const struct vt_py *py, uint32_t seq, uint64_t start)
{
	return __atomic_load_n(&py->shared->request_seq, __ATOMIC_ACQUIRE) == seq &&
	       vt_sys_now_ns() - start <= py->args.gil_wait_ns;
}

static int all_there(const struct vt_python_imports *imports)
{
	const uint64_t *addrs = (const uint64_t *)imports;

	for (unsigned int i = 0; i < sizeof(*imports) / sizeof(*addrs); i++)
		if (!addrs[i])
			return 0;
	return 1;
}

void vt_py_restart_collector(struct vt_py *py)
{
	if (py->stopped_collector)
		PY(py, PyGC_Enable, int_fn)();
	py->stopped_collector = 0;
}

uint32_t vt_py_with_gil(struct vt_py *py, uint32_t (*ask)(struct vt_py *py))
{
	uint32_t seq = __atomic_load_n(&py->shared->request_seq, __ATOMIC_ACQUIRE);
	uint64_t start = vt_sys_now_ns(), got;
	uint32_t status = VT_HELPER_FAILED;
	int state;

	if (!all_there(&py->args.imports)) {
		vt_helper_say_why(py->shared, "there is no interpreter to ask", NULL);
		return VT_HELPER_BAD_ARGS;
	}
	/* Both may be called without the GIL. */
	if (!PY(py, Py_IsInitialized, int_fn)() || PY(py, Py_IsFinalizing, int_fn)())
		return vt_py_fail(py, "the interpreter is ending");
	state = PY(py, PyGILState_Ensure, int_fn)();
	got = vt_sys_now_ns();
	py->shared->gil.waited_ns += got - start;
	__atomic_store_n(&py->shared->gil.has_gil, 1, __ATOMIC_RELEASE);
	if (is_wanted(py, seq, start)) {
		py->stopped_collector = py->args.stop_collector ? PY(py, PyGC_Disable, int_fn)() :
								  0;
		status = ask(py);
		PY(py, PyErr_Clear, void_fn)();
		vt_py_restart_collector(py);
	} else {
		vt_helper_say_why(py->shared, "the GIL came too late", NULL);
	}
	py->shared->gil.held_ns += vt_sys_now_ns() - got;
	PY(py, PyGILState_Release, release_fn)(state);
	__atomic_store_n(&py->shared->gil.has_gil, 0, __ATOMIC_RELEASE);
	return status;
}
