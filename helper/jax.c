/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks JAX for its memory profile: which arrays there are and where Python code made them. Each
 * client has a method for it, in C++ (jaxlib 0.4.26 to 0.11.2: xla/python/py_client.cc). It goes
 * through lists that the GIL guards, asks the device nothing and waits for no computation.
 */
#include <string.h>

#include "ops.h"
#include "python.h"

#define METHOD "heap_profile"

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

/* The clients: jax._src.xla_bridge has a dictionary of them, by platform. */
static uint32_t with_gil(struct vt_py *py)
{
	struct ask *ask = (struct ask *)py;
	struct object *module = vt_py_module(py, "jax._src.xla_bridge"), *key, *client;
	struct object *clients = module ? vt_py_find(py, module, "_backends") : NULL;
	uint32_t status = VT_HELPER_OK;
	long at = 0;

	if (!clients)
		return VT_HELPER_OK; /* jax.is_there tells */
	py->shared->jax.is_there = 1;
	while (status == VT_HELPER_OK && py->shared->jax.n < VT_MAX_JAX_CLIENTS &&
	       VT_PY(py, PyDict_Next, next_fn)(clients, &at, &key, &client))
		if (is_client(py, client))
			status = ask_client(ask, client);
	return status;
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
