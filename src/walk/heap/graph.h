/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What refers to what: objects of a process as nodes, references as edges. Walkers add them
 * (walk/pyheap for CPython's objects, walk/tensors for PyTorch's); owners/ thinks about them.
 *
 * A node is a foreign address and a kind. Its edges are added all together, when the node is
 * explored. What an edge is (an item of a list, a variable of a frame) is a code with a number;
 * its words are made only for the few edges that are on the way to something that is shown.
 */
#ifndef VT_WALK_HEAP_GRAPH_H
#define VT_WALK_HEAP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define VT_GRAPH_NONE UINT32_MAX

enum vt_node_kind {
	VT_NODE_PYTHON,  /* a CPython object */
	VT_NODE_FRAME,   /* a frame of CPython's evaluator that is no object (3.11 on) */
	VT_NODE_TENSOR,  /* c10::TensorImpl */
	VT_NODE_STORAGE, /* c10::StorageImpl */
	VT_NODE_META,    /* torch::autograd::AutogradMeta */
	VT_NODE_GRAD_FN, /* torch::autograd::Node */
	VT_NODE_NATIVE,  /* another C++ object, of a class with a virtual table */
	VT_NODE_CHUNK,   /* memory of malloc() that is searched for references */
	VT_NODE_ROOT,    /* none in memory: what the roots hang on */
	VT_N_NODE_KINDS
};

/*
 * What a reference is. number: what vt_graph_edge.number says.
 *   counted: the target's own reference count has one for it.
 */
enum vt_edge_kind {
	VT_EDGE_ITEM,    /* number: index in a list, a tuple, a deque */
	VT_EDGE_VALUE,   /* number: entry of a dict */
	VT_EDGE_KEY,     /* number: entry of a dict; a key that is no plain string or number */
	VT_EDGE_ELEMENT, /* of a set */
	VT_EDGE_DICT,    /* an instance's, a class's or a module's __dict__ */
	VT_EDGE_INLINE,  /* number: entry of the class's shared keys; an instance's own attribute */
	VT_EDGE_MEMBER,  /* number: offset; a slot, or a C member that has a name */
	VT_EDGE_CELL,    /* what a cell holds */
	VT_EDGE_CLOSURE, /* a function's tuple of cells */
	VT_EDGE_FREE,    /* number: index in that tuple: from the function to a cell of it */
	VT_EDGE_DEFAULTS,  /* a function's default values */
	VT_EDGE_GLOBALS,   /* a function's, a frame's */
	VT_EDGE_CODE,      /* code of a function or a frame, and other parts of functions */
	VT_EDGE_SELF,      /* a bound method's object */
	VT_EDGE_FUNCTION,  /* a bound method's function */
	VT_EDGE_TYPE,      /* an object's class */
	VT_EDGE_BASES,     /* a class's __mro__, __bases__, __base__ */
	VT_EDGE_FRAME,     /* a frame object's frame */
	VT_EDGE_SUSPENDED, /* a generator's or coroutine's frame */
	VT_EDGE_LOCAL,     /* number: local variable of a frame */
	VT_EDGE_STACK,     /* number: of a frame's evaluation stack */
	VT_EDGE_STACK_OLD, /* the same, perhaps left over; not counted */
	VT_EDGE_BACK,      /* f_back of a frame object */
	VT_EDGE_TRACEBACK, /* __traceback__ of an exception */
	VT_EDGE_CAUSE,     /* __context__ and __cause__ of an exception */
	VT_EDGE_TB_NEXT,
	VT_EDGE_TB_FRAME,
	VT_EDGE_ARGS,     /* of an exception */
	VT_EDGE_CALLBACK, /* of a weak reference */
	VT_EDGE_BODY,     /* number: offset; a word of an object of which only the size is known */
	VT_EDGE_BODY_CHUNK, /* number: offset; the same, to memory of malloc(); not counted */
	/* PyTorch: */
	VT_EDGE_IMPL,          /* a Python tensor's TensorImpl, a Python storage's StorageImpl */
	VT_EDGE_IMPL_BORROWED, /* the same where C++ owns the Python object; not counted */
	VT_EDGE_WRAPPER,       /* a TensorImpl's or StorageImpl's Python object, which it owns */
	VT_EDGE_STORAGE,       /* TensorImpl.storage_ */
	VT_EDGE_META,          /* TensorImpl.autograd_meta_ */
	VT_EDGE_GRAD,          /* AutogradMeta.grad_ */
	VT_EDGE_GRAD_FN,       /* AutogradMeta.grad_fn_ */
	VT_EDGE_ACCUMULATOR,   /* AutogradMeta.grad_accumulator_; weak, not counted */
	VT_EDGE_HOOKS,         /* hooks of a tensor or a node */
	VT_EDGE_VIEW_BASE,     /* DifferentiableViewMeta's base */
	VT_EDGE_NEXT,          /* number: index in Node.next_edges_ */
	VT_EDGE_SAVED,         /* number: offset; a variable that a Node saved */
	VT_EDGE_VARIABLE,      /* AccumulateGrad's variable */
	VT_EDGE_PY_NODE,       /* PyNode's THPFunction, and back */
	VT_EDGE_DATA, /* a storage whose memory belongs to another object (number: offset) */
	/* Roots: */
	VT_EDGE_MAIN,         /* the module __main__ */
	VT_EDGE_MODULE,       /* number: entry of sys.modules */
	VT_EDGE_SYS,          /* sys's dict */
	VT_EDGE_LAST,         /* sys.last_value and its like */
	VT_EDGE_THREAD,       /* number: tid; a frame that a thread runs */
	VT_EDGE_THREAD_STATE, /* number: tid; what else a thread's state holds */
	VT_EDGE_INTERPRETER,  /* what the interpreter itself holds */
	VT_EDGE_UNSEEN,       /* an object with references that nobody explained */
	VT_EDGE_GARBAGE,      /* an object that only unreachable ones hold */
	VT_N_EDGE_KINDS
};

