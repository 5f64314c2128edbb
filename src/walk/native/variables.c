/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/variables.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "walk/native/debugfile.h"
#include "walk/native/demangle.h"
#include "walk/native/symfile.h"

#define SYMBOLS_AT_ONCE 4096

/* An address that wants a name, and the best symbol so far. */
struct wanted {
	struct vt_native_variable *variable;
	Elf64_Sym symbol; /* st_name 0: none */
};

static int compare_wanted(const void *a, const void *b)
{
	const struct vt_native_variable *x = ((const struct wanted *)a)->variable,
					*y = ((const struct wanted *)b)->variable;

	if (x->module_start != y->module_start)
		return x->module_start > y->module_start ? 1 : -1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

static bool is_data(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	/* What has no size says nothing of where it ends. */
	return (type == STT_OBJECT || type == STT_COMMON || type == STT_NOTYPE) &&
	       symbol->st_name && symbol->st_size && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_value <= UINT64_MAX - symbol->st_size;
}

/* The smallest one that has the address in it; of aliases the one that others can see. */
static bool is_better(const Elf64_Sym *a, const Elf64_Sym *b)
{
	if (!b->st_name || a->st_size != b->st_size)
		return !b->st_name || a->st_size < b->st_size;
	return ELF64_ST_BIND(b->st_info) == STB_LOCAL && ELF64_ST_BIND(a->st_info) != STB_LOCAL;
}

static void offer(struct wanted *wanted, size_t n, const Elf64_Sym *symbol)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (wanted[mid].variable->module_offset < symbol->st_value)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < n && wanted[low].variable->module_offset - symbol->st_value < symbol->st_size;
	     low++)
		if (is_better(symbol, &wanted[low].symbol))
			wanted[low].symbol = *symbol;
}

/* False: out of memory. */
static bool read_names(const struct vt_symfile *file, const Elf64_Shdr *strings,
		       struct wanted *wanted, size_t n, struct vt_arena *arena)
{
	for (size_t i = 0; i < n; i++) {
		struct vt_native_variable *variable = wanted[i].variable;
		VT_FREE char *name = NULL;

		if (!wanted[i].symbol.st_name)
			continue;
		name = vt_symfile_string(file, strings, wanted[i].symbol.st_name);
		if (!name || !*name)
			continue;
		variable->symbol = vt_arena_strdup(arena, name);
		variable->name = vt_demangle(arena, name, strlen(name));
		variable->offset = variable->module_offset - wanted[i].symbol.st_value;
		if (!variable->symbol || !variable->name)
			return false;
	}
	return true;
}

static bool scan_table(const struct vt_symfile *file, uint32_t type, struct wanted *wanted,
		       size_t n, struct vt_arena *arena)
{
	const Elf64_Shdr *table = vt_symfile_section(file, type);
	VT_FREE Elf64_Sym *symbols = NULL;
	uint64_t left, offset;

	if (!table || table->sh_entsize != sizeof(*symbols) || table->sh_link >= file->n_sections)
		return true;
	symbols = malloc(SYMBOLS_AT_ONCE * sizeof(*symbols));
	if (!symbols)
		return false;
	left = table->sh_size / sizeof(*symbols);
	offset = table->sh_offset;
	if (left > VT_SYMFILE_MAX_SYMBOLS)
		left = VT_SYMFILE_MAX_SYMBOLS;
	for (size_t now; left > 0; left -= now, offset += now * sizeof(*symbols)) {
		now = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
		if (!vt_symfile_read(file, offset, symbols, now * sizeof(*symbols)))
			break;
		for (size_t i = 0; i < now; i++)
			if (is_data(&symbols[i]))
				offer(wanted, n, &symbols[i]);
	}
	return read_names(file, &file->sections[table->sh_link], wanted, n, arena);
}

/* What was stripped is in a separate file, if it is installed. */
static bool scan_debug_file(const struct vt_modules *modules, const struct vt_module *module,
			    struct wanted *wanted, size_t n, struct vt_arena *arena)
{
	struct vt_debugfile found = { .fd = -1 };
	bool ok = true;

	if (vt_debugfile_find(modules, module, &found)) {
		struct vt_symfile file = { .fd = found.fd, .size = found.size };

		ok = !vt_symfile_init(&file) || scan_table(&file, SHT_SYMTAB, wanted, n, arena);
		vt_symfile_deinit(&file);
	}
	vt_debugfile_close(&found);
	return ok;
}

static bool name_in_file(const struct vt_modules *modules, const struct vt_module *module,
			 struct wanted *wanted, size_t n, struct vt_arena *arena)
{
	struct vt_symfile file = { .fd = module->fd,
				   .data = module->fd < 0 ? module->image : NULL,
				   .size = module->image_size };
	bool has_all, ok;

	if (!vt_symfile_init(&file) && !vt_symfile_init_dynamic(&file, module->bias)) {
		vt_symfile_deinit(&file);
		return true;
	}
	has_all = vt_symfile_section(&file, SHT_SYMTAB) != NULL;
	ok = scan_table(&file, has_all ? SHT_SYMTAB : SHT_DYNSYM, wanted, n, arena);
	vt_symfile_deinit(&file);
	for (size_t i = 0; i < n && ok && !has_all; i++) {
		if (!wanted[i].symbol.st_name)
			return scan_debug_file(modules, module, wanted + i, n - i, arena);
	}
	return ok;
}

static bool name_module(struct vt_modules *modules, struct vt_module *module, struct wanted *wanted,
			size_t n, struct vt_arena *arena)
{
	struct vt_error *err = vt_module_open(modules, module);
	bool opened = !err;

	vt_error_destroy(err);
	for (size_t i = 0; i < n; i++) {
		wanted[i].variable->module = module;
		wanted[i].variable->module_offset =
			wanted[i].variable->addr - (opened ? module->bias : module->start);
	}
	return !opened || name_in_file(modules, module, wanted, n, arena);
}

struct vt_error *vt_native_variables(struct vt_modules *modules,
				     struct vt_native_variable *variables, size_t n,
				     struct vt_arena *arena)
{
	VT_FREE struct wanted *wanted = calloc(n + 1, sizeof(*wanted));

	if (!wanted)
		return &vt_enomem;
	for (size_t i = 0; i < n; i++) {
		variables[i] = (struct vt_native_variable){
			.addr = variables[i].addr,
			.module_start = variables[i].module_start,
		};
		wanted[i].variable = &variables[i];
	}
	qsort(wanted, n, sizeof(*wanted), compare_wanted);
	for (size_t i = 0, end; i < n; i = end) {
		uint64_t start = wanted[i].variable->module_start;
		struct vt_module *module = vt_modules_find(modules, start);

		for (end = i + 1; end < n && wanted[end].variable->module_start == start;)
			end++;
		if (module && !name_module(modules, module, wanted + i, end - i, arena))
			return &vt_enomem;
	}
	return NULL;
}
