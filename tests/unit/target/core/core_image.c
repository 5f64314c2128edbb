/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/target/core/core_image.h"

#include <elf.h>
#include <signal.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>

#define PAGE 4096u
#define NOTES_MAX 4096

struct part {
	uint64_t start, size, filled;
	uint32_t flags;
	bool by_gdb; /* in its cores, too */
};

static const struct part parts[] = {
	{ CORE_IMAGE_LIB, PAGE, PAGE, PF_R, true },
	{ CORE_IMAGE_LIB + PAGE, 2 * PAGE, 0, PF_R | PF_X, false },
	{ CORE_IMAGE_LIB + 3 * PAGE, PAGE, 0, PF_R, false },
	{ CORE_IMAGE_LIB + 4 * PAGE, PAGE, PAGE, PF_R | PF_W, true },
	{ CORE_IMAGE_STACK, 2 * PAGE, 2 * PAGE, PF_R | PF_W, true },
};

#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static size_t add_note(uint8_t *at, uint32_t type, const void *contents, size_t size)
{
	Elf64_Nhdr header = { .n_namesz = 5, .n_descsz = (uint32_t)size, .n_type = type };

	memcpy(at, &header, sizeof(header));
	memcpy(at + sizeof(header), "CORE\0\0\0", 8);
	memcpy(at + sizeof(header) + 8, contents, size);
	return sizeof(header) + 8 + ((size + 3) & ~(size_t)3);
}

static size_t add_thread(uint8_t *at, int n)
{
	struct elf_prstatus status = { .pr_cursig = SIGSEGV, .pr_pid = CORE_IMAGE_PID + n };
	struct user_regs_struct regs = {
		.rip = CORE_IMAGE_LIB + PAGE + 16,
		.rsp = CORE_IMAGE_STACK + 256u * (unsigned int)n,
		.rax = 17,
		.orig_rax = (uint64_t)-1,
		.fs_base = CORE_IMAGE_STACK + PAGE,
	};

	memcpy(status.pr_reg, &regs, sizeof(regs));
	return add_note(at, NT_PRSTATUS, &status, sizeof(status));
}

static size_t add_mappings(uint8_t *at)
{
	uint8_t data[512];
	uint64_t head[2] = { 4, PAGE };
	size_t n = sizeof(head);

	memcpy(data, head, sizeof(head));
	for (size_t i = 0; i < 4; i++, n += 24) {
		uint64_t range[3] = { parts[i].start, parts[i].start + parts[i].size,
				      (parts[i].start - CORE_IMAGE_LIB) / PAGE };

		memcpy(data + n, range, sizeof(range));
	}
	for (size_t i = 0; i < 4; i++, n += sizeof(CORE_IMAGE_PATH))
		memcpy(data + n, CORE_IMAGE_PATH, sizeof(CORE_IMAGE_PATH));
	return add_note(at, NT_FILE, data, n);
}

static size_t make_notes(uint8_t *at)
{
	struct elf_prpsinfo process = { .pr_pid = CORE_IMAGE_PID,
					.pr_uid = 1000,
					.pr_fname = "train",
					.pr_psargs = "train --fast" };
	Elf64_auxv_t auxv[] = { { AT_ENTRY, { CORE_IMAGE_LIB + PAGE } },
				{ AT_PAGESZ, { PAGE } },
				{ AT_NULL, { 0 } } };
	siginfo_t info = { .si_signo = SIGSEGV, .si_code = SEGV_MAPERR };
	size_t n = 0;

	info.si_addr = (void *)0x10;
	n += add_thread(at + n, 0);
	n += add_note(at + n, NT_PRPSINFO, &process, sizeof(process));
	n += add_note(at + n, NT_SIGINFO, &info, sizeof(info));
	n += add_note(at + n, NT_AUXV, auxv, sizeof(auxv));
	n += add_mappings(at + n);
	n += add_thread(at + n, 1);
	return n;
}

