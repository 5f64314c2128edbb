/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room need of each other, and nobody else. */
#ifndef VT_WALK_PYHEAP_INTERNAL_H
#define VT_WALK_PYHEAP_INTERNAL_H

#include <string.h>

#include "walk/pyheap/pyheap.h"
#include "walk/python/layout.h"
#include "walk/python/object.h"

enum {
	VT_PYHEAP_WORD = 8,
	VT_PYHEAP_MAX_BODY = 4096, /* bytes of an instance that are looked at, without its items */
	VT_PYHEAP_MAX_NAME = 256,
	/*
	 * Items of one container. More are damage, or a process that runs has changed it: with a
	 * pointer for a size all of the heap would be read, for each such object.
	 */
	VT_PYHEAP_MAX_ITEMS = 1 << 24,
};

/* Bits of tp_flags (Include/object.h), the same in 3.8 to 3.14 where they are there at all. */
#define VT_PYHEAP_INLINE_VALUES (UINT64_C(1) << 2) /* 3.13 on */
#define VT_PYHEAP_MANAGED_DICT (UINT64_C(1) << 4)  /* 3.11 on */
#define VT_PYHEAP_HEAP_TYPE (UINT64_C(1) << 9)
#define VT_PYHEAP_READY (UINT64_C(1) << 12)
#define VT_PYHEAP_LONG (UINT64_C(1) << 24)
#define VT_PYHEAP_LIST_FLAG (UINT64_C(1) << 25)
#define VT_PYHEAP_TUPLE_FLAG (UINT64_C(1) << 26)
#define VT_PYHEAP_BYTES (UINT64_C(1) << 27)
#define VT_PYHEAP_STR (UINT64_C(1) << 28)
#define VT_PYHEAP_DICT_FLAG (UINT64_C(1) << 29)
#define VT_PYHEAP_EXCEPTION_FLAG (UINT64_C(1) << 30)
#define VT_PYHEAP_TYPE (UINT64_C(1) << 31)

/* ---- pages ---- */

/*
 * As vt_pages_page(). A walk goes back and forth between some thousand pages: they are found here
 * without the search that that makes.
 */
static inline const uint8_t *vt_pyheap_page(struct vt_pyheap *heap, uint64_t number)
{
	size_t slot = number % VT_PYHEAP_NEAR;

	if (heap->near[slot].number != number) { /* page 0 is never there */
		bool later = heap->pages->later;
		const uint8_t *data;

		heap->pages->later = false;
		data = vt_pages_page(heap->pages, number);
		/* Not kept: each node that uses such a page has to be marked. */
		if (heap->pages->later)
			return data;
		heap->pages->later = later;
		heap->near[slot].number = number;
		heap->near[slot].data = data;
	}
	return heap->near[slot].data;
}

/* What is at this address is wanted soon: objects are everywhere in memory. */
static inline void vt_pyheap_expect(const struct vt_pyheap *heap, uint64_t addr)
{
	uint64_t number = addr >> VT_HEAP_PAGE_SHIFT;
	size_t slot = number % VT_PYHEAP_NEAR;

	if (heap->near[slot].number == number && heap->near[slot].data)
		__builtin_prefetch(heap->near[slot].data + (addr & (VT_HEAP_PAGE - 1)));
}

static inline bool vt_pyheap_word(struct vt_pyheap *heap, uint64_t addr, uint64_t *word)
{
	const uint8_t *page;

	if (addr & 7) /* hostile: it may lie in two pages */
		return vt_pages_read(heap->pages, addr, word, sizeof(*word));
	page = vt_pyheap_page(heap, addr >> VT_HEAP_PAGE_SHIFT);
	if (!page)
		return false;
	page += addr & (VT_HEAP_PAGE - 1);
	vt_pages_used(heap->pages, page);
	memcpy(word, page, sizeof(*word));
	return true;
}

/* 0 what cannot be read. */
static inline uint64_t vt_pyheap_get(struct vt_pyheap *heap, uint64_t addr)
{
	uint64_t word;

	return vt_pyheap_word(heap, addr, &word) ? word : 0;
}

/* A place in the copy from which words are read one after the other: it remembers its page. */
struct vt_pyheap_cursor {
	const uint8_t *page;
	uint64_t number;
};

static inline bool vt_pyheap_next(struct vt_pyheap *heap, struct vt_pyheap_cursor *cursor,
				  uint64_t addr, uint64_t *word)
{
	if (!cursor->page || addr >> VT_HEAP_PAGE_SHIFT != cursor->number) {
		cursor->number = addr >> VT_HEAP_PAGE_SHIFT;
		cursor->page = vt_pyheap_page(heap, cursor->number);
		if (!cursor->page)
			return false;
	}
	if (addr & 7) /* hostile: it may lie in two pages */
		return vt_pages_read(heap->pages, addr, word, sizeof(*word));

	const uint8_t *data = cursor->page + (addr & (VT_HEAP_PAGE - 1));

	vt_pages_used(heap->pages, data);
	memcpy(word, data, sizeof(*word));
	return true;
}

