/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes: what their instances are, and which words of them are references. A class is learnt
 * once, after all those in its __mro__, so that nothing here calls itself.
 *
 * Instances begin with what the class's base in C has, then come the slots of each class statement
 * on the way, by tp_base. tp_members names slots and members of C types (Include/descrobject.h).
 */
#include "walk/pyheap/internal.h"

enum {
	MAX_CLASSES = 200000,
	MAX_WORDS = 4000000, /* of all classes */
	MAX_MRO = 256,
	MAX_MEMBERS = 512, /* of one class */
	N_WORDS = VT_PYHEAP_MAX_BODY / VT_PYHEAP_WORD,
	MODULE_KEY_WITHIN = 64, /* entries of a class's dict; "__module__" is one of the first */
	NEXT_FUNCTIONS_WITHIN = 64,
	/* struct PyMemberDef: name, type (int), offset, flags, doc */
	MEMBER_SIZE = 40,
	MEMBER_TYPE = 8,
	MEMBER_OFFSET = 16,
	T_OBJECT = 6,
	T_OBJECT_EX = 16,
};

/* What a type object says. */
struct head {
	uint64_t addr, name, flags, base, dict, mro, members, traverse;
	int64_t basicsize, itemsize, dictoffset, weaklist;
	char text[VT_PYHEAP_MAX_NAME + 1]; /* tp_name */
	bool of_python;
};

/* Being made: a kind and whether it is exact for each word of an instance. */
struct draft {
	struct vt_pyheap *heap;
	const struct head *head;
	struct vt_pyheap_class cls;
	uint8_t kinds[N_WORDS]; /* enum vt_edge_kind + 1; 0: it is no reference */
	bool exact[N_WORDS];
};

/* ---- reading a type object ---- */

static bool read_text(struct vt_pyheap *heap, uint64_t addr, char *text, size_t size)
{
	size_t n = size - 1, in_page = VT_HEAP_PAGE - (size_t)(addr & (VT_HEAP_PAGE - 1));

	/* It may end at the end of memory, which ends with a page. */
	if (!vt_pages_read(heap->pages, addr, text, n)) {
		n = in_page < n ? in_page : n;
		if (!vt_pages_read(heap->pages, addr, text, n))
			n = 0;
	}
	text[n] = '\0';
	return text[0];
}

static uint64_t mro_item(struct vt_pyheap *heap, uint64_t mro, uint64_t i)
{
	return vt_pyheap_get(heap, mro + vt_pyheap_at(heap, VT_PY_TUPLE_ITEMS) + i * 8);
}

static uint64_t mro_size(struct vt_pyheap *heap, uint64_t mro)
{
	uint64_t n = mro && !(mro & 7) ? vt_pyheap_size(heap, mro) : 0;

	return n < MAX_MRO ? n : MAX_MRO;
}

/* Its own type derives from type, and it is the first of its own __mro__. */
static bool is_type(struct vt_pyheap *heap, uint64_t type)
{
	const uint64_t want = VT_PYHEAP_READY | VT_PYHEAP_TYPE;
	uint64_t meta = vt_pyheap_get(heap, type + heap->type_at);

	return meta && !(meta & 7) && (vt_pyheap_u64(heap, meta, VT_PY_TYPE_FLAGS) & want) == want;
}

/*
 * What PyType_Ready() was called for. Modules/_functoolsmodule.c of 3.8 and 3.9 has one type
 * without, that of the links in an lru_cache.
 */
static bool is_ready(struct vt_pyheap *heap, uint64_t type)
{
	static const char link[] = "functools._lru_list_elem";
	char name[sizeof(link)];

	if (vt_pyheap_u64(heap, type, VT_PY_TYPE_FLAGS) & VT_PYHEAP_READY)
		return is_type(heap, type);
	return heap->py->layout->minor < 10 && is_type(heap, type) &&
	       vt_pages_read(heap->pages, vt_pyheap_u64(heap, type, VT_PY_TYPE_NAME), name,
			     sizeof(name)) &&
	       !memcmp(name, link, sizeof(link));
}