/* The first page of libfoo.so. */
static void make_library(uint8_t *at)
{
	static const struct {
		Elf64_Nhdr header;
		char name[4];
		uint8_t id[20];
	} note = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0xab, 0xcd, 0xef } };
	Elf64_Phdr phdrs[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = PAGE, .p_memsz = PAGE },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = PAGE,
		  .p_vaddr = PAGE,
		  .p_filesz = 2 * PAGE,
		  .p_memsz = 2 * PAGE },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R,
		  .p_offset = 3 * PAGE,
		  .p_vaddr = 3 * PAGE,
		  .p_filesz = PAGE,
		  .p_memsz = PAGE },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_W,
		  .p_offset = 4 * PAGE,
		  .p_vaddr = 4 * PAGE,
		  .p_filesz = PAGE,
		  .p_memsz = PAGE },
		{ .p_type = PT_NOTE,
		  .p_flags = PF_R,
		  .p_offset = 1024,
		  .p_vaddr = 1024,
		  .p_filesz = sizeof(note),
		  .p_memsz = sizeof(note) },
	};
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(ehdr),
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(phdrs[0]),
		.e_phnum = sizeof(phdrs) / sizeof(phdrs[0]),
	};

	memset(at, 0, PAGE);
	memcpy(at, &ehdr, sizeof(ehdr));
	memcpy(at + sizeof(ehdr), phdrs, sizeof(phdrs));
	memcpy(at + 1024, &note, sizeof(note));
}

size_t core_image_make(const struct core_image_options *options, uint8_t *data, size_t max)
{
	uint8_t notes[NOTES_MAX];
	size_t n_notes = make_notes(notes), n_parts = 0;
	bool extended;
	Elf64_Phdr phdr = { .p_type = PT_NOTE, .p_filesz = n_notes };
	Elf64_Shdr section = { .sh_type = SHT_NULL };
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(phdr),
		.e_shentsize = sizeof(section),
	};
	size_t phdr_at = sizeof(ehdr), at, total, memory = 0;

	for (size_t i = 0; i < N_PARTS; i++) {
		n_parts += parts[i].by_gdb || !options->like_gdb;
		memory += parts[i].filled;
	}
	total = 1 + n_parts + options->segments;
	extended = total >= PN_XNUM;
	at = sizeof(ehdr) + total * sizeof(phdr);
	if (at + sizeof(section) + n_notes + memory + PAGE > max)
		return 0;
	memset(data, 0, at + sizeof(section));
	ehdr.e_phoff = sizeof(ehdr);
	ehdr.e_phnum = extended ? PN_XNUM : (uint16_t)total;
	if (extended) {
		section.sh_info = (uint32_t)total;
		ehdr.e_shoff = at;
		ehdr.e_shnum = 1;
		memcpy(data + at, &section, sizeof(section));
		at += sizeof(section);
	}
	memcpy(data, &ehdr, sizeof(ehdr));
	phdr.p_offset = options->like_gdb ? at + memory : at;
	memcpy(data + phdr.p_offset, notes, n_notes);
	memcpy(data + phdr_at, &phdr, sizeof(phdr));
	at += options->like_gdb ? 0 : n_notes;
	for (size_t i = 0; i < N_PARTS; i++) {
		const struct part *part = &parts[i];

		if (options->like_gdb && !part->by_gdb)
			continue;
		phdr = (Elf64_Phdr){
			.p_type = PT_LOAD,
			.p_flags = part->flags,
			.p_offset = at,
			.p_vaddr = part->start,
			.p_filesz = part->filled,
			.p_memsz = part->size,
		};
		memcpy(data + (phdr_at += sizeof(phdr)), &phdr, sizeof(phdr));
		for (size_t k = 0; k < part->filled; k++)
			data[at + k] = (uint8_t)((part->start + k) >> 4);
		if (i == 0)
			make_library(data + at);
		at += part->filled;
	}
	for (unsigned int i = 0; i < options->segments; i++) {
		phdr = (Elf64_Phdr){ .p_type = PT_LOAD,
				     .p_vaddr = UINT64_C(0x100000000) + (uint64_t)i * 2 * PAGE,
				     .p_memsz = PAGE };
		memcpy(data + (phdr_at += sizeof(phdr)), &phdr, sizeof(phdr));
	}
	return at + (options->like_gdb ? n_notes : 0);
}
