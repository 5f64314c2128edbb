/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch's C++ objects hold. Only typed references: no memory is searched for anything. */
#include "walk/tensors/internal.h"

enum {
	MAX_NEXT = 1 << 16, /* edges of one node of autograd */
	MAX_HOOKS = 4096,
	MAX_INNER = 8,     /* tensors in one of a class that is not known */
	IMPL_BEHIND = 120, /* from sizes_and_strides_ to the end of TensorImpl */
	VECTOR = 24,       /* sizeof(std::vector) */
	VIEW_FIRST = 160,  /* the sizes of AutogradMeta of all releases */
	VIEW_LAST = 200,
};

static void add(struct vt_tensors *t, enum vt_edge_kind kind, uint64_t number, uint64_t to,
		enum vt_node_kind to_kind)
{
	if (vt_tensors_is(t, to, to_kind))
		vt_graph_edge(t->graph, kind, number, to, to_kind);
}

static uint64_t strong(const struct vt_tensors *t, uint64_t addr)
{
	uint64_t word = vt_pages_u64(t->pages, addr + 8);

	return t->layout.two_counts ? word : word & UINT32_MAX;
}

/*
 * The Python object of a tensor or storage. Up to 2.9 bit 0 of the pointer says that C++ owns it
 * (c10/core/impl/PyObjectSlot.h). Since, the Python object holds the C++ one for as long as it
 * lives, and is itself held as long as somebody else holds that, too.
 */
static void add_wrapper(struct vt_tensors *t, uint64_t addr, uint32_t at)
{
	uint64_t slot = vt_pages_u64(t->pages, addr + at), object = slot & ~UINT64_C(1);
	bool owned = t->layout.tagged_pyobj ? slot & 1 : strong(t, addr) > 1;
	uint32_t head = t->layout.python_head;

	if (!object || object & 7 || !owned)
		return;
	if (vt_pages_u64(t->pages, object + head) == addr ||
	    vt_pages_u64(t->pages, object + head + 8) == addr)
		vt_graph_edge(t->graph, VT_EDGE_WRAPPER, 0, object, VT_NODE_PYTHON);
}

/*
 * Classes that wrap other tensors, and how many of them are their own fields
 * (ATen/SparseTensorImpl.h and the like, 2.0 to 2.15). Nothing else of theirs is one: behind an
 * object, and in fields that nobody has set, are words of objects that were there before.
 */
static const struct {
	const char *brief;
	uint8_t n_tensors;
} wrappers[] = {
	{ "TensorImpl", 0 },
	{ "StorageImpl", 0 },
	{ "UndefinedTensorImpl", 0 },
	{ "QTensorImpl", 0 },
	{ "OpaqueTensorImpl", 0 },
	{ "FunctionalTensorWrapper", 1 }, /* value_ */
	{ "FunctionalStorageImpl", 1 },   /* base_ */
	{ "BatchedTensorImpl", 1 },       /* value_ */
	{ "TensorWrapper", 1 },           /* value_, of functorch */
	{ "SparseTensorImpl", 2 },        /* indices_, values_, behind two numbers */
	{ "SparseCsrTensorImpl", 3 },     /* crow_indices_, col_indices_, values_ */
	{ "NestedTensorImpl", 3 },        /* nested_sizes_, nested_strides_, storage_offsets_ */
};

static unsigned int n_inner(const char *brief)
{
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		if (!strcmp(brief, wrappers[i].brief))
			return wrappers[i].n_tensors;
	}
	return MAX_INNER;
}

/* They follow each other, at most two words behind what all tensors or storages have. */
static void add_inner(struct vt_tensors *t, uint64_t addr, uint64_t first, uint64_t last)
{
	const char *brief = vt_tensors_class(t, addr);
	unsigned int left = brief ? n_inner(brief) : 0;
	bool any = false;

	for (uint64_t at = first; left && (any || at <= last); at += 8) {
		uint64_t inner = vt_pages_u64(t->pages, addr + at);

		if (!vt_tensors_is(t, inner, VT_NODE_TENSOR)) {
			if (any)
				return;
			continue;
		}
		vt_graph_edge(t->graph, VT_EDGE_DATA, at, inner, VT_NODE_TENSOR);
		any = true;
		left--;
	}
}

