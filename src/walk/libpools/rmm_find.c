/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where RMM's pools are. A pool has a std::map from streams to free lists. RMM exports the virtual
 * table of free lists (coalescing_free_list) from each module that has pools in it, also from 26.06
 * on, when a pool lost its own. So the words of malloc()'s memory that point there are free lists,
 * each in a node of such a map, and a tree leads to its header.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "target/resident.h"
#include "target/words.h"
#include "walk/libpools/internal.h"
#include "walk/libpools/libstdcxx.h"
#include "walk/libpools/rmm.h"
#include "walk/native/symfile.h"

#define MAX_TABLES 16
#define MAX_SYMBOLS (1 << 20) /* of a module; librmm.so has 1,000 */
#define MAX_MEMORY ((uint64_t)16 << 30)
#define MAX_COPY ((size_t)256 << 20)  /* of the pages that lead to headers */
#define BUDGET_NS (60 * VT_NS_PER_MS) /* of the search in a process that runs */
#define TO_OBJECTS 16                 /* from a virtual table's symbol to what objects have */
#define KEY 16                        /* of a node: a stream and its event */
#define HEADER 8                      /* of a std::map: behind its comparison */

/* ---- the modules ---- */

/*
 * What has pools compiled in: up to 26.04 they are templates. A name of Python's modules is
 * anybody's: these are in a folder of RMM's.
 */
static const struct {
	const char *prefix, *folder;
} modules_with_pools[] = {
	{ "librmm.so", NULL },
	{ "_memory_resource.", "/rmm/" },
	{ "memory_resource.cpython-", "/rmm/" },
	{ "libcudf.so", NULL },
	{ "libcuml++.so", NULL },
	{ "libcugraph.so", NULL },
	{ "libcuvs.so", NULL },
	{ "libraft.so", NULL },
};

#define N_MODULES (sizeof(modules_with_pools) / sizeof(modules_with_pools[0]))

static struct vt_module *next_module(const struct vt_libpools_target *target, size_t which,
				     size_t *index)
{
	const char *folder = modules_with_pools[which].folder;
	struct vt_module *module;

	for (; (module = vt_modules_by_name(target->modules, modules_with_pools[which].prefix,
					    index));)
		if (!folder || strstr(module->path, folder))
			return module;
	return NULL;
}

bool vt_rmm_is_in(const struct vt_libpools_target *target)
{
	for (size_t i = 0; i < N_MODULES; i++) {
		size_t index = 0;

		if (next_module(target, i, &index))
			return true;
	}
	return false;
}

/* ---- the virtual tables ---- */

/*
 * rmm::mr::detail::coalescing_free_list. Since 26.06 a namespace with the release comes first,
 * written in several ways: _RMM_26_8, _RMM_26_10.
 */
static const char name_begins[] = "_ZTVN3rmm", name_ends[] = "2mr6detail20coalescing_free_listE";

struct tables {
	uint64_t values[MAX_TABLES]; /* what a free list begins with */
	size_t n;
};

static bool is_table(const struct vt_symfile *file, const Elf64_Shdr *strings, uint32_t at)
{
	char name[96];
	size_t room = sizeof(name), n;

	if (at >= strings->sh_size)
		return false;
	if (room > strings->sh_size - at)
		room = (size_t)(strings->sh_size - at);
	if (!vt_symfile_read(file, strings->sh_offset + at, name, room))
		return false;
	n = strnlen(name, room);
	return n < room && n >= sizeof(name_begins) + sizeof(name_ends) - 2 &&
	       !memcmp(name, name_begins, sizeof(name_begins) - 1) &&
	       !memcmp(name + n - (sizeof(name_ends) - 1), name_ends, sizeof(name_ends) - 1);
}

static void add_tables(const struct vt_symfile *file, uint64_t bias, struct tables *tables)
{
	const Elf64_Shdr *table = vt_symfile_section(file, SHT_DYNSYM), *strings;
	uint64_t n;

	if (!table || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= file->n_sections)
		return;
	strings = &file->sections[table->sh_link];
	n = table->sh_size / sizeof(Elf64_Sym);
	for (uint64_t i = 0; i < n && i < MAX_SYMBOLS && tables->n < MAX_TABLES; i++) {
		Elf64_Sym symbol;

		if (!vt_symfile_read(file, table->sh_offset + i * sizeof(symbol), &symbol,
				     sizeof(symbol)))
			return;
		if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx != SHN_UNDEF &&
		    symbol.st_value && is_table(file, strings, symbol.st_name))
			tables->values[tables->n++] = symbol.st_value + bias + TO_OBJECTS;
	}
}

static struct vt_error *find_tables_in(const struct vt_libpools_target *target,
				       struct vt_module *module, struct tables *tables)
{
	struct vt_symfile file = { .fd = -1 };

	VT_TRY(vt_module_open(target->modules, module));
	file.data = module->image;
	file.size = module->image_size;
	if (file.data && (vt_symfile_init(&file) || vt_symfile_init_dynamic(&file, module->bias)))
		add_tables(&file, module->bias, tables);
	vt_symfile_deinit(&file);
	return NULL;
}

/* The first reason why a module's could not be looked up, or NULL. */
static struct vt_error *find_tables(const struct vt_libpools_target *target, struct tables *tables)
{
	struct vt_error *why = NULL;

