/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/symbols.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inject/arch/arch.h"
#include "inject/space.h"
#include "vramtap/recorder.h"

/* Where a function may be defined: before glibc 2.34 threads had a library of their own. */
static const char *const libraries[] = { "libc.so.6", "libpthread.so.0", "libpthread-2." };

static const struct {
	const char *name;
	size_t offset;
} functions[] = {
	{ "pthread_create", offsetof(struct vt_target_symbols, pthread_create) },
	{ "pthread_attr_init", offsetof(struct vt_target_symbols, pthread_attr_init) },
	{ "pthread_attr_setdetachstate",
	  offsetof(struct vt_target_symbols, pthread_attr_setdetachstate) },
	{ "pthread_attr_setstacksize",
	  offsetof(struct vt_target_symbols, pthread_attr_setstacksize) },
	{ "__errno_location", offsetof(struct vt_target_symbols, errno_location) },
};

/*
 * Functions of libc by their start addresses. The sizes are generous: the code that follows is from
 * the same source file, so a false match only makes a thread look less suitable than it is.
 */
static const struct {
	const char *name;
	uint64_t size;
	enum vt_code_kind kind;
} libc_code[] = {
	{ "malloc", 1024, VT_CODE_MALLOC },         { "free", 1024, VT_CODE_MALLOC },
	{ "calloc", 1024, VT_CODE_MALLOC },         { "realloc", 1024, VT_CODE_MALLOC },
	{ "memalign", 1024, VT_CODE_MALLOC },       { "aligned_alloc", 1024, VT_CODE_MALLOC },
	{ "posix_memalign", 1024, VT_CODE_MALLOC }, { "malloc_trim", 1024, VT_CODE_MALLOC },
	{ "pthread_create", 4096, VT_CODE_CREATE }, { "setuid", 256, VT_CODE_SETXID },
	{ "setgid", 256, VT_CODE_SETXID },          { "seteuid", 256, VT_CODE_SETXID },
	{ "setegid", 256, VT_CODE_SETXID },         { "setreuid", 256, VT_CODE_SETXID },
	{ "setregid", 256, VT_CODE_SETXID },        { "setresuid", 256, VT_CODE_SETXID },
	{ "setresgid", 256, VT_CODE_SETXID },       { "setgroups", 256, VT_CODE_SETXID },
};

/* Whole modules by the beginning of their file's name. */
static const struct {
	const char *prefix;
	enum vt_code_kind kind;
} module_code[] = {
	{ "ld-linux", VT_CODE_LOADER },       { "ld-2.", VT_CODE_LOADER },
	{ "libcuda.so", VT_CODE_DRIVER },     { "memfd:" VT_RECORDER_FILE_NAME, VT_CODE_RECORDER },
	{ "libjemalloc", VT_CODE_ALLOCATOR }, { "libtcmalloc", VT_CODE_ALLOCATOR },
	{ "libmimalloc", VT_CODE_ALLOCATOR }, { "libtbbmalloc", VT_CODE_ALLOCATOR },
	{ "libc.so.6", VT_CODE_LIBC },        { "libc-2.", VT_CODE_LIBC },
	{ "libpthread.so.0", VT_CODE_LIBC },  { "libpthread-2.", VT_CODE_LIBC },
};

static uint64_t find_in_libraries(struct vt_modules *modules, const char *name)
{
	uint64_t addr = vt_modules_symbol(modules, "libc-2.", name);

	for (size_t i = 0; !addr && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		addr = vt_modules_symbol(modules, libraries[i], name);
	return addr;
}

static void add_code(struct vt_target_symbols *symbols, uint64_t start, uint64_t end,
		     enum vt_code_kind kind)
{
	if (symbols->n_code == VT_MAX_RANGES)
		return;
	symbols->code[symbols->n_code].range = (struct vt_range){ start, end };
	symbols->code[symbols->n_code].kind = kind;
	symbols->n_code++;
}

/*
 * Only the executable mappings of a module: pointers to its data are everywhere and mean nothing.
 */
static void add_module(struct vt_target_symbols *symbols, const struct vt_maps *maps,
		       const struct vt_module *module, enum vt_code_kind kind)
{
	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];

		if (entry->start >= module->start && entry->end <= module->end &&
		    entry->flags & VT_MAP_EXEC)
			add_code(symbols, entry->start, entry->end, kind);
	}
}

