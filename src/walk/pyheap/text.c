/* SPDX-License-Identifier: Apache-2.0 */
/* The words of edges: made only for those that are shown. */
#include <ctype.h>
#include <inttypes.h>

#include "walk/pyheap/internal.h"
#include "walk/python/value.h"

#define MAX_BASES 64
#define MAX_MEMBERS 512
#define MEMBER_SIZE 40 /* struct PyMemberDef: name comes first, offset 16 bytes behind */

/* ---- keys ---- */

/* The table that an edge's number is an entry of. */
static bool table_of(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
		     struct vt_pyheap_table *table)
{
	uint64_t addr = heap->graph->nodes.data[from].addr;
	uint32_t cls;

	switch ((enum vt_edge_kind)edge->kind) {
	case VT_EDGE_VALUE:
	case VT_EDGE_KEY:
		return vt_pyheap_table_of(heap, addr, table);
	case VT_EDGE_INLINE:
		cls = vt_pyheap_class_of(heap, addr);
		return cls != VT_GRAPH_NONE &&
		       vt_pyheap_table(heap, heap->classes.data[cls].cached_keys, 0, table);
	case VT_EDGE_MODULE:
	case VT_EDGE_MAIN:
		return vt_pyheap_table_of(
			heap, vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_MODULES), table);
	case VT_EDGE_LAST:
		return vt_pyheap_table_of(
			heap, vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_SYSDICT), table);
	default:
		return false;
	}
}

uint64_t vt_pyheap_key(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge)
{
	struct vt_pyheap_table table;

	return table_of(heap, from, edge, &table) ?
		       vt_pyheap_table_key(heap, &table, edge->number) :
		       0;
}

bool vt_pyheap_key_is(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
		      const char *text)
{
	return vt_pyheap_is_str(heap, vt_pyheap_key(heap, from, edge), text);
}

static bool add_str(struct vt_pyheap *heap, uint64_t object, struct vt_str *out)
{
	char text[VT_PY_STR_MAX + 1];
	uint64_t type = object ? vt_pyheap_get(heap, object + heap->type_at) : 0;
	int n;

	if (!type || !(vt_pyheap_u64(heap, type, VT_PY_TYPE_FLAGS) & VT_PYHEAP_STR))
		return false;
	n = vt_py_str_read_start(heap->py, &heap->pages->src, object, VT_PYHEAP_MAX_NAME, text);
	if (n <= 0)
		return false;
	vt_str_addn(out, text, (size_t)n);
	return true;
}

bool vt_pyheap_key_text(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
			struct vt_str *out)
{
	return add_str(heap, vt_pyheap_key(heap, from, edge), out);
}

/* As Python shows it: 'exp_avg', 3, (0, 1), <Node>. */
static bool add_value(struct vt_pyheap *heap, uint64_t object, struct vt_str *out)
{
	struct vt_py_values values = { .py = heap->py, .src = &heap->pages->src };
	bool ok = object && vt_py_value_text(&values, object, out);

	vt_py_values_deinit(&values);
	if (!ok)
		vt_str_add(out, "?");
	return ok;
}

/* ---- slots ---- */

static bool add_member_of(struct vt_pyheap *heap, const struct vt_pyheap_class *cls, uint64_t at,
			  struct vt_str *out)
{
	char text[VT_PYHEAP_MAX_NAME + 1];
	uint64_t name, offset;

	for (uint64_t i = 0; cls->members && i < MAX_MEMBERS; i++) {
		uint64_t member = cls->members + i * MEMBER_SIZE;
		size_t n = 0;

		name = vt_pyheap_get(heap, member);
		offset = vt_pyheap_get(heap, member + 16);
		if (!name)
			return false;
		if (offset != at)
			continue;
		while (n < VT_PYHEAP_MAX_NAME &&
		       vt_pages_read(heap->pages, name + n, &text[n], 1) && text[n])
			n++;
		text[n] = '\0';
		vt_str_addf(out, ".%s", text);
		return n > 0;
	}
	return false;
}

/* Those of the class itself, then those of its bases. */
static bool add_member(struct vt_pyheap *heap, uint32_t from, uint64_t at, struct vt_str *out)
{
	uint32_t cls = vt_pyheap_class_of(heap, heap->graph->nodes.data[from].addr);

	for (int i = 0; cls != VT_GRAPH_NONE && i < MAX_BASES; i++) {
		const struct vt_pyheap_class known = heap->classes.data[cls];

		if (add_member_of(heap, &known, at, out))
			return true;
		cls = known.base ? vt_pyheap_class_at(heap, known.base) : VT_GRAPH_NONE;
	}
	vt_str_add(out, ".?");
	return false;
}

/* ---- variables ---- */

static bool add_local(struct vt_pyheap *heap, uint32_t from, uint64_t slot, struct vt_str *out)
{
	uint64_t code = vt_pyheap_frame_code(heap, heap->graph->nodes.data[from].addr);

	if (add_str(heap, vt_pyheap_local_name(heap, code, slot), out))
		return true;
	vt_str_addf(out, "local %" PRIu64, slot);
	return false;
}

static bool add_free(struct vt_pyheap *heap, uint32_t from, uint64_t index, struct vt_str *out)
{
	uint64_t code = vt_pyheap_u64(heap, heap->graph->nodes.data[from].addr, VT_PY_FUNC_CODE);

	if (add_str(heap, vt_pyheap_free_name(heap, code, index), out))
		return true;
	vt_str_addf(out, "cell %" PRIu64, index);
	return false;
}

/* ---- all of them ---- */

