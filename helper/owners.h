/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to helper/owners*.c, which ask the interpreter of the target what holds its tensors. All
 * of it runs with the GIL, which nothing in it releases. What makes that harmless:
 *
 * - No code of the program runs. Classes are compared by their order of bases, dictionaries are
 *   read as such and item by item, never by a key (which could call an __eq__), attributes of
 *   tensors are read with the getters of PyTorch's own base class, and only of tensors of exactly
 *   PyTorch's own classes: no other has a __torch_function__ of its own.
 * - A tensor counts only if Python code can reach it from an object of Python that is alive. What
 *   the collector knows besides may be a tensor that only C++ holds: another thread, which needs no
 *   GIL for that, may be destroying it at this moment.
 * - No reference is dropped that could be an object's last one, but for those to what was made
 *   here. As nothing is freed, addresses of objects stay what they are.
 * - While a backward pass runs, gradients are not asked for: its threads replace them without the
 *   GIL.
 */
#ifndef VT_HELPER_OWNERS_H
#define VT_HELPER_OWNERS_H

#include "python.h"

enum class {
	CLASS_OTHER,
	CLASS_TENSOR,
	CLASS_PLAIN_TENSOR, /* exactly torch.Tensor, or Parameter */
	CLASS_MODULE,       /* torch.nn.Module */
	CLASS_OPTIMIZER,
	CLASS_DICT,
	CLASS_LIST,
	CLASS_TUPLE,
	CLASS_SET,
	CLASS_INSTANCE, /* of another class that is made at runtime */
};

/* What is known of an object. */
struct known {
	struct object *object;
	uint8_t seeks; /* whether it leads to a tensor was asked as deep as this */
	uint8_t leads; /* it does */
	uint8_t told;  /* it was told; of containers: as deep as this */
};

struct cached {
	struct object *type;
	uint64_t class;
};

enum {
	N_CACHED = 8192,    /* classes; a power of two */
	MAX_ITEMS = 100000, /* of one container */
};

enum getter { SHAPE, DTYPE, REQUIRES_GRAD, IS_LEAF, GRAD, N_GETTERS };

struct vt_own {
	struct vt_py py; /* first: vt_py_with_gil() gives it back */
	struct vt_ask_owners_args args;
	struct vt_asked_rec *recs;
	uint64_t n, capacity;
	/* memory of our own: */
	struct cached *cache; /* [N_CACHED] */
	struct known *known;  /* [n_slots], a hash table */
	struct object *
		*listed; /* [max_objects]: modules and optimizers, told one after the other */
	uint64_t n_slots, n_known, n_listed, n_told;
	uint64_t n_objects, deadline_ns;
	uint32_t steps, failures, silent, inner;
	int late, full, cut, backward; /* cut: full, but for one container */
	struct object *base, *tensor, *parameter, *module, *optimizer;
	struct object *data_address, *is_view;
	struct object *getters[N_GETTERS];
};

/* Types of functions that only these files need. */
typedef int vt_py_subtype_fn(struct object *type, struct object *base);
typedef unsigned long vt_py_flags_fn(struct object *type);
typedef void *vt_py_slot_fn(struct object *type, int slot);
typedef void vt_py_do_fn(void);
typedef void vt_py_take_fn(struct object *object);
typedef int vt_py_visit_fn(struct object *object, void *arg);
typedef int vt_py_traverse_fn(struct object *object, vt_py_visit_fn *visit, void *arg);

#define PY(own, name, type) VT_PY(&(own)->py, name, type)
/* A function of the list for owners; one of its types. */
#define OWN(own, name, type) ((vt_py_##type *)(own)->args.imports.name)
#define TYPE(own, name) ((struct object *)(own)->args.imports.name)

/* ---- helper/owners_record.c: bounds, records, texts ---- */

int vt_own_is_late(struct vt_own *own);
/* The same; for what takes as long as looking at the clock, or longer. */
int vt_own_is_late_now(struct vt_own *own);
/* A new record, of zeros; NULL if there is no room. */
struct vt_asked_rec *vt_own_add(struct vt_own *own, enum vt_asked_kind kind, struct object *from,
				struct object *to);
void vt_own_append(struct vt_asked_rec *rec, const char *text); /* NULL is nothing */
void vt_own_append_number(struct vt_asked_rec *rec, uint64_t value);
/* A string of Python's; drops it. NULL is nothing. */
void vt_own_append_and_drop(struct vt_own *own, struct vt_asked_rec *rec, struct object *text);
void vt_own_clear_error(struct vt_own *own);

/* ---- helper/owners_class.c: what an object is ---- */

enum class vt_own_class(struct vt_own *own, struct object *object);
int vt_own_is_text(struct vt_own *own, struct object *object); /* exactly a string */
/* The classes, getters and functions of torch that the rest needs; 0: something is missing. */
int vt_own_find_torch(struct vt_own *own);
/* The entry for an object; NULL: there is no room. */
struct known *vt_own_known(struct vt_own *own, struct object *object);

/* ---- helper/owners_tensor.c ---- */

/* Where its data is, and what it looks like; once. */
void vt_own_tell_tensor(struct vt_own *own, struct object *tensor);

/* ---- helper/owners_follow.c: references ---- */

/* How a reference is called. */
struct way {
	enum vt_asked_kind kind;
	struct object *from;
	struct object *text; /* a string, or NULL */
	uint32_t number;
	uint64_t value;
};

/*
 * Tells of a reference if it is one to a tensor, a module or an optimizer, or to a container or an
 * object that leads to some within so many references.
 */
void vt_own_follow(struct vt_own *own, const struct way *way, struct object *to, int depth);
/* The same for all values of a dictionary whose keys are names. */
void vt_own_follow_names(struct vt_own *own, struct object *dict, enum vt_asked_kind kind,
			 struct object *from, int depth);
/* Has a module or an optimizer told, later. */
void vt_own_list(struct vt_own *own, struct object *object);
/* All modules and optimizers that are listed, and those that they lead to. */
void vt_own_tell_listed(struct vt_own *own);

#endif
