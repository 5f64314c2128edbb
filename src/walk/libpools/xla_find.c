/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where objects of a C++ class are: the class's name in the module's constants, its typeinfo and
 * its virtual table (Itanium C++ ABI 2.9.5) in the data that the loader relocates, then all words
 * of the process's own memory that point to that table. XLA's plugins export nothing of the class
 * and have no build id since 0.7.2, but all have the name.
 */
#include <string.h>

#include "target/resident.h"
#include "target/words.h"
#include "walk/libpools/internal.h"
#include "walk/native/symfile.h"

#define MAX_CONSTANTS ((uint64_t)512 << 20) /* bytes of .rodata; 24 MB in 0.11.2 */
#define MAX_RELOCATED ((uint64_t)64 << 20)
#define MAX_MEMORY ((uint64_t)64 << 30)
#define WINDOW ((size_t)1 << 20)

/* ---- the virtual table ---- */

/* The name's run-time address, 0 none. It may follow anything: a constant without a NUL, too. */
static uint64_t find_name(const struct vt_symfile *file, const struct vt_module *module,
			  const char *mangled)
{
	const Elf64_Shdr *section = vt_symfile_named(file, ".rodata");
	size_t n = strlen(mangled) + 1, kept = 0;
	VT_FREE uint8_t *window = malloc(WINDOW + n);

	if (!section || !window || section->sh_size > MAX_CONSTANTS)
		return 0;
	for (uint64_t at = 0; at < section->sh_size;) {
		size_t len = section->sh_size - at < WINDOW ? (size_t)(section->sh_size - at) :
							      WINDOW;
		const uint8_t *hit;

		if (!vt_symfile_read(file, section->sh_offset + at, window + kept, len))
			return 0;
		hit = memmem(window, kept + len, mangled, n);
		if (hit)
			return module->bias + section->sh_addr + at - kept +
			       (uint64_t)(hit - window);
		at += len;
		len += kept;
		kept = len < n - 1 ? len : n - 1;
		memmove(window, window + len - kept, kept);
	}
	return 0;
}

/*
 * A typeinfo is a pointer to its own class's table, then one to the name. A table begins with the
 * offset to top, 0, and the typeinfo; objects point behind these.
 */
static uint64_t find_table(const uint64_t *words, size_t n, uint64_t start, uint64_t name)
{
	for (size_t i = 1; i < n; i++) {
		uint64_t typeinfo = start + (i - 1) * 8;

		if (words[i] != name)
			continue;
		for (size_t k = 1; k < n; k++)
			if (words[k] == typeinfo && words[k - 1] == 0)
				return start + (k + 1) * 8;
	}
	return 0;
}

static uint64_t find_vtable(const struct vt_libpools_target *target, struct vt_module *module,
			    const char *mangled)
{
	struct vt_symfile file = { .fd = module->fd,
				   .data = module->fd >= 0 ? NULL : module->image,
				   .size = module->image_size };
	const Elf64_Shdr *section = NULL;
	VT_FREE uint64_t *words = NULL;
	uint64_t name = 0, table = 0;

	if (vt_symfile_init(&file)) {
		section = vt_symfile_named(&file, ".data.rel.ro");
		name = find_name(&file, module, mangled);
	}
	if (name && section && section->sh_size <= MAX_RELOCATED)
		words = malloc(section->sh_size + 8);
	if (words &&
	    !vt_mem_read(target->mem, module->bias + section->sh_addr, words, section->sh_size))
		table = find_table(words, section->sh_size / 8, module->bias + section->sh_addr,
				   name);
	vt_symfile_deinit(&file);
	return table;
}

/* ---- the objects ---- */

struct search {
	const struct vt_libpools_target *target;
	uint64_t wanted;
	vt_xla_take *take;
	void *arg;
	bool has_one;
};

static struct vt_error *take_words(struct search *s, const struct vt_words *words)
{
	for (size_t i = 0; i < words->at.n; i++) {
		bool is_one = false;

		VT_TRY(s->take(s->arg, words->at.data[i], &is_one));
		s->has_one |= is_one;
	}
	if (words->many)
		return vt_error_create(VT_ERR_FORMAT, "too much looks like an allocator of XLA's");
	if (words->late)
		return vt_error_create(
			VT_ERR_TIMEOUT,
			"no allocator of XLA's in the part of the memory that could be searched in time");
	return NULL;
}

static struct vt_error *search_ranges(struct search *s, const struct vt_range *ranges, size_t n)
{
	const struct vt_words_search search = {
		.live = s->target->live,
		.src = s->target->mem,
		.ranges = ranges,
		.n_ranges = n,
		.values = &s->wanted,
		.n_values = 1,
		.deadline_ns = s->target->deadline_ns,
	};
	struct vt_words words = { 0 };
	struct vt_error *err = vt_words_init(&words, &search);

	if (!err)
		err = take_words(s, &words);
	vt_words_deinit(&words);
	return err;
}

static struct vt_error *search_mapping(struct search *s, const struct vt_map_entry *entry)
{
	const struct vt_range all = { entry->start, entry->end };
	struct vt_resident resident = { 0 };
	struct vt_error *err;

	if (!s->target->live)
		return search_ranges(s, &all, 1); /* a core has what was there */
	VT_TRY(vt_resident_init_some(&resident, s->target->modules->pid, entry, 1, MAX_MEMORY));
	err = search_ranges(s, resident.ranges.data, resident.ranges.n);
	vt_resident_deinit(&resident);
	return err;
}

static struct vt_error *search(struct search *s)
{
	const struct vt_maps *maps = s->target->maps;

	/* Where malloc() has small objects comes first. */
	for (enum vt_libpool_memory turn = VT_MEMORY_HEAP; turn < VT_N_MEMORIES; turn++)
		for (size_t i = 0; i < maps->entries.n && !s->has_one; i++)
			if (vt_libpool_memory(&maps->entries.data[i]) == turn)
				VT_TRY(search_mapping(s, &maps->entries.data[i]));
	return NULL;
}

struct vt_error *vt_xla_find_objects(const struct vt_libpools_target *target,
				     struct vt_module *module, const char *mangled,
				     vt_xla_take *take, void *arg)
{
	struct search s = { .target = target, .take = take, .arg = arg };

	VT_TRY(vt_module_open(target->modules, module));
	s.wanted = find_vtable(target, module, mangled);
	if (!s.wanted)
		return vt_error_create(VT_ERR_NOTFOUND, "%s has no class %s", module->path,
				       mangled);
	return search(&s);
}
