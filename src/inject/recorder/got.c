/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are found by their relocations in the files; their values are read from the process. An
 * entry that is not bound yet (PyTorch's libraries are linked for lazy binding) points back into
 * its own library. Its future target is looked up in the one library that has the function, or,
 * where there are several (two CUDA runtimes), in the one that the file asks for.
 */
#include "inject/recorder/got.h"

#include <elf.h>
#include <string.h>

#include "base/str.h"
#include "vramtap/recorder_calls.h"

#define PAGE UINT64_C(4096)
#define MAX_DYNAMIC 1024
#define MAX_NEEDED 64
#define MAX_NAME 64

static const char *const call_names[] = {
#define X(name) #name,
	VT_RECORDER_CALLS(X) VT_RECORDER_LAUNCHES(X)
#undef X
};

/* The parts of a module's file that its relocations need, as offsets in the file. */
struct file {
	const struct vt_module *module;
	uint64_t symtab, strtab, strsz;
	uint64_t needed[MAX_NEEDED]; /* offsets in the table of strings */
	size_t n_needed;
};

struct search {
	struct vt_modules *modules;
	struct vt_memsrc *src;
	enum vt_got_calls calls;
	struct vt_recorder_got *got;
	size_t n, room;
};

static bool copy_at(const struct vt_module *module, uint64_t offset, void *to, uint64_t len)
{
	if (offset > module->image_size || len > module->image_size - offset)
		return false;
	memcpy(to, module->image + offset, len);
	return true;
}

/* A string of the table; NULL: it does not end within a name's length. */
static const char *string_at(const struct file *file, uint64_t index)
{
	uint64_t room = file->module->image_size;
	const char *text;

	if (index >= file->strsz || file->strtab > room || index >= room - file->strtab)
		return NULL;
	room -= file->strtab + index;
	text = (const char *)file->module->image + file->strtab + index;
	return memchr(text, '\0', room < MAX_NAME ? room : MAX_NAME) ? text : NULL;
}

/* enum vt_recorder_call; VT_N_ALL_CALLS: none of those that are searched for. */
static uint32_t call_of(const struct search *search, const char *name)
{
	uint32_t i = search->calls == VT_GOT_LAUNCHES ? VT_N_CALLS : 0;
	uint32_t end = search->calls == VT_GOT_LAUNCHES ? VT_N_ALL_CALLS : VT_N_CALLS;
	const char *start = name + strspn(name, "_");

	if (start[0] != 'c' || start[1] != 'u')
		return VT_N_ALL_CALLS;
	while (i < end && strcmp(name, call_names[i]) != 0)
		i++;
	return i < end ? i : VT_N_ALL_CALLS;
}

static bool needs(const struct file *file, const struct vt_module *other)
{
	for (size_t i = 0; i < file->n_needed; i++) {
		const char *name = string_at(file, file->needed[i]);

		if (name && *name && !strncmp(vt_base_name(other->path), name, strlen(name)))
			return true;
	}
	return false;
}

/*
 * What this file's reference to a function is bound to; 0: not certain. Where another library has a
 * function of that name (a library that was preloaded to see or change these calls), only the
 * loader knows.
 */
static uint64_t resolve(const struct search *search, const struct file *file, const char *name)
{
	const char *start = name + strspn(name, "_");
	const char *prefix = start[2] == 'd' ? "libcudart" : "libcuda.so";
	uint64_t found = 0, asked_for = 0;
	unsigned int n = 0;

	for (size_t i = 0; i < search->modules->modules.n; i++) {
		struct vt_module *module = &search->modules->modules.data[i];
		uint64_t addr = 0;
		struct vt_error *err VT_ERROR =
			vt_module_dynsyms(search->modules, module, &name, 1, &addr);

		if (err || !addr)
			continue;
		if (strncmp(vt_base_name(module->path), prefix, strlen(prefix)) != 0)
			return 0;
		n += addr != found;
		found = addr;
		if (needs(file, module))
			asked_for = addr;
	}
	return n == 1 ? found : asked_for;
}

static bool is_code(const struct search *search, uint64_t addr)
{
	const struct vt_map_entry *map = vt_maps_find(search->modules->maps, addr);

	return map && map->flags & VT_MAP_EXEC;
}

static bool phdr_at(const struct vt_module *module, unsigned int n, Elf64_Phdr *phdr)
{
	Elf64_Ehdr ehdr;

	return copy_at(module, 0, &ehdr, sizeof(ehdr)) && ehdr.e_phentsize == sizeof(*phdr) &&
	       n < ehdr.e_phnum && ehdr.e_phoff <= module->image_size &&
	       copy_at(module, ehdr.e_phoff + n * sizeof(*phdr), phdr, sizeof(*phdr));
}

/*
 * The loader makes these pages read-only when it is done with the library. Until then the recorder
 * must not change them, because it makes a page read-only after a change.
 */
static bool is_being_loaded(const struct search *search, const struct vt_module *module,
			    uint64_t where)
{
	const struct vt_map_entry *map = vt_maps_find(search->modules->maps, where);
	Elf64_Phdr phdr;

	for (unsigned int i = 0; phdr_at(module, i, &phdr); i++) {
		uint64_t start = (phdr.p_vaddr + module->bias) & ~(PAGE - 1);
		uint64_t end = (phdr.p_vaddr + module->bias + phdr.p_memsz) & ~(PAGE - 1);

		if (phdr.p_type == PT_GNU_RELRO && where >= start && where < end)
			return !map || map->flags & VT_MAP_WRITE;
	}
	return false;
}

static void add_slot(struct search *search, const struct file *file, const char *name,
		     uint32_t call, uint64_t where)
{
	const struct vt_module *module = file->module;
	struct vt_recorder_got got = { .where = where, .function = call };

	if (where % sizeof(uint64_t) || is_being_loaded(search, module, where) ||
	    vt_mem_read_u64(search->src, where, &got.value))
		return;
	got.original = got.value;
	if (got.value >= module->start && got.value < module->end)
		got.original = resolve(search, file, name);
	if (!got.original || !is_code(search, got.original) || !is_code(search, got.value))
		return;
	if (search->n < search->room)
		search->got[search->n] = got;
	search->n++;
}

static void look_at_relocations(struct search *search, const struct file *file, uint64_t table,
				uint64_t size)
{
	const struct vt_module *module = file->module;

	for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++) {
		const char *name;
		Elf64_Rela rela;
		Elf64_Sym sym;
		uint32_t type, call;

		if (!copy_at(module, table + i * sizeof(rela), &rela, sizeof(rela)))
			return;
		type = ELF64_R_TYPE(rela.r_info);
		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) ||
		    !copy_at(module, file->symtab + ELF64_R_SYM(rela.r_info) * sizeof(sym), &sym,
			     sizeof(sym)))
			continue;
		name = string_at(file, sym.st_name);
		call = name ? call_of(search, name) : VT_N_ALL_CALLS;
		/*
		 * A library that defines the function itself is the driver, the runtime, or a
		 * substitute for them.
		 */
		if (call < VT_N_ALL_CALLS && sym.st_shndx == SHN_UNDEF)
			add_slot(search, file, name, call, rela.r_offset + module->bias);
	}
}

