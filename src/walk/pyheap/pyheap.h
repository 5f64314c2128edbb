/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's heap as a graph: which object refers to which, for 3.8 to 3.14. Reads pages only and
 * runs no code. Weak references are not edges.
 */
#ifndef VT_WALK_PYHEAP_PYHEAP_H
#define VT_WALK_PYHEAP_PYHEAP_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "walk/heap/graph.h"
#include "walk/heap/pages.h"
#include "walk/python/python.h"

/* What instances of a class are, as far as it decides how their references are found. */
enum vt_pyheap_shape {
	VT_PYHEAP_LEAF,  /* holds nothing that can hold a tensor: numbers, strings, code */
	VT_PYHEAP_PLAIN, /* of a class statement: attributes and slots only */
	VT_PYHEAP_LIST,
	VT_PYHEAP_TUPLE,
	VT_PYHEAP_DICT,
	VT_PYHEAP_SET,
	VT_PYHEAP_DEQUE,
	VT_PYHEAP_CELL,
	VT_PYHEAP_FUNCTION,
	VT_PYHEAP_METHOD,
	VT_PYHEAP_MODULE,
	VT_PYHEAP_CLASS,
	VT_PYHEAP_FRAME,
	VT_PYHEAP_TRACEBACK,
	VT_PYHEAP_EXCEPTION,
	VT_PYHEAP_GENERATOR, /* coroutines and asynchronous generators, too */
	VT_PYHEAP_WEAKREF,
	VT_PYHEAP_OPAQUE, /* of a C extension: every word of it may be a reference */
	VT_N_PYHEAP_SHAPES
};

/* What a class is to PyTorch or CuPy, by the names in its __mro__. A set. */
enum {
	VT_PYHEAP_IS_TENSOR = 1 << 0,       /* torch._C.TensorBase, torch._C._TensorBase */
	VT_PYHEAP_IS_STORAGE = 1 << 1,      /* torch._C.StorageBase */
	VT_PYHEAP_IS_PARAMETER = 1 << 2,    /* torch.nn.parameter.Parameter */
	VT_PYHEAP_IS_MODULE = 1 << 3,       /* torch.nn.modules.module.Module */
	VT_PYHEAP_IS_OPTIMIZER = 1 << 4,    /* torch.optim.optimizer.Optimizer */
	VT_PYHEAP_IS_NODE = 1 << 5,         /* torch._C._FunctionBase, and classes of C++ nodes */
	VT_PYHEAP_IS_DATASET = 1 << 6,      /* torch.utils.data.dataset.Dataset, and a DataLoader */
	VT_PYHEAP_IS_SAVED = 1 << 7,        /* torch._C._autograd.SavedTensor */
	VT_PYHEAP_IS_CUPY_ARRAY = 1 << 8,   /* cupy._core.core._ndarray_base */
	VT_PYHEAP_IS_CUPY_POINTER = 1 << 9, /* cupy.cuda.memory.MemoryPointer */
	VT_PYHEAP_IS_CUPY_MEMORY = 1 << 10, /* cupy.cuda.memory.BaseMemory */
	VT_PYHEAP_IS_CUPY_POOLED = 1 << 11, /* cupy.cuda.memory.PooledMemory */
	VT_PYHEAP_IS_CUPY_BORROWED = 1 << 12, /* its UnownedMemory, and DLPackMemory */
};

/* A word of the instances of a class that is, or may be, a reference. */
struct vt_pyheap_word {
	uint32_t at;  /* offset */
	uint8_t kind; /* enum vt_edge_kind */
	bool exact;   /* it is one, or 0; else it may be anything */
};

struct vt_pyheap_class {
	uint64_t addr;
	const char *name;   /* tp_name's last part; hostile */
	const char *module; /* its __module__, "" none or unknown; hostile */
	uint8_t shape;      /* enum vt_pyheap_shape */
	uint16_t is;        /* VT_PYHEAP_IS_* */
	bool heap;          /* made by a class statement, or by PyType_FromSpec() */
	bool of_python;     /* by a class statement */
	uint64_t flags;     /* tp_flags */
	int64_t basicsize, itemsize, dictoffset, weaklistoffset;
	uint64_t cached_keys; /* ht_cached_keys */
	uint32_t first_word,
		n_words;  /* in words: slots, C members, and what else is at a fixed place */
	uint32_t body;    /* bytes of an instance that these words are in */
	uint64_t base;    /* type object of tp_base; 0 none */
	uint64_t members; /* tp_members: the names of its own slots */
	uint8_t walk;     /* private: how the rest of its references is found */
	bool leaf;        /* its instances hold nothing and are no nodes */
};

#define VT_PYHEAP_RECENT 1024
#define VT_PYHEAP_NEAR 8192

/* Whether Python's collector comes by itself. */
enum vt_pyheap_collector {
	VT_PYHEAP_COLLECTOR_UNKNOWN,
	VT_PYHEAP_COLLECTOR_ON,
	VT_PYHEAP_COLLECTOR_OFF,          /* gc.disable() */
	VT_PYHEAP_COLLECTOR_NO_THRESHOLD, /* gc.set_threshold(0) */
};

/* Its lists: three generations, and what gc.freeze() has put aside. */
enum { VT_PYHEAP_OLDEST = 2, VT_PYHEAP_PERMANENT = 3 };

