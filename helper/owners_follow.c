/* SPDX-License-Identifier: Apache-2.0 */
#include "owners.h"

#include <stddef.h>

enum {
	TRAVERSE = 71, /* Py_tp_traverse of typeslots.h: a number of the stable ABI */
	INSIDE = 3, /* references that are followed from a module's or an optimizer's attribute */
	MAX_INNER = 8, /* tensors in tensors: the helper's stack has 512 KiB */
};

static int is_tensor(enum class class)
{
	return class == CLASS_TENSOR || class == CLASS_PLAIN_TENSOR;
}

static int is_listed(enum class class)
{
	return class == CLASS_MODULE || class == CLASS_OPTIMIZER;
}

/* ---- whether an object leads to a tensor ---- */

struct seeking {
	struct vt_own *own;
	int depth, found;
	uint32_t items;
};

static int leads(struct vt_own *own, struct object *object, int depth);

static int seek_in(struct object *object, void *arg)
{
	struct seeking *seeking = arg;

	if (!object)
		return 0;
	if (++seeking->items > MAX_ITEMS)
		seeking->own->cut = 1;
	seeking->found = leads(seeking->own, object, seeking->depth);
	return seeking->found || seeking->items > MAX_ITEMS || vt_own_is_late(seeking->own);
}

/* Calls visit() for what the object refers to, as Python's collector does, until it is not 0. */
static void traverse(struct vt_own *own, struct object *object, vt_py_visit_fn *visit, void *arg)
{
	vt_py_traverse_fn *each = (vt_py_traverse_fn *)OWN(own, PyType_GetSlot, slot_fn)(
		vt_py_type(&own->py, object), TRAVERSE);

	if (each)
		each(object, visit, arg);
	vt_own_clear_error(own);
}

/* Within so many references. Nothing is made, and nothing is told. */
static int leads(struct vt_own *own, struct object *object, int depth)
{
	enum class class = vt_own_class(own, object);
	struct seeking seeking = { .own = own, .depth = depth - 1 };
	struct known *known;

	if (is_tensor(class) || is_listed(class))
		return 1;
	if (class == CLASS_OTHER || depth <= 0)
		return 0;
	known = vt_own_known(own, object);
	if (!known || known->leads || known->seeks >= depth)
		return known && known->leads;
	known->seeks = (uint8_t)depth; /* now: it may lead to itself */
	traverse(own, object, seek_in, &seeking);
	known->leads = seeking.found != 0;
	return seeking.found;
}

/* ---- following ---- */

static void follow_dict(struct vt_own *own, struct object *dict, int depth)
{
	struct object *key, *value;
	long at = 0;

	for (int i = 0; PY(own, PyDict_Next, next_fn)(dict, &at, &key, &value); i++) {
		struct way way = { .kind = VT_ASKED_OTHER, .from = dict };

		if (i >= MAX_ITEMS)
			own->cut = 1;
		if (i >= MAX_ITEMS || vt_own_is_late(own))
			return;
		if (vt_own_is_text(own, key)) {
			way.kind = VT_ASKED_KEY;
			way.text = key;
		} else if (vt_py_type(&own->py, key) == TYPE(own, PyLong_Type)) {
			way.kind = VT_ASKED_NUMBER;
			way.value = (uint64_t)PY(own, PyLong_AsLongLong, value_fn)(key);
			if (PY(own, PyErr_Occurred, object_fn)())
				way.kind = VT_ASKED_OTHER;
			vt_own_clear_error(own);
		}
		vt_own_follow(own, &way, value, depth);
	}
}

