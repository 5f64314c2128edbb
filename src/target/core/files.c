/* SPDX-License-Identifier: Apache-2.0 */
#include "target/core/files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/regular.h"
#include "base/str.h"
#include "target/elfsym.h"

#define PAGE 4096u
#define MAX_PHDRS 64
#define MAX_NOTES 4096 /* bytes of a note segment that are read */
#define BUILD_IDS "/.build-id"
#define DEBUG_BUILD_IDS "/usr/lib/debug/.build-id"
/* For the search for files by name alone. */
#define MAX_DEPTH 32
#define MAX_ENTRIES 2000000
#define MAX_FOUND 4096
#define SEARCH_NS (3 * VT_NS_PER_S)

/* What the memory of the core says about a file. */
enum identity {
	ID_UNKNOWN, /* its headers are not in the core */
	ID_NONE,    /* it has no build id */
	ID_KNOWN,
};

/* A file of the sysroot that has the name of a module. */
struct named {
	uint64_t name; /* hash of the base name */
	const char *path;
};

struct core_files {
	struct vt_files files; /* first, so that its address is ours */
	struct vt_core *core;
	const struct vt_maps *maps;
	const char *exe;
	int sysroot; /* -1: none */
	/* for the module that was asked for last */
	uint64_t module;
	enum identity identity;
	uint8_t build_id[VT_BUILD_ID_MAX];
	uint8_t build_id_len;
	/* the search of the sysroot, once it was needed */
	bool searched, cut;
	uint64_t deadline_ns;
	size_t n_entries;
	struct vt_map wanted;
	VT_VEC(struct named) found;
	struct vt_arena arena;
};

static struct core_files *files_of(struct vt_files *files)
{
	return (struct core_files *)(void *)((char *)files - offsetof(struct core_files, files));
}

/* ---- what the core says ---- */

/*
 * Bytes at this offset of the file of the module whose mappings begin with entry, from the core's
 * memory alone.
 */
static bool read_at(struct core_files *cf, const struct vt_map_entry *entry, uint64_t offset,
		    void *buf, size_t len)
{
	const struct vt_map_entry *end = cf->maps->entries.data + cf->maps->entries.n;

	for (const struct vt_map_entry *e = entry;
	     e < end && (e->inode == entry->inode || !e->inode); e++)
		if (e->inode && offset >= e->offset && offset - e->offset < e->end - e->start &&
		    len <= e->end - e->start - (offset - e->offset) &&
		    !vt_mem_read(vt_core_raw_source(cf->core), e->start + (offset - e->offset), buf,
				 len))
			return true;
	return false;
}

static enum identity read_identity(struct core_files *cf, const struct vt_map_entry *entry)
{
	Elf64_Phdr phdrs[MAX_PHDRS];
	Elf64_Ehdr ehdr;
	enum identity identity = ID_NONE;

	if (entry->offset != 0 || !read_at(cf, entry, 0, &ehdr, sizeof(ehdr)) ||
	    ehdr.e_phentsize != sizeof(phdrs[0]) || ehdr.e_phnum > MAX_PHDRS ||
	    !read_at(cf, entry, ehdr.e_phoff, phdrs, ehdr.e_phnum * sizeof(phdrs[0])))
		return ID_UNKNOWN;
	for (size_t i = 0; i < ehdr.e_phnum; i++) {
		uint8_t notes[MAX_NOTES];
		size_t n = phdrs[i].p_filesz < sizeof(notes) ? (size_t)phdrs[i].p_filesz :
							       sizeof(notes);

		if (phdrs[i].p_type != PT_NOTE)
			continue;
		if (!read_at(cf, entry, phdrs[i].p_offset, notes, n)) {
			identity = ID_UNKNOWN;
			continue;
		}
		cf->build_id_len =
			vt_build_id_in_notes(notes, n, phdrs[i].p_align == 8 ? 8 : 4, cf->build_id);
		if (cf->build_id_len)
			return ID_KNOWN;
	}
	return identity;
}

