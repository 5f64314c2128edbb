/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room need of each other, and nobody else. */
#ifndef VT_OWNERS_INTERNAL_H
#define VT_OWNERS_INTERNAL_H

#include "owners/owners.h"

/* ---- roles.c ---- */

void vt_owners_roles(struct vt_owners *o);

/* ---- search.c ---- */

/*
 * What it costs to follow an edge: the cheapest path names a node. Everything above
 * VT_COST_EXCEPTION means: nothing else holds it.
 */
enum {
	VT_COST_UNSEEN = 50000,
	VT_COST_EXCEPTION = 100000,
	VT_COST_GARBAGE = 500000,
};

/* Room for all nodes, none reached. False: out of memory. */
bool vt_owners_search_begin(struct vt_owners *o);
/*
 * Adds roots, then finds the cheapest paths from them to all nodes that were not reached before.
 * A root is an edge of the root node (of the graph, or a late one).
 */
bool vt_owners_search(struct vt_owners *o, const uint32_t *edges, size_t n);
/* What following an edge from this node costs. */
uint32_t vt_owners_edge_cost(const struct vt_owners *o, uint32_t from,
			     const struct vt_graph_edge *edge);

/* ---- rest.c ---- */

bool vt_owners_rest(struct vt_owners *o);

/* ---- proof.c ---- */

/* The reference count of a node; UINT64_MAX: it has none that says anything. */
uint64_t vt_owners_count(struct vt_owners *o, uint32_t node);

/* ---- category.c ---- */

bool vt_owners_category_begin(struct vt_owners *o);
/* Of the path to a node. */
enum vt_category vt_owners_category(struct vt_owners *o, uint32_t node);
/* What the step from a node along one of its edges tells; UNKNOWN: nothing. */
enum vt_category vt_owners_step_category(const struct vt_owners *o, uint32_t from,
					 const struct vt_graph_edge *edge);

/* ---- entry.c ---- */

bool vt_owners_entries(struct vt_owners *o);
/*
 * Where the path to a node of autograd's graph enters the graph: the nearest one before it that is
 * not reached from another one. Graphs are long, and there are many of their nodes.
 */
uint32_t vt_owners_entry(const struct vt_owners *o, uint32_t node);

/* ---- storages.c ---- */

bool vt_owners_storages(struct vt_owners *o, const struct vt_owners_input *input);
/* The block with this address in it; UINT32_MAX none. */
uint32_t vt_owners_block_at(const struct vt_owners_input *input, uint64_t addr);
/* Whether all references to a node were found. */
void vt_owners_prove(struct vt_owners *o, struct vt_owned_storage *storage, uint32_t node);
/* It is named by this node, if that is reached on a cheaper path. */
void vt_owners_prefer(const struct vt_owners *o, struct vt_owned_storage *storage, uint32_t node);

/* ---- arrays.c ---- */

#define VT_PYHEAP_IS_CUPY \
	(VT_PYHEAP_IS_CUPY_ARRAY | VT_PYHEAP_IS_CUPY_POINTER | VT_PYHEAP_IS_CUPY_MEMORY)

/* CuPy's memory as storages, with what arrays tell of it. False: out of memory. */
bool vt_owners_arrays(struct vt_owners *o, const struct vt_owners_input *input);

/* ---- tell.c ---- */

/* By block; of those in the same block all but the first share it. */
void vt_owners_sort_storages(struct vt_owners *o);

/* ---- name.c ---- */

struct vt_owner_name {
	const char *name, *variable, *module, *type;
};

/* The words for the path to a node; strings in arena. False: out of memory. */
bool vt_owners_name(struct vt_owners *o, uint32_t node, struct vt_arena *arena,
		    struct vt_owner_name *name);

/* Those for the end of an edge, by that edge instead of the cheapest one; NULL: out of memory. */
const char *vt_owners_edge_name(struct vt_owners *o, uint32_t from,
				const struct vt_graph_edge *edge, struct vt_arena *arena);

/* ---- dominators.c ---- */

/*
 * What keeps what alive, for the nodes that keep storages alive. Index n_nodes stands for all of
 * sys.last_value and its like together.
 */
struct vt_retained {
	size_t n;              /* of the arrays: nodes of the graph and one more */
	uint64_t *bytes;       /* of blocks that go when the node goes */
	uint64_t *activations; /* of these, what graphs of autograd saved */
	uint32_t *blocks;      /* how many */
	uint32_t *doubtful;    /* of them, those of which not all holders are known */
	uint32_t *idom;        /* immediate dominator; VT_GRAPH_NONE: not among them */
	uint32_t *number;      /* those of what it dominates follow its own */
	uint32_t *size;        /* how many nodes it dominates, with itself */
	uint32_t *in_first;    /* by node: first in in_from; one more at the end */
	uint32_t *in_from;     /* what refers to each node; itself: that does not keep it alive */
};

/* False: out of memory, and nothing is known. */
bool vt_owners_retained(const struct vt_owners *o, const struct vt_owners_input *input,
			struct vt_retained *retained);
void vt_owners_retained_deinit(struct vt_retained *retained);