static inline bool vt_pyheap_has(const struct vt_pyheap *heap, enum vt_py_field field)
{
	return heap->py->layout->at[field] != VT_PY_NONE;
}

static inline uint32_t vt_pyheap_at(const struct vt_pyheap *heap, enum vt_py_field field)
{
	return heap->py->layout->at[field];
}

/* A field of the struct at addr; 0 what cannot be read, or what this release does not have. */
static inline uint64_t vt_pyheap_u64(struct vt_pyheap *heap, uint64_t addr, enum vt_py_field field)
{
	return vt_pyheap_has(heap, field) ? vt_pyheap_get(heap, addr + vt_pyheap_at(heap, field)) :
					    0;
}

static inline int32_t vt_pyheap_i32(struct vt_pyheap *heap, uint64_t addr, enum vt_py_field field)
{
	int32_t value = 0;

	if (!vt_pyheap_has(heap, field) ||
	    !vt_pages_read(heap->pages, addr + vt_pyheap_at(heap, field), &value, sizeof(value)))
		return 0;
	return value;
}

static inline uint8_t vt_pyheap_u8(struct vt_pyheap *heap, uint64_t addr, enum vt_py_field field)
{
	uint8_t value = 0;

	if (!vt_pyheap_has(heap, field) ||
	    !vt_pages_read(heap->pages, addr + vt_pyheap_at(heap, field), &value, 1))
		return 0;
	return value;
}

/* ---- class.c ---- */

/* The class of a type object; VT_GRAPH_NONE when it is none. */
uint32_t vt_pyheap_class_at(struct vt_pyheap *heap, uint64_t type);

