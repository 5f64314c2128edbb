/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tensor looks like. Its dtype, shape, requires_grad and storage are read from it as they
 * are. The others need care (torch/csrc/autograd/variable.cpp): is_leaf may rebuild the history of
 * a view, which makes tensors, so views are not asked; grad warns, in Python, of what is no leaf,
 * so only leaves are asked.
 */
#include "owners.h"

#include <stddef.h>

enum {
	DESCR_GET = 54, /* Py_tp_descr_get of typeslots.h: a number of the stable ABI */
	MAX_DIMENSIONS = 16,
	MAX_FAILURES =
		64, /* tensors that have no storage: each makes an exception, of C++ as well */
};

/* Of the getters of a class made by C. */
typedef struct object *get_fn(struct object *descriptor, struct object *object,
			      struct object *type);

/* A new reference, or NULL. */
static struct object *get(struct vt_own *own, struct object *tensor, enum getter which)
{
	get_fn *getter = (get_fn *)OWN(own, PyType_GetSlot, slot_fn)(TYPE(own, PyGetSetDescr_Type),
								     DESCR_GET);
	struct object *got = getter ? getter(own->getters[which], tensor, NULL) : NULL;

	if (!got)
		vt_own_clear_error(own);
	return got;
}

/* 1, 0, or -1 not known; drops it. */
static int truth(struct vt_own *own, struct object *got)
{
	int is_true;

	if (!got) {
		vt_own_clear_error(own);
		return -1;
	}
	is_true = PY(own, PyObject_IsTrue, int_of_object_fn)(got); /* of True or False */
	vt_py_drop(&own->py, got);
	return is_true;
}

static struct object *call(struct vt_own *own, struct object *called, struct object *tensor)
{
	PY(own, Py_IncRef, take_fn)(tensor); /* the call takes one */
	return vt_py_call_with(&own->py, called, tensor);
}

static void append_shape(struct vt_own *own, struct vt_asked_rec *rec, struct object *tensor)
{
	struct object *shape = get(own, tensor, SHAPE);
	long n = shape ? OWN(own, PyTuple_Size, size_fn)(shape) : -1;

	if (n >= 0 && n <= MAX_DIMENSIONS) {
		vt_own_append(rec, "(");
		for (long i = 0; i < n; i++) {
			struct object *size = PY(own, PyTuple_GetItem, at_fn)(shape, i);

			if (i)
				vt_own_append(rec, ", ");
			/* A size that is a symbol is of another class, with an __index__. */
			if (vt_py_type(&own->py, size) == TYPE(own, PyLong_Type))
				vt_own_append_number(rec, (uint64_t)PY(own, PyLong_AsLongLong,
								       value_fn)(size));
		}
		vt_own_append(rec, n == 1 ? ",)" : ")");
	}
	vt_own_clear_error(own);
	if (shape)
		vt_py_drop(&own->py, shape);
}

static void append_dtype(struct vt_own *own, struct vt_asked_rec *rec, struct object *tensor)
{
	struct object *dtype = get(own, tensor, DTYPE);

	if (!dtype)
		return;
	vt_own_append_and_drop(own, rec, OWN(own, PyObject_Repr, of_one_fn)(dtype));
	vt_py_drop(&own->py, dtype);
}

/* 0: none, or none that was told. */
static uint64_t address_of(struct vt_own *own, struct object *tensor)
{
	struct object *got;
	long long value = 0;

	if (own->failures >= MAX_FAILURES) {
		own->silent++;
		return 0;
	}
	got = call(own, own->data_address, tensor);
	if (got) {
		value = PY(own, PyLong_AsLongLong, value_fn)(got);
		vt_py_drop(&own->py, got);
	} else {
		own->failures++;
		own->silent++;
	}
	vt_own_clear_error(own);
	return (uint64_t)value;
}

/* What has no grad_fn is a leaf. */
static uint32_t flags_of(struct vt_own *own, struct object *tensor)
{
	int requires_grad = truth(own, get(own, tensor, REQUIRES_GRAD));
	int leaf = requires_grad == 0;

	if (requires_grad < 0)
		return 0;
	if (!requires_grad)
		return VT_ASKED_KNOWN | VT_ASKED_KNOWN_LEAF;
	if (truth(own, call(own, own->is_view, tensor)) != 0)
		return VT_ASKED_KNOWN | VT_ASKED_REQUIRES_GRAD;
	leaf = truth(own, get(own, tensor, IS_LEAF));
	return VT_ASKED_KNOWN | VT_ASKED_REQUIRES_GRAD | (leaf < 0 ? 0 : VT_ASKED_KNOWN_LEAF) |
	       (leaf ? 0 : VT_ASKED_HAS_GRAD_FN);
}

/* Where its data is, and if it is of PyTorch's own class what it looks like. */
static uint32_t tell_facts(struct vt_own *own, struct object *tensor)
{
	int plain = vt_own_class(own, tensor) == CLASS_PLAIN_TENSOR;
	uint64_t address = address_of(own, tensor);
	struct vt_asked_rec *rec = address ? vt_own_add(own, VT_ASKED_TENSOR, NULL, tensor) : NULL;

	if (!rec)
		return 0;
	rec->value = address;
	if (plain)
		append_dtype(own, rec, tensor);
	vt_own_append(rec, "\t");
	if (plain)
		append_shape(own, rec, tensor);
	vt_own_append(rec, "\t");
	vt_own_append_and_drop(own, rec,
			       OWN(own, PyType_GetName, of_one_fn)(vt_py_type(&own->py, tensor)));
	rec->number = plain ? flags_of(own, tensor) : 0;
	return rec->number;
}

/*
 * A gradient that Python has not seen gets an object of Python's, which PyTorch keeps as long as
 * the gradient. Only C++ may hold that: it is told at once, while there is a reference.
 */
static void tell_grad(struct vt_own *own, struct object *tensor)
{
	struct object *grad = get(own, tensor, GRAD);
	enum class class = grad ? vt_own_class(own, grad) : CLASS_OTHER;

	if (!grad)
		return;
	if ((class == CLASS_TENSOR || class == CLASS_PLAIN_TENSOR) &&
	    vt_own_add(own, VT_ASKED_GRAD, tensor, grad))
		tell_facts(own, grad);
	vt_py_drop(&own->py, grad);
}

void vt_own_tell_tensor(struct vt_own *own, struct object *tensor)
{
	const uint32_t leaf = VT_ASKED_KNOWN_LEAF | VT_ASKED_REQUIRES_GRAD;
	struct known *known = vt_own_known(own, tensor);
	uint32_t flags;

	if (!known || known->told || vt_own_is_late_now(own))
		return;
	known->told = 1;
	flags = tell_facts(own, tensor);
	if ((flags & (leaf | VT_ASKED_HAS_GRAD_FN)) == leaf && !own->backward)
		tell_grad(own, tensor);
}
