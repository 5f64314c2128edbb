/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's C++ objects as a graph: TensorImpl, StorageImpl, AutogradMeta, autograd's Nodes and
 * what they save, for 2.0 to 2.15. They are recognised by their virtual tables
 * (walk/native/rtti.h). Where a class keeps its fields is one of a few known ways (a table made
 * from the headers), chosen by what is in the objects that are found, not by the release's number.
 */
#ifndef VT_WALK_TENSORS_TENSORS_H
#define VT_WALK_TENSORS_TENSORS_H

#include "base/error.h"
#include "base/str.h"
#include "walk/heap/graph.h"
#include "walk/heap/pages.h"
#include "walk/native/rtti.h"

/* The ways in which a release keeps its fields, for each struct that is chosen on its own. */
struct vt_tensors_layout {
	bool known;        /* tensors and storages can be read: the rest is optional */
	uint32_t head;     /* bytes of vtable and counts: 16 or 24 */
	bool two_counts;   /* counts of 8 bytes each (up to 2.2), else one word has both */
	bool tagged_pyobj; /* up to 2.9: bit 0 of pyobj_ says that C++ owns the Python object */
	uint32_t impl_storage, impl_meta, impl_pyobj, impl_sizes; /* TensorImpl */
	uint32_t storage_data, storage_bytes, storage_pyobj;      /* StorageImpl; pyobj 0: none */
	uint32_t meta_grad, meta_grad_fn, meta_hooks;             /* AutogradMeta; 0 unknown */
	uint32_t meta_accumulator;
	uint32_t meta_post_hooks;      /* one more kind of hooks, since 2.1; 0 none */
	uint32_t meta_requires_grad;   /* 0 unknown */
	bool no_post_hooks;            /* 2.0 has no hooks after accumulation */
	uint32_t node_next, node_size; /* Node; 0 unknown: graphs are not followed */
	uint32_t node_edge_size;       /* of torch::autograd::Edge */
	uint32_t node_pyobj; /* the slot of a Node's Python object, if that counts; 0 none */
	uint32_t node_hooks, node_post_hooks; /* before and after it runs */
	bool node_shared; /* held by shared_ptr (up to 2.12), else intrusive_ptr */
	uint32_t saved_flags, saved_hooks, saved_size; /* SavedVariable; size 0 unknown */
	uint32_t wrapper_impl; /* THPVariable: offset of the pointer to the TensorImpl */
	uint32_t python_head;  /* sizeof(PyObject) */
};

struct vt_tensors {
	struct vt_pages *pages; /* not owned */
	struct vt_graph *graph; /* not owned */
	struct vt_rtti *rtti;   /* not owned */
	struct vt_tensors_layout layout;
	const char *why; /* ours: what could not be found out; NULL nothing */
};

/*
 * wrappers: addresses of some Python tensors (a few hundred, of the most different kinds there
 * are), from which the layout is found. python_head: sizeof(PyObject). Never fails: without a
 * layout nothing is added, and layout.known is false.
 */
void vt_tensors_init(struct vt_tensors *tensors, struct vt_pages *pages, struct vt_graph *graph,
		     struct vt_rtti *rtti, const uint64_t *wrappers, size_t n,
		     uint32_t python_head);
void vt_tensors_deinit(struct vt_tensors *tensors);

/*
 * What a Python object of PyTorch holds in C++: edges of the node that is explored. wrapper is the
 * address of a tensor, a storage, or an autograd function.
 */
void vt_tensors_wrapper_edges(struct vt_tensors *tensors, uint64_t wrapper);

/*
 * The same of a torch._C._autograd.SavedTensor. Those of checkpointed functions hold what the
 * functions were called with (torch.utils.checkpoint).
 */
void vt_tensors_saved_tensor_edges(struct vt_tensors *tensors, uint64_t object);

/* Adds the edges of a node of kind TENSOR, STORAGE, META or GRAD_FN. */
void vt_tensors_edges(struct vt_tensors *tensors, uint32_t node);

/* The kind of the C++ object at addr; false: none that is known here (or not alive). */
bool vt_tensors_kind(struct vt_tensors *tensors, uint64_t addr, enum vt_node_kind *kind);

/*
 * The strong count of a tensor, storage or (with intrusive_ptr, or its control block beside it)
 * node. UINT64_MAX: unknown.
 */
uint64_t vt_tensors_count(const struct vt_tensors *tensors, uint32_t node);

/* A storage's memory. */
struct vt_tensors_storage {
	uint64_t data;           /* address of its memory; 0 none */
	uint64_t bytes;          /* its size */
	int device_type, device; /* c10::DeviceType and index, of its DataPtr */
};
bool vt_tensors_storage(const struct vt_tensors *tensors, uint64_t addr,
			struct vt_tensors_storage *storage);

/* What a tensor looks like. */
enum { VT_TENSORS_MAX_DIMS = 16 };
struct vt_tensors_shape {
	const char *dtype; /* ours: "float32"; NULL unknown */
	uint64_t n_dims;   /* may be more than there is room for */
	int64_t sizes[VT_TENSORS_MAX_DIMS];
	uint64_t first, last; /* bytes of the storage that it uses: [first, last) */
	bool requires_grad, requires_grad_known;
	bool has_grad_fn;
	bool view;
};
bool vt_tensors_shape(const struct vt_tensors *tensors, uint64_t addr,
		      struct vt_tensors_shape *shape);

/* Of a tensor that a node of autograd saved. */
struct vt_tensors_version {
	uint64_t counter; /* where its version is counted: its views have the same */
	uint32_t then;    /* when it was saved */
	uint32_t now;     /* higher if it has changed since: PyTorch refuses a backward() then */
};

/*
 * edge: VT_EDGE_SAVED from this node. False: the version is not known, or the two are not of the
 * same moment.
 */
bool vt_tensors_version(const struct vt_tensors *tensors, uint32_t node,
			const struct vt_graph_edge *edge, struct vt_tensors_version *version);

/* The class of a node of autograd: "MulBackward0"; NULL unknown. Hostile. */
const char *vt_tensors_class(const struct vt_tensors *tensors, uint64_t addr);

#endif