static bool read_head(struct vt_pyheap *heap, uint64_t type, struct head *head)
{
	*head = (struct head){ .addr = type };
	if (!type || type & 7 || type >> 47)
		return false;
	if (!is_ready(heap, type))
		return false;
	head->flags = vt_pyheap_u64(heap, type, VT_PY_TYPE_FLAGS);
	head->base = vt_pyheap_u64(heap, type, VT_PY_TYPE_BASE);
	head->dict = vt_pyheap_u64(heap, type, VT_PY_TYPE_DICT);
	head->mro = vt_pyheap_u64(heap, type, VT_PY_TYPE_MRO);
	head->members = vt_pyheap_u64(heap, type, VT_PY_TYPE_MEMBERS);
	head->traverse = vt_pyheap_u64(heap, type, VT_PY_TYPE_TRAVERSE);
	head->basicsize = (int64_t)vt_pyheap_u64(heap, type, VT_PY_TYPE_BASICSIZE);
	head->itemsize = (int64_t)vt_pyheap_u64(heap, type, VT_PY_TYPE_ITEMSIZE);
	head->dictoffset = (int64_t)vt_pyheap_u64(heap, type, VT_PY_TYPE_DICTOFFSET);
	head->weaklist = (int64_t)vt_pyheap_u64(heap, type, VT_PY_TYPE_WEAKLIST);
	return head->basicsize >= 0 && read_text(heap, vt_pyheap_u64(heap, type, VT_PY_TYPE_NAME),
						 head->text, sizeof(head->text));
}

/*
 * Made by a class statement. One without anything that the collector could visit has no tp_traverse
 * of its own; then it adds nothing to its base either, and its name has no dots.
 */
static bool is_of_python(const struct vt_pyheap *heap, const struct head *head)
{
	if (!(head->flags & VT_PYHEAP_HEAP_TYPE))
		return false;
	if (heap->class_traverse && head->traverse == heap->class_traverse)
		return true;
	if (strchr(head->text, '.'))
		return false;
	return !heap->class_traverse || !(head->flags & UINT64_C(1) << 14 /* HAVE_GC */);
}

/* ---- names ---- */

static const char *read_module(struct vt_pyheap *heap, const struct head *head)
{
	struct vt_pyheap_table table;
	uint64_t module = 0;
	char text[VT_PY_STR_MAX + 1];
	const char *copy;

	if (!vt_pyheap_table_of(heap, head->dict, &table))
		return "";
	/* Names in dicts of classes are interned: the same object everywhere. */
	for (uint64_t i = 0; i < table.n && i < MODULE_KEY_WITHIN && !module; i++) {
		uint64_t key = vt_pyheap_table_key(heap, &table, i);

		if (!heap->module_key && vt_pyheap_is_str(heap, key, "__module__"))
			heap->module_key = key;
		if (key && key == heap->module_key)
			module = vt_pyheap_table_value(heap, &table, i);
	}

	int n = module ? vt_py_str_read(heap->py, &heap->pages->src, module, text) : -1;

	if (n <= 0)
		return "";
	copy = vt_arena_strndup(&heap->arena, text,
				n < VT_PYHEAP_MAX_NAME ? (size_t)n : VT_PYHEAP_MAX_NAME);
	return copy ? copy : "";
}

/* Types of C have their module's name before their own. Some programs' classes have it, too. */
static void set_names(struct draft *d)
{
	const char *text = d->head->text, *dot = strrchr(text, '.');
	char *name = vt_arena_strdup(&d->heap->arena, dot && dot[1] ? dot + 1 : text);
	char *module = NULL;

	if (dot && !d->head->of_python)
		module = vt_arena_strndup(&d->heap->arena, text, (size_t)(dot - text));
	d->cls.name = name ? name : "";
	if (module)
		d->cls.module = module;
	else if (d->head->flags & VT_PYHEAP_HEAP_TYPE)
		d->cls.module = read_module(d->heap, d->head);
	else
		d->cls.module = dot ? "" : "builtins";
}

