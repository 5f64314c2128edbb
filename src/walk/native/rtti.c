/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/rtti.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"

/* Itanium C++ ABI 2.9.5: layouts of std::type_info and of the classes derived from it. */
enum {
	TYPEINFO_NAME = 8, /* behind the virtual table of its own class */
	SI_BASE = 16,      /* __si_class_type_info::__base_type */
	VMI_COUNT = 20,    /* __vmi_class_type_info::__base_count, 32 bits */
	VMI_BASES = 24,    /* its __base_info: pointer to typeinfo, then flags */
	VMI_BASE_SIZE = 16,
	OFFSET_TO_TOP = 16, /* before what an object's first word points to */
	TYPEINFO = 8,       /* the same */
	MAX_NAME = 1024,    /* bytes of a mangled name */
	MAX_DEPTH = 16,     /* of bases */
	MAX_CLASSES = 65536,
};

static uint64_t word(struct vt_rtti *rtti, uint64_t addr)
{
	uint64_t value;

	return addr % 8 || vt_mem_read_u64(rtti->src, addr, &value) ? 0 : value;
}

static bool has(struct vt_rtti *rtti, uint64_t addr, unsigned int flags)
{
	const struct vt_map_entry *entry = addr ? vt_maps_find(rtti->maps, addr) : NULL;

	return entry && (entry->flags & flags) == flags;
}

/* Data of a library: constant, or written once by the dynamic loader. */
static bool is_of_file(struct vt_rtti *rtti, uint64_t addr)
{
	const struct vt_map_entry *entry = addr ? vt_maps_find(rtti->maps, addr) : NULL;

	return entry && entry->path && entry->path[0] == '/';
}

/* A mangled name consists of these; hostile bytes end it. */
static bool read_name(struct vt_rtti *rtti, uint64_t addr, char name[MAX_NAME + 1])
{
	size_t n = 0;

	while (n < MAX_NAME) {
		size_t in_page = 4096 - (addr + n) % 4096, most = MAX_NAME - n;
		size_t part = in_page < most ? in_page : most;
		size_t length;

		if (part > 64)
			part = 64;
		if (vt_mem_read(rtti->src, addr + n, name + n, part))
			return false;
		length = strnlen(name + n, part);
		n += length;
		if (length < part)
			break;
	}
	name[n] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] >= 0x7f)
			return false;
	}
	return n > 0;
}

/*
 * The last component of a nested name: "N5torch8autograd9generated12MulBackward0E" is MulBackward0.
 * Templates keep what comes before their arguments.
 */
static const char *brief_name(struct vt_arena *arena, const char *name)
{
	const char *at = name, *last = name;
	size_t n = strlen(name);

	if (*at == 'N')
		at++;
	while (!strncmp(at, "St", 2) || !strncmp(at, "S_", 2))
		at += 2;
	while (isdigit((unsigned char)*at)) {
		size_t length = 0;

		while (isdigit((unsigned char)*at) && length < MAX_NAME)
			length = length * 10 + (size_t)(*at++ - '0');
		if (length > strlen(at))
			break;
		last = at;
		n = length;
		at += length;
	}
	return vt_arena_strndup(arena, last, n);
}

static bool add_base(struct vt_rtti_class *cls, uint32_t base)
{
	for (size_t i = 0; i < cls->n_bases; i++) {
		if (cls->bases[i] == base)
			return true;
	}
	if (cls->n_bases == VT_RTTI_MAX_BASES)
		return false;
	cls->bases[cls->n_bases++] = base;
	return true;
}

static uint32_t of_typeinfo(struct vt_rtti *rtti, uint64_t typeinfo, int depth);

/* A base and all of its own. */
static void add_bases_of(struct vt_rtti *rtti, struct vt_rtti_class *cls, uint64_t typeinfo,
			 int depth)
{
	uint32_t base = of_typeinfo(rtti, typeinfo, depth + 1);

	if (base == VT_RTTI_NONE || !add_base(cls, base))
		return;
	for (size_t i = 0; i < rtti->classes.data[base].n_bases; i++)
		add_base(cls, rtti->classes.data[base].bases[i]);
}

/*
 * Which class of type_info it is says what follows its name: its own typeinfo has the name, in
 * libstdc++ or wherever the C++ runtime is linked.
 */
