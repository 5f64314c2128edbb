/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks JAX for its memory profile: which arrays there are and where Python code made them. Each
 * client has a method for it, in C++ (jaxlib 0.4.26 to 0.11.2: xla/python/py_client.cc), and
 * another one for the list of arrays that are alive. They go through lists that the GIL guards, ask
 * the device nothing and wait for no computation. Where an array's memory is, is not asked: that
 * waits where it has not been allocated yet (AcquireExternalReference() of xla/pjrt).
 */
#include <string.h>

#include "ops.h"
#include "python.h"

#define METHOD "heap_profile"
#define LIST "live_arrays"

struct ask {
	struct vt_py py; /* first: vt_py_with_gil() gives it back */
	struct vt_ask_jax_args args;
	char *room;
	uint64_t room_size, used;
};

/* Whether it is an object of jaxlib's own class: what looks up its attributes is C++. */
static int is_client(struct vt_py *py, struct object *object)
{
	static const char *const names[] = { "jaxlib._jax", "jaxlib.xla_extension" };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct object *module = vt_py_module(py, names[i]);
		struct object *client = module ? vt_py_find(py, module, "Client") : NULL;

		if (client && client == vt_py_type(py, object))
			return 1;
	}
	return 0;
}

static uint32_t take_bytes(struct ask *ask, struct object *bytes)
{
	struct vt_ask_jax_answer *answer = &ask->py.shared->jax;
	long size = VT_PY(&ask->py, PyBytes_Size, size_fn)(bytes);
	const char *text = size >= 0 ? VT_PY(&ask->py, PyBytes_AsString, text_fn)(bytes) : NULL;

	if (!text)
		return vt_py_fail(&ask->py, "JAX's method returned something other than bytes");
	if ((uint64_t)size > ask->args.max_bytes - ask->used)
		return vt_py_fail(&ask->py, "JAX's profile is too long");
	if ((uint64_t)size > ask->room_size - ask->used) {
		ask->py.shared->room_needed = ask->used + (uint64_t)size;
		return VT_HELPER_NO_ROOM;
	}
	memcpy(ask->room + ask->used, text, (uint64_t)size);
	ask->used += (uint64_t)size;
	answer->sizes[answer->n++] = (uint64_t)size;
	return VT_HELPER_OK;
}

static uint32_t ask_client(struct ask *ask, struct object *client)
{
	struct vt_py *py = &ask->py;
	struct object *method, *bytes;
	uint32_t status;

	method = ((vt_py_of_text_fn *)ask->args.get_attribute)(client, METHOD);
	if (!method)
		return vt_py_fail(py, "this release of JAX has no memory profile");
	bytes = vt_py_call_with(py, method, NULL);
	vt_py_drop(py, method);
	if (!bytes)
		return vt_py_fail(py, "JAX's method failed");
	status = take_bytes(ask, bytes);
	vt_py_drop(py, bytes);
	return status;
}

/* Which objects they are: all of them have other holders, so none goes with the list. */
static uint32_t take_arrays(struct ask *ask, struct object *list)
{
	struct vt_ask_jax_answer *answer = &ask->py.shared->jax;
	long n = VT_PY(&ask->py, PyList_Size, size_fn)(list);
	uint64_t bytes;

	if (n < 0)
		return vt_py_fail(&ask->py, "JAX's method returned something other than a list");
	bytes = (uint64_t)n * sizeof(uint64_t);
	if (bytes > ask->args.max_bytes)
		return vt_py_fail(&ask->py, "JAX has too many arrays");
	if (bytes > ask->room_size - ask->used) {
		ask->py.shared->room_needed = ask->used + bytes;
		return VT_HELPER_NO_ROOM;
	}
	for (long i = 0; i < n; i++) {
		uint64_t object = (uint64_t)VT_PY(&ask->py, PyList_GetItem, at_fn)(list, i);

		memcpy(ask->room + ask->used, &object, sizeof(object));
		ask->used += sizeof(object);
	}
	answer->n_arrays[answer->n_lists++] = (uint64_t)n;
	return VT_HELPER_OK;
}

static uint32_t try_list(struct ask *ask, struct object *client)
{
	struct vt_py *py = &ask->py;
	struct object *method, *list;
	uint32_t status;

	method = ((vt_py_of_text_fn *)ask->args.get_attribute)(client, LIST);
	if (!method)
		return vt_py_fail(py, "this release of JAX has no list of arrays");
	list = vt_py_call_with(py, method, NULL);
	vt_py_drop(py, method);
	if (!list)
		return vt_py_fail(py, "JAX's method failed");
	status = take_arrays(ask, list);
	vt_py_drop(py, list);
	return status;
}

/* The profiles count without the lists. */
static uint32_t list_arrays(struct ask *ask, struct object *client)
{
	struct vt_ask_jax_answer *answer = &ask->py.shared->jax;
	uint32_t status = try_list(ask, client);

	if (status != VT_HELPER_FAILED)
		return status;
	VT_PY(&ask->py, PyErr_Clear, void_fn)(); /* the next call must not see it */
	answer->n_arrays[answer->n_lists++] = 0;
	return VT_HELPER_OK;
}

/* Calls ask_one for each client: jax._src.xla_bridge has a dictionary of them, by platform. */
static uint32_t each_client(struct ask *ask, struct object *clients,
			    uint32_t (*ask_one)(struct ask *ask, struct object *client))
{
	struct vt_py *py = &ask->py;
	struct object *key, *client;
	uint32_t status = VT_HELPER_OK, n = 0;
	long at = 0;

	while (status == VT_HELPER_OK && n < VT_MAX_JAX_CLIENTS &&
	       VT_PY(py, PyDict_Next, next_fn)(clients, &at, &key, &client)) {
		if (!is_client(py, client))
			continue;
		if (vt_py_is_text(py, key, "cpu"))
			py->shared->jax.host_mask |= 1u << n;
		n++;
		status = ask_one(ask, client);
	}
	return status;
}

static uint32_t with_gil(struct vt_py *py)
{
	struct ask *ask = (struct ask *)py;
	struct object *module = vt_py_module(py, "jax._src.xla_bridge");
	struct object *clients = module ? vt_py_find(py, module, "_backends") : NULL;
	uint32_t status;

	if (!clients)
		return VT_HELPER_OK; /* jax.is_there tells */
	py->shared->jax.is_there = 1;
	status = each_client(ask, clients, ask_client);
	if (status != VT_HELPER_OK)
		return status;
	ask->used = (ask->used + 7) & ~(uint64_t)7;
	if (ask->used > ask->room_size) {
		py->shared->room_needed = ask->used;
		return VT_HELPER_NO_ROOM;
	}
	py->shared->jax.arrays_offset = py->shared->jax.offset + ask->used;
	return each_client(ask, clients, list_arrays);
}

uint32_t vt_helper_op_ask_jax(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct ask ask;

	memset(&ask, 0, sizeof(ask));
	memset(&shared->jax, 0, sizeof(shared->jax));
	ask.args = shared->args.ask_jax;
	ask.py.shared = shared;
	ask.py.args = ask.args.python;
	ask.room = room;
	ask.room_size = room_size;
	shared->jax.offset = (uint64_t)room - (uint64_t)shared;
	if (!ask.args.get_attribute)
		return VT_HELPER_BAD_ARGS;
	return vt_py_with_gil(&ask.py, with_gil);
}
