/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node of autograd saved (torch/csrc/autograd/saved_variable.h). A SavedVariable begins with
 * the variable, and has five flags somewhere behind it: was_default_constructed_, is_leaf_,
 * is_output_, and two more. With pack hooks the variable is not there, and the hooks have what the
 * pack hook returned.
 */
#include "walk/tensors/internal.h"

enum {
	N_FLAGS = 5,
	FUNCTION_SIZE = 320,   /* a THPFunction is smaller than that in all releases */
	MAX_SAVED = 1 << 16,   /* of one vector */
	MAX_VERSION = 1 << 30, /* what is higher is no version */
	/* torch/csrc/autograd/python_saved_variable_hooks.h: behind the virtual table */
	HOOKS_FIRST = 8,
	HOOKS_N = 3,        /* pack_hook_, unpack_hook_, data_ */
	HOOKS_WRAPPED = 24, /* std::optional<c10::SafePyObject>: object, interpreter, flag (2.15) */
	/*
	 * pybind11/detail/common.h, struct instance: the value, its holder of two words, weak
	 * references, flags. One that a node lends to Python is not owned.
	 */
	INSTANCE_FLAGS = 32,
	INSTANCE_OWNED = 1 << 0,
	INSTANCE_SIMPLE = 1 << 1,
};

bool vt_tensors_is_saved(struct vt_tensors *tensors, uint64_t addr, uint32_t flags)
{
	uint8_t bytes[N_FLAGS];
	unsigned int set = 0;

	if (!vt_pages_read(tensors->pages, addr + flags, bytes, sizeof(bytes)) || bytes[0])
		return false;
	for (size_t i = 0; i < N_FLAGS; i++) {
		if (bytes[i] > 1)
			return false;
		set += bytes[i];
	}
	return set > 0;
}

/* Pack hooks: unique_ptr to an object with three Python objects. */
bool vt_tensors_are_hooks(struct vt_tensors *tensors, uint64_t hooks)
{
	const struct vt_rtti_class *cls = vt_tensors_class_at(tensors, hooks);

	return cls && strstr(cls->brief, "SavedVariableHooks");
}

/*
 * grad_fn_ and grad_accumulator_ follow the hooks, and are set only where there are some: a
 * shared_ptr has two words. In 2.0 the latter is a weak_ptr, which does not count.
 */
static void add_nodes(struct vt_tensors *tensors, uint64_t addr)
{
	uint64_t at = addr + tensors->layout.saved_hooks + 8;
	uint64_t step = tensors->layout.node_shared ? 16 : 8;

	for (uint64_t i = 0; i < (tensors->layout.no_post_hooks ? 1 : 2); i++) {
		uint64_t node = vt_pages_u64(tensors->pages, at + i * step);

		if (vt_tensors_is(tensors, node, VT_NODE_GRAD_FN))
			vt_graph_edge(tensors->graph, VT_EDGE_NEXT, VT_EDGE_NUMBER_MAX, node,
				      VT_NODE_GRAD_FN);
	}
}

/* Whether the three of hooks are wrapped: each has the same interpreter beside it. */
static bool are_wrapped(struct vt_tensors *tensors, uint64_t hooks)
{
	uint64_t interpreter = vt_pages_u64(tensors->pages, hooks + HOOKS_FIRST + 8);

	for (uint64_t i = 1; i < HOOKS_N; i++) {
		uint64_t at = hooks + HOOKS_FIRST + HOOKS_WRAPPED * i + 8;

		if (vt_pages_u64(tensors->pages, at) != interpreter)
			return false;
	}
	return interpreter;
}

static void add_hooks(struct vt_tensors *tensors, uint64_t hooks, uint64_t number)
{
	uint64_t step = are_wrapped(tensors, hooks) ? HOOKS_WRAPPED : 8;

	for (uint64_t i = 0; i < HOOKS_N; i++) {
		uint64_t object = vt_pages_u64(tensors->pages, hooks + HOOKS_FIRST + step * i);

		if (object && !(object & 7))
			vt_graph_edge(tensors->graph,
				      i == HOOKS_N - 1 ? VT_EDGE_SAVED : VT_EDGE_HOOKS, number,
				      object, VT_NODE_PYTHON);
	}
}

/*
 * c10/core/TensorImpl.h: autograd_meta_, extra_meta_, version_counter_, which points to an object
 * with a number behind its counts. Tensors made in inference mode have none. 0: not there.
 */
static uint64_t version_counter(const struct vt_tensors *tensors, uint64_t impl)
{
	uint64_t counter = vt_pages_u64(tensors->pages, impl + tensors->layout.impl_meta + 16);

	return counter && !(counter & 7) ? counter + tensors->layout.head : 0;
}

/* Its page is copied with the others, so that the version is of the same moment. */
static void ask_for_version(struct vt_tensors *tensors, uint64_t impl)
{
	uint64_t counter = version_counter(tensors, impl);

	if (counter)
		(void)vt_pages_u64(tensors->pages, counter);
}

/* Whether a SavedVariable is there: it has a variable, or hooks. Then its edges are added. */
static bool add_saved(struct vt_tensors *tensors, uint64_t addr, uint64_t number)
{
	uint64_t variable = vt_pages_u64(tensors->pages, addr), hooks;

	if (vt_tensors_is(tensors, variable, VT_NODE_TENSOR)) {
		if (!vt_tensors_is_saved(tensors, addr, tensors->layout.saved_flags))
			return false;
		vt_graph_edge(tensors->graph, VT_EDGE_SAVED, number, variable, VT_NODE_TENSOR);
		ask_for_version(tensors, variable);
		return true;
	}
	if (!vt_tensors_is_none(tensors, variable))
		return false;
	hooks = vt_pages_u64(tensors->pages, addr + tensors->layout.saved_hooks);
	if (!vt_tensors_are_hooks(tensors, hooks))
		return false;
	add_hooks(tensors, hooks, number);
	add_nodes(tensors, addr);
	return true;
}