/* The n-th entry of .dynamic. */
static bool dynamic_at(const struct vt_module *module, uint64_t n, Elf64_Dyn *dyn)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; n < MAX_DYNAMIC && phdr_at(module, i, &phdr); i++)
		if (phdr.p_type == PT_DYNAMIC)
			return n < phdr.p_filesz / sizeof(*dyn) &&
			       phdr.p_offset <= module->image_size &&
			       copy_at(module, phdr.p_offset + n * sizeof(*dyn), dyn,
				       sizeof(*dyn)) &&
			       dyn->d_tag != DT_NULL;
	return false;
}

/*
 * The table to which an address in .dynamic belongs. In PyTorch's wheels the tables are in a
 * writable segment, where patchelf has put them.
 */
static bool table_at(const struct vt_module *module, uint64_t addr, uint64_t *offset)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; addr && phdr_at(module, i, &phdr); i++) {
		if (phdr.p_type != PT_LOAD || addr < phdr.p_vaddr ||
		    addr - phdr.p_vaddr >= phdr.p_filesz || phdr.p_offset > module->image_size)
			continue;
		*offset = phdr.p_offset + (addr - phdr.p_vaddr);
		return true;
	}
	return false;
}

static void look_in_module(struct search *search, const struct vt_module *module)
{
	struct file file = { .module = module };
	uint64_t rela = 0, rela_size = 0, plt = 0, plt_size = 0, symtab = 0, strtab = 0, offset;
	Elf64_Dyn dyn;

	for (uint64_t i = 0; dynamic_at(module, i, &dyn); i++) {
		switch (dyn.d_tag) {
		case DT_SYMTAB:
			symtab = dyn.d_un.d_ptr;
			break;
		case DT_STRTAB:
			strtab = dyn.d_un.d_ptr;
			break;
		case DT_STRSZ:
			file.strsz = dyn.d_un.d_val;
			break;
		case DT_RELA:
			rela = dyn.d_un.d_ptr;
			break;
		case DT_RELASZ:
			rela_size = dyn.d_un.d_val;
			break;
		case DT_JMPREL:
			plt = dyn.d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			plt_size = dyn.d_un.d_val;
			break;
		case DT_NEEDED:
			if (file.n_needed < MAX_NEEDED)
				file.needed[file.n_needed++] = dyn.d_un.d_val;
			break;
		}
	}
	if (!table_at(module, symtab, &file.symtab) || !table_at(module, strtab, &file.strtab))
		return;
	if (table_at(module, plt, &offset))
		look_at_relocations(search, &file, offset, plt_size);
	if (table_at(module, rela, &offset))
		look_at_relocations(search, &file, offset, rela_size);
}

size_t vt_recorder_got_find(struct vt_modules *modules, struct vt_memsrc *src,
			    enum vt_got_calls calls, struct vt_recorder_got *got, size_t room)
{
	struct search search = {
		.modules = modules,
		.src = src,
		.calls = calls,
		.got = got,
		.room = room,
	};

	for (size_t i = 0; i < modules->modules.n; i++) {
		struct vt_module *module = &modules->modules.data[i];
		struct vt_error *err VT_ERROR = vt_module_open(modules, module);

		if (!err && module->image && !module->bad)
			look_in_module(&search, module);
	}
	return search.n;
}
