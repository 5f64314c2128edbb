/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the live blocks of PyTorch's allocator are: the tensors in them, and what keeps those alive;
 * and the same of the memory of other libraries that have arrays.
 * owners/ finds it out; collect/owners.c puts it here.
 */
#ifndef VT_MODEL_OWNERS_H
#define VT_MODEL_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "vramtap/libpools.h"

/* What a block is for. JSON and the texts have their names from model/owners.c. */
enum vt_category {
	VT_CATEGORY_UNKNOWN, /* nobody was found */
	VT_CATEGORY_PARAMETER,
	VT_CATEGORY_GRADIENT,
	VT_CATEGORY_OPTIMIZER,  /* its state */
	VT_CATEGORY_BUFFER,     /* of a module */
	VT_CATEGORY_ACTIVATION, /* held by a graph of autograd */
	VT_CATEGORY_INPUT, /* what a graph saved, but that needs no gradient and was not computed */
	VT_CATEGORY_CACHE, /* of keys and values, and other containers known by their class */
	VT_CATEGORY_FRAME, /* of a function that runs */
	VT_CATEGORY_PYTHON,        /* other variables and containers of Python */
	VT_CATEGORY_EXCEPTION,     /* only an exception's traceback holds it */
	VT_CATEGORY_GARBAGE,       /* nothing reaches it: it waits for Python's collector */
	VT_CATEGORY_WORKSPACE,     /* of a library: cuBLAS, cuDNN */
	VT_CATEGORY_COMMUNICATION, /* buckets and the like of torch.distributed */
	VT_CATEGORY_GRAPH_POOL,    /* memory of a CUDA graph that no tensor holds */
	VT_CATEGORY_NATIVE,        /* something in C++ holds it */
	VT_N_CATEGORIES
};

/* Why nobody that holds a block was found, or nobody who could let it go. */
enum vt_unowned {
	VT_OWNED,
	VT_UNOWNED_NO_TENSOR,  /* no tensor was found in it */
	VT_UNOWNED_RAN,        /* the same, and the process ran: it may be newer than the tensors */
	VT_UNOWNED_LIBRARY,    /* only native code holds it: a workspace or a temporary */
	VT_UNOWNED_GRAPH_POOL, /* the same, but it is in a pool of a CUDA graph */
	VT_UNOWNED_UNEXPLAINED, /* a tensor is in it; something that was not seen holds that */
	VT_UNOWNED_UNREACHED,   /* a tensor is in it, and nothing leads to that */
	VT_UNOWNED_NOT_WHOLE,   /* what holds it may be among what was not read: see bound */
	VT_N_UNOWNED
};

/* Why not all objects were read. */
enum vt_owners_bound {
	VT_BOUND_NONE,
	VT_BOUND_OBJECTS, /* there is no room for more objects, or references between them */
	VT_BOUND_MEMORY,  /* there is no room for more of the process's memory */
	VT_BOUND_TIME,
	VT_BOUND_ASKED, /* the process was asked, and not all kinds of references can be */
	VT_N_OWNERS_BOUNDS
};

enum vt_owners_state {
	VT_OWNERS_OFF, /* not asked for */
	VT_OWNERS_READ,
	VT_OWNERS_NO_PYTHON, /* no interpreter, or one that cannot be read */
	VT_OWNERS_NO_LAYOUT, /* PyTorch's objects could not be read */
	VT_OWNERS_NO_BLOCKS, /* there is no list of blocks that they could be matched with */
	VT_OWNERS_FAILED,    /* see the diagnostics */
	VT_N_OWNERS_STATES
};

