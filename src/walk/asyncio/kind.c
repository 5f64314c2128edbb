/* SPDX-License-Identifier: Apache-2.0 */
/* What an object is to asyncio, by its class. */
#include <string.h>

#include "walk/asyncio/internal.h"

#define MAX_BASES 16

const struct vt_pyheap_class *vt_asyncio_class(struct vt_asyncio_reader *r, uint64_t object)
{
	uint32_t index = object && !(object & 7) ? vt_pyheap_class_of(&r->heap, object) :
						   VT_GRAPH_NONE;

	return index == VT_GRAPH_NONE ? NULL : &r->heap.classes.data[index];
}

/*
 * Of a class and those that it derives from. The names are those of the C types; a class in Python
 * with such a name is made by a class statement.
 */
static enum vt_asyncio_kind kind_of_class(struct vt_asyncio_reader *r,
					  const struct vt_pyheap_class *cls)
{
	for (int i = 0; cls && i < MAX_BASES; i++) {
		bool ours = !cls->of_python && !strcmp(cls->module, "_asyncio");
		const uint64_t *base = vt_map_get(&r->heap.by_addr, cls->base);

		if (ours && !strcmp(cls->name, "Task"))
			return VT_ASYNCIO_TASK;
		if (ours && !strcmp(cls->name, "Future"))
			return VT_ASYNCIO_FUTURE;
		cls = base && *base < r->heap.classes.n ? &r->heap.classes.data[*base] : NULL;
	}
	return VT_ASYNCIO_OTHER;
}

enum vt_asyncio_kind vt_asyncio_kind_of(struct vt_asyncio_reader *r, uint64_t object)
{
	const struct vt_pyheap_class *cls = vt_asyncio_class(r, object);
	const uint64_t *known;
	enum vt_asyncio_kind kind;

	if (!cls)
		return VT_ASYNCIO_OTHER;
	known = vt_map_get(&r->kinds, cls->addr);
	if (known)
		return (enum vt_asyncio_kind)(*known - 1);
	kind = kind_of_class(r, cls);
	if (!vt_map_put(&r->kinds, cls->addr, (uint64_t)kind + 1))
		r->nomem = true;
	return kind;
}