	for (size_t i = 0; i < N_MODULES; i++) {
		struct vt_module *module;

		for (size_t at = 0; (module = next_module(target, i, &at));) {
			struct vt_error *err = find_tables_in(target, module, tables);

			if (why)
				vt_error_destroy(err);
			else
				why = err;
		}
	}
	return why;
}

/* ---- the free lists ---- */

struct ranges {
	VT_VEC(struct vt_range) list;
};

static bool add_range(struct ranges *ranges, struct vt_range range)
{
	struct vt_range *into = vt_vec_append(&ranges->list);

	if (into)
		*into = range;
	return into;
}

static struct vt_error *add_mapping(const struct vt_libpools_target *target,
				    const struct vt_map_entry *entry, struct ranges *ranges)
{
	struct vt_resident resident = { 0 };
	bool ok = true;

	if (!target->live) /* a core has what was there */
		return add_range(ranges, (struct vt_range){ entry->start, entry->end }) ?
			       NULL :
			       &vt_enomem;
	VT_TRY(vt_resident_init_some(&resident, target->modules->pid, entry, 1, MAX_MEMORY));
	for (size_t i = 0; ok && i < resident.ranges.n; i++)
		ok = add_range(ranges, resident.ranges.data[i]);
	vt_resident_deinit(&resident);
	return ok ? NULL : &vt_enomem;
}

/* A core does not tell which mapping is the heap. */
static bool is_searched(const struct vt_libpools_target *target, enum vt_libpool_memory memory)
{
	return memory == VT_MEMORY_HEAP || memory == VT_MEMORY_ARENA ||
	       (memory == VT_MEMORY_OTHER && !target->live);
}

static struct vt_error *list_ranges(const struct vt_libpools_target *target, struct ranges *ranges)
{
	for (size_t i = 0; i < target->maps->entries.n; i++) {
		const struct vt_map_entry *entry = &target->maps->entries.data[i];

		if (is_searched(target, vt_libpool_memory(entry)))
			VT_TRY(add_mapping(target, entry, ranges));
	}
	return NULL;
}

static struct vt_error *find_lists(const struct vt_libpools_target *target,
				   const struct tables *tables, struct vt_words *words)
{
	struct ranges ranges = { 0 };
	struct vt_error *err = list_ranges(target, &ranges);
	uint64_t deadline = vt_now_ns() + BUDGET_NS;

	if (!err) {
		const struct vt_words_search search = {
			.live = target->live,
			.src = target->mem,
			.ranges = ranges.list.data,
			.n_ranges = ranges.list.n,
			.values = tables->values,
			.n_values = tables->n,
			.deadline_ns = target->live && deadline < target->deadline_ns ?
					       deadline :
					       target->deadline_ns,
		};

		err = vt_words_init(words, &search);
	}
	vt_vec_deinit(&ranges.list);
	return err;
}

/* ---- from free lists to pools ---- */

static int compare(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

static void drop_doubles(struct vt_rmm_found *found)
{
	size_t n = 0;

	if (found->maps.n)
		qsort(found->maps.data, found->maps.n, sizeof(*found->maps.data), compare);
	for (size_t i = 0; i < found->maps.n; i++)
		if (!n || found->maps.data[i] != found->maps.data[n - 1])
			found->maps.data[n++] = found->maps.data[i];
	found->maps.n = n;
}

/* What was a node once leads nowhere. */
static bool climb(struct vt_pages *pages, const struct vt_words *words, struct vt_rmm_found *found)
{
	for (size_t i = 0; i < words->at.n; i++) {
		uint64_t node = words->at.data[i] - VT_CXX_TREE_NODE - KEY;
		uint64_t header = vt_cxx_tree_of(pages, node), *into;

		if (!header)
			continue;
		into = vt_vec_append(&found->maps);
		if (!into)
			return false;
		*into = header - HEADER;
	}
	drop_doubles(found);
	return true;
}

static struct vt_error *take_words(const struct vt_libpools_target *target,
				   const struct vt_words *words, struct vt_rmm_found *found)
{
	struct vt_pages pages;
	bool ok;

	VT_TRY(vt_pages_init(&pages, target->mem, MAX_COPY));
	ok = climb(&pages, words, found);
	vt_pages_deinit(&pages);
	if (!ok)
		return &vt_enomem;
	if (words->many || found->maps.n > VT_RMM_MAX_POOLS) {
		found->maps.n = found->maps.n < VT_RMM_MAX_POOLS ? found->maps.n : VT_RMM_MAX_POOLS;
		return vt_error_create(VT_ERR_FORMAT, "RMM has more free lists than are looked at");
	}
	if (words->late)
		return vt_error_create(VT_ERR_TIMEOUT,
				       "RMM's pools could be searched in a part of the heap only");
	return NULL;
}

struct vt_error *vt_rmm_find(const struct vt_libpools_target *target, struct vt_rmm_found *found)
{
	struct tables tables = { 0 };
	struct vt_words words = { 0 };
	struct vt_error *why = find_tables(target, &tables), *err = NULL;

	if (tables.n)
		err = find_lists(target, &tables, &words);
	if (!err && words.at.n)
		err = take_words(target, &words, found);
	vt_words_deinit(&words);
	if (!why)
		return err;
	vt_error_destroy(err);
	return why;
}

void vt_rmm_found_deinit(struct vt_rmm_found *found)
{
	vt_vec_deinit(&found->maps);
}