/* The owner of one live block. All strings are in the model's arena and hostile. */
struct vt_model_owner {
	uint32_t block;   /* index in model.blocks */
	uint8_t category; /* enum vt_category */
	uint8_t unowned;  /* enum vt_unowned */
	/* all references to the tensors in it were found: nothing else holds them */
	bool certain;
	uint32_t n_tensors, n_storages;
	uint32_t unexplained;   /* references that nobody was found for */
	uint64_t storage_bytes; /* of all storages in it; 0 unknown */
	uint64_t used_bytes;    /* of them, what its tensors can see */
	/* "" unknown: */
	const char *name; /* "model.layers[3].mlp.up_proj.weight", "saved by MulBackward0 ← loss" */
	const char *variable; /* where the name begins: "model", "losses in main" */
	const char *module;   /* the path of the nn.Module that it is of: "model.layers[3].mlp" */
	const char *type;     /* class of what holds it: "Parameter", "list", "DynamicCache" */
	const char *dtype;    /* of its largest tensor; ours */
	const char *shape;    /* of the same, "(1024, 4096)"; ours */
	int has_grad_fn;      /* of the same: 1 yes, 0 no, -1 unknown */
	/* Only where they were asked for (vt_collect_options.holders): */
	const char *const *holders; /* names of others that hold it directly, the best first */
	uint32_t n_holders;         /* how many names */
	uint32_t other_holders;     /* how many others there are; more than names perhaps */
	/*
	 * What would be freed if the reference that its name leads to went: freed is that name, ""
	 * when it is none that a program could let go of, NULL not known. 0 bytes: nothing, as
	 * others hold it, too.
	 */
	const char *freed;
	const char *freed_else; /* the name of what holds that, too; NULL nothing, or not known */
	uint64_t freed_bytes, freed_blocks;
	int requires_grad; /* of the same: 1 yes, 0 no, -1 unknown */
};

/*
 * Memory of another library's: a chunk of one of its pools that is in use, or a piece that an array
 * has for itself.
 */
struct vt_model_array {
	struct vt_model_owner owner; /* of it, block is this one's own index */
	uint64_t addr, bytes;
	int32_t device;  /* ordinal; -1 not known */
	uint32_t pool;   /* index in libpools.pools; VT_NO_POOL: in none that is known */
	uint32_t chunk;  /* of that */
	uint8_t library; /* enum vt_libpool_kind */
};

#define VT_NO_POOL UINT32_MAX

/* An array of JAX's: who holds its object. Strings are in the model's arena and hostile. */
struct vt_model_jax_array {
	uint64_t object;  /* address of the Python object */
	uint64_t bytes;   /* of the whole array */
	uint8_t category; /* enum vt_category */
	bool certain;     /* all references to it were found */
	bool single;      /* it is on one device */
	bool is_host;     /* its memory is the host's: the client's platform is the CPU */
	const char *name, *variable; /* "" unknown */
	const char *dtype, *shape;   /* ours */
};

/* What would be freed if one reference went. */
struct vt_model_freed {
	const char *name; /* "losses", "sys.last_value" */
	uint64_t bytes, blocks;
	bool certain;              /* all references to what would be freed were found */
	uint8_t category;          /* of most of it: ACTIVATION; UNKNOWN: of something else */
	uint32_t items;            /* of the list or the like that it is; 0 unknown */
	uint64_t activation_bytes; /* what graphs saved for it: without the graphs this goes */
	/* a graph saved a tensor that has changed since: no backward() can use that graph */
	bool outdated;
	/* in how many versions its graphs saved one tensor, at most: each is of another step */
	uint32_t versions;
};

/* What stands out; the rules are in model/notices.c. */
enum vt_notice {
	VT_NOTICE_EXCEPTION,
	VT_NOTICE_GARBAGE,
	VT_NOTICE_KEPT_GRAPHS,
	VT_NOTICE_LEFT_PARAMETERS,
	VT_NOTICE_LOST_GRADIENTS,
	VT_NOTICE_DATASET,
	VT_NOTICE_STATE_COPY,
	VT_NOTICE_EQUAL_MODELS,
	VT_NOTICE_FROZEN_STATE,
	VT_NOTICE_KEPT_GRADIENTS,
	VT_N_NOTICES
};

/* Evidence that is one of a few. */
enum vt_why {
	VT_WHY_NONE,
	/* Of garbage, which the collector has not freed: */
	VT_WHY_OFF,       /* gc.disable() */
	VT_WHY_THRESHOLD, /* gc.set_threshold(0) */
	VT_WHY_FROZEN,    /* gc.freeze() */
	VT_WHY_OLD,       /* in its oldest generation */
	VT_WHY_YOUNG,
	/* Of an exception: */
	VT_WHY_HANDLED, /* a thread is in its except or finally */
	/* Of graphs: */
	VT_WHY_OUTDATED, /* see vt_model_freed */
	VT_WHY_GROWS,    /* the same, and they are of several versions: it has grown over steps */
	VT_N_WHYS
};

