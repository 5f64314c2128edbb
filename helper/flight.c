/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks PyTorch for the contents of its flight recorder of collectives, as a text (JSON). The
 * function takes the flight recorder's lock, which other threads hold only for an instant, and asks
 * the driver whether events are complete, as PyTorch's own watchdog does all the time.
 */
#include <string.h>

#include "context.h"
#include "ops.h"
#include "python.h"

struct ask {
	struct vt_py py; /* first: vt_py_with_gil() gives it back */
	struct vt_ask_flight_args args;
	void *room;
	uint64_t room_size;
};

/*
 * The arguments: whether with the single operations, whether only those that are not over, whose.
 */
static struct object *make_arguments(struct ask *ask)
{
	int n = ask->args.argument[0] ? 3 : 2;
	struct object *tuple = VT_PY(&ask->py, PyTuple_New, new_fn)(n);
	long values[] = { ask->args.entries, ask->args.only_active };

	if (!tuple)
		return NULL;
	for (int i = 0; i < n; i++) {
		struct object *item =
			i < 2 ? VT_PY(&ask->py, PyBool_FromLong, from_long_fn)(values[i]) :
				VT_PY(&ask->py, PyUnicode_FromString,
				      make_text_fn)(ask->args.argument);

		if (!item || VT_PY(&ask->py, PyTuple_SetItem, set_fn)(tuple, i, item)) {
			vt_py_drop(&ask->py, tuple);
			return NULL;
		}
	}
	return tuple;
}

/* With the single operations only where the driver can be queried about them without harm. */
static struct object *call(struct ask *ask, struct object *called)
{
	struct object *result;
	int device;

	if (!vt_helper_spare_captures(ask->py.shared) || !ask->args.entries ||
	    !vt_helper_borrow_context(ask->py.shared, &device)) {
		ask->args.entries = 0;
		return vt_py_call(&ask->py, called, make_arguments(ask));
	}
	result = vt_py_call(&ask->py, called, make_arguments(ask));
	vt_helper_return_context(ask->py.shared, device);
	return result;
}

static uint32_t take_text(struct ask *ask, struct object *bytes)
{
	struct vt_helper_shared *shared = ask->py.shared;
	long size = VT_PY(&ask->py, PyBytes_Size, size_fn)(bytes);
	const char *text = size >= 0 ? VT_PY(&ask->py, PyBytes_AsString, text_fn)(bytes) : NULL;

	if (!text)
		return vt_py_fail(&ask->py,
				  "PyTorch's function returned something other than text");
	shared->flight.size = (uint64_t)size;
	if (shared->flight.size > ask->args.max_bytes)
		return vt_py_fail(&ask->py, "the text of the flight recorder is too long");
	if (shared->flight.size > ask->room_size) {
		shared->room_needed = shared->flight.size;
		return VT_HELPER_NO_ROOM;
	}
	memcpy(ask->room, text, shared->flight.size);
	shared->flight.is_there = 1;
	return VT_HELPER_OK;
}

static uint32_t with_gil(struct vt_py *py)
{
	struct ask *ask = (struct ask *)py;
	struct object *module = vt_py_module(py, "torch._C._distributed_c10d"), *called, *result;
	uint32_t status;
	int flags;

	called = module ? vt_py_function(py, module, ask->args.function, &flags) : NULL;
	if (!called)
		return VT_HELPER_OK; /* flight.is_there tells */
	result = call(ask, called);
	py->shared->flight.entries = ask->args.entries;
	if (!result && ask->args.argument[0])
		return VT_HELPER_OK;
	if (!result)
		return vt_py_fail(py, "PyTorch's function failed");
	status = take_text(ask, result);
	vt_py_drop(py, result);
	return status;
}

uint32_t vt_helper_op_ask_flight(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct ask ask;

	memset(&ask, 0, sizeof(ask));
	memset(&shared->flight, 0, sizeof(shared->flight));
	ask.args = shared->args.ask_flight;
	ask.args.function[sizeof(ask.args.function) - 1] = 0;
	ask.args.argument[sizeof(ask.args.argument) - 1] = 0;
	ask.py.shared = shared;
	ask.py.args = ask.args.python;
	ask.room = room;
	ask.room_size = room_size;
	shared->flight.offset = (uint64_t)room - (uint64_t)shared;
	return vt_py_with_gil(&ask.py, with_gil);
}