/* ---- words ---- */

static void set_word(struct draft *d, int64_t at, uint8_t kind, bool exact)
{
	if (at < (int64_t)d->heap->head || at >= VT_PYHEAP_MAX_BODY || at & 7)
		return;
	d->kinds[at / 8] = kind == VT_N_EDGE_KINDS ? 0 : (uint8_t)(kind + 1);
	d->exact[at / 8] = exact;
}

static const struct vt_pyheap_class *class_or_null(const struct vt_pyheap *heap, uint64_t type)
{
	const uint64_t *index = type ? vt_map_get(&heap->by_addr, type) : NULL;

	return index && *index != VT_GRAPH_NONE ? &heap->classes.data[*index] : NULL;
}

static void take_base(struct draft *d, const struct vt_pyheap_class *base)
{
	d->cls.shape = base->shape;
	d->cls.walk = base->walk;
	for (uint32_t i = 0; i < base->n_words; i++) {
		const struct vt_pyheap_word *word = &d->heap->words.data[base->first_word + i];

		set_word(d, word->at, word->kind, word->exact);
	}
}

/*
 * Of types of C that are known by their names, we know better what is where. Classes of tensors are
 * made by class statements, but look like types of C: up to 2.9 the metaclass of PyTorch
 * (torch/csrc/autograd/python_variable.cpp) gives all of them a tp_traverse of its own. DTensor has
 * its data in a slot.
 */
static bool is_unknown(const struct draft *d, uint64_t word)
{
	bool of_tensor = d->cls.is & VT_PYHEAP_IS_TENSOR && d->head->flags & VT_PYHEAP_HEAP_TYPE;

	return !d->exact[word] && (d->head->of_python || of_tensor || d->kinds[word]);
}

/* The slots of a class statement, and members of C types. */
static void add_members(struct draft *d)
{
	uint8_t member[MEMBER_SIZE];
	uint64_t name, offset;
	int32_t type;

	for (uint64_t i = 0; d->head->members && i < MAX_MEMBERS; i++) {
		if (!vt_pages_read(d->heap->pages, d->head->members + i * MEMBER_SIZE, member,
				   sizeof(member)))
			return;
		memcpy(&name, member, sizeof(name));
		memcpy(&type, member + MEMBER_TYPE, sizeof(type));
		memcpy(&offset, member + MEMBER_OFFSET, sizeof(offset));
		if (!name)
			return;
		if ((type == T_OBJECT || type == T_OBJECT_EX) && offset < VT_PYHEAP_MAX_BODY &&
		    (int64_t)offset < d->head->basicsize && is_unknown(d, offset / 8))
			set_word(d, (int64_t)offset, VT_EDGE_MEMBER, true);
	}
}

/* How far the words go that are there in each instance. */
static int64_t body_end(const struct draft *d)
{
	int64_t end = d->head->basicsize;

	if (d->cls.shape == VT_PYHEAP_GENERATOR && vt_pyheap_has(d->heap, VT_PY_GEN_STATE))
		end = vt_pyheap_at(d->heap, VT_PY_GEN_FRAME);
	/* A frame object of 3.11 on has room for a frame at its end, without the variables. */
	if (d->cls.shape == VT_PYHEAP_FRAME && vt_pyheap_has(d->heap, VT_PY_FRAMEOBJ_FRAME))
		end -= vt_pyheap_at(d->heap, VT_PY_FRAME_LOCALS);
	else if (d->cls.shape == VT_PYHEAP_FRAME)
		end = (int64_t)d->heap->head + 8; /* frame.c knows its words */
	return end < VT_PYHEAP_MAX_BODY ? end : VT_PYHEAP_MAX_BODY;
}