static void add_vdso(struct vt_target_symbols *symbols, const struct vt_maps *maps)
{
	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];

		if (!strcmp(entry->path, "[vdso]"))
			add_code(symbols, entry->start, entry->end, VT_CODE_VDSO);
	}
}

static void add_modules(struct vt_target_symbols *symbols, struct vt_modules *modules,
			const char *prefix, enum vt_code_kind kind)
{
	const struct vt_module *module;
	size_t index = 0;

	while ((module = vt_modules_by_name(modules, prefix, &index)))
		add_module(symbols, modules->maps, module, kind);
}

static struct vt_module *executable(struct vt_modules *modules)
{
	char link[64], path[4096];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)modules->pid);

	ssize_t n = readlink(link, path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; i < modules->modules.n; i++)
		if (!strcmp(modules->modules.data[i].path, path))
			return &modules->modules.data[i];
	return NULL;
}

/*
 * A program that defines malloc() itself replaces libc's malloc() for all code: pthread_create()
 * will call it, and a thread that sleeps inside it may hold its lock. It is unknown which functions
 * of the program belong to it, so all of its code counts.
 */
static void add_own_allocator(struct vt_target_symbols *symbols, struct vt_modules *modules)
{
	static const char *const names[] = { "malloc", "calloc" };
	uint64_t addrs[sizeof(names) / sizeof(names[0])] = { 0 };
	struct vt_module *module = executable(modules);
	struct vt_error *err;

	if (!module)
		return;
	err = vt_module_open(modules, module);
	if (!err)
		err = vt_module_dynsyms(modules, module, names, sizeof(names) / sizeof(names[0]),
					addrs);
	vt_error_destroy(err);
	if (addrs[0] || addrs[1])
		add_module(symbols, modules->maps, module, VT_CODE_ALLOCATOR);
}

struct vt_error *vt_target_symbols_init(struct vt_target_symbols *symbols,
					struct vt_modules *modules)
{
	struct vt_target_symbols out = { 0 };

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		uint64_t addr = find_in_libraries(modules, functions[i].name);

		if (!addr)
			return vt_error_create(
				VT_ERR_UNSUPPORTED,
				"the process has no GNU C library with %s() (a statically linked program?)",
				functions[i].name);
		*(uint64_t *)((char *)&out + functions[i].offset) = addr;
	}
	for (size_t i = 0; i < sizeof(libc_code) / sizeof(libc_code[0]); i++) {
		uint64_t addr = find_in_libraries(modules, libc_code[i].name);

		if (addr)
			add_code(&out, addr, addr + libc_code[i].size, libc_code[i].kind);
	}
	/* First: it may lie in a gap of the loader's. */
	add_vdso(&out, modules->maps);
	for (size_t i = 0; i < sizeof(module_code) / sizeof(module_code[0]); i++)
		add_modules(&out, modules, module_code[i].prefix, module_code[i].kind);
	add_own_allocator(&out, modules);
	out.address_mask = vt_stack_address_mask(vt_space_end(modules->maps));
	*symbols = out;
	return NULL;
}

enum vt_code_kind vt_code_kind_of(const struct vt_target_symbols *symbols, uint64_t addr)
{
	for (unsigned int i = 0; i < symbols->n_code; i++)
		if (addr >= symbols->code[i].range.start && addr < symbols->code[i].range.end)
			return symbols->code[i].kind;
	return VT_CODE_OTHER;
}
