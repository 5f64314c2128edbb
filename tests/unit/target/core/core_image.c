/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/target/core/core_image.h"

#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/procfs.h>

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

static size_t add_note_of(uint8_t *at, const char *owner, uint32_t type, const void *contents,
			  size_t size)
{
	Elf64_Nhdr header = { .n_namesz = (uint32_t)strlen(owner) + 1,
			      .n_descsz = (uint32_t)size,
			      .n_type = type };

	memcpy(at, &header, sizeof(header));
	strncpy((char *)at + sizeof(header), owner, 8);
	memcpy(at + sizeof(header) + 8, contents, size);
	return sizeof(header) + 8 + ((size + 3) & ~(size_t)3);
}

static size_t add_note(uint8_t *at, uint32_t type, const void *contents, size_t size)
{
	return add_note_of(at, "CORE", type, contents, size);
}

/* struct elf_prstatus of this many registers. */
static size_t add_status(uint8_t *at, int n, const uint64_t *regs, size_t n_regs)
{
	struct elf_prstatus head = { .pr_cursig = SIGSEGV, .pr_pid = CORE_IMAGE_PID + n };
	uint8_t status[512] = { 0 };
	size_t begin = offsetof(struct elf_prstatus, pr_reg);

	memcpy(status, &head, begin);
	memcpy(status + begin, regs, n_regs * sizeof(*regs));
	return add_note(at, NT_PRSTATUS, status, begin + n_regs * sizeof(*regs) + 8);
}

/* struct user_regs_struct */
static size_t add_x86_64(uint8_t *at, int n)
{
	uint64_t regs[27] = {
		[10] = 17,
		[15] = UINT64_MAX,
		[16] = CORE_IMAGE_LIB + PAGE + 16,
		[19] = CORE_IMAGE_STACK + 256u * (unsigned int)n,
		[21] = CORE_IMAGE_STACK + PAGE,
	};

	return add_status(at, n, regs, 27);
}

/* struct user_pt_regs: x0 to x30, sp, pc, pstate; the rest is in notes of its own */
static size_t add_aarch64(uint8_t *at, int n)
{
	uint64_t regs[34] = {
		[0] = 17,
		[31] = CORE_IMAGE_STACK + 256u * (unsigned int)n,
		[32] = CORE_IMAGE_LIB + PAGE + 16,
	};
	uint64_t tls[2] = { CORE_IMAGE_STACK + PAGE, 0 };
	uint64_t pac[2] = { CORE_IMAGE_PAC, CORE_IMAGE_PAC };
	int32_t call = 98;
	size_t size = add_status(at, n, regs, 34);

	size += add_note_of(at + size, "LINUX", 0x401, tls, sizeof(tls));
	size += add_note_of(at + size, "LINUX", 0x404, &call, sizeof(call));
	return size + add_note_of(at + size, "LINUX", 0x406, pac, sizeof(pac));
}

static size_t add_thread(uint8_t *at, uint16_t machine, int n)
{
	return machine == EM_AARCH64 ? add_aarch64(at, n) : add_x86_64(at, n);
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

static size_t make_notes(uint8_t *at, uint16_t machine)
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
	n += add_thread(at + n, machine, 0);
	n += add_note(at + n, NT_PRPSINFO, &process, sizeof(process));
	n += add_note(at + n, NT_SIGINFO, &info, sizeof(info));
	n += add_note(at + n, NT_AUXV, auxv, sizeof(auxv));
	n += add_mappings(at + n);
	n += add_thread(at + n, machine, 1);
	return n;
}

/* The first page of libfoo.so. */
static void make_library(uint8_t *at, const struct core_image_options *options)
{
	unsigned int code = options->coarse ? 2 * PAGE + 64 : PAGE;
	static const struct {
		Elf64_Nhdr header;
		char name[4];
		uint8_t id[20];
	} note = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0xab, 0xcd, 0xef } };
	Elf64_Phdr phdrs[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = PAGE, .p_memsz = PAGE },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = code,
		  .p_vaddr = code,
		  .p_filesz = 3 * PAGE - code,
		  .p_memsz = 3 * PAGE - code },
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
		.e_machine = options->machine ? options->machine : EM_X86_64,
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
	uint16_t machine = options->machine ? options->machine : EM_X86_64;
	size_t n_notes = make_notes(notes, machine), n_parts = 0;
	bool extended;
	Elf64_Phdr phdr = { .p_type = PT_NOTE, .p_filesz = n_notes };
	Elf64_Shdr section = { .sh_type = SHT_NULL };
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_CORE,
		.e_machine = machine,
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
			make_library(data + at, options);
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