static void tensor_edges(struct vt_tensors *t, uint64_t addr)
{
	add(t, VT_EDGE_STORAGE, 0, vt_pages_u64(t->pages, addr + t->layout.impl_storage),
	    VT_NODE_STORAGE);
	add(t, VT_EDGE_META, 0, vt_pages_u64(t->pages, addr + t->layout.impl_meta), VT_NODE_META);
	add_wrapper(t, addr, t->layout.impl_pyobj);
	add_inner(t, addr, t->layout.impl_sizes + IMPL_BEHIND,
		  t->layout.impl_sizes + IMPL_BEHIND + 16);
}

/* python_hook.h: a hook of Python's has a dict behind its virtual table. */
static void add_hook(struct vt_tensors *t, uint64_t hook)
{
	const struct vt_rtti_class *cls = vt_tensors_class_at(t, hook);
	uint64_t dict;

	if (!cls || !strstr(cls->brief, "PyFunction"))
		return;
	dict = vt_pages_u64(t->pages, hook + 8);
	if (dict && !(dict & 7))
		vt_graph_edge(t->graph, VT_EDGE_HOOKS, 0, dict, VT_NODE_PYTHON);
}

/* std::vector<std::unique_ptr<FunctionPreHook>>, or of FunctionPostHook. */
static void add_hooks(struct vt_tensors *t, uint64_t vector)
{
	uint64_t begin = vt_pages_u64(t->pages, vector), end = vt_pages_u64(t->pages, vector + 8);

	if (!begin || begin % 8 || end <= begin || (end - begin) % 8 ||
	    (end - begin) / 8 > MAX_HOOKS)
		return;
	for (uint64_t at = begin; at < end; at += 8)
		add_hook(t, vt_pages_u64(t->pages, at));
}

/* A base of a view, if its optional is engaged: the flag comes last. */
static bool add_view_base(struct vt_tensors *t, uint64_t addr, uint64_t at, int64_t flag)
{
	uint64_t base = vt_pages_u64(t->pages, addr + at);
	uint8_t engaged = 0;

	if (!vt_tensors_is(t, base, VT_NODE_TENSOR) ||
	    !vt_pages_read(t->pages, addr + at + (uint64_t)flag, &engaged, 1) || engaged != 1)
		return false;
	vt_graph_edge(t->graph, VT_EDGE_VIEW_BASE, at, base, VT_NODE_TENSOR);
	return true;
}

/*
 * An optional of ViewInfo, twice: for backward and forward mode. A ViewInfo begins with the base;
 * the flag of the optional lies before it up to 2.1, where c10 has an optional of its own, then 40
 * bytes behind it (2.2) or 48. The first of them is where AutogradMeta ends: at 160 (2.0), 168,
 * 192, 200 or 184 bytes (torch/csrc/autograd/variable.h). Its last word is 0, that of a mutex.
 */
static void add_view_bases(struct vt_tensors *t, uint64_t addr)
{
	int64_t size = t->layout.two_counts ? 40 : 48;
	const int64_t flags[] = { -8, size };
	unsigned int first = t->layout.two_counts ? 0 : 1, last = t->layout.no_post_hooks ? 0 : 1;

	for (uint64_t at = VIEW_FIRST; at <= VIEW_LAST; at += 8) {
		for (unsigned int k = first; k <= last; k++) {
			if (add_view_base(t, addr, at, flags[k])) {
				add_view_base(t, addr, at + (uint64_t)size + 8, flags[k]);
				return;
			}
		}
	}
}