static void follow_items(struct vt_own *own, struct object *from, enum class class, int depth)
{
	long n = class == CLASS_LIST ? PY(own, PyList_Size, size_fn)(from) :
				       OWN(own, PyTuple_Size, size_fn)(from);

	for (long i = 0; i < n; i++) {
		struct way way = { .kind = VT_ASKED_ITEM, .from = from, .number = (uint32_t)i };
		struct object *item;

		if (i >= MAX_ITEMS)
			own->cut = 1;
		if (i >= MAX_ITEMS || vt_own_is_late(own))
			return;
		item = class == CLASS_LIST ? PY(own, PyList_GetItem, at_fn)(from, i) :
					     PY(own, PyTuple_GetItem, at_fn)(from, i);
		if (item)
			vt_own_follow(own, &way, item, depth);
	}
	vt_own_clear_error(own);
}

void vt_own_follow_names(struct vt_own *own, struct object *dict, enum vt_asked_kind kind,
			 struct object *from, int depth)
{
	struct object *key, *value;
	long at = 0;

	while (!vt_own_is_late(own) && PY(own, PyDict_Next, next_fn)(dict, &at, &key, &value)) {
		struct way way = { .kind = kind, .from = from, .text = key };

		if (vt_own_is_text(own, key))
			vt_own_follow(own, &way, value, depth);
	}
}

struct without_name {
	struct vt_own *own;
	struct way way;
	int depth;
	uint32_t items;
};

static int follow_without_name(struct object *object, void *arg)
{
	struct without_name *to = arg;

	if (!object)
		return 0;
	vt_own_follow(to->own, &to->way, object, to->depth);
	return ++to->items > MAX_ITEMS || vt_own_is_late(to->own);
}

static void follow_set(struct vt_own *own, struct object *set, int depth)
{
	struct without_name to = { own, { .kind = VT_ASKED_ELEMENT, .from = set }, depth, 0 };

	traverse(own, set, follow_without_name, &to);
}

/*
 * The dictionary of an object's attributes: a new reference, NULL if it has none. An object whose
 * attributes were in no dictionary so far has one from then on, as with vars().
 */
static struct object *attributes(struct vt_own *own, struct object *object)
{
	struct object *dict = OWN(own, PyObject_GenericGetDict, of_two_fn)(object, NULL);

	if (!dict)
		vt_own_clear_error(own);
	return dict;
}

static void follow_instance(struct vt_own *own, struct object *object, int depth)
{
	struct without_name to = { own, { .kind = VT_ASKED_OTHER, .from = object }, depth, 0 };
	struct object *dict = attributes(own, object);

	if (!dict) {
		traverse(own, object, follow_without_name, &to);
		return;
	}
	vt_own_follow_names(own, dict, VT_ASKED_FIELD, object, depth);
	vt_py_drop(&own->py, dict); /* the object has it */
}

static int follow_part(struct object *object, void *arg)
{
	struct without_name *to = arg;

	if (!object || vt_own_class(to->own, object) != CLASS_DICT)
		return follow_without_name(object, arg);
	vt_own_follow_names(to->own, object, VT_ASKED_FIELD, to->way.from, to->depth);
	return vt_own_is_late(to->own);
}

/* What a tensor of another class consists of: the data of a DTensor is in another tensor. */
static void follow_tensor(struct vt_own *own, struct object *tensor)
{
	struct without_name to = { own, { .kind = VT_ASKED_INNER, .from = tensor }, 1, 0 };
	struct known *known = vt_own_known(own, tensor);

	if (!known || known->seeks)
		return;
	if (own->inner >= MAX_INNER) {
		own->cut = 1;
		return;
	}
	known->seeks = 1; /* it may lead to itself */
	own->inner++;
	traverse(own, tensor, follow_part, &to);
	own->inner--;
}

static void follow_container(struct vt_own *own, struct object *object, enum class class, int depth)
{
	if (class == CLASS_DICT)
		follow_dict(own, object, depth);
	else if (class == CLASS_SET)
		follow_set(own, object, depth);
	else if (class == CLASS_INSTANCE)
		follow_instance(own, object, depth);
	else
		follow_items(own, object, class, depth);
}

