/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/symtab.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "walk/native/symfile.h"

#define SYMBOLS_AT_ONCE 1024
#define MAX_STRINGS (UINT64_C(64) << 20) /* of names; libtorch_cuda.so has 30 MB */

static bool is_data(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_shndx != SHN_COMMON && symbol->st_value;
}

/* The names of all symbols, with a 0 behind the last one; NULL: they cannot be read. */
static char *read_strings(const struct vt_symfile *file, const Elf64_Shdr *strings)
{
	char *text = strings->sh_size < MAX_STRINGS ? malloc((size_t)strings->sh_size + 1) : NULL;

	if (!text)
		return NULL;
	text[strings->sh_size] = '\0';
	if (vt_symfile_read(file, strings->sh_offset, text, (size_t)strings->sh_size))
		return text;
	free(text);
	return NULL;
}

static void offer(const Elf64_Sym *symbol, const char *name, uint64_t bias,
		  struct vt_native_static *variables, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (variables[i].addr || strcmp(name, variables[i].name) != 0)
			continue;
		variables[i].addr = symbol->st_value + bias;
		variables[i].size = symbol->st_size;
	}
}

static void scan(const struct vt_symfile *file, uint64_t bias, struct vt_native_static *variables,
		 size_t n)
{
	const Elf64_Shdr *table = vt_symfile_section(file, SHT_SYMTAB);
	Elf64_Sym symbols[SYMBOLS_AT_ONCE];
	const Elf64_Shdr *strings;
	VT_FREE char *names = NULL;
	uint64_t left, offset;

	if (!table || table->sh_entsize != sizeof(*symbols) || table->sh_link >= file->n_sections)
		return;
	strings = &file->sections[table->sh_link];
	names = read_strings(file, strings);
	left = table->sh_size / sizeof(*symbols);
	offset = table->sh_offset;
	if (left > VT_SYMFILE_MAX_SYMBOLS)
		left = VT_SYMFILE_MAX_SYMBOLS;
	for (size_t now; names && left > 0; left -= now, offset += now * sizeof(*symbols)) {
		now = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
		if (!vt_symfile_read(file, offset, symbols, now * sizeof(*symbols)))
			return;
		for (size_t i = 0; i < now; i++)
			if (is_data(&symbols[i]) && symbols[i].st_name < strings->sh_size)
				offer(&symbols[i], names + symbols[i].st_name, bias, variables, n);
	}
}

struct vt_error *vt_native_statics(struct vt_modules *modules, struct vt_module *module,
				   struct vt_native_static *variables, size_t n)
{
	struct vt_symfile file;

	for (size_t i = 0; i < n; i++)
		variables[i].addr = variables[i].size = 0;
	VT_TRY(vt_module_open(modules, module));
	file = (struct vt_symfile){ .fd = module->fd,
				    .data = module->fd < 0 ? module->image : NULL,
				    .size = module->image_size };
	if (vt_symfile_init(&file))
		scan(&file, module->bias, variables, n);
	vt_symfile_deinit(&file);
	return NULL;
}
