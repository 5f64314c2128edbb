/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/tensors/internal.h"

/* Base classes, by their mangled names. */
static const struct {
	const char *mangled;
	enum vt_node_kind kind;
} bases[] = {
	{ "N3c1010TensorImplE", VT_NODE_TENSOR },
	{ "N3c1011StorageImplE", VT_NODE_STORAGE },
	{ "N3c1021AutogradMetaInterfaceE", VT_NODE_META },
	{ "N5torch8autograd4NodeE", VT_NODE_GRAD_FN },
};

enum {
	N_BASES = sizeof(bases) / sizeof(bases[0]),
	OTHER = N_BASES + 1, /* of vt_rtti_class.user: it is none of them */
	CHUNK_FLAGS = 7,     /* low bits of the size in a header of malloc() */
	CHUNK_MIN = 32,
	CHUNK_MAX = 1 << 20,
	SIZE_UNKNOWN = 640, /* of a Node and a SavedVariable */
	CONTROL = 16,       /* libstdc++'s _Sp_counted_ptr_inplace: virtual table, two counts */
};

const struct vt_rtti_class *vt_tensors_class_at(struct vt_tensors *tensors, uint64_t addr)
{
	uint32_t cls;

	if (!addr || addr & 7)
		return NULL;
	cls = vt_rtti_of_vtable(tensors->rtti, vt_pages_u64(tensors->pages, addr));
	return cls == VT_RTTI_NONE ? NULL : &tensors->rtti->classes.data[cls];
}

/* Each class is compared with the bases once. */
static uint32_t base_of(struct vt_tensors *tensors, uint64_t addr)
{
	uint32_t cls;
	struct vt_rtti_class *c;

	if (!addr || addr & 7)
		return OTHER;
	cls = vt_rtti_of_vtable(tensors->rtti, vt_pages_u64(tensors->pages, addr));
	if (cls == VT_RTTI_NONE)
		return OTHER;
	c = &tensors->rtti->classes.data[cls];
	for (uint32_t i = 0; !c->user && i < N_BASES; i++) {
		if (vt_rtti_is(tensors->rtti, cls, bases[i].mangled))
			c->user = i + 1;
	}
	if (!c->user)
		c->user = OTHER;
	return c->user;
}

/* An object that was destroyed may keep its virtual table, but not its counts. */
static bool is_alive(struct vt_tensors *tensors, uint64_t addr, enum vt_node_kind kind)
{
	uint64_t counts;

	if ((kind != VT_NODE_TENSOR && kind != VT_NODE_STORAGE) || !tensors->layout.head)
		return true;
	counts = vt_pages_u64(tensors->pages, addr + 8) & UINT32_MAX;
	return counts > 0 && counts < 1U << 30;
}

bool vt_tensors_kind(struct vt_tensors *tensors, uint64_t addr, enum vt_node_kind *kind)
{
	uint32_t base = base_of(tensors, addr);

	if (base == OTHER || !is_alive(tensors, addr, bases[base - 1].kind))
		return false;
	*kind = bases[base - 1].kind;
	return true;
}

bool vt_tensors_is(struct vt_tensors *tensors, uint64_t addr, enum vt_node_kind kind)
{
	uint32_t base = base_of(tensors, addr);

	return base != OTHER && bases[base - 1].kind == kind && is_alive(tensors, addr, kind);
}

/* No tensor is an object, too, whose counts say nothing. */
bool vt_tensors_is_none(struct vt_tensors *tensors, uint64_t addr)
{
	const struct vt_rtti_class *cls = vt_tensors_class_at(tensors, addr);

	return !addr || (cls && !strcmp(cls->brief, "UndefinedTensorImpl"));
}

const char *vt_tensors_class(const struct vt_tensors *tensors, uint64_t addr)
{
	/* Only what is remembered of classes changes. */
	const struct vt_rtti_class *cls = vt_tensors_class_at((struct vt_tensors *)tensors, addr);

	return cls ? cls->brief : NULL;
}

uint64_t vt_tensors_object_size(struct vt_tensors *tensors, uint64_t addr)
{
	/* std::make_shared() puts its counts before it: a weak_ptr to itself says so. */
	uint64_t head = vt_pages_u64(tensors->pages, addr + 8) == addr &&
					vt_pages_u64(tensors->pages, addr + 16) == addr - CONTROL ?
				CONTROL :
				0;
	uint64_t chunk = addr - head;
	uint64_t size = vt_pages_u64(tensors->pages, chunk - 8) & ~(uint64_t)CHUNK_FLAGS;
	uint64_t next;

	if (size < CHUNK_MIN || size > CHUNK_MAX || size % 16)
		return SIZE_UNKNOWN;
	next = vt_pages_u64(tensors->pages, chunk - 8 + size);
	/* PREV_INUSE of the next chunk: this one is in use. */
	return next & 1 && (next & ~(uint64_t)CHUNK_FLAGS) >= CHUNK_MIN ? size - 8 - head :
									  SIZE_UNKNOWN;
}
