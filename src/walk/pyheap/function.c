/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, and the variables of their code. */
#include "walk/pyheap/internal.h"

#define MAX_VARIABLES 4096 /* of one function; more are damage */

static uint64_t names_of(struct vt_pyheap *heap, uint64_t code, enum vt_py_field field)
{
	uint64_t tuple = vt_pyheap_u64(heap, code, field);
	uint64_t n = tuple ? vt_pyheap_size(heap, tuple) : 0;

	return n < MAX_VARIABLES ? n : 0;
}

uint64_t vt_pyheap_variables(struct vt_pyheap *heap, uint64_t code)
{
	if (vt_pyheap_has(heap, VT_PY_CODE_LOCALSNAMES))
		return names_of(heap, code, VT_PY_CODE_LOCALSNAMES);
	return names_of(heap, code, VT_PY_CODE_VARNAMES) +
	       names_of(heap, code, VT_PY_CODE_CELLVARS) +
	       names_of(heap, code, VT_PY_CODE_FREEVARS);
}

static uint64_t name_in(struct vt_pyheap *heap, uint64_t code, enum vt_py_field field, uint64_t i)
{
	uint64_t tuple = vt_pyheap_u64(heap, code, field);

	return vt_pyheap_get(heap, tuple + vt_pyheap_at(heap, VT_PY_TUPLE_ITEMS) + i * 8);
}

uint64_t vt_pyheap_local_name(struct vt_pyheap *heap, uint64_t code, uint64_t slot)
{
	static const enum vt_py_field fields[] = { VT_PY_CODE_VARNAMES, VT_PY_CODE_CELLVARS,
						   VT_PY_CODE_FREEVARS };

	if (vt_pyheap_has(heap, VT_PY_CODE_LOCALSNAMES))
		return slot < vt_pyheap_variables(heap, code) ?
			       name_in(heap, code, VT_PY_CODE_LOCALSNAMES, slot) :
			       0;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t n = names_of(heap, code, fields[i]);

		if (slot < n)
			return name_in(heap, code, fields[i], slot);
		slot -= n;
	}
	return 0;
}

/* From 3.11 on the cells of outer functions are the last of all variables. */
uint64_t vt_pyheap_free_name(struct vt_pyheap *heap, uint64_t code, uint64_t index)
{
	uint64_t kinds, n, first;
	uint8_t kind;

	if (!vt_pyheap_has(heap, VT_PY_CODE_LOCALSKINDS))
		return index < names_of(heap, code, VT_PY_CODE_FREEVARS) ?
			       name_in(heap, code, VT_PY_CODE_FREEVARS, index) :
			       0;
	kinds = vt_pyheap_u64(heap, code, VT_PY_CODE_LOCALSKINDS) +
		vt_pyheap_at(heap, VT_PY_BYTES_DATA);
	n = vt_pyheap_variables(heap, code);
	/* CO_FAST_FREE, the higher of the two bits (Include/internal/pycore_code.h) */
	for (first = n; first; first--) {
		if (!vt_pages_read(heap->pages, kinds + first - 1, &kind, 1) ||
		    !(kind & 0x80 & vt_pyheap_at(heap, VT_PY_KIND_CELLS)))
			break;
	}
	return index < n - first ? vt_pyheap_local_name(heap, code, first + index) : 0;
}

void vt_pyheap_function(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t tuple = vt_pyheap_u64(heap, object, VT_PY_FUNC_CLOSURE);
	uint64_t n = tuple && !(tuple & 7) ? vt_pyheap_size(heap, tuple) : 0;

	if (n && n < MAX_VARIABLES)
		vt_pyheap_array(heap, VT_EDGE_FREE, 0,
				tuple + vt_pyheap_at(heap, VT_PY_TUPLE_ITEMS), n);
}
