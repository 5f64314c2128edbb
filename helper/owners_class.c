/* SPDX-License-Identifier: Apache-2.0 */
#include "owners.h"

#include <stddef.h>

#define HEAP_TYPE (1UL << 9) /* Py_TPFLAGS_HEAPTYPE of object.h, part of the stable ABI */

static const char *const getter_names[] = {
	[SHAPE] = "shape",     [DTYPE] = "dtype", [REQUIRES_GRAD] = "requires_grad",
	[IS_LEAF] = "is_leaf", [GRAD] = "grad",
};

static uint64_t hash(const void *p)
{
	return ((uint64_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static int is_a(struct vt_own *own, struct object *type, struct object *base)
{
	return base && OWN(own, PyType_IsSubtype, subtype_fn)(type, base);
}

static int is_heap_type(struct vt_own *own, struct object *type)
{
	return (OWN(own, PyType_GetFlags, flags_fn)(type) & HEAP_TYPE) != 0;
}

static enum class judge_type(struct vt_own *own, struct object *type) {
	const struct { struct object * base; enum class class; }
bases[] = {
	/* Not the base class alone: pybind11 would ask other objects for their __class__. */
	{ own->tensor, CLASS_TENSOR },
	{ own->module, CLASS_MODULE },
	{ own->optimizer, CLASS_OPTIMIZER },
	{ TYPE(own, PyDict_Type), CLASS_DICT },
	{ TYPE(own, PyList_Type), CLASS_LIST },
	{ TYPE(own, PyTuple_Type), CLASS_TUPLE },
	{ TYPE(own, PySet_Type), CLASS_SET },
	{ TYPE(own, PyFrozenSet_Type), CLASS_SET },
	{ TYPE(own, PyType_Type), CLASS_OTHER },
	{ TYPE(own, PyModule_Type), CLASS_OTHER },
	{ own->base, CLASS_OTHER },
};

if (type == own->tensor || type == own->parameter)
	return CLASS_PLAIN_TENSOR;
for (unsigned int i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
	if (is_a(own, type, bases[i].base))
		return bases[i].class;
return is_heap_type(own, type) ? CLASS_INSTANCE : CLASS_OTHER;
}

enum class vt_own_class(struct vt_own *own, struct object *object) {
	struct object *type = vt_py_type(&own->py, object);
	struct cached *cached = &own->cache[hash(type) % N_CACHED];

	if (cached->type != type) *cached = (struct cached){ type, judge_type(own, type) };
	return (enum class)cached->class;
}

int vt_own_is_text(struct vt_own *own, struct object *object)
{
	return vt_py_type(&own->py, object) == (struct object *)own->py.args.imports.PyUnicode_Type;
}

struct known *vt_own_known(struct vt_own *own, struct object *object)
{
	uint64_t at = hash(object) & (own->n_slots - 1);

	while (own->known[at].object && own->known[at].object != object)
		at = (at + 1) & (own->n_slots - 1);
	if (!own->known[at].object) {
		if (own->n_known >= own->args.max_objects) {
			own->full = 1;
			return NULL;
		}
		own->n_known++;
		own->known[at].object = object;
	}
	return &own->known[at];
}

/* ---- what is needed of torch ---- */

/* A class of an imported module. The others are only compared with. */
static struct object *find_class(struct vt_own *own, const char *module, const char *name)
{
	struct object *dict = vt_py_module(&own->py, module);
	struct object *found = dict ? vt_py_find(&own->py, dict, name) : NULL;

	return found && is_a(own, vt_py_type(&own->py, found), TYPE(own, PyType_Type)) ? found :
											 NULL;
}

/* What a class has for a name, if it is exactly of that type. */
static struct object *find_member(struct vt_own *own, struct object *dict, const char *name,
				  struct object *type)
{
	struct object *found = vt_py_find(&own->py, dict, name);

	return found && vt_py_type(&own->py, found) == type ? found : NULL;
}

/* The class is made by C, and its dictionary cannot be changed by a program. */
static int find_members(struct vt_own *own)
{
	struct object *dict = OWN(own, PyType_GetDict, of_one_fn)(own->base);
	int all = 1;

	if (!dict)
		return 0;
	for (int i = 0; i < N_GETTERS; i++) {
		own->getters[i] =
			find_member(own, dict, getter_names[i], TYPE(own, PyGetSetDescr_Type));
		all &= own->getters[i] != NULL;
	}
	own->is_view = find_member(own, dict, "_is_view", TYPE(own, PyMethodDescr_Type));
	vt_py_drop(&own->py, dict); /* the class has it */
	return all && own->is_view;
}

static struct object *find_function(struct vt_own *own, const char *name)
{
	struct object *module = vt_py_module(&own->py, "torch._C");
	struct object *found = module ? vt_py_find(&own->py, module, name) : NULL;
	int flags = found ? PY(own, PyCFunction_GetFlags, int_of_object_fn)(found) : -1;

	vt_own_clear_error(own);
	return flags < 0 ? NULL : found;
}

int vt_own_find_torch(struct vt_own *own)
{
	own->base = find_class(own, "torch._C", "TensorBase");
	own->tensor = find_class(own, "torch", "Tensor");
	own->parameter = find_class(own, "torch.nn.parameter", "Parameter");
	own->module = find_class(own, "torch.nn.modules.module", "Module");
	own->optimizer = find_class(own, "torch.optim.optimizer", "Optimizer");
	own->data_address = find_function(own, "_data_address");
	/*
	 * A program that has put another class there would make it one without a
	 * __torch_function__.
	 */
	return own->base && !is_heap_type(own, own->base) && own->tensor && own->parameter &&
	       own->module && own->data_address && is_a(own, own->tensor, own->base) &&
	       is_a(own, own->parameter, own->tensor) && find_members(own);
}