struct vt_pyheap {
	struct vt_python *py;   /* not owned */
	struct vt_pages *pages; /* not owned */
	struct vt_graph *graph; /* not owned */
	struct vt_map by_addr;  /* of a type object → index in classes */
	VT_VEC(struct vt_pyheap_class) classes;
	VT_VEC(struct vt_pyheap_word) words;
	struct vt_arena arena;              /* owns names */
	uint64_t interpreter;               /* PyInterpreterState of the main interpreter */
	bool collecting;                    /* the collector is at work: its lists are of no use */
	enum vt_pyheap_collector collector; /* as vt_pyheap_collectable() found it */
	uint8_t generation; /* while that calls visit: the list that the object is in */
	/* Private: */
	uint32_t head, type_at;    /* sizeof(PyObject), and where its type is */
	uint64_t class_traverse;   /* tp_traverse of the classes of class statements */
	uint64_t module_key;       /* the str "__module__", once seen */
	uint64_t sysdict, last[4]; /* sys's dict, and its entries that are roots themselves */
	uint64_t work_left;        /* words that may still be looked at: bounds the time */
	struct {
		uint64_t type;
		uint32_t cls;
		bool leaf;
	} recent[VT_PYHEAP_RECENT]; /* of by_addr */
	struct {
		uint64_t number;
		const uint8_t *data;
	} near[VT_PYHEAP_NEAR]; /* of pages */
};

/* py is found (vt_python_init()). VT_ERR_UNSUPPORTED: its layout lacks what is needed. */
struct vt_error *vt_pyheap_init(struct vt_pyheap *heap, struct vt_python *py,
				struct vt_pages *pages, struct vt_graph *graph);
void vt_pyheap_deinit(struct vt_pyheap *heap);
/*
 * Forgets all classes and pages: before the graph is made again, after vt_pages_copy_again().
 * Classes that were read while the process ran may be torn.
 */
void vt_pyheap_forget(struct vt_pyheap *heap);

/*
 * The class of the object at addr: index in heap->classes; VT_GRAPH_NONE: there is no object, as
 * far as can be seen. Remembered for each class.
 */
uint32_t vt_pyheap_class_of(struct vt_pyheap *heap, uint64_t addr);

/*
 * Adds what the object of a node holds as edges; between vt_graph_explore() of that node and the
 * next. References that C++ parts of PyTorch's objects hold are not among them (walk/tensors).
 * A node of kind VT_NODE_FRAME is a frame of the evaluator.
 */
void vt_pyheap_edges(struct vt_pyheap *heap, uint32_t node);

/*
 * Adds the roots as edges of the node that is explored: modules, sys, threads, the interpreter. The
 * frames are those of the last vt_python_capture(). Begins an exploration: its work is bounded.
 */
void vt_pyheap_roots(struct vt_pyheap *heap);

/*
 * Calls visit for each object in the collector's lists, at most max. False: there are no lists that
 * can be read (free-threaded, collecting just now, damaged).
 */
bool vt_pyheap_collectable(struct vt_pyheap *heap, size_t max,
			   void (*visit)(void *arg, uint64_t object), void *arg);

/* ob_refcnt. UINT64_MAX: immortal, or its count says nothing (deferred: free-threaded builds). */
uint64_t vt_pyheap_count(const struct vt_pyheap *heap, uint64_t addr);

/*
 * Adds the words of an edge from this node to out, as Python code has them where it can:
 * ".weight", "['exp_avg']", "[3]", "logits in train_step (train.py:88)".
 * as_attribute: a dict's value is an attribute (the dict is an object's __dict__), else an item.
 * False: the name could not be read; something generic was added.
 */
bool vt_pyheap_edge_text(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
			 bool as_attribute, struct vt_str *out);

/* The key of a dict's entry (VT_EDGE_VALUE) or of an inline value: its str, or false. */
bool vt_pyheap_key_text(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
			struct vt_str *out);
/* The address of that key, whatever it is; 0 unknown. */
uint64_t vt_pyheap_key(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge);

/* Whether the key of the edge is this str. */
bool vt_pyheap_key_is(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
		      const char *text);

/* ---- single objects, without a graph; 0: there is none, or it cannot be read ---- */

/*
 * A module of the main interpreter's sys.modules. The lengths of their names are not read through
 * the copied pages: not for a walk that is made again in the copy.
 */
uint64_t vt_pyheap_module(struct vt_pyheap *heap, const char *name);

/*
 * The item on top of the evaluation stack of a suspended frame of the evaluator (3.11 on): what its
 * coroutine awaits. 0: the stack is empty.
 */
uint64_t vt_pyheap_stack_top(struct vt_pyheap *heap, uint64_t frame);

/* An attribute of an instance of a class statement, or of a module. */
uint64_t vt_pyheap_attribute(struct vt_pyheap *heap, uint64_t object, const char *name);

/*
 * Calls visit for each item of a list, tuple or set, among its first max places. Returns the number
 * of places: more than max, or fewer than it should have, means that there are others.
 */
uint64_t vt_pyheap_each(struct vt_pyheap *heap, uint64_t object, uint64_t max,
			void (*visit)(void *arg, uint64_t item), void *arg);

/* Function, file and line of a frame node; false: not readable. Names hostile, in heap->arena. */
struct vt_pyheap_where {
	const char *function, *file;
	int line; /* 0 unknown */
};
bool vt_pyheap_where(struct vt_pyheap *heap, uint32_t frame, struct vt_pyheap_where *where);

#endif
