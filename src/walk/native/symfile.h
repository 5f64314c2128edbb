/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file as far as its symbols are concerned: sections, strings, and what stands in for sections where there are
 * none. Files are hostile: every offset is bounded.
 */
#ifndef VT_WALK_NATIVE_SYMFILE_H
#define VT_WALK_NATIVE_SYMFILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_SYMFILE_MAX_SYMBOLS (16 * 1024 * 1024) /* of a table; the largest known one has two million */

/* Through a descriptor, so that reading 13 MB of symbols leaves no pages mapped, or in memory. */
struct vt_symfile {
	int fd;              /* -1: in memory */
	const uint8_t *data; /* NULL: by descriptor */
	uint64_t size;
	Elf64_Shdr *sections; /* filled by vt_symfile_init(); number 0 is none */
	size_t n_sections;
	uint64_t names; /* offset of the section names */
	uint64_t names_size;
};

/* len bytes at this offset; false when the file does not have them all. */
bool vt_symfile_read(const struct vt_symfile *file, uint64_t offset, void *buf, size_t len);

/*
 * Reads the section headers; fd or data, and size, are set already. False when it is no ELF file of this machine, has
 * none, or memory is short. vt_symfile_deinit() is needed in any case.
 */
bool vt_symfile_init(struct vt_symfile *file);
void vt_symfile_deinit(struct vt_symfile *file);

/* After that has failed: presents the dynamic symbols that the loader uses as the sections that they would be. */
bool vt_symfile_init_dynamic(struct vt_symfile *file, uint64_t bias);

/* The first section of a type, of a name, or the one with this address; NULL when there is none. */
const Elf64_Shdr *vt_symfile_section(const struct vt_symfile *file, uint32_t type);
const Elf64_Shdr *vt_symfile_named(const struct vt_symfile *file, const char *name);
const Elf64_Shdr *vt_symfile_at(const struct vt_symfile *file, uint64_t vaddr);

/* Whether a section's name is this one, or (not whole) begins with it. */
bool vt_symfile_has_name(const struct vt_symfile *file, const Elf64_Shdr *section, const char *name, bool whole);

/* A string of a string table, or NULL. The caller frees it. */
char *vt_symfile_string(const struct vt_symfile *file, const Elf64_Shdr *strings, uint64_t index);

static inline bool vt_symfile_contains(const Elf64_Shdr *section, uint64_t vaddr)
{
	return section->sh_flags & SHF_ALLOC && vaddr >= section->sh_addr && vaddr - section->sh_addr < section->sh_size;
}

#endif