/* Whether a reference of this kind keeps its target alive. */
bool vt_owners_keeps(enum vt_edge_kind kind);

/* Whether other goes when node does. */
bool vt_owners_dominates(const struct vt_retained *retained, uint32_t node, uint32_t other);
/*
 * One reference keeps it alive, beside those from what goes with it. A node can have several ways
 * from its dominator (a variable of a module, and a list that another one holds), and then no
 * single one of them frees it.
 */
bool vt_owners_has_one_holder(const struct vt_retained *retained, uint32_t node);

/* ---- freed.c ---- */

bool vt_owners_freed(struct vt_owners *o, const struct vt_owners_input *input,
		     const struct vt_retained *retained, struct vt_arena *arena,
		     struct vt_model_owners *owners);

/* ---- others.c ---- */

/* Fills what struct vt_model_owner has of other holders. owners->items are by storage. */
bool vt_owners_others(struct vt_owners *o, const struct vt_owners_input *input,
		      const struct vt_retained *retained, struct vt_arena *arena,
		      struct vt_model_owners *owners);

/* ---- notices.c, find_*.c: what stands out; the rules are in model/notices.c ---- */

struct vt_finder {
	struct vt_owners *o;
	const struct vt_owners_input *input;
	struct vt_arena *arena;
	struct vt_model_owners *owners;
	uint64_t least;       /* bytes that are worth a line */
	uint32_t *storage_of; /* by node: index in storages + 1 of a storage or a tensor; 0 none */
};

/* False: out of memory. */
bool vt_owners_notices(struct vt_owners *o, const struct vt_owners_input *input,
		       struct vt_arena *arena, struct vt_model_owners *owners);
bool vt_owners_find_lost(struct vt_finder *f);
bool vt_owners_find_graphs(struct vt_finder *f);
bool vt_owners_find_parameters(struct vt_finder *f);
bool vt_owners_find_copies(struct vt_finder *f);
bool vt_owners_find_dataset(struct vt_finder *f);

struct vt_saved_version {
	uint32_t node, then;
	uint64_t counter;
};

/* The versions of tensors that the graphs saved which go with something. */
struct vt_versions {
	const struct vt_retained *retained;    /* not owned */
	uint8_t *outdated;                     /* by node: such a graph goes with it */
	VT_VEC(struct vt_saved_version) saved; /* by counter and version */
};

/* False: out of memory. */
bool vt_owners_versions_init(struct vt_versions *versions, struct vt_owners *o,
			     const struct vt_owners_input *input,
			     const struct vt_retained *retained);
void vt_owners_versions_deinit(struct vt_versions *versions);
/* In how many versions what goes with this node saved one tensor, at most. */
uint32_t vt_owners_versions_of(const struct vt_versions *versions, uint32_t node);

/* ---- finder.c ---- */

/* Adds it, with the names of these nodes (VT_GRAPH_NONE: "", or what it has). */
bool vt_finder_add(struct vt_finder *f, const struct vt_model_notice *notice, uint32_t name,
		   uint32_t other);
/* Bytes of the block of the storage with this index + 1, which one of its storages has; 0: 0. */
uint64_t vt_finder_bytes(const struct vt_finder *f, uint32_t storage);
/* The end of the first edge of this kind; VT_GRAPH_NONE: there is none. */
uint32_t vt_finder_follow(const struct vt_finder *f, uint32_t node, enum vt_edge_kind kind);
/* The TensorImpl of a tensor of Python; VT_GRAPH_NONE: it is none. */
uint32_t vt_finder_tensor(const struct vt_finder *f, uint32_t wrapper);
/* Its storage, as in storage_of. */
uint32_t vt_finder_storage(const struct vt_finder *f, uint32_t wrapper);
/* An attribute, in the object or in its dict: the object. VT_GRAPH_NONE: none. */
uint32_t vt_finder_attribute(const struct vt_finder *f, uint32_t object, const char *name);
/* Of the objects that are its attributes, the one with this role. */
uint32_t vt_finder_part(const struct vt_finder *f, uint32_t object, enum vt_role role);
/* A root reaches it, and not by way of an exception or something unseen. */
bool vt_finder_is_alive(const struct vt_finder *f, uint32_t node);

static inline uint32_t vt_finder_edges(const struct vt_finder *f, uint32_t node,
				       const struct vt_graph_edge **edges)
{
	*edges = f->o->graph.edges.data + f->o->graph.nodes.data[node].first_edge;
	return f->o->graph.nodes.data[node].n_edges;
}

/* The edge with this index, be it of the graph or a late one. */
static inline const struct vt_graph_edge *vt_owners_edge(const struct vt_owners *o, uint32_t edge)
{
	return edge < o->graph.edges.n ? &o->graph.edges.data[edge] :
					 &o->late_edges.data[edge - o->graph.edges.n];
}

/* The class of a Python node, or NULL. */
static inline const struct vt_pyheap_class *vt_owners_class(const struct vt_owners *o,
							    uint32_t node)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[node];

	return n->kind == VT_NODE_PYTHON && n->cls < o->heap.classes.n ?
		       &o->heap.classes.data[n->cls] :
		       NULL;
}

#endif
