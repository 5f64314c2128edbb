/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper library needs no loader: it imports nothing, and its only relocations add the load
 * address. The tool chooses that address and lays the image out beforehand; in the target the image
 * is mapped and entered. The target's loader (its lock, its lists) and allocator are not involved.
 *
 * The file is our own, but a build with unusual tools might lay it out differently: then this fails
 * with a clear error.
 */
#include "inject/image.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "target/arch/native.h"

#define PAGE ((uint64_t)VT_ARCH_MAX_PAGE) /* the image fits kernels with any size of pages */
#define MAX_IMAGE (UINT64_C(1) << 24)

extern const uint8_t vt_helper_elf[];
extern const uint8_t vt_helper_elf_end[];

static uint64_t page_floor(uint64_t x)
{
	return x & ~(PAGE - 1);
}

static uint64_t page_ceil(uint64_t x)
{
	return page_floor(x + PAGE - 1);
}

static struct vt_error *bad(const char *what)
{
	return vt_error_create(VT_ERR_FORMAT, "the embedded helper library is unusable: %s", what);
}

/* len bytes at this offset of the file, or NULL. */
static const void *bytes_at(uint64_t offset, uint64_t len)
{
	uint64_t size = (uint64_t)(vt_helper_elf_end - vt_helper_elf);

	return offset <= size && len <= size - offset ? vt_helper_elf + offset : NULL;
}

static const Elf64_Ehdr *header(void)
{
	return bytes_at(0, sizeof(Elf64_Ehdr));
}

/* The i-th program header of this type, or NULL. */
static const Elf64_Phdr *segment(uint32_t type, unsigned int i)
{
	const Elf64_Ehdr *ehdr = header();
	const Elf64_Phdr *phdrs =
		ehdr ? bytes_at(ehdr->e_phoff, (uint64_t)ehdr->e_phnum * sizeof(*phdrs)) : NULL;

	for (unsigned int k = 0; phdrs && k < ehdr->e_phnum; k++)
		if (phdrs[k].p_type == type && i-- == 0)
			return &phdrs[k];
	return NULL;
}

static void describe_build_id(struct vt_helper_image *image)
{
	const Elf64_Nhdr *note;
	const Elf64_Phdr *phdr;

	for (unsigned int i = 0; (phdr = segment(PT_NOTE, i)); i++) {
		note = bytes_at(phdr->p_offset,
				sizeof(*note) + 4 + (sizeof(image->build_id) - 1) / 2);
		if (!note || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4)
			continue;

		const uint8_t *id = (const uint8_t *)(note + 1) + 4;

		for (uint32_t k = 0; k < note->n_descsz && 2 * k + 2 < sizeof(image->build_id); k++)
			snprintf(image->build_id + 2 * k, 3, "%02x", id[k]);
	}
}

struct vt_error *vt_helper_image_describe(struct vt_helper_image *image)
{
	struct vt_helper_image out = { 0 };
	const Elf64_Phdr *phdr;

	if (!header() || memcmp(header()->e_ident, ELFMAG, SELFMAG) != 0)
		return bad("not an ELF file");
	if (segment(PT_TLS, 0) || segment(PT_INTERP, 0))
		return bad("it has thread-local storage or an interpreter");
	for (unsigned int i = 0; (phdr = segment(PT_LOAD, i)); i++) {
		uint64_t end = phdr->p_vaddr + phdr->p_memsz;

		if (end > MAX_IMAGE || !bytes_at(phdr->p_offset, phdr->p_filesz) ||
		    phdr->p_filesz > phdr->p_memsz)
			return bad("a segment is out of bounds");
		if (!(phdr->p_flags & PF_W)) {
			if (out.data_size)
				return bad("code follows data");
			out.text_size = page_ceil(end);
			continue;
		}
		/* All data, from the first writable page on. */
		if (!out.data_size && page_floor(phdr->p_vaddr) != out.text_size) {
			if (page_floor(phdr->p_vaddr) < out.text_size)
				return bad("code and data share a page");
			out.text_size = page_floor(phdr->p_vaddr);
		}
		out.data_size = page_ceil(end) - out.text_size;
	}
	out.entry = header()->e_entry;
	if (!out.entry || out.entry >= out.text_size)
		return bad("no entry point");
	describe_build_id(&out);
	if (!out.build_id[0])
		return bad("no build id");
	*image = out;
	return NULL;
}

/* The relocation table, as .dynamic gives it. */
static struct vt_error *relocate(const struct vt_helper_image *image, uint64_t base, uint8_t *buf)
{
	const Elf64_Phdr *phdr = segment(PT_DYNAMIC, 0);
	const Elf64_Dyn *dyn = phdr ? bytes_at(phdr->p_offset, phdr->p_filesz) : NULL;
	uint64_t size = image->text_size + image->data_size;
	uint64_t table = 0, table_size = 0;

	if (!dyn)
		return bad("no dynamic section");
	for (uint64_t i = 0; i < phdr->p_filesz / sizeof(*dyn); i++) {
		if (dyn[i].d_tag == DT_RELA)
			table = dyn[i].d_un.d_ptr;
		else if (dyn[i].d_tag == DT_RELASZ)
			table_size = dyn[i].d_un.d_val;
		else if (dyn[i].d_tag == DT_JMPREL || dyn[i].d_tag == DT_NEEDED ||
			 dyn[i].d_tag == DT_INIT_ARRAY || dyn[i].d_tag == DT_INIT ||
			 dyn[i].d_tag == DT_TEXTREL)
			return bad("it needs a loader");
	}
	if (table > size || table_size > size - table)
		return bad("relocations out of bounds");
	for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table_size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;

		memcpy(&rela, buf + table + at, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) != VT_NATIVE->relative)
			return bad("a relocation that needs a symbol");
		if (rela.r_offset < image->text_size || rela.r_offset > size - sizeof(uint64_t))
			return bad("a relocation of the code");

		uint64_t value = base + (uint64_t)rela.r_addend;

		memcpy(buf + rela.r_offset, &value, sizeof(value));
	}
	return NULL;
}

struct vt_error *vt_helper_image_build(const struct vt_helper_image *image, uint64_t base,
				       uint8_t *buf)
{
	const Elf64_Phdr *phdr;

	for (unsigned int i = 0; (phdr = segment(PT_LOAD, i)); i++)
		memcpy(buf + phdr->p_vaddr, vt_helper_elf + phdr->p_offset, phdr->p_filesz);
	return relocate(image, base, buf);
}
