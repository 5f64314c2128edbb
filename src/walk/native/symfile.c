/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/symfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define MAX_SECTIONS 65536
#define MAX_PHDRS 1024
#define MAX_DYNAMIC 4096
#define MAX_NAME (16 * 1024)

bool vt_symfile_read(const struct vt_symfile *file, uint64_t offset, void *buf, size_t len)
{
	if (offset > file->size || len > file->size - offset)
		return false;
	if (file->data) {
		memcpy(buf, file->data + offset, len);
		return true;
	}
	while (len > 0) {
		ssize_t n = pread(file->fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

bool vt_symfile_init(struct vt_symfile *file)
{
	Elf64_Ehdr ehdr;
	Elf64_Shdr first;

	if (!vt_symfile_read(file, 0, &ehdr, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_shentsize != sizeof(Elf64_Shdr) ||
	    ehdr.e_shoff == 0 || !vt_symfile_read(file, ehdr.e_shoff, &first, sizeof(first)))
		return false;

	/* From 0xff00 sections on, the numbers are in the first header. */
	uint64_t n = ehdr.e_shnum ? ehdr.e_shnum : first.sh_size;
	uint64_t names = ehdr.e_shstrndx == SHN_XINDEX ? first.sh_link : ehdr.e_shstrndx;

	if (n == 0 || n > MAX_SECTIONS)
		return false;
	file->sections = malloc((size_t)n * sizeof(*file->sections));
	if (!file->sections || !vt_symfile_read(file, ehdr.e_shoff, file->sections,
						(size_t)n * sizeof(*file->sections)))
		return false;
	file->n_sections = (size_t)n;
	if (names < n) {
		file->names = file->sections[names].sh_offset;
		file->names_size = file->sections[names].sh_size;
	}
	return true;
}

void vt_symfile_deinit(struct vt_symfile *file)
{
	free(file->sections);
}

const Elf64_Shdr *vt_symfile_section(const struct vt_symfile *file, uint32_t type)
{
	for (size_t i = 1; i < file->n_sections; i++)
		if (file->sections[i].sh_type == type)
			return &file->sections[i];
	return NULL;
}

bool vt_symfile_has_name(const struct vt_symfile *file, const Elf64_Shdr *section, const char *name,
			 bool whole)
{
	char found[32];
	size_t len = strlen(name) + (whole ? 1 : 0);

	return len <= sizeof(found) && section->sh_name < file->names_size &&
	       len <= file->names_size - section->sh_name && file->names <= file->size &&
	       vt_symfile_read(file, file->names + section->sh_name, found, len) &&
	       !memcmp(found, name, len);
}

const Elf64_Shdr *vt_symfile_named(const struct vt_symfile *file, const char *name)
{
	for (size_t i = 1; i < file->n_sections; i++)
		if (vt_symfile_has_name(file, &file->sections[i], name, true))
			return &file->sections[i];
	return NULL;
}

const Elf64_Shdr *vt_symfile_at(const struct vt_symfile *file, uint64_t vaddr)
{
	for (size_t i = 1; i < file->n_sections; i++)
		if (file->sections[i].sh_type != SHT_NULL &&
		    vt_symfile_contains(&file->sections[i], vaddr))
			return &file->sections[i];
	return NULL;
}

char *vt_symfile_string(const struct vt_symfile *file, const Elf64_Shdr *strings, uint64_t index)
{
	struct vt_str text = { 0 };
	char piece[256];

	if (strings->sh_offset > file->size)
		return NULL;
	while (index < strings->sh_size && text.n < MAX_NAME && !text.failed) {
		uint64_t left = strings->sh_size - index;
		uint64_t in_file = file->size - strings->sh_offset;
		size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

		if (index >= in_file)
			break;
		if (n > in_file - index)
			n = (size_t)(in_file - index);
		if (!vt_symfile_read(file, strings->sh_offset + index, piece, n))
			break;

		size_t len = strnlen(piece, n);

		vt_str_addn(&text, piece, len);
		if (len < n && !text.failed)
			return text.data; /* the terminating NUL was found */
		index += n;
	}
	vt_str_deinit(&text);
	return NULL;
}

/*
 * The mapped part of a file that cannot be opened any more has no section headers, but .dynamic
 * says where the loader's dynamic symbols are.
 */
struct dynamic {
	uint64_t symtab, strtab, strsz, hash, gnu_hash; /* values of the entries; 0 absent */
};

static bool read_phdr(const struct vt_symfile *file, const Elf64_Ehdr *ehdr, unsigned int n,
		      Elf64_Phdr *phdr)
{
	return n < ehdr->e_phnum && n < MAX_PHDRS && ehdr->e_phoff <= file->size &&
	       vt_symfile_read(file, ehdr->e_phoff + n * sizeof(*phdr), phdr, sizeof(*phdr));
}

/*
 * The offset of an address in the file; the loader may have turned it into one of the target: then
 * the bias was added.
 */
static bool offset_of(const struct vt_symfile *file, const Elf64_Ehdr *ehdr, uint64_t value,
		      uint64_t bias, uint64_t *offset)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; read_phdr(file, ehdr, i, &phdr); i++) {
		uint64_t vaddr = value >= bias && bias ? value - bias : value;

		if (phdr.p_type == PT_LOAD && vaddr >= phdr.p_vaddr &&
		    vaddr - phdr.p_vaddr < phdr.p_filesz) {
			*offset = phdr.p_offset + (vaddr - phdr.p_vaddr);
			return *offset < file->size;
		}
	}
	return false;
}

static void read_dynamic(const struct vt_symfile *file, const Elf64_Phdr *phdr,
			 struct dynamic *dynamic)
{
	for (uint64_t i = 0; i < phdr->p_filesz / sizeof(Elf64_Dyn) && i < MAX_DYNAMIC; i++) {
		Elf64_Dyn dyn;

		if (phdr->p_offset > file->size ||
		    !vt_symfile_read(file, phdr->p_offset + i * sizeof(dyn), &dyn, sizeof(dyn)) ||
		    dyn.d_tag == DT_NULL)
			return;
		switch (dyn.d_tag) {
		case DT_SYMTAB:
			dynamic->symtab = dyn.d_un.d_ptr;
			break;
		case DT_STRTAB:
			dynamic->strtab = dyn.d_un.d_ptr;
			break;
		case DT_STRSZ:
			dynamic->strsz = dyn.d_un.d_val;
			break;
		case DT_HASH:
			dynamic->hash = dyn.d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			dynamic->gnu_hash = dyn.d_un.d_ptr;
			break;
		}
	}
}

static bool read_u32(const struct vt_symfile *file, uint64_t offset, uint64_t index,
		     uint32_t *value)
{
	return vt_symfile_read(file, offset + index * sizeof(*value), value, sizeof(*value));
}

/*
 * Only the hash tables have the number of symbols: DT_GNU_HASH at the end of the chain that begins
 * last.
 */
static uint64_t count_gnu(const struct vt_symfile *file, uint64_t table)
{
	uint32_t n_buckets, first, n_bloom, last = 0, hash;
	uint64_t buckets, chains;

	if (!read_u32(file, table, 0, &n_buckets) || !read_u32(file, table, 1, &first) ||
	    !read_u32(file, table, 2, &n_bloom))
		return 0;
	buckets = table + 16 + (uint64_t)n_bloom * 8;
	chains = buckets + (uint64_t)n_buckets * 4;
	for (uint32_t i = 0, symbol; i < n_buckets; i++) {
		if (!read_u32(file, buckets, i, &symbol))
			return 0;
		if (symbol > last)
			last = symbol;
	}
	if (last < first)
		return first;
	for (uint64_t i = last - first;
	     i < VT_SYMFILE_MAX_SYMBOLS && read_u32(file, chains, i, &hash); i++)
		if (hash & 1)
			return first + i + 1;
	return 0;
}

/* DT_HASH: its second word. */
static uint64_t count_sysv(const struct vt_symfile *file, uint64_t table)
{
	uint32_t n;

	return read_u32(file, table, 1, &n) ? n : 0;
}

bool vt_symfile_init_dynamic(struct vt_symfile *file, uint64_t bias)
{
	struct dynamic dynamic = { 0 };
	uint64_t symtab, strtab, table, n = 0;
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	if (!vt_symfile_read(file, 0, &ehdr, sizeof(ehdr)) || ehdr.e_phentsize != sizeof(phdr))
		return false;
	for (unsigned int i = 0; read_phdr(file, &ehdr, i, &phdr); i++)
		if (phdr.p_type == PT_DYNAMIC)
			read_dynamic(file, &phdr, &dynamic);
	if (!offset_of(file, &ehdr, dynamic.symtab, bias, &symtab) ||
	    !offset_of(file, &ehdr, dynamic.strtab, bias, &strtab))
		return false;
	if (dynamic.gnu_hash && offset_of(file, &ehdr, dynamic.gnu_hash, bias, &table))
		n = count_gnu(file, table);
	else if (dynamic.hash && offset_of(file, &ehdr, dynamic.hash, bias, &table))
		n = count_sysv(file, table);
	free(file->sections);
	file->n_sections = 0;
	file->sections = calloc(3, sizeof(*file->sections));
	if (!file->sections)
		return false;
	file->n_sections = 3;
	file->sections[1] = (Elf64_Shdr){ .sh_type = SHT_DYNSYM,
					  .sh_offset = symtab,
					  .sh_size = n * sizeof(Elf64_Sym),
					  .sh_entsize = sizeof(Elf64_Sym),
					  .sh_link = 2 };
	file->sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					  .sh_offset = strtab,
					  .sh_size = dynamic.strsz };
	return true;
}