/* A type of C: what is known by its name, or by that of its base; the rest may be anything. */
static void add_own(struct draft *d, const struct vt_pyheap_class *base)
{
	const struct vt_pyheap_kind *kind = vt_pyheap_kind(d->heap, d->head->text, d->head->flags);
	int64_t from = base ? base->basicsize : (int64_t)d->heap->head;
	uint8_t other = VT_EDGE_BODY;
	bool any = true;

	if (kind) {
		d->cls.shape = (uint8_t)kind->shape;
		d->cls.walk = (uint8_t)kind->walk;
		other = (uint8_t)kind->other;
		any = kind->others == VT_PYHEAP_OTHERS_ANY;
		from = d->heap->head;
	} else if (!base || base->shape == VT_PYHEAP_PLAIN || base->shape == VT_PYHEAP_LEAF) {
		d->cls.shape = VT_PYHEAP_OPAQUE;
	}
	for (int64_t at = from; any && at < body_end(d); at += 8)
		set_word(d, at, other, false);
	for (size_t i = 0; kind && i < kind->n_places; i++) {
		uint32_t at = vt_pyheap_place(d->heap, kind->places[i].where);

		if (at != VT_PY_NONE)
			set_word(d, at, kind->places[i].kind, true);
	}
	if (!kind && d->cls.shape == VT_PYHEAP_OPAQUE && !d->cls.walk && d->head->itemsize == 8)
		d->cls.walk = VT_PYHEAP_WALK_ITEMS;
	/* Up to 3.12 it has a list. */
	if (d->cls.walk == VT_PYHEAP_WALK_QUEUE && d->heap->py->layout->minor < 13)
		d->cls.walk = VT_PYHEAP_WALK_NONE;
}

static void add_dict_and_weaklist(struct draft *d)
{
	bool managed = vt_pyheap_has(d->heap, VT_PY_OBJECT_DICT) &&
		       d->head->flags & VT_PYHEAP_MANAGED_DICT;

	if (d->head->dictoffset > 0 && !managed)
		set_word(d, d->head->dictoffset, VT_EDGE_DICT, true);
	if (d->head->weaklist > 0)
		set_word(d, d->head->weaklist, VT_N_EDGE_KINDS, true);
}

static bool store_words(struct draft *d)
{
	struct vt_pyheap *heap = d->heap;

	d->cls.first_word = (uint32_t)heap->words.n;
	for (uint32_t i = 0; i < N_WORDS; i++) {
		struct vt_pyheap_word *word;

		if (!d->kinds[i])
			continue;
		if (heap->words.n >= MAX_WORDS || !(word = vt_vec_append(&heap->words)))
			return false;
		*word = (struct vt_pyheap_word){ .at = i * 8,
						 .kind = (uint8_t)(d->kinds[i] - 1),
						 .exact = d->exact[i] };
		d->cls.n_words++;
		d->cls.body = word->at + 8;
	}
	return true;
}

/* ---- what it is to PyTorch ---- */

/*
 * Classes of autograd's C++ nodes are static types with names like "MulBackward0", one for each.
 * torch/csrc/autograd/python_cpp_function.h gives all of them the property next_functions.
 */
static bool is_node(struct draft *d)
{
	uint64_t at;

	return !(d->head->flags & VT_PYHEAP_HEAP_TYPE) && d->head->dict &&
	       vt_pyheap_lookup(d->heap, d->head->dict, "next_functions", NEXT_FUNCTIONS_WITHIN,
				&at);
}

static void set_is(struct draft *d)
{
	uint64_t n = mro_size(d->heap, d->head->mro);

	d->cls.is = vt_pyheap_is(d->cls.module, d->cls.name);
	if (is_node(d))
		d->cls.is |= VT_PYHEAP_IS_NODE;
	for (uint64_t i = 0; i < n; i++) {
		const struct vt_pyheap_class *other =
			class_or_null(d->heap, mro_item(d->heap, d->head->mro, i));

		if (other)
			d->cls.is |= other->is;
	}
}

/* ---- making it ---- */

static bool is_leaf(const struct draft *d)
{
	if (d->cls.shape != VT_PYHEAP_LEAF || !d->head->of_python)
		return d->cls.shape == VT_PYHEAP_LEAF;
	return !d->cls.n_words && d->head->dictoffset == 0 &&
	       !(d->head->flags & VT_PYHEAP_MANAGED_DICT &&
		 vt_pyheap_has(d->heap, VT_PY_OBJECT_DICT));
}