struct vt_graph_node {
	uint64_t addr;
	uint32_t first_edge, n_edges; /* once explored */
	uint32_t found;               /* counted references to it so far */
	uint32_t cls;                 /* its walker's own: index of its class */
	uint8_t kind;                 /* enum vt_node_kind */
	uint8_t flags;                /* VT_NODE_* below */
	uint16_t role;                /* owners/' own */
};

enum {
	VT_NODE_EXPLORED = 1 << 0,
	VT_NODE_COLLECTABLE = 1 << 1, /* it is in one of the collector's lists */
	VT_NODE_CUT = 1 << 2,         /* not all of its references could be read */
	/* read when the moment of the others was over: it proves nothing, nor do its references */
	VT_NODE_LATER = 1 << 3,
	VT_NODE_GENERATION = 3 << 4, /* which of these lists: a number of two bits */
};

enum { VT_NODE_GENERATION_SHIFT = 4 };

struct vt_graph_edge {
	uint32_t to;
	uint32_t kind : 6;    /* enum vt_edge_kind */
	uint32_t number : 26; /* see there; VT_EDGE_NUMBER_MAX: that or more */
};

#define VT_EDGE_NUMBER_MAX ((1U << 26) - 1)

/* An edge whose end was not looked up yet. */
struct vt_graph_waiting {
	uint64_t to;
	uint32_t from, number;
	uint8_t kind, to_kind;
};

enum { VT_GRAPH_WAITING = 16 }; /* a power of two */

struct vt_graph {
	VT_VEC(struct vt_graph_node) nodes;
	VT_VEC(struct vt_graph_edge) edges;
	uint32_t *index; /* open addressing over addresses: node + 1, 0 free */
	size_t mask;
	size_t max_nodes, max_edges;
	uint32_t exploring; /* the node that vt_graph_edge() adds to; VT_GRAPH_NONE none */
	bool lazy;          /* set by the caller after vt_graph_init(); see vt_graph_flush() */
	struct vt_graph_waiting waiting[VT_GRAPH_WAITING];
	uint32_t first_waiting, n_waiting; /* private */
	bool full; /* a bound was reached, or memory: the graph is incomplete */
};

/* The bounds limit our memory: 32 bytes a node and 8 an edge, and 8 more a node. */
bool vt_graph_init(struct vt_graph *graph, size_t max_nodes, size_t max_edges);
void vt_graph_deinit(struct vt_graph *graph);
/* As after vt_graph_init(), with its memory kept. */
void vt_graph_clear(struct vt_graph *graph);

/*
 * The node of this address, added (after waiting edges) if there is none yet. An address is one
 * node: its kind is that of the first who named it. VT_GRAPH_NONE when the graph is full.
 */
uint32_t vt_graph_node(struct vt_graph *graph, uint64_t addr, enum vt_node_kind kind);
/* VT_GRAPH_NONE: there is none. */
uint32_t vt_graph_find(const struct vt_graph *graph, uint64_t addr);

/* Whether a reference of this kind has a part in its target's count. */
bool vt_edge_is_counted(enum vt_edge_kind kind);

/*
 * Adds an edge from the node that is explored at the moment (between vt_graph_explore() and the
 * next one) to the node of an address.
 */
void vt_graph_explore(struct vt_graph *graph, uint32_t node);
void vt_graph_edge(struct vt_graph *graph, enum vt_edge_kind kind, uint64_t number, uint64_t to,
		   enum vt_node_kind to_kind);

/*
 * In a lazy graph the last few edges wait while their ends are fetched, which are mostly in no
 * cache: it is made three times as fast. Until they are flushed, these edges and nodes are missing.
 */
void vt_graph_flush(struct vt_graph *graph);

/* Of all nodes that are marked as later, none of the references is counted any more. */
void vt_graph_discount_later(struct vt_graph *graph);

/* Whether there is a node with this number. Flushes where it matters. */
static inline bool vt_graph_has(struct vt_graph *graph, size_t node)
{
	if (node >= graph->nodes.n)
		vt_graph_flush(graph);
	return node < graph->nodes.n;
}

#endif