static void read_bases(struct vt_rtti *rtti, struct vt_rtti_class *cls, int depth)
{
	uint64_t own = word(rtti, word(rtti, cls->typeinfo) - TYPEINFO);
	char kind[MAX_NAME + 1];

	if (depth >= MAX_DEPTH || !own || !read_name(rtti, word(rtti, own + TYPEINFO_NAME), kind))
		return;
	if (strstr(kind, "__si_class_type_info")) {
		add_bases_of(rtti, cls, word(rtti, cls->typeinfo + SI_BASE), depth);
	} else if (strstr(kind, "__vmi_class_type_info")) {
		uint32_t n;

		if (vt_mem_read_u32(rtti->src, cls->typeinfo + VMI_COUNT, &n))
			return;
		for (uint32_t i = 0; i < n && i < VT_RTTI_MAX_BASES; i++)
			add_bases_of(rtti, cls,
				     word(rtti,
					  cls->typeinfo + VMI_BASES + (uint64_t)i * VMI_BASE_SIZE),
				     depth);
	}
}

static uint32_t read_class(struct vt_rtti *rtti, uint64_t typeinfo, int depth)
{
	struct vt_rtti_class cls = { .typeinfo = typeinfo }, *added;
	char name[MAX_NAME + 1];
	const char *start = name;

	if (rtti->classes.n >= MAX_CLASSES || !is_of_file(rtti, typeinfo) ||
	    !is_of_file(rtti, word(rtti, typeinfo)) ||
	    !read_name(rtti, word(rtti, typeinfo + TYPEINFO_NAME), name))
		return VT_RTTI_NONE;
	if (*start == '*') /* a class that is local to a file */
		start++;
	if (!isdigit((unsigned char)*start) && *start != 'N' && *start != 'S')
		return VT_RTTI_NONE;
	cls.name = vt_arena_strdup(&rtti->arena, start);
	cls.brief = brief_name(&rtti->arena, start);
	if (!cls.name || !cls.brief)
		return VT_RTTI_NONE;
	read_bases(rtti, &cls, depth);
	added = vt_vec_append(&rtti->classes);
	if (!added)
		return VT_RTTI_NONE;
	*added = cls;
	return (uint32_t)(rtti->classes.n - 1);
}

static uint32_t of_typeinfo(struct vt_rtti *rtti, uint64_t typeinfo, int depth)
{
	const uint64_t *known = vt_map_get(&rtti->by_typeinfo, typeinfo);
	uint32_t cls;

	if (known)
		return (uint32_t)*known;
	/* One that is its own base would not end. */
	if (!vt_map_put(&rtti->by_typeinfo, typeinfo, VT_RTTI_NONE))
		return VT_RTTI_NONE;
	cls = read_class(rtti, typeinfo, depth);
	vt_map_put(&rtti->by_typeinfo, typeinfo, cls);
	return cls;
}

/* What an object's first word points to: functions, and before them the head. */
static uint32_t read_vtable(struct vt_rtti *rtti, uint64_t vtable)
{
	if (!vtable || vtable % 8 || !is_of_file(rtti, vtable) ||
	    word(rtti, vtable - OFFSET_TO_TOP) || !has(rtti, word(rtti, vtable), VT_MAP_EXEC))
		return VT_RTTI_NONE;
	return of_typeinfo(rtti, word(rtti, vtable - TYPEINFO), 0);
}

void vt_rtti_init(struct vt_rtti *rtti, struct vt_memsrc *src, const struct vt_maps *maps)
{
	*rtti = (struct vt_rtti){ .src = src, .maps = maps };
}

void vt_rtti_deinit(struct vt_rtti *rtti)
{
	vt_map_deinit(&rtti->by_vtable);
	vt_map_deinit(&rtti->by_typeinfo);
	vt_vec_deinit(&rtti->classes);
	vt_arena_deinit(&rtti->arena);
}

uint32_t vt_rtti_of_vtable(struct vt_rtti *rtti, uint64_t vtable)
{
	const uint64_t *known = vt_map_get(&rtti->by_vtable, vtable);
	uint32_t cls;

	if (known)
		return (uint32_t)*known;
	cls = read_vtable(rtti, vtable);
	vt_map_put(&rtti->by_vtable, vtable, cls);
	return cls;
}

bool vt_rtti_is(const struct vt_rtti *rtti, uint32_t cls, const char *mangled)
{
	const struct vt_rtti_class *c;

	if (cls >= rtti->classes.n)
		return false;
	c = &rtti->classes.data[cls];
	if (!strcmp(c->name, mangled))
		return true;
	for (size_t i = 0; i < c->n_bases; i++) {
		if (!strcmp(rtti->classes.data[c->bases[i]].name, mangled))
			return true;
	}
	return false;
}
