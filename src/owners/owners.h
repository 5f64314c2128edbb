/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps the memory of PyTorch's tensors: thinks about a graph of CPython's and PyTorch's
 * objects (walk/heap/graph.h).
 *
 *   explore   the graph, from the roots and from the collector's lists
 *   roles     which dicts are the parameters of a module, the state of an optimizer
 *   search    the cheapest path from the roots to each node: the one that a name is made of
 *   rest      what no root reaches: held by something unseen, or garbage
 *   proof     references found against reference counts
 *   storages  blocks → storages → tensors; categories
 *   arrays    the same for CuPy: blocks → memory → arrays
 *   name      the words
 *   retained  dominators: what would be freed
 *   native    tensors that only C++ holds
 *
 * Each file has one of these, and they run in this order.
 */
#ifndef VT_OWNERS_OWNERS_H
#define VT_OWNERS_OWNERS_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/owners.h"
#include "owners/holders.h"
#include "walk/arrays/arrays.h"
#include "walk/heap/graph.h"
#include "walk/heap/pages.h"
#include "walk/pyheap/pyheap.h"
#include "walk/tensors/tensors.h"

/* Roles of nodes: what a dict or an object is to the ones around it. */
enum vt_role {
	VT_ROLE_NONE,
	VT_ROLE_GLOBALS,           /* dict of a module of Python */
	VT_ROLE_ATTRIBUTES,        /* dict of an object */
	VT_ROLE_MODULE,            /* an nn.Module, whose attributes may be in itself */
	VT_ROLE_MODULE_ATTRIBUTES, /* its dict */
	VT_ROLE_MODULES,           /* _modules of it */
	VT_ROLE_PARAMETERS,        /* _parameters */
	VT_ROLE_BUFFERS,           /* _buffers */
	VT_ROLE_OPTIMIZER,
	VT_ROLE_OPTIMIZER_ATTRIBUTES,
	VT_ROLE_STATE,    /* state of an optimizer, by parameter */
	VT_ROLE_STATE_OF, /* that of one parameter */
};

#define VT_DISTANCE_NONE UINT32_MAX

/* What the search knows of a node. */
struct vt_reach {
	uint32_t distance; /* VT_DISTANCE_NONE: not reached */
	uint32_t parent;   /* node; VT_GRAPH_NONE: the root itself */
	uint32_t edge;     /* index in graph->edges: the one from parent */
};

/* A storage that is in a block of the allocator. */
struct vt_owned_storage {
	uint32_t node;
	uint32_t block; /* index in blocks */
	uint64_t data, bytes;
	uint64_t used;    /* bytes that its tensors can see */
	uint32_t best;    /* the node that it is named by: itself, or one of its tensors */
	uint32_t largest; /* its largest tensor; VT_GRAPH_NONE none */
	uint32_t n_tensors;
	uint32_t unexplained;
	uint8_t category;
	bool is_array;         /* memory of CuPy's: the node is its Python object */
	bool shares;           /* its block has another storage, which is accounted with it */
	bool certain, surplus; /* surplus: more references were found than there are */
};

struct vt_owners_block {
	uint64_t addr, size;
	uint32_t index;  /* in the model's blocks; in its owners' arrays */
	bool is_foreign; /* not PyTorch's: its owner is one of the arrays */
	bool is_chunk;   /* of a pool of CuPy's: its memory has the same size */
};

struct vt_owners {
	struct vt_pages *pages; /* not owned */
	struct vt_graph graph;
	struct vt_pyheap heap;
	struct vt_rtti rtti;
	struct vt_tensors tensors;
	uint32_t root;
	size_t n_seen; /* nodes that the roots and all they hold made: before the lists */
	const struct vt_owners_input *input; /* while it is explored */
	uint64_t deadline_ns;
	bool late;                     /* exploring ended at the deadline */
	bool lists;                    /* the collector's lists were read: garbage is known */
	VT_VEC(struct vt_reach) reach; /* by node */
	VT_VEC(struct vt_graph_edge) late_edges; /* from the root to what no root reaches */
	VT_VEC(struct vt_owned_storage) storages;
	VT_VEC(uint8_t) categories; /* category.c's own: by node, of the path to it */
	VT_VEC(uint32_t) way;       /* category.c's own: room for the way from a node to the root */
	VT_VEC(uint32_t) entries;   /* name.c's own: by node, see vt_owners_entry() */
	struct vt_arena arena;
};