/* Whether all of them could be SavedVariables, empty ones, too. */
static bool are_saved(struct vt_tensors *tensors, uint64_t begin, uint64_t end)
{
	for (uint64_t at = begin; at < end; at += tensors->layout.saved_size) {
		uint64_t variable = vt_pages_u64(tensors->pages, at);
		uint8_t flags[N_FLAGS];

		if ((!vt_tensors_is(tensors, variable, VT_NODE_TENSOR) &&
		     !vt_tensors_is_none(tensors, variable)) ||
		    !vt_pages_read(tensors->pages, at + tensors->layout.saved_flags, flags,
				   sizeof(flags)))
			return false;
		for (size_t i = 0; i < N_FLAGS; i++) {
			if (flags[i] > 1)
				return false;
		}
	}
	return true;
}

/* A std::vector<SavedVariable> at addr. */
static bool add_vector(struct vt_tensors *tensors, uint64_t addr, uint64_t number)
{
	uint64_t begin = vt_pages_u64(tensors->pages, addr);
	uint64_t end = vt_pages_u64(tensors->pages, addr + 8);
	uint64_t room = vt_pages_u64(tensors->pages, addr + 16);
	uint64_t size = tensors->layout.saved_size;
	bool any = false;

	if (!begin || begin % 8 || end <= begin || room < end || (end - begin) % size ||
	    (end - begin) / size > MAX_SAVED || (room - begin) % size ||
	    !are_saved(tensors, begin, end))
		return false;
	for (uint64_t at = begin; at < end; at += size)
		any |= add_saved(tensors, at, number);
	return any;
}

void vt_tensors_saved_edges(struct vt_tensors *tensors, uint64_t addr, uint64_t first,
			    uint64_t size)
{
	uint64_t at = first;

	if (!tensors->layout.saved_size)
		return;
	while (at + 24 <= size) {
		if (at + tensors->layout.saved_size <= size && add_saved(tensors, addr + at, at))
			at += tensors->layout.saved_size;
		else
			at += add_vector(tensors, addr + at, at) ? 24 : 8;
	}
}

/* Its PyNode, which points back. Up to 2.12 this is a weak_ptr, which does not count. */
static bool add_py_node(struct vt_tensors *tensors, uint64_t object, uint64_t at)
{
	uint64_t node = vt_pages_u64(tensors->pages, object + at);

	if (!tensors->layout.node_pyobj || !vt_tensors_is(tensors, node, VT_NODE_GRAD_FN) ||
	    vt_pages_u64(tensors->pages, node + tensors->layout.node_pyobj) != object)
		return false;
	vt_graph_edge(tensors->graph, VT_EDGE_PY_NODE, 0, node, VT_NODE_GRAD_FN);
	return true;
}

/*
 * torch/csrc/autograd/python_function.h: a THPFunction has a vector of SavedVariables, and behind
 * it the pointer to its PyNode. Where, is seen by what is in them.
 */
void vt_tensors_function_edges(struct vt_tensors *tensors, uint64_t object)
{
	if (!tensors->layout.saved_size)
		return;
	for (uint64_t at = tensors->layout.python_head; at + 8 <= FUNCTION_SIZE; at += 8) {
		if (add_py_node(tensors, object, at))
			return;
		if (at + 24 > FUNCTION_SIZE || !add_vector(tensors, object + at, at))
			continue;
		if (!tensors->layout.node_pyobj)
			return;
		at += 16;
	}
}

void vt_tensors_saved_tensor_edges(struct vt_tensors *tensors, uint64_t object)
{
	const uint64_t want = INSTANCE_OWNED | INSTANCE_SIMPLE;
	uint64_t value = object + tensors->layout.python_head;

	if (tensors->layout.saved_size &&
	    (vt_pages_u64(tensors->pages, value + INSTANCE_FLAGS) & want) == want)
		add_saved(tensors, vt_pages_u64(tensors->pages, value), 0);
}

/* SavedVariable: saved_version_, output_nr_, the flags; 4 bytes each. */
bool vt_tensors_version(const struct vt_tensors *tensors, uint32_t node,
			const struct vt_graph_edge *edge, struct vt_tensors_version *version)
{
	struct vt_pages *pages = tensors->pages;
	const struct vt_graph_node *nodes = tensors->graph->nodes.data;
	uint64_t saved = nodes[node].addr + edge->number, impl = nodes[edge->to].addr;
	uint64_t at = saved + tensors->layout.saved_flags - 8;
	struct vt_tensors_version v;

	/* In a vector, number is where that is: there is no pointer to the tensor. */
	if (nodes[node].kind != VT_NODE_GRAD_FN || nodes[edge->to].kind != VT_NODE_TENSOR ||
	    !tensors->layout.saved_size)
		return false;
	vt_pages_watch_later(pages);
	v.counter = version_counter(tensors, impl);
	if (vt_pages_u64(pages, saved) != impl || !v.counter ||
	    !vt_pages_read(pages, at, &v.then, sizeof(v.then)) ||
	    !vt_pages_read(pages, v.counter, &v.now, sizeof(v.now)) || v.then > v.now ||
	    v.now > MAX_VERSION || pages->later)
		return false;
	*version = v;
	return true;
}
