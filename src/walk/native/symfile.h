/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an ELF file that symbols need: sections, strings, and substitutes for sections where
 * there are none. Files are hostile: every offset is bounded.
 */
#ifndef VT_WALK_NATIVE_SYMFILE_H
#define VT_WALK_NATIVE_SYMFILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_SYMFILE_MAX_SYMBOLS (16 * 1024 * 1024) /* per table; the largest known has two million */

/* Read through a descriptor, so that 13 MB of symbols leave no pages mapped or in memory. */
struct vt_symfile {
	int fd;              /* -1: the file is in memory */
	const uint8_t *data; /* NULL: read through fd */
	uint64_t size;
	Elf64_Shdr *sections; /* filled by vt_symfile_init(); index 0 means none */
	size_t n_sections;
	uint64_t names; /* offset of the section names */
	uint64_t names_size;
};

/* Reads len bytes at this offset. False when the file does not have them all. */
bool vt_symfile_read(const struct vt_symfile *file, uint64_t offset, void *buf, size_t len);

/*
 * Reads the section headers. The caller has set fd or data, and size. False when the file is not an
 * ELF file for this machine, has no section headers, or memory runs out. Always call
 * vt_symfile_deinit() afterwards.
 */
bool vt_symfile_init(struct vt_symfile *file);
void vt_symfile_deinit(struct vt_symfile *file);

/* For use when vt_symfile_init() fails: presents the loader's dynamic symbols as sections. */
bool vt_symfile_init_dynamic(struct vt_symfile *file, uint64_t bias);

/* The first section with this type, with this name, or at this address; NULL when there is none. */
const Elf64_Shdr *vt_symfile_section(const struct vt_symfile *file, uint32_t type);
const Elf64_Shdr *vt_symfile_named(const struct vt_symfile *file, const char *name);
const Elf64_Shdr *vt_symfile_at(const struct vt_symfile *file, uint64_t vaddr);

/* Whether a section's name equals name (whole) or begins with it (not whole). */
bool vt_symfile_has_name(const struct vt_symfile *file, const Elf64_Shdr *section, const char *name,
			 bool whole);

/* A string of a string table, or NULL. The caller frees it. */
char *vt_symfile_string(const struct vt_symfile *file, const Elf64_Shdr *strings, uint64_t index);

static inline bool vt_symfile_contains(const Elf64_Shdr *section, uint64_t vaddr)
{
	return section->sh_flags & SHF_ALLOC && vaddr >= section->sh_addr &&
	       vaddr - section->sh_addr < section->sh_size;
}

#endif
