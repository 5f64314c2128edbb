/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/heap/holder.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS 64

static int compare_stacks(const void *a, const void *b)
{
	const struct vt_seek_stack *x = a, *y = b;

	return (x->sp > y->sp) - (x->sp < y->sp);
}

bool vt_holders_init(struct vt_holders *holders, struct vt_memsrc *src,
		     const struct vt_seek_options *options)
{
	size_t n = options->n_stacks;

	*holders = (struct vt_holders){ .src = src, .options = options, .module = UINT32_MAX };
	holders->stacks = calloc(n + 1, sizeof(*holders->stacks));
	if (!holders->stacks)
		return false;
	if (n) {
		memcpy(holders->stacks, options->stacks, n * sizeof(*holders->stacks));
		qsort(holders->stacks, n, sizeof(*holders->stacks), compare_stacks);
	}
	return true;
}

void vt_holders_deinit(struct vt_holders *holders)
{
	free(holders->stacks);
	holders->stacks = NULL;
}

/* How many stack pointers are at addr or below. */
static size_t stacks_below(const struct vt_holders *holders, uint64_t addr)
{
	size_t low = 0, high = holders->options->n_stacks;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (holders->stacks[mid].sp <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

enum on_stack { NO_STACK, ALIVE, DEAD };

static enum on_stack on_stack(const struct vt_holders *holders, uint64_t at,
			      const struct vt_map_entry *entry, struct vt_seek_hit *hit)
{
	size_t i = stacks_below(holders, at);
	const struct vt_seek_stack *stack = holders->stacks + i;

	if (i && at < stack[-1].end && stack[-1].sp >= entry->start) {
		hit->tid = stack[-1].tid;
		hit->start = stack[-1].sp;
		return ALIVE;
	}
	/* Below a stack pointer in the same mapping (a guard page ends it) is what calls left. */
	if (i < holders->options->n_stacks && stack->sp < entry->end)
		return DEAD;
	return NO_STACK;
}

/*
 * Where the data of a module ends, by its program headers: .bss is an anonymous mapping, and other
 * memory may follow it without a gap. 0: they cannot be read.
 */
static uint64_t data_end(struct vt_holders *holders, uint64_t start)
{
	Elf64_Ehdr header;
	Elf64_Phdr segments[MAX_SEGMENTS];
	uint64_t first = UINT64_MAX, end = 0;

	if (vt_mem_read(holders->src, start, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > MAX_SEGMENTS ||
	    header.e_phentsize != sizeof(segments[0]) || header.e_phoff > 4096 ||
	    vt_mem_read(holders->src, start + header.e_phoff, segments,
			header.e_phnum * sizeof(segments[0])))
		return 0;
	for (size_t i = 0; i < header.e_phnum; i++) {
		const Elf64_Phdr *segment = &segments[i];

		if (segment->p_type != PT_LOAD)
			continue;
		if (first == UINT64_MAX)
			first = segment->p_vaddr & ~UINT64_C(4095);
		if (segment->p_vaddr + segment->p_memsz > end)
			end = segment->p_vaddr + segment->p_memsz;
	}
	return first < end ? start + (end - first) : 0;
}

/*
 * The entry with which the module begins that has data in this one, or before it without a gap;
 * UINT32_MAX: none has.
 */
static uint32_t module_of(const struct vt_maps *maps, size_t i)
{
	const struct vt_map_entry *entries = maps->entries.data;
	const char *path;

	while (!*entries[i].path && i > 0 && entries[i - 1].end == entries[i].start)
		i--;
	path = entries[i].path;
	if (*path != '/')
		return UINT32_MAX;
	/* A module's mappings have its file, and unnamed ones between them. */
	while ((entries[i].offset || !*entries[i].path) && i > 0 &&
	       entries[i - 1].end <= entries[i].start &&
	       (!strcmp(entries[i - 1].path, path) || !*entries[i - 1].path))
		i--;
	return !strcmp(entries[i].path, path) && entries[i].offset == 0 ? (uint32_t)i : UINT32_MAX;
}

static bool in_module(struct vt_holders *holders, uint64_t at, const struct vt_map_entry *entry,
		      struct vt_seek_hit *hit)
{
	const struct vt_maps *maps = holders->options->maps;
	uint32_t module = module_of(maps, (size_t)(entry - maps->entries.data));

	if (module == UINT32_MAX)
		return false;
	if (module != holders->module) {
		holders->module = module;
		holders->module_end = data_end(holders, maps->entries.data[module].start);
	}
	if (at >= holders->module_end)
		return false;
	hit->map = module;
	hit->start = maps->entries.data[module].start;
	return true;
}

static bool is_own_module(const struct vt_seek_options *options, uint32_t module)
{
	const char *path = options->maps->entries.data[module].path, *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < options->n_own_modules; i++)
		if (!strncmp(name, options->own_modules[i], strlen(options->own_modules[i])))
			return true;
	return false;
}

bool vt_holder_of(struct vt_holders *holders, uint64_t at, struct vt_seek_hit *hit, uint64_t *bytes)
{
	const struct vt_seek_options *options = holders->options;
	const struct vt_map_entry *entry = vt_maps_find(options->maps, at);
	const struct vt_chunk *chunk = options->chunks ? vt_chunks_at(options->chunks, at) : NULL;
	enum on_stack stack;

	if (!entry)
		return false;
	hit->map = (uint32_t)(entry - options->maps->entries.data);
	hit->start = entry->start;
	if (chunk) {
		hit->place = VT_SEEK_CHUNK;
		hit->start = chunk->addr;
		*bytes = chunk->bytes;
		return true;
	}
	if (options->chunks && vt_chunks_heap(options->chunks, at))
		return false;
	stack = on_stack(holders, at, entry, hit);
	if (stack == DEAD)
		return false;
	if (stack == ALIVE)
		hit->place = VT_SEEK_STACK;
	else if (!in_module(holders, at, entry, hit))
		hit->place = VT_SEEK_OTHER;
	else
		hit->place = is_own_module(options, hit->map) ? VT_SEEK_OWN : VT_SEEK_STATIC;
	return true;
}