/* All strings are in the model's arena and hostile; "" none. */
struct vt_model_notice {
	uint8_t code; /* enum vt_notice */
	uint8_t why;  /* enum vt_why */
	bool certain;
	uint64_t bytes; /* of all of it; of equal models, of each */
	/* of that what NAME has (exceptions), what graphs saved, what is state of an optimizer */
	uint64_t part_bytes;
	uint32_t count;    /* exceptions, items, parameters, models; 0 of others */
	uint32_t versions; /* of graphs: see vt_model_freed; 0 of others */
	const char *name;  /* the variable that holds it: "losses", "sys.last_value" */
	const char *other; /* what it holds, or what it is a copy of */
	const char *type;  /* class of what name is */
};

struct vt_model_category {
	uint64_t bytes, blocks;
	uint64_t certain_bytes;
	uint32_t largest; /* index in owners.items; UINT32_MAX none */
};

/* The same of the arrays of one library; largest is an index in owners.arrays. */
struct vt_model_array_sums {
	uint64_t bytes, blocks;
	struct vt_model_category categories[VT_N_CATEGORIES];
	struct vt_model_category unowned[VT_N_UNOWNED];
};

struct vt_model_owners {
	enum vt_owners_state state;
	VT_VEC(struct vt_model_owner) items;    /* of PyTorch's blocks, by block */
	VT_VEC(struct vt_model_array) arrays;   /* of other libraries', by pool and chunk */
	VT_VEC(struct vt_model_jax_array) jax;  /* the largest first; only if JAX was asked */
	bool arrays_read;                       /* what state says is of PyTorch's blocks only */
	VT_VEC(struct vt_model_freed) freed;    /* the largest first */
	VT_VEC(struct vt_model_notice) notices; /* by code */
	bool collector_known, collector_enabled;
	size_t n_objects, n_tensors, n_references; /* what was read */
	/* the process ran while it was looked at: blocks that came or went may have no owner */
	bool ran;
	/* the process was asked: references were not counted, no owner is certain */
	bool asked;
	bool whole; /* the graph is complete: no bound was reached, nothing was unreadable */
	enum vt_owners_bound bound; /* the one that was reached */
	/* filled by account: */
	struct vt_model_category categories[VT_N_CATEGORIES];
	struct vt_model_category unowned[VT_N_UNOWNED];
	struct vt_model_array_sums array_sums[VT_N_LIBPOOL_KINDS];
};

struct vt_model;

/* The owner of the block with this index in model.blocks; NULL: it has none (or is not in use). */
const struct vt_model_owner *vt_model_owner(const struct vt_model *model, size_t block);

/* The owner of a chunk in use of a pool; NULL: it has none. */
const struct vt_model_array *vt_model_chunk_owner(const struct vt_model *model, uint32_t pool,
						  uint32_t chunk);

/* All owners: those of PyTorch's blocks, and then the arrays. */
size_t vt_model_n_owners(const struct vt_model *model);
const struct vt_model_owner *vt_model_owner_at(const struct vt_model *model, size_t i);
/* NULL: it is of a block of PyTorch's. */
const struct vt_model_array *vt_model_array_at(const struct vt_model *model, size_t i);
uint64_t vt_model_owned_bytes(const struct vt_model *model, size_t i);

/* What account fills. */
void vt_model_count_owners(struct vt_model *model);

const char *vt_owners_state_name(enum vt_owners_state state); /* "read", "off", ... */
/* "PyTorch's objects could not be read": why there are none. */
const char *vt_owners_state_words(enum vt_owners_state state);

/* "no-tensor", NULL for VT_OWNED; "objects", NULL for VT_BOUND_NONE: for JSON, never change. */
const char *vt_unowned_code(enum vt_unowned why);
const char *vt_owners_bound_code(enum vt_owners_bound bound);
/* "no tensor in it": of a block. */
const char *vt_unowned_words(enum vt_unowned why);
/* The same of memory that arrays are in: "no array in it". */
const char *vt_unowned_array_words(enum vt_unowned why);
/* "the time was over": why not all was read. */
const char *vt_owners_bound_words(enum vt_owners_bound bound);

/* "parameter": for JSON, never changes. */
const char *vt_category_code(enum vt_category category);
/* "parameters": of some bytes. */
const char *vt_category_words(enum vt_category category);

#endif