static void know(struct core_files *cf, const struct vt_module *module,
		 const struct vt_map_entry *entry)
{
	if (cf->module == module->start)
		return;
	cf->module = module->start;
	cf->build_id_len = 0;
	cf->identity = read_identity(cf, entry);
}

/*
 * How many of the n bytes at the start of a file the loader maps on purpose; what follows is mapped
 * by chance.
 */
static size_t loaded(const uint8_t *page, size_t n)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	if (n < sizeof(ehdr))
		return n;
	memcpy(&ehdr, page, sizeof(ehdr));
	for (uint64_t i = 0;
	     i < ehdr.e_phnum && ehdr.e_phoff < n && (i + 1) * sizeof(phdr) <= n - ehdr.e_phoff;
	     i++) {
		memcpy(&phdr, page + ehdr.e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_LOAD && phdr.p_offset == 0 && phdr.p_filesz >= sizeof(ehdr) &&
		    phdr.p_filesz < n)
			return (size_t)phdr.p_filesz;
	}
	return n;
}

/* Execution does not use the sections: a copy of the file with its symbols has different ones. */
static void forget_sections(uint8_t *page, size_t n)
{
	Elf64_Ehdr ehdr;

	if (n < sizeof(ehdr) || memcmp(page, ELFMAG, SELFMAG) != 0)
		return;
	memcpy(&ehdr, page, sizeof(ehdr));
	ehdr.e_shoff = ehdr.e_shnum = ehdr.e_shstrndx = 0;
	memcpy(page, &ehdr, sizeof(ehdr));
}

static enum vt_comparison compare_first_page(struct core_files *cf, const struct vt_module *module,
					     const struct vt_map_entry *entry)
{
	uint8_t ours[PAGE], theirs[PAGE];
	size_t n = module->image_size < PAGE ? (size_t)module->image_size : PAGE;

	if (!read_at(cf, entry, 0, theirs, n))
		return VT_NOT_THERE;
	memcpy(ours, module->image, n);
	forget_sections(ours, n);
	forget_sections(theirs, n);
	return memcmp(ours, theirs, loaded(theirs, n)) ? VT_DIFFERENT : VT_SAME;
}

static bool same_id(const struct core_files *cf, const struct vt_module *module)
{
	return module->build_id_len == cf->build_id_len &&
	       !memcmp(module->build_id, cf->build_id, cf->build_id_len);
}

static enum vt_module_file judge(struct core_files *cf, struct vt_module *module,
				 const struct vt_map_entry *entry)
{
	enum vt_comparison first = compare_first_page(cf, module, entry), tables;

	/*
	 * A file with only debug information has the same build id, and so has a file that patchelf
	 * changed later.
	 */
	if (cf->identity == ID_KNOWN)
		return same_id(cf, module) && first != VT_DIFFERENT ? VT_FILE_RIGHT :
								      VT_FILE_DIFFERS;
	if (cf->identity == ID_NONE && first != VT_NOT_THERE)
		return first == VT_SAME && !module->build_id_len ? VT_FILE_NO_ID : VT_FILE_DIFFERS;
	tables = first == VT_DIFFERENT ? VT_DIFFERENT :
					 vt_module_same_tables(module, cf->core->arch, cf->maps,
							       vt_core_raw_source(cf->core));
	if (tables != VT_SAME)
		return tables == VT_DIFFERENT ? VT_FILE_DIFFERS : VT_FILE_UNKNOWN;
	/*
	 * patchelf (used for PyTorch's wheels) moves the notes to pages that are never changed, so
	 * they are in no core.
	 */
	return first == VT_SAME ? VT_FILE_ALIKE : VT_FILE_UNCHECKED;
}