void vt_own_follow(struct vt_own *own, const struct way *way, struct object *to, int depth)
{
	enum class class = vt_own_class(own, to);
	struct vt_asked_rec *rec;
	struct known *known;

	if (own->late || own->full || !leads(own, to, depth))
		return;
	rec = vt_own_add(own, way->kind, way->from, to);
	known = vt_own_known(own, to);
	if (!rec || !known)
		return;
	rec->number = way->number;
	rec->value = way->value;
	if (way->text)
		vt_own_append(rec, PY(own, PyUnicode_AsUTF8, text_fn)(way->text));
	vt_own_clear_error(own);
	if (is_listed(class)) {
		vt_own_list(own, to);
	} else if (is_tensor(class)) {
		vt_own_tell_tensor(own, to);
		if (class == CLASS_TENSOR)
			follow_tensor(own, to);
	} else if (known->told < depth) {
		known->told = (uint8_t)depth;
		follow_container(own, to, class, depth - 1);
	}
}

/* ---- modules and optimizers ---- */

void vt_own_list(struct vt_own *own, struct object *object)
{
	struct known *known = vt_own_known(own, object);

	if (!known || known->told)
		return;
	known->told = 1;
	own->listed[own->n_listed++] = object; /* no more than are known */
}

static const struct part {
	const char *name;
	enum vt_asked_kind kind;
} parts[] = {
	{ "_modules", VT_ASKED_CHILD },
	{ "_parameters", VT_ASKED_PARAMETER },
	{ "_buffers", VT_ASKED_BUFFER },
};

static const struct part *find_part(struct vt_own *own, struct object *key)
{
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (vt_py_is_text(&own->py, key, parts[i].name))
			return &parts[i];
	return NULL;
}

static void tell_class(struct vt_own *own, struct object *object, uint32_t number)
{
	struct vt_asked_rec *rec = vt_own_add(own, VT_ASKED_OBJECT, NULL, object);

	if (!rec)
		return;
	rec->number = number;
	vt_own_append_and_drop(own, rec,
			       OWN(own, PyType_GetName, of_one_fn)(vt_py_type(&own->py, object)));
}

/* state: parameter -> name -> tensor. */
static void tell_state(struct vt_own *own, struct object *optimizer, struct object *state)
{
	struct object *key, *value;
	long at = 0;

	while (!vt_own_is_late(own) && PY(own, PyDict_Next, next_fn)(state, &at, &key, &value)) {
		struct way way = { .kind = VT_ASKED_STATE,
				   .from = optimizer,
				   .value = (uint64_t)key };

		vt_own_follow(own, &way, value, INSIDE);
	}
}

static void tell_attribute(struct vt_own *own, struct object *object, struct object *key,
			   struct object *value, int optimizer)
{
	struct way way = { .kind = VT_ASKED_ATTRIBUTE, .from = object, .text = key };
	int dict = vt_own_class(own, value) == CLASS_DICT;
	const struct part *part = dict && !optimizer ? find_part(own, key) : NULL;

	if (part)
		vt_own_follow_names(own, value, part->kind, object, 0);
	else if (dict && optimizer && vt_py_is_text(&own->py, key, "state"))
		tell_state(own, object, value);
	else
		vt_own_follow(own, &way, value, INSIDE);
}

static void tell(struct vt_own *own, struct object *object)
{
	int optimizer = vt_own_class(own, object) == CLASS_OPTIMIZER;
	struct object *dict = attributes(own, object), *key, *value;
	long at = 0;

	if (!dict)
		return;
	tell_class(own, object, (uint32_t)optimizer);
	while (!vt_own_is_late(own) && PY(own, PyDict_Next, next_fn)(dict, &at, &key, &value))
		if (vt_own_is_text(own, key))
			tell_attribute(own, object, key, value, optimizer);
	vt_py_drop(&own->py, dict); /* the object has it */
}

void vt_own_tell_listed(struct vt_own *own)
{
	while (own->n_told < own->n_listed && !vt_own_is_late_now(own) && !own->full)
		tell(own, own->listed[own->n_told++]);
}