static void meta_edges(struct vt_tensors *t, uint64_t addr)
{
	const char *brief = vt_tensors_class(t, addr);

	if (!t->layout.meta_grad)
		return;
	add(t, VT_EDGE_GRAD, 0, vt_pages_u64(t->pages, addr + t->layout.meta_grad), VT_NODE_TENSOR);
	add(t, VT_EDGE_GRAD_FN, 0, vt_pages_u64(t->pages, addr + t->layout.meta_grad_fn),
	    VT_NODE_GRAD_FN);
	if (t->layout.meta_hooks)
		add_hooks(t, addr + t->layout.meta_hooks);
	if (t->layout.meta_post_hooks)
		add_hook(t, vt_pages_u64(t->pages, addr + t->layout.meta_post_hooks));
	if (brief && !strcmp(brief, "DifferentiableViewMeta"))
		add_view_bases(t, addr);
}

static void add_next(struct vt_tensors *t, uint64_t addr)
{
	uint64_t begin = vt_pages_u64(t->pages, addr + t->layout.node_next);
	uint64_t end = vt_pages_u64(t->pages, addr + t->layout.node_next + 8);
	uint64_t size = t->layout.node_edge_size;

	if (!begin || begin % 8 || end <= begin || (end - begin) % size ||
	    (end - begin) / size > MAX_NEXT)
		return;
	for (uint64_t at = begin; at < end; at += size)
		add(t, VT_EDGE_NEXT, (at - begin) / size, vt_pages_u64(t->pages, at),
		    VT_NODE_GRAD_FN);
}

/* Classes of nodes that hold something else than what they saved. */
static void accumulate_edges(struct vt_tensors *t, uint64_t addr)
{
	add(t, VT_EDGE_VARIABLE, 0, vt_pages_u64(t->pages, addr + t->layout.node_size),
	    VT_NODE_TENSOR);
}

/*
 * python_function.h: up to 2.12 PyNode owns its THPFunction; since then that is the Python object
 * of the Node, as others have one.
 */
static void py_node_edges(struct vt_tensors *t, uint64_t addr)
{
	uint64_t object;

	if (t->layout.node_pyobj && strong(t, addr) <= 1)
		return;
	object = vt_pages_u64(t->pages, addr + (t->layout.node_pyobj ? t->layout.node_pyobj :
								       t->layout.node_size));
	if (object && !(object & 7))
		vt_graph_edge(t->graph, VT_EDGE_PY_NODE, 0, object, VT_NODE_PYTHON);
}

/* A shared_ptr to a node has its counts beside it, which the node itself knows, too. */
static bool add_shared_node(struct vt_tensors *t, uint64_t addr, uint64_t at)
{
	uint64_t node = vt_pages_u64(t->pages, addr + at);

	if (!vt_tensors_is(t, node, VT_NODE_GRAD_FN) ||
	    vt_pages_u64(t->pages, addr + at + 8) != vt_pages_u64(t->pages, node + 16))
		return false;
	vt_graph_edge(t->graph, VT_EDGE_NEXT, at, node, VT_NODE_GRAD_FN);
	return true;
}

/*
 * functions/tensor.h: two TensorGeometry of 72 bytes, view_fn, and fn. view_fn was a std::function
 * of 32 bytes (2.2 and before), and is a pointer (2.4 and since).
 */
static void copy_slices_edges(struct vt_tensors *t, uint64_t addr)
{
	uint64_t at = t->layout.node_size + 2 * 72;

	if (!t->layout.node_shared)
		add(t, VT_EDGE_NEXT, at + 8, vt_pages_u64(t->pages, addr + at + 8),
		    VT_NODE_GRAD_FN);
	else if (!add_shared_node(t, addr, at + 8))
		add_shared_node(t, addr, at + 32);
}

static const struct {
	const char *brief;
	void (*edges)(struct vt_tensors *t, uint64_t addr);
} special[] = {
	{ "AccumulateGrad", accumulate_edges },
	{ "PyNode", py_node_edges },
	{ "CopySlices", copy_slices_edges },
};