static bool add_named(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
		      const char *before, struct vt_str *out)
{
	vt_str_add(out, before);
	if (vt_pyheap_key_text(heap, from, edge, out))
		return true;
	vt_str_add(out, "?");
	return false;
}

/* Python's rules (PEP 3131), but for which letters beyond ASCII are allowed. */
static bool is_identifier(const char *text)
{
	if (!*text || isdigit((unsigned char)*text))
		return false;
	while (isalnum((unsigned char)*text) || *text == '_' || (unsigned char)*text >= 0x80)
		text++;
	return !*text;
}

static bool add_item(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
		     struct vt_str *out)
{
	bool ok;

	vt_str_add(out, "[");
	ok = add_value(heap, vt_pyheap_key(heap, from, edge), out);
	vt_str_add(out, "]");
	return ok;
}

/* A __dict__ may have any key, by setattr() for one: what is no name is shown as an item. */
static bool add_attribute(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
			  struct vt_str *out)
{
	struct vt_str name = { 0 };
	bool known = vt_pyheap_key_text(heap, from, edge, &name), ok = known;

	if (known && !is_identifier(vt_str_get(&name)))
		ok = add_item(heap, from, edge, out);
	else
		vt_str_addf(out, ".%s", known ? vt_str_get(&name) : "?");
	vt_str_deinit(&name);
	return ok;
}

/* Edges whose words are always the same. */
static const char *const fixed[VT_N_EDGE_KINDS] = {
	[VT_EDGE_ELEMENT] = "{…}",
	[VT_EDGE_DICT] = ".__dict__",
	[VT_EDGE_CELL] = ".cell_contents",
	[VT_EDGE_CLOSURE] = ".__closure__",
	[VT_EDGE_GLOBALS] = ".__globals__",
	[VT_EDGE_SELF] = ".__self__",
	[VT_EDGE_FUNCTION] = ".__func__",
	[VT_EDGE_TYPE] = ".__class__",
	[VT_EDGE_BASES] = ".__mro__",
	[VT_EDGE_FRAME] = ".f_locals",
	[VT_EDGE_SUSPENDED] = ".gi_frame",
	[VT_EDGE_STACK] = "a temporary",
	[VT_EDGE_STACK_OLD] = "a temporary",
	[VT_EDGE_BACK] = ".f_back",
	[VT_EDGE_TRACEBACK] = ".__traceback__",
	[VT_EDGE_CAUSE] = ".__context__",
	[VT_EDGE_TB_NEXT] = ".tb_next",
	[VT_EDGE_TB_FRAME] = ".tb_frame",
	[VT_EDGE_ARGS] = ".args",
	[VT_EDGE_CALLBACK] = ".__callback__",
	[VT_EDGE_BODY] = "→",
	[VT_EDGE_SYS] = "sys",
	[VT_EDGE_INTERPRETER] = "the interpreter",
};

/*
 * Include/funcobject.h: after the closure come the doc string, up to 3.9 the name, the dict, weak
 * references, the module and the annotations.
 */
static uint32_t annotations_at(const struct vt_pyheap *heap)
{
	return vt_pyheap_at(heap, VT_PY_FUNC_CLOSURE) + (heap->py->layout->minor < 10 ? 48 : 40);
}

/* Parts of a function, by their offsets. Others than these have no name here. */
static bool add_part(struct vt_pyheap *heap, uint32_t offset, struct vt_str *out)
{
	const char *text = "→";

	if (offset == vt_pyheap_at(heap, VT_PY_FUNC_DEFAULTS))
		text = ".__defaults__";
	else if (offset == vt_pyheap_at(heap, VT_PY_FUNC_KWDEFAULTS))
		text = ".__kwdefaults__";
	else if (offset == vt_pyheap_at(heap, VT_PY_FUNC_CODE))
		text = ".__code__";
	else if (offset == annotations_at(heap))
		text = ".__annotations__";
	vt_str_add(out, text);
	return *text == '.';
}

bool vt_pyheap_edge_text(struct vt_pyheap *heap, uint32_t from, const struct vt_graph_edge *edge,
			 bool as_attribute, struct vt_str *out)
{
	switch ((enum vt_edge_kind)edge->kind) {
	case VT_EDGE_ITEM:
		vt_str_addf(out, "[%u]", (unsigned int)edge->number);
		return edge->number != VT_EDGE_NUMBER_MAX;
	case VT_EDGE_VALUE:
		return as_attribute ? add_attribute(heap, from, edge, out) :
				      add_item(heap, from, edge, out);
	case VT_EDGE_KEY:
		return add_item(heap, from, edge, out);
	case VT_EDGE_INLINE:
		return add_attribute(heap, from, edge, out);
	case VT_EDGE_MEMBER:
		return add_member(heap, from, edge->number, out);
	case VT_EDGE_DEFAULTS:
	case VT_EDGE_CODE:
		return add_part(heap, edge->number, out);
	case VT_EDGE_LOCAL:
		return add_local(heap, from, edge->number, out);
	case VT_EDGE_FREE:
		return add_free(heap, from, edge->number, out);
	case VT_EDGE_MAIN:
	case VT_EDGE_MODULE:
		return add_named(heap, from, edge, "", out);
	case VT_EDGE_LAST:
		return add_named(heap, from, edge, "sys.", out);
	case VT_EDGE_THREAD:
	case VT_EDGE_THREAD_STATE:
		vt_str_addf(out, "thread %u", (unsigned int)edge->number);
		return true;
	default:
		vt_str_add(out, fixed[edge->kind] ? fixed[edge->kind] : "→");
		return fixed[edge->kind];
	}
}