static bool accepts(struct vt_files *files, struct vt_module *module,
		    const struct vt_map_entry *entry)
{
	struct core_files *cf = files_of(files);

	know(cf, module, entry);
	module->file = judge(cf, module, entry);
	return module->file >= VT_FILE_UNCHECKED;
}

/* ---- files by name alone ---- */

static uint64_t hash_name(const char *name, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t hash_base(const char *path)
{
	const char *name = vt_base_name(path);

	return hash_name(name, strlen(name));
}

static void want_names(struct core_files *cf)
{
	for (size_t i = 0; i < cf->maps->entries.n; i++) {
		const struct vt_map_entry *entry = &cf->maps->entries.data[i];
		const char *name = vt_base_name(entry->path), *end = strstr(name, " (deleted)");

		if (entry->inode && (i == 0 || entry->path != entry[-1].path) &&
		    !vt_map_put(&cf->wanted,
				hash_name(name, end ? (size_t)(end - name) : strlen(name)), 1))
			cf->cut = true;
	}
}

static void add_named(struct core_files *cf, const char *directory, const char *name)
{
	uint64_t h = hash_name(name, strlen(name));
	struct named *named;
	char *path;

	if (!vt_map_get(&cf->wanted, h))
		return;
	path = cf->found.n < MAX_FOUND ? vt_arena_printf(&cf->arena, "%s/%s", directory, name) :
					 NULL;
	named = path ? vt_vec_append(&cf->found) : NULL;
	if (named)
		*named = (struct named){ .name = h, .path = path };
	else
		cf->cut = true;
}

/* Takes fd over. Follows no link, so it stays below the sysroot and terminates. */
static void search(struct core_files *cf, int fd, const char *directory, int depth)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *entry;

	if (!dir)
		close(fd);
	while (dir && !cf->cut && (entry = readdir(dir))) {
		VT_FREE char *path = NULL;
		int inner;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (++cf->n_entries > MAX_ENTRIES ||
		    (cf->n_entries % 256 == 0 && vt_deadline_passed(cf->deadline_ns)))
			cf->cut = true;
		if (entry->d_type == DT_REG || entry->d_type == DT_LNK)
			add_named(cf, directory, entry->d_name);
		if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
			continue;
		inner = openat(dirfd(dir), entry->d_name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (inner < 0) {
			if (entry->d_type == DT_UNKNOWN)
				add_named(cf, directory, entry->d_name);
			continue;
		}
		if (depth == MAX_DEPTH || asprintf(&path, "%s/%s", directory, entry->d_name) < 0) {
			path = NULL;
			cf->cut = true;
			close(inner);
			continue;
		}
		search(cf, inner, path, depth + 1);
	}
	if (dir)
		closedir(dir);
}

static void search_sysroot(struct core_files *cf)
{
	int fd;

	if (cf->searched)
		return;
	cf->searched = true;
	cf->deadline_ns = vt_now_ns() + SEARCH_NS;
	want_names(cf);
	fd = openat(cf->sysroot, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		search(cf, fd, "", 0);
}

/* The nth file that has the module's name. */
static int open_named(struct core_files *cf, const struct vt_module *module, unsigned int n)
{
	uint64_t h = hash_base(module->path);

	if (cf->sysroot < 0)
		return VT_FILES_END;
	search_sysroot(cf);
	for (size_t i = 0; i < cf->found.n; i++)
		if (cf->found.data[i].name == h && n-- == 0)
			return vt_files_open_in(cf->sysroot, cf->found.data[i].path);
	return VT_FILES_END;
}

/* ---- the paths ---- */

static int open_in(int root, const char *path)
{
	return root < 0 ? -1 : vt_files_open_in(root, path);
}

/* "DIRECTORY/ab/cdef…", as distributions and gdb use it. */
static bool build_id_path(const struct core_files *cf, const char *directory, char *path,
			  size_t size)
{
	int n;

	if (cf->identity != ID_KNOWN || cf->build_id_len < 2)
		return false;
	n = snprintf(path, size, "%s/%02x/", directory, cf->build_id[0]);
	for (size_t i = 1; i < cf->build_id_len; i++)
		n += snprintf(path + n, size - (size_t)n, "%02x", cf->build_id[i]);
	return true;
}

static bool is_executable(const struct core_files *cf, const struct vt_module *module)
{
	uint64_t entry = vt_core_auxv(cf->core, AT_ENTRY);

	return entry >= module->start && entry < module->end;
}

static int candidate(struct vt_files *files, const struct vt_module *module,
		     const struct vt_map_entry *entry, unsigned int n)
{
	struct core_files *cf = files_of(files);
	char path[sizeof(DEBUG_BUILD_IDS) + 2 * VT_BUILD_ID_MAX + 8];

	know(cf, module, entry);
	switch (n) {
	case 0:
		return cf->exe && is_executable(cf, module) ? vt_open_regular(cf->exe) : -1;
	case 1:
		return open_in(cf->sysroot, module->path);
	case 2:
		return build_id_path(cf, BUILD_IDS, path, sizeof(path)) ?
			       open_in(cf->sysroot, path) :
			       -1;
	case 3:
		return build_id_path(cf, DEBUG_BUILD_IDS, path, sizeof(path)) ?
			       open_in(cf->sysroot, path) :
			       -1;
	case 4: /* a core of another machine: local files need a build id to match */
		return cf->sysroot >= 0 && cf->identity != ID_KNOWN ? -1 :
								      vt_open_regular(module->path);
	case 5:
		return build_id_path(cf, DEBUG_BUILD_IDS, path, sizeof(path)) ?
			       vt_open_regular(path) :
			       -1;
	default:
		return open_named(cf, module, n - 6);
	}
}

static struct vt_memsrc *memory(struct vt_files *files)
{
	return vt_core_raw_source(files_of(files)->core);
}

static int open_path(struct vt_files *files, const char *path)
{
	const struct core_files *cf = files_of(files);

	return cf->sysroot >= 0 ? vt_files_open_in(cf->sysroot, path) : vt_open_regular(path);
}

static uint64_t auxv(struct vt_files *files, uint64_t type)
{
	return vt_core_auxv(files_of(files)->core, type);
}

static void destroy(struct vt_files *files)
{
	struct core_files *cf = files_of(files);

	if (cf->sysroot >= 0)
		close(cf->sysroot);
	vt_map_deinit(&cf->wanted);
	vt_vec_deinit(&cf->found);
	vt_arena_deinit(&cf->arena);
	free(cf);
}

static const struct vt_files_ops core_ops = {
	.candidate = candidate,
	.accepts = accepts,
	.memory = memory,
	.open = open_path,
	.auxv = auxv,
	.destroy = destroy,
};

struct vt_error *vt_core_files_create(struct vt_core *core, const struct vt_maps *maps,
				      const struct vt_core_paths *paths, struct vt_files **ret)
{
	struct core_files *cf;

	VT_CLOSE int sysroot =
		paths->sysroot ? open(paths->sysroot, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	VT_CLOSE int exe = paths->exe ? vt_open_regular(paths->exe) : -1;

	if (paths->sysroot && sysroot < 0)
		return vt_error_create_os(errno, "%s cannot be opened", paths->sysroot);
	if (paths->exe && exe < 0)
		return vt_error_create(VT_ERR_NOTFOUND, "%s is not a readable file", paths->exe);
	cf = calloc(1, sizeof(*cf));
	if (!cf)
		return &vt_enomem;
	*cf = (struct core_files){
		.files.ops = &core_ops,
		.core = core,
		.maps = maps,
		.exe = paths->exe,
		.sysroot = vt_steal_fd(sysroot),
	};
	*ret = &cf->files;
	return NULL;
}

bool vt_core_files_cut(const struct vt_files *files)
{
	return ((const struct core_files *)(const void *)files)->cut;
}
