/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of a core's memory, made from its segments and its list of mapped files. The kernel
 * writes a segment for every mapping. gdb writes them only for what it dumps, which may be just the
 * first page of a file: the rest appears only in the list of files.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "target/core/internal.h"

#define MAX_PHDRS 64 /* of a module; more than any linker creates */

struct builder {
	struct vt_core *core;
	struct vt_maps *maps;
	struct vt_map number_of; /* hash of a path → its number */
	const char **paths;      /* by number - 1 */
	size_t n_paths;
	size_t first; /* the first mapping of the current file */
	bool looked;  /* it was searched for program headers: */
	Elf64_Phdr headers[MAX_PHDRS];
	size_t n_headers; /* 0: not in the core, or no ELF file */
	bool is_code;     /* without headers: it may be code */
	uint64_t bias;
};

static uint64_t hash(const char *path)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
	return h;
}

/* A number that takes the place of the inode of /proc; 0 when memory is short. */
static uint64_t file_number(struct builder *b, const char *path)
{
	const uint64_t *number = vt_map_get(&b->number_of, hash(path));

	if (number && !strcmp(b->paths[*number - 1], path))
		return *number;
	if (!number && !vt_map_put(&b->number_of, hash(path), b->n_paths + 1))
		return 0;
	/*
	 * There is room: one for each mapping. When two paths have the same hash, the second gets a
	 * number for each mapping, which only splits it into more modules.
	 */
	b->paths[b->n_paths++] = path;
	return b->n_paths;
}

/* ---- flags of what has no segment ---- */

/* Looks at the ELF header of the current file. */
static void read_headers(struct builder *b)
{
	const struct vt_core_mapping *first = &b->core->mappings.data[b->first];
	struct vt_memsrc *raw = vt_core_raw_source(b->core);
	size_t others = 0;
	Elf64_Ehdr ehdr;
	uint8_t magic;

	b->looked = true;
	b->n_headers = 0;
	/* Without its first page: data is mapped in one piece, programs are not. */
	for (size_t k = b->first + 1;
	     k < b->core->mappings.n && b->core->mappings.data[k].path == first->path; k++)
		others += b->core->mappings.data[k].offset != first->offset;
	b->is_code = others > 0 && vt_mem_read(raw, first->start, &magic, 1);
	if (first->offset != 0 || vt_mem_read(raw, first->start, &ehdr, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr.e_phnum > MAX_PHDRS || ehdr.e_phoff > first->end - first->start)
		return;
	b->is_code = true;
	if (vt_mem_read(raw, first->start + ehdr.e_phoff, b->headers,
			ehdr.e_phnum * sizeof(*b->headers)))
		return;
	for (size_t k = 0; k < ehdr.e_phnum; k++) {
		if (b->headers[k].p_type != PT_LOAD)
			continue;
		/* The first segment is the one at the start of the file, which is mapped here. */
		if (b->n_headers == 0)
			b->bias = first->start - (b->headers[k].p_vaddr - b->headers[k].p_offset);
		b->headers[b->n_headers++] = b->headers[k];
	}
}

static unsigned int map_flags(uint32_t p_flags)
{
	return (p_flags & PF_R ? VT_MAP_READ : 0) | (p_flags & PF_W ? VT_MAP_WRITE : 0) |
	       (p_flags & PF_X ? VT_MAP_EXEC : 0);
}

/* The flags from the program headers, or a safe guess. */
static unsigned int flags_of_mapping(struct builder *b, size_t i)
{
	const struct vt_core_mapping *mapping = &b->core->mappings.data[i];

	if (!b->looked)
		read_headers(b);
	/* Mappings are of whole pages, of whatever size, but no page is of two segments. */
	for (size_t k = 0; k < b->n_headers; k++) {
		uint64_t start = b->headers[k].p_vaddr + b->bias;

		if (start < mapping->end &&
		    (mapping->start <= start || mapping->start - start < b->headers[k].p_memsz))
			return map_flags(b->headers[k].p_flags);
	}
	return VT_MAP_READ | (b->is_code && b->n_headers == 0 ? VT_MAP_EXEC : 0);
}

/* ---- entries ---- */

static bool add_entry(struct builder *b, uint64_t start, uint64_t end, unsigned int flags,
		      const struct vt_core_mapping *mapping)
{
	struct vt_map_entry *entry = vt_vec_append(&b->maps->entries);

	if (!entry)
		return false;
	*entry = (struct vt_map_entry){ .start = start, .end = end, .flags = flags, .path = "" };
	if (mapping) {
		entry->offset = mapping->offset + (start - mapping->start);
		entry->path = vt_arena_strdup(&b->maps->arena, mapping->path);
		entry->inode = file_number(b, mapping->path);
	} else if (start == vt_core_auxv(b->core, AT_SYSINFO_EHDR)) {
		entry->path = vt_arena_strdup(&b->maps->arena, "[vdso]");
	}
	return entry->path && (!mapping || entry->inode);
}

/* Anonymous memory between two addresses: segments, as far as they do not belong to files. */
static bool add_anonymous(struct builder *b, size_t *next, uint64_t from, uint64_t to)
{
	const struct vt_core *core = b->core;

	for (; *next < core->segments.n && core->segments.data[*next].start < to; ++*next) {
		const struct vt_core_segment *segment = &core->segments.data[*next];
		uint64_t start = segment->start > from ? segment->start : from;
		uint64_t end = segment->end < to ? segment->end : to;

		if (start < end && !add_entry(b, start, end, map_flags(segment->flags), NULL))
			return false;
		if (segment->end > to)
			return true; /* the rest comes later */
	}
	return true;
}

/* The segment that contains the whole mapping gives its flags. */
static unsigned int flags_of(struct builder *b, size_t i, size_t next)
{
	const struct vt_core_mapping *mapping = &b->core->mappings.data[i];

	for (; next < b->core->segments.n && b->core->segments.data[next].start <= mapping->start;
	     next++)
		if (b->core->segments.data[next].end >= mapping->end)
			return map_flags(b->core->segments.data[next].flags);
	return flags_of_mapping(b, i);
}

static bool build(struct builder *b)
{
	const struct vt_core *core = b->core;
	uint64_t from = 0;
	size_t next = 0;

	for (size_t i = 0; i < core->mappings.n; i++) {
		const struct vt_core_mapping *mapping = &core->mappings.data[i];

		/* A second copy of a file, right behind the first, starts at offset 0 again. */
		if (i == 0 || mapping->path != mapping[-1].path ||
		    (mapping->offset == 0 && mapping[-1].offset > 0)) {
			b->first = i;
			b->looked = false;
		}
		if (!add_anonymous(b, &next, from, mapping->start) ||
		    !add_entry(b, mapping->start, mapping->end, flags_of(b, i, next), mapping))
			return false;
		from = mapping->end;
	}
	return add_anonymous(b, &next, from, UINT64_MAX);
}

struct vt_error *vt_core_maps(struct vt_core *core, struct vt_maps *maps)
{
	VT_FREE struct builder *b = calloc(1, sizeof(*b));
	VT_FREE const char **paths = calloc(core->mappings.n + 1, sizeof(*paths));
	bool ok = b && paths;

	if (ok) {
		b->core = core;
		b->maps = maps;
		b->paths = paths;
		ok = build(b);
		vt_map_deinit(&b->number_of);
	}
	if (!ok)
		vt_maps_deinit(maps);
	return ok ? NULL : &vt_enomem;
}