static void node_edges(struct vt_tensors *t, uint64_t addr)
{
	const char *brief = vt_tensors_class(t, addr);

	if (!t->layout.node_size || !brief)
		return;
	add_next(t, addr);
	add_hooks(t, addr + t->layout.node_hooks);
	add_hooks(t, addr + t->layout.node_hooks + VECTOR);
	add_hooks(t, addr + t->layout.node_post_hooks);
	if (t->layout.node_pyobj && strcmp(brief, "PyNode") != 0)
		add_wrapper(t, addr, t->layout.node_pyobj);
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
		if (!strcmp(brief, special[i].brief)) {
			special[i].edges(t, addr);
			return;
		}
	}
	vt_tensors_saved_edges(t, addr, t->layout.node_size, vt_tensors_object_size(t, addr));
}

void vt_tensors_edges(struct vt_tensors *tensors, uint32_t node)
{
	uint64_t addr = tensors->graph->nodes.data[node].addr;

	if (!tensors->layout.known)
		return;
	switch ((enum vt_node_kind)tensors->graph->nodes.data[node].kind) {
	case VT_NODE_TENSOR:
		tensor_edges(tensors, addr);
		break;
	case VT_NODE_STORAGE:
		add_wrapper(tensors, addr, tensors->layout.storage_pyobj);
		/* Behind the size come 24 bytes in 2.0, 40 or 48 since. */
		add_inner(tensors, addr, tensors->layout.storage_bytes + 24,
			  tensors->layout.storage_bytes + 48);
		break;
	case VT_NODE_META:
		meta_edges(tensors, addr);
		break;
	case VT_NODE_GRAD_FN:
		node_edges(tensors, addr);
		break;
	default:
		break;
	}
}

/*
 * A Python object and the C++ object that it stands for: behind its head, or behind the flag of a
 * MaybeOwned there, which says that it is borrowed.
 */
static bool add_impl(struct vt_tensors *t, uint64_t wrapper, enum vt_node_kind kind, uint64_t *at)
{
	uint32_t head = t->layout.python_head;
	uint64_t first = vt_pages_u64(t->pages, wrapper + head);
	uint64_t second = vt_pages_u64(t->pages, wrapper + head + 8);

	if (vt_tensors_is(t, first, kind)) {
		vt_graph_edge(t->graph, VT_EDGE_IMPL, 0, first, kind);
		*at = head;
		return true;
	}
	if (!vt_tensors_is(t, second, kind))
		return false;
	vt_graph_edge(t->graph, first & 0xff ? VT_EDGE_IMPL_BORROWED : VT_EDGE_IMPL, 0, second,
		      kind);
	*at = head + 8;
	return true;
}

/* THPVariable: backward_hooks and (since 2.1) post_accumulate_grad_hooks come behind the tensor. */
static void add_python_hooks(struct vt_tensors *t, uint64_t wrapper, uint64_t at)
{
	for (uint64_t i = 1; i <= (t->layout.no_post_hooks ? 1 : 2); i++) {
		uint64_t hooks = vt_pages_u64(t->pages, wrapper + at + 8 * i);

		if (hooks && !(hooks & 7))
			vt_graph_edge(t->graph, VT_EDGE_HOOKS, i, hooks, VT_NODE_PYTHON);
	}
}

/* THPCppFunction (python_cpp_function.h): only a strong pointer to the Node. */
static bool add_node(struct vt_tensors *t, uint64_t wrapper)
{
	uint64_t node = vt_pages_u64(t->pages, wrapper + t->layout.python_head);

	if (!vt_tensors_is(t, node, VT_NODE_GRAD_FN))
		return false;
	vt_graph_edge(t->graph, VT_EDGE_IMPL, 0, node, VT_NODE_GRAD_FN);
	return true;
}

void vt_tensors_wrapper_edges(struct vt_tensors *tensors, uint64_t wrapper)
{
	uint64_t at;

	if (!tensors->layout.known)
		return;
	if (add_impl(tensors, wrapper, VT_NODE_TENSOR, &at))
		add_python_hooks(tensors, wrapper, at);
	else if (!add_impl(tensors, wrapper, VT_NODE_STORAGE, &at) && !add_node(tensors, wrapper))
		vt_tensors_function_edges(tensors, wrapper);
}