/* Room in heap->recent. Type objects are large. */
static inline size_t vt_pyheap_recent(uint64_t type)
{
	return (size_t)((type >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % VT_PYHEAP_RECENT;
}

/* The same, fast for the types that most objects have; *leaf is set when there is one. */
static inline uint32_t vt_pyheap_class(struct vt_pyheap *heap, uint64_t type, bool *leaf)
{
	size_t slot = vt_pyheap_recent(type);

	if (heap->recent[slot].type != type) {
		uint32_t cls = vt_pyheap_class_at(heap, type);

		heap->recent[slot].type = type;
		heap->recent[slot].cls = cls;
		heap->recent[slot].leaf = cls != VT_GRAPH_NONE && heap->classes.data[cls].leaf;
	}
	*leaf = heap->recent[slot].leaf;
	return heap->recent[slot].cls;
}

/* ---- kinds.c: what is known of types of C, by their names ---- */

/* How the references of an object are found that are not at fixed places. */
enum vt_pyheap_walk {
	VT_PYHEAP_WALK_NONE,
	VT_PYHEAP_WALK_LIST,
	VT_PYHEAP_WALK_TUPLE,
	VT_PYHEAP_WALK_DICT,
	VT_PYHEAP_WALK_SET,
	VT_PYHEAP_WALK_DEQUE,
	VT_PYHEAP_WALK_CLASS,
	VT_PYHEAP_WALK_TEE,   /* itertools._tee_dataobject */
	VT_PYHEAP_WALK_QUEUE, /* _queue.SimpleQueue, 3.13 on */
	VT_PYHEAP_WALK_FUNCTION,
	VT_PYHEAP_WALK_GENERATOR,
	VT_PYHEAP_WALK_FRAME,
	VT_PYHEAP_WALK_ITEMS, /* what follows its body, as many as ob_size says: of any C type */
	VT_PYHEAP_N_WALKS
};

/* Places are fields of the layout, or these: bytes behind the PyObject, or before GEN_FRAME. */
#define VT_PYHEAP_BEHIND(n) (0x10000u | (n))
#define VT_PYHEAP_BEFORE_FRAME(n) (0x20000u | (n))

struct vt_pyheap_place {
	uint32_t where;
	uint8_t kind; /* VT_N_EDGE_KINDS: it is no reference that counts */
};

/* What is to be done with those words of a C type that nothing is known about. */
enum vt_pyheap_others {
	VT_PYHEAP_OTHERS_NONE, /* all references are known */
	VT_PYHEAP_OTHERS_ANY,  /* they may be references */
};

#define VT_PYHEAP_MAX_PLACES 8

struct vt_pyheap_kind {
	const char *name; /* tp_name; NULL: by flag */
	uint64_t flag;
	enum vt_pyheap_shape shape;
	enum vt_pyheap_walk walk;
	enum vt_pyheap_others others;
	enum vt_edge_kind other; /* their kind */
	size_t n_places;
	struct vt_pyheap_place places[VT_PYHEAP_MAX_PLACES];
};

/* NULL: nothing is known of a type with this tp_name and these flags. */
const struct vt_pyheap_kind *vt_pyheap_kind(const struct vt_pyheap *heap, const char *name,
					    uint64_t flags);
/* The offset of a place; UINT32_MAX: this release has none. */
uint32_t vt_pyheap_place(const struct vt_pyheap *heap, uint32_t where);
/* What a class of PyTorch or CuPy is, by its module and name. */
uint16_t vt_pyheap_is(const char *module, const char *name);

/* ---- add.c ---- */

/* Adds an edge to an object, unless that is a leaf, or none at all. */
static inline void vt_pyheap_add(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t number,
				 uint64_t object)
{
	uint64_t type;
	bool leaf;

	if (!object || object & 7 || object >> 47 ||
	    !vt_pyheap_word(heap, object + heap->type_at, &type) ||
	    vt_pyheap_class(heap, type, &leaf) == VT_GRAPH_NONE || leaf)
		return;
	vt_graph_edge(heap->graph, kind, number, object, VT_NODE_PYTHON);
}

/* The same for a word that may be anything. */
void vt_pyheap_guess(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t number,
		     uint64_t word);

/* Adds n objects of an array, numbered from first on. */
void vt_pyheap_array(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t first, uint64_t addr,
		     uint64_t n);

/*
 * Takes n words of what may still be looked at. Everything that is read is paid for, so that no
 * damaged size and no ring costs more. False: the node's edges end here, and the graph.
 */
bool vt_pyheap_work(struct vt_pyheap *heap, uint64_t n);

/* The same for the i-th of n words: only what is read of a damaged size is paid for. */
static inline bool vt_pyheap_pay(struct vt_pyheap *heap, uint64_t i, uint64_t n)
{
	return i % 256 || vt_pyheap_work(heap, n - i < 256 ? n - i : 256);
}

/* Not all of the node's references could be read. */
void vt_pyheap_cut(struct vt_pyheap *heap);

/* ---- instance.c: attributes that are in the object itself, or in a dict before it ---- */

void vt_pyheap_attributes(struct vt_pyheap *heap, uint64_t object, uint32_t cls);

/* Where the attributes of an instance whose class has VT_PYHEAP_MANAGED_DICT are. */
struct vt_pyheap_attributes {
	uint64_t dict;   /* 0 none */
	uint64_t values; /* the struct that VALUES_ARRAY is in; 0 none, or those of the dict */
};

void vt_pyheap_managed(struct vt_pyheap *heap, uint64_t object, const struct vt_pyheap_class *cls,
		       struct vt_pyheap_attributes *in);

/* ---- table.c: the parts of containers ---- */

/* Where the entries of a dict are. */
struct vt_pyheap_table {
	uint64_t entries, n, values; /* values: those of a table that other dicts share; else 0 */
	uint32_t entry_size, key_at;
	bool general; /* its keys may be anything, not only str */
};

/* values: what DICT_VALUES or an instance has, or 0. */
bool vt_pyheap_table(struct vt_pyheap *heap, uint64_t keys, uint64_t values,
		     struct vt_pyheap_table *table);
bool vt_pyheap_table_of(struct vt_pyheap *heap, uint64_t dict, struct vt_pyheap_table *table);
uint64_t vt_pyheap_table_key(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			     uint64_t i);
uint64_t vt_pyheap_table_value(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			       uint64_t i);
/* The value of a str among the first max entries of a dict; *at its entry. 0: none. */
uint64_t vt_pyheap_lookup(struct vt_pyheap *heap, uint64_t dict, const char *key, uint64_t max,
			  uint64_t *at);
/* The same in a table. */
uint64_t vt_pyheap_lookup_in(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			     const char *key, uint64_t max, uint64_t *at);
/* Whether the object is this str. */
bool vt_pyheap_is_str(struct vt_pyheap *heap, uint64_t object, const char *text);
/* ob_size without its sign, which is the sign of a number; and 0 when it makes no sense. */
uint64_t vt_pyheap_size(struct vt_pyheap *heap, uint64_t object);

/* ---- dict.c ---- */

void vt_pyheap_dict(struct vt_pyheap *heap, uint64_t object);

/* ---- containers.c ---- */

void vt_pyheap_list(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_tuple(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_set(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_deque(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_queue(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_tee(struct vt_pyheap *heap, uint64_t object);

/* ---- function.c ---- */

/* A function's cells. */
void vt_pyheap_function(struct vt_pyheap *heap, uint64_t object);
/* The name of a local variable of a code object, by its place in a frame; 0 none. */
uint64_t vt_pyheap_local_name(struct vt_pyheap *heap, uint64_t code, uint64_t slot);
/* The same of a cell that a function has of an outer one. */
uint64_t vt_pyheap_free_name(struct vt_pyheap *heap, uint64_t code, uint64_t index);
/* How many variables a frame of this code has, cells among them. */
uint64_t vt_pyheap_variables(struct vt_pyheap *heap, uint64_t code);

/* ---- frame.c ---- */

/* Of a frame of the evaluator (3.11 on). */
void vt_pyheap_frame(struct vt_pyheap *heap, uint64_t frame);
void vt_pyheap_frame_object(struct vt_pyheap *heap, uint64_t object);
void vt_pyheap_generator(struct vt_pyheap *heap, uint64_t object);
/* The code object of a frame of either form. */
uint64_t vt_pyheap_frame_code(struct vt_pyheap *heap, uint64_t frame);

#endif