/* Its bases are there already. */
static bool make(struct vt_pyheap *heap, struct head *head, struct vt_pyheap_class *cls)
{
	static const uint16_t native = VT_PYHEAP_IS_TENSOR | VT_PYHEAP_IS_STORAGE |
				       VT_PYHEAP_IS_NODE | VT_PYHEAP_IS_SAVED;
	const struct vt_pyheap_class *base = class_or_null(heap, head->base);
	struct draft d = {
		.heap = heap,
		.head = head,
		.cls = { .addr = head->addr,
			 .heap = head->flags & VT_PYHEAP_HEAP_TYPE,
			 .flags = head->flags,
			 .basicsize = head->basicsize,
			 .itemsize = head->itemsize,
			 .dictoffset = head->dictoffset,
			 .weaklistoffset = head->weaklist,
			 .base = head->base,
			 .members = head->members },
	};

	d.cls.of_python = head->of_python = is_of_python(heap, head);
	set_names(&d);
	set_is(&d);
	if (base)
		take_base(&d, base);
	/* What C++ has in its wrappers is for walk/tensors. */
	if (!head->of_python && !(d.cls.is & native))
		add_own(&d, base);
	else if (!head->of_python)
		d.cls.shape = VT_PYHEAP_OPAQUE;
	/* What C has in those that hold nothing of interest is of none either. */
	if (head->of_python || d.cls.shape != VT_PYHEAP_LEAF) {
		add_members(&d);
		add_dict_and_weaklist(&d);
	}
	if (head->flags & VT_PYHEAP_HEAP_TYPE)
		d.cls.cached_keys = vt_pyheap_u64(heap, head->addr, VT_PY_TYPE_CACHED_KEYS);
	if (!store_words(&d))
		return false;
	d.cls.leaf = is_leaf(&d);
	/* A number or a text with attributes. */
	if (d.cls.shape == VT_PYHEAP_LEAF && !d.cls.leaf)
		d.cls.shape = VT_PYHEAP_PLAIN;
	*cls = d.cls;
	return true;
}

/* What is no type is not remembered: there is no end to the words that are none. */
static uint32_t learn(struct vt_pyheap *heap, uint64_t type)
{
	struct vt_pyheap_class cls, *added;
	struct head head;

	if (heap->classes.n >= MAX_CLASSES || !read_head(heap, type, &head) ||
	    !make(heap, &head, &cls) || !vt_map_put(&heap->by_addr, type, heap->classes.n))
		return VT_GRAPH_NONE;
	added = vt_vec_append(&heap->classes);
	if (!added) {
		vt_map_put(&heap->by_addr, type, VT_GRAPH_NONE);
		return VT_GRAPH_NONE;
	}
	*added = cls;
	return (uint32_t)heap->classes.n - 1;
}

uint32_t vt_pyheap_class_at(struct vt_pyheap *heap, uint64_t type)
{
	const uint64_t *known = vt_map_get(&heap->by_addr, type);
	uint64_t mro, n;

	if (known)
		return (uint32_t)*known;
	if (!type || type & 7 || type >> 47)
		return VT_GRAPH_NONE;
	if (!is_ready(heap, type))
		return VT_GRAPH_NONE;
	/* Its bases first, object before all others. */
	mro = vt_pyheap_u64(heap, type, VT_PY_TYPE_MRO);
	n = mro_size(heap, mro);
	for (uint64_t i = n; i-- > 0;) {
		uint64_t other = mro_item(heap, mro, i);

		if (other && other != type && !vt_map_get(&heap->by_addr, other))
			learn(heap, other);
	}
	return learn(heap, type);
}

uint32_t vt_pyheap_class_of(struct vt_pyheap *heap, uint64_t addr)
{
	uint64_t type;
	bool leaf;

	if (!addr || addr & 7 || !vt_pyheap_word(heap, addr + heap->type_at, &type))
		return VT_GRAPH_NONE;
	return vt_pyheap_class(heap, type, &leaf);
}