struct vt_owners_input {
	struct vt_python *python;
	struct vt_pages *pages;
	const struct vt_maps *maps;
	const struct vt_owners_block *blocks; /* live blocks, by address; disjoint */
	size_t n_blocks;
	bool arrays;          /* CuPy is there */
	struct vt_pages *now; /* the memory as it is now: see struct vt_arrays */
	bool holders;         /* all holders of each block, and what goes with it */
	/* the pages are of one moment, but for late ones: what they prove is proved */
	bool one_moment;
	size_t max_nodes, max_edges; /* bounds of our memory */
	uint64_t deadline_ns;        /* exploring ends there, and the graph is incomplete */
	/* Is called each few milliseconds while the graph is made; may be NULL. */
	void (*alive)(void *arg);
	void *alive_arg;
};

/* Makes the graph. On an error *o is as after vt_owners_deinit(). */
struct vt_error *vt_owners_explore(struct vt_owners *o, const struct vt_owners_input *input);
/* Makes it again, from the pages as they are now. */
void vt_owners_explore_again(struct vt_owners *o, const struct vt_owners_input *input);
/*
 * While the process stands still: reads what its frames refer to, near ones first, until the time
 * is over. What is new since the graph was made is mostly there, and its pages are not known yet.
 * The graph has to be made again afterwards.
 */
void vt_owners_touch_frames(struct vt_owners *o, uint64_t deadline_ns);
void vt_owners_deinit(struct vt_owners *o);

/* Memory that an object of CuPy's owns. */
struct vt_owners_memory {
	uint64_t addr, size;
	int32_t device;
	bool pooled;
};

/*
 * Calls visit for all of it, in any order, and more than once. Before vt_owners_think(). False:
 * visit said so.
 */
bool vt_owners_memories(struct vt_owners *o, const struct vt_owners_input *input,
			bool (*visit)(void *arg, const struct vt_owners_memory *memory), void *arg);

/* All that is thought about the graph. Reads pages only. */
struct vt_error *vt_owners_think(struct vt_owners *o, const struct vt_owners_input *input);

/* What of a thread's stack is in use: from the stack pointer to its beginning, which is above. */
struct vt_owners_stack {
	pid_t tid;
	uint64_t sp, end;
};

/* A block that a tensor in C++ is in. */
struct vt_owners_found {
	uint64_t addr;
	const struct vt_known_holder *holder; /* NULL: only words of a stack lead to it */
	pid_t tid;                            /* of that stack; 0: of none */
};

/*
 * Who in C++ holds the blocks that begin at these addresses. Reads pages only. found has room for
 * n. VT_ERR_NOMEM.
 */
struct vt_error *vt_owners_find_native(struct vt_owners *o, const struct vt_owners_stack *stacks,
				       size_t n_stacks, const uint64_t *blocks, size_t n,
				       struct vt_owners_found *found, size_t *n_found);

/*
 * While the process stands still, after vt_owners_touch_frames(): reads what these stacks refer
 * to, so that vt_owners_find_native() sees it as it was.
 */
void vt_owners_touch_stacks(struct vt_owners *o, const struct vt_owners_stack *stacks,
			    size_t n_stacks, uint64_t deadline_ns);

/* Who holds an array of JAX's. Strings go to arena. VT_ERR_NOMEM; *found: whether it is one. */
struct vt_error *vt_owners_jax(struct vt_owners *o, const struct vt_owners_input *input,
			       uint64_t object, struct vt_arena *arena,
			       struct vt_model_jax_array *array, bool *found);

/* Fills the model's owners from what was thought; strings go to arena. False: out of memory. */
bool vt_owners_tell(struct vt_owners *o, const struct vt_owners_input *input,
		    struct vt_arena *arena, struct vt_model_owners *owners);

#endif
