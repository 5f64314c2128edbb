/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files, damaged: symbols, names of variables, call frame information and stacks come to an end
 * and stay within the file. The seeds are small libraries (corpus/fuzz_elf, made by elf/seeds.sh).
 *
 * An input is 16 bytes (how, a number, an address in the file, sizes of its debug files) and an ELF
 * file with those debug files behind it; or, with CFI_ALONE, the instructions of one function's
 * call frame information, which are put into a file. libdw 0.188 crashes on damaged DWARF: it reads
 * damaged files only where it does so for a report, in a child, and sound ones here, too.
 */
#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "fuzz.h"
#include "target/elfsym.h"
#include "walk/native/cfi.h"
#include "walk/native/dwarf_lines.h"
#include "walk/native/lines_memo.h"
#include "walk/native/native.h"
#include "walk/native/rtti.h"
#include "walk/native/symfile.h"
#include "walk/native/symtab.h"
#include "walk/native/variables.h"
#include "target/arch/x86_64/regs.h"

#define CONTROL 16
#define BASE UINT64_C(0x7f1200000000)
#define PAGE 4096u
#define N_FRAMES 24

enum how {
	CFI_ALONE = 1,
	NO_FILE = 2, /* only what the target has in memory */
	HURRY = 4,
	DWARF = 8, /* if the file has not changed since it was made: see sound() */
	SOME_REGISTERS = 16,
	LINES = 32, /* with the number below: children take milliseconds */
};
#define LINES_NUMBER 0x5d
#define LINES_BUDGET_NS (200 * VT_NS_PER_MS)

/*
 * Behind the file: its debug file, the one that dwz made of what several have in common, and what
 * the target has on its stack.
 */
enum { DEBUG, SHARED, STACK, N_BEHIND };

static struct {
	const uint8_t *bytes; /* the file */
	size_t size;
	uint8_t how, number;
	uint64_t vaddr;
	int fd;
	struct vt_memsrc src;
	struct {
		const uint8_t *bytes;
		size_t size;
		int fd;
	} behind[N_BEHIND];
} in = { .fd = -1, .behind = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } } };

/* ---- the target: the file, mapped once from its beginning; behind it a page of the stack ---- */

static uint64_t stack_at(void)
{
	return BASE + (in.size + PAGE - 1) / PAGE * PAGE;
}

static uint8_t byte_at(uint64_t addr)
{
	const uint64_t at = addr - BASE, on_stack = addr - stack_at();

	if (at < in.size)
		return in.bytes[at];
	return on_stack < in.behind[STACK].size ? in.behind[STACK].bytes[on_stack] : 0;
}

static int read_memory(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	uint64_t end = stack_at() - BASE + PAGE;

	if (addr < BASE || addr - BASE >= end || len > end - (addr - BASE)) {
		src->fault_addr = addr;
		return -EFAULT;
	}
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = byte_at(addr + i);
	return 0;
}

static const struct vt_memsrc_ops memory_ops = { .read = read_memory };

static int candidate(struct vt_files *files, const struct vt_module *module,
		     const struct vt_map_entry *entry, unsigned int n)
{
	(void)files, (void)module, (void)entry;
	if (n || in.how & NO_FILE)
		return VT_FILES_END;
	return dup(in.fd);
}

static bool accepts(struct vt_files *files, struct vt_module *module,
		    const struct vt_map_entry *entry)
{
	(void)files, (void)entry;
	module->file = VT_FILE_RIGHT;
	return true;
}

static struct vt_memsrc *files_memory(struct vt_files *files)
{
	(void)files;
	return &in.src;
}

/* Wherever it is looked for first. elf/seeds.sh gives the shared one this name. */
static int open_behind(struct vt_files *files, const char *path)
{
	int which = strstr(path, "alt.dwz") ? SHARED : DEBUG;

	(void)files;
	return in.behind[which].size ? dup(in.behind[which].fd) : -1;
}

static uint64_t auxv(struct vt_files *files, uint64_t type)
{
	(void)files;
	return type == AT_PHDR ? BASE + 64 : type == AT_SYSINFO_EHDR ? BASE : 0;
}

static void destroy_nothing(struct vt_files *files)
{
	(void)files;
}

static const struct vt_files_ops files_ops = { .candidate = candidate,
					       .accepts = accepts,
					       .memory = files_memory,
					       .open = open_behind,
					       .auxv = auxv,
					       .destroy = destroy_nothing };

static void map_file(struct vt_maps *maps)
{
	uint64_t end = stack_at();
	const struct vt_map_entry entries[] = {
		{ .start = BASE,
		  .end = end,
		  .inode = 7,
		  .flags = VT_MAP_READ | VT_MAP_EXEC,
		  .path = "/lib/libfuzz.so" },
		{ .start = end,
		  .end = end + PAGE,
		  .flags = VT_MAP_READ | VT_MAP_WRITE,
		  .path = "" },
	};

	for (size_t i = 0; i < 2; i++) {
		struct vt_map_entry *to = vt_vec_append(&maps->entries);

		fuzz_check(to, "memory");
		*to = entries[i];
	}
}

/* ---- call frame information ---- */

static void apply(const struct vt_cfi *cfi, uint64_t vaddr)
{
	struct vt_cfi_row row;
	struct vt_regs regs = { 0 };
	uint64_t cfa;

	if (!vt_cfi_find(cfi, vaddr, &row))
		return;
	for (unsigned int i = 0; i < VT_N_REGS; i++)
		regs.r[i] = BASE + (uint64_t)(in.number + i) * 8;
	regs.unknown = in.how & SOME_REGISTERS ? 0xf00f : 0;
	for (int i = 0; i < 3; i++)
		if (vt_cfi_apply(cfi, &row, BASE, &in.src, &regs, &cfa) != VT_CFI_STEPPED)
			break;
}

/* Addresses of functions: of each symbol that has some, and some that go through the whole file. */
static void find_rows(const struct vt_cfi *cfi)
{
	apply(cfi, in.vaddr);
	for (uint64_t i = 0; i < 32; i++)
		apply(cfi, in.size / 32 * i + in.number % 16);
}

static void read_loaded(uint64_t *work)
{
	const Elf64_Ehdr *header = (const void *)in.bytes;
	uint8_t *copy;
	struct vt_cfi cfi;

	if (in.size < sizeof(*header) || header->e_phoff > in.size ||
	    header->e_phnum > (in.size - header->e_phoff) / sizeof(Elf64_Phdr))
		return;
	/* The loader has checked where segments are. */
	copy = malloc(in.size);
	fuzz_check(copy, "memory");
	memcpy(copy, in.bytes, in.size);
	if (header->e_phoff % 8 == 0) {
		Elf64_Phdr *phdrs = (void *)(copy + header->e_phoff);
		bool sound = true;

		for (size_t i = 0; i < header->e_phnum; i++)
			if (phdrs[i].p_type == PT_LOAD &&
			    (phdrs[i].p_vaddr > in.size ||
			     phdrs[i].p_memsz > in.size - phdrs[i].p_vaddr))
				sound = false;
		if (sound && vt_cfi_init_loaded(&cfi, &vt_arch_x86_64.abi, phdrs, header->e_phnum,
						(uint64_t)(uintptr_t)copy)) {
			cfi.work_left = work;
			find_rows(&cfi);
		}
	}
	free(copy);
}

static void read_cfi(void)
{
	uint64_t work = 200000;
	struct vt_cfi cfi;

	if (vt_cfi_init(&cfi, &vt_arch_x86_64.abi, in.bytes, in.size)) {
		cfi.work_left = &work;
		find_rows(&cfi);
	}
	read_loaded(&work);
}

/* A file with one function, of which the call frame information is the input's. */
static void wrap_instructions(const uint8_t *data, size_t size)
{
	static struct {
		Elf64_Ehdr header;
		Elf64_Phdr phdrs[2];
		uint8_t eh_frame_hdr[24];
		uint8_t frames[4096];
	} file;
	uint8_t *cie = file.frames, *fde;
	uint64_t begin = offsetof(typeof(file), frames), hdr = offsetof(typeof(file), eh_frame_hdr);
	uint32_t word, n;
	static const char *const kinds[] = { "zR", "zRS", "", "zPLR", "zXR" };
	/* Of pointers: that of the first one fits what follows. */
	static const uint8_t encodings[] = { 0,    0x01, 0x02, 0x03, 0x04, 0x09, 0x0a, 0x0b,
					     0x0c, 0x05, 0x30, 0x3b, 0x50, 0x60, 0x9b, 0xff };
	uint8_t encoding = encodings[in.number / 5 % 16];
	const char *kind = kinds[in.number % 5];
	size_t head;

	memset(&file, 0, sizeof(file));
	memcpy(file.header.e_ident, ELFMAG "\2\1\1", 7);
	file.header.e_type = ET_DYN;
	file.header.e_machine = EM_X86_64;
	file.header.e_phoff = sizeof(file.header);
	file.header.e_phentsize = sizeof(Elf64_Phdr);
	file.header.e_phnum = 2;
	file.phdrs[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				      .p_flags = PF_R | PF_X,
				      .p_filesz = sizeof(file),
				      .p_memsz = sizeof(file) };
	file.phdrs[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
				      .p_flags = PF_R,
				      .p_offset = hdr,
				      .p_vaddr = hdr,
				      .p_filesz = 20,
				      .p_memsz = 20 };
	/* length, id 0, version 1, augmentation, code and data alignment, return address */
	cie[8] = 1;
	strcpy((char *)cie + 9, kind);
	head = 9 + strlen(kind) + 1;
	cie[head++] = 1;
	cie[head++] = 0x78;
	cie[head++] = 16;
	if (*kind) {
		size_t at = head++;

		for (const char *c = kind + 1; *c; c++) {
			if (*c == 'P') {
				cie[head++] = 0x1b;
				head += 4;
			} else if (*c == 'L' || *c == 'R') {
				cie[head++] = encoding                       ? encoding :
					      *c == 'R' && !(in.how & HURRY) ? 0x1b :
									       0x00;
			}
		}
		cie[at] = (uint8_t)(head - at - 1);
	}
	memcpy(cie + head, "\x0c\x07\x08\x90\x01", 5); /* def_cfa rsp + 8, ra at cfa - 8 */
	head = (head + 5 + 7) / 8 * 8;
	word = (uint32_t)head - 4;
	memcpy(cie, &word, 4);
	fde = cie + head;
	size = size < 3900 ? size : 3900;
	n = (uint32_t)(4 + 16 + 1 + size);
	memcpy(fde, &n, 4);
	word = (uint32_t)(head + 4);
	memcpy(fde + 4, &word, 4);
	if (strchr(kind, 'R') && !(in.how & HURRY)) {
		word = (uint32_t)(0x1000 - (begin + head + 8));
		memcpy(fde + 8, &word, 4);
		word = 0x1000;
		memcpy(fde + 12, &word, 4);
		n = 16;
	} else {
		memcpy(fde + 8, &(uint64_t){ 0x1000 }, 8);
		memcpy(fde + 16, &(uint64_t){ 0x1000 }, 8);
		n = 24;
	}
	if (*kind)
		n++; /* no data of the augmentation */
	memcpy(fde + n, data, size);
	word = (uint32_t)(n - 4 + size);
	memcpy(fde, &word, 4);
	memcpy(file.eh_frame_hdr, "\x01\x1b\x03\x3b", 4);
	word = (uint32_t)(begin - (hdr + 4));
	memcpy(file.eh_frame_hdr + 4, &word, 4);
	word = 1;
	memcpy(file.eh_frame_hdr + 8, &word, 4);
	word = 0x1000 - (uint32_t)hdr;
	memcpy(file.eh_frame_hdr + 12, &word, 4);
	word = (uint32_t)(begin + head - hdr);
	memcpy(file.eh_frame_hdr + 16, &word, 4);
	in.bytes = (const uint8_t *)&file;
	in.size = sizeof(file);
	in.vaddr = 0x1000 + in.vaddr % 0x1000;
}

/* ---- symbols ---- */

static struct vt_native_lines *start_lines(struct vt_modules *modules,
					   struct vt_native_stack *stack,
					   struct vt_lines_memo *memo)
{
	const struct vt_native_sharing sharing = { .memo = memo };
	struct vt_native_lines *lines = NULL;

	uint64_t budget_ns = in.how & SOME_REGISTERS ? LINES_BUDGET_NS / 50 : LINES_BUDGET_NS;

	fuzz_check(!vt_native_lines_start(modules, stack, 1, budget_ns, &sharing, &lines),
		   "no child");
	return lines;
}

/* Three that share what they know: the second one waits for the first. */
static void find_lines(struct vt_modules *modules, struct vt_native_stack *stack,
		       struct vt_arena *arena)
{
	struct vt_lines_memo *memo = in.how & HURRY ? NULL : vt_lines_memo_create();
	struct vt_native_lines *lines[3];
	bool late = in.how & SOME_REGISTERS; /* the first one has not ended when the second waits */
	size_t missing;

	lines[late] = start_lines(modules, stack, memo);
	lines[!late] = start_lines(modules, stack, memo);
	for (int i = 0; i < 2; i++)
		fuzz_check(!vt_native_lines_finish(lines[i], arena, &missing), "memory");
	/* What is known by now. */
	lines[2] = start_lines(modules, stack, memo);
	fuzz_check(!vt_native_lines_finish(lines[2], arena, &missing), "memory");
	for (int i = 0; i < 3; i++)
		vt_native_lines_destroy(lines[i]);
	vt_lines_memo_destroy(memo);
}

static void name_frames(struct vt_modules *modules)
{
	struct vt_native_frame frames[N_FRAMES] = { 0 };
	struct vt_native_stack stack = { .tid = 1 };
	struct vt_arena arena = { 0 };

	for (uint64_t i = 0; i < N_FRAMES; i++)
		frames[i] = (struct vt_native_frame){
			.pc = BASE + (i ? in.size / N_FRAMES * i + in.number : in.vaddr),
			.activation = i % 2,
		};
	stack.frames.data = frames;
	stack.frames.n = N_FRAMES;
	fuzz_check(!vt_native_symbolise(modules, &stack, 1, &arena), "memory");
	for (size_t i = 0; i < N_FRAMES; i++)
		fuzz_check(!frames[i].function || frames[i].symbol, "a name of no symbol");
	if (in.how & LINES && in.number == LINES_NUMBER)
		find_lines(modules, &stack, &arena);
	vt_arena_deinit(&arena);
}

static void name_variables(struct vt_modules *modules, struct vt_module *module)
{
	struct vt_native_static statics[] = { { .name = "in_data" }, { .name = "in_bss" } };
	struct vt_native_variable variables[16] = { 0 };
	struct vt_arena arena = { 0 };

	for (uint64_t i = 0; i < 16; i++)
		variables[i] = (struct vt_native_variable){ .addr = BASE + in.size / 16 * i + i,
							    .module_start = BASE };
	variables[0].addr = BASE + in.vaddr;
	vt_error_destroy(vt_native_statics(modules, module, statics, 2));
	fuzz_check(!vt_native_variables(modules, variables, 16, &arena), "memory");
	vt_arena_deinit(&arena);
}

static void unwind(struct vt_modules *modules)
{
	struct vt_native_stack stack = { 0 };
	struct vt_unwinder *unwinder;
	struct vt_regs regs = { 0 };

	for (unsigned int i = 0; i < VT_N_REGS; i++)
		regs.r[i] = BASE + in.size / 4 * 3 / 8 * 8 + in.number * 8u;
	regs.r[VT_REG_RIP] = in.vaddr ? BASE + in.vaddr : 0;
	if (in.behind[STACK].size) {
		regs.r[VT_REG_RSP] = stack_at();
		regs.r[VT_REG_RBP] = stack_at() + in.number;
		regs.r[VT_REG_RAX] = in.number % 2;
		regs.syscall_nr = 56; /* clone() */
		regs.unknown = in.how & SOME_REGISTERS ? 1u << VT_REG_RSP : 0;
	}
	fuzz_check(!vt_unwinder_create(modules, &in.src, &unwinder), "memory");
	vt_unwinder_hurry(unwinder, in.how & HURRY);
	fuzz_check(!vt_unwinder_walk(unwinder, 1, &regs, &stack), "memory");
	fuzz_check(stack.frames.n <= VT_NATIVE_MAX_FRAMES, "%zu frames", stack.frames.n);
	vt_native_stack_deinit(&stack);
	vt_unwinder_destroy(unwinder);
}

static void read_module(void)
{
	static const char *const names[] = { "seen_by_all", "top", "alone", "nowhere" };
	struct vt_files files = { .ops = &files_ops };
	struct vt_maps maps = { 0 };
	struct vt_modules modules = { 0 };
	struct vt_module *module;
	struct vt_rtti rtti;
	uint64_t addrs[4], offset, room;

	map_file(&maps);
	fuzz_check(!vt_modules_init_files(&modules, &files, &maps), "memory");
	module = vt_modules_find(&modules, BASE);
	fuzz_check(module, "no module");

	VT_ERROR struct vt_error *err = vt_module_open(&modules, module);

	vt_error_destroy(vt_module_dynsyms(&modules, module, names, 4, addrs));
	vt_modules_symbol(&modules, "lib", "top");
	if (!err) {
		vt_module_constant(module, in.vaddr, &offset, &room);
		if (module->image)
			(void)vt_module_same_tables(module, &vt_arch_x86_64, &maps, &in.src);
		vt_module_lacks_file(&modules, module);
	}
	name_frames(&modules);
	name_variables(&modules, module);
	unwind(&modules);
	vt_rtti_init(&rtti, &in.src, &maps);
	vt_rtti_is(&rtti, vt_rtti_of_vtable(&rtti, BASE + in.vaddr), "N1aE");
	vt_rtti_deinit(&rtti);
	vt_modules_deinit(&modules);
	vt_vec_deinit(&maps.entries);
	vt_arena_deinit(&maps.arena);
}

static void read_symfile(void)
{
	struct vt_symfile file = { .fd = -1, .data = in.bytes, .size = in.size };

	if (vt_symfile_init(&file)) {
		(void)vt_symfile_section(&file, SHT_SYMTAB);
		(void)vt_symfile_named(&file, ".plt");
		(void)vt_symfile_at(&file, in.vaddr);
	}
	vt_symfile_deinit(&file);
	file = (struct vt_symfile){ .fd = -1, .data = in.bytes, .size = in.size };
	if (vt_symfile_init_dynamic(&file, BASE) && file.n_sections > 1)
		free(vt_symfile_string(&file, &file.sections[file.n_sections - 1], in.number));
	vt_symfile_deinit(&file);
}

/* ---- DWARF ---- */

/* FNV-1a; elf/seeds.sh writes what it is for a sound file into bytes 12 to 15. */
static bool sound(const uint8_t *data)
{
	uint32_t hash = 2166136261u, wanted;

	for (size_t i = 0; i < in.size; i++)
		hash = (hash ^ in.bytes[i]) * 16777619u;
	memcpy(&wanted, data + 12, 4);
	return hash == wanted;
}

static void read_dwarf(void)
{
	uint8_t *image = malloc(in.size);
	struct vt_dwarf *dwarf;

	fuzz_check(image, "memory");
	memcpy(image, in.bytes, in.size);
	dwarf = vt_dwarf_open(image, in.size, NULL, 0);
	for (uint64_t i = 0; dwarf && i < 16; i++) {
		struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES];
		size_t n = vt_dwarf_find(dwarf, in.vaddr + i * in.number, frames);

		fuzz_check(n <= VT_DWARF_MAX_FRAMES, "%zu", n);
	}
	if (dwarf)
		vt_dwarf_close(dwarf);
	free(image);
}

/* Sizes in the bytes that are not used otherwise; the last file first. */
static void take_behind(const uint8_t *data)
{
	uint16_t sizes[N_BEHIND];

	memcpy(&sizes[DEBUG], data + 8, 2);
	memcpy(&sizes[STACK], data + 10, 2);
	memcpy(&sizes[SHARED], data + 2, 2);
	for (int i = N_BEHIND - 1; i >= 0; i--) {
		in.behind[i].size = sizes[i] < in.size ? sizes[i] : 0;
		in.size -= in.behind[i].size;
		in.behind[i].bytes = in.bytes + in.size;
	}
}

static void put_file(int *fd, const uint8_t *bytes, size_t size)
{
	if (*fd < 0)
		*fd = memfd_create("elf", MFD_CLOEXEC);
	fuzz_check(*fd >= 0 && !ftruncate(*fd, 0) && pwrite(*fd, bytes, size, 0) == (ssize_t)size,
		   "no file");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < CONTROL)
		return 0;
	in.how = data[0];
	in.number = data[1];
	in.vaddr = 0;
	memcpy(&in.vaddr, data + 4, 4);
	in.bytes = data + CONTROL;
	in.size = size - CONTROL;
	take_behind(data);
	in.src = (struct vt_memsrc){ .ops = &memory_ops, .coherent = !(in.how & HURRY) };
	if (in.how & CFI_ALONE) {
		wrap_instructions(in.bytes, in.size);
		read_cfi();
		return 0;
	}
	if (in.size < 64)
		return 0;
	put_file(&in.fd, in.bytes, in.size);
	for (int i = 0; i < N_BEHIND; i++)
		put_file(&in.behind[i].fd, in.behind[i].bytes, in.behind[i].size);
	read_cfi();
	read_symfile();
	read_module();
	if (in.how & DWARF && sound(data))
		read_dwarf();
	return 0;
}

/* What compilers write, and expressions: the rule for rbx by one of each kind. */
#define TEXT(bytes)                      \
	{                                \
		bytes, sizeof(bytes) - 1 \
	}
static const struct {
	const char *bytes;
	size_t n;
} instructions[] = {
	TEXT("\x41\x0e\x10\x86\x02\x43\x0d\x06\x0a\x50\x0c\x07\x08\x0b\x44\x0e\x20"),
	TEXT("\x10\x03\x09\x76\x10\x06\x23\x08\x31\x22\x12\x13\x0e\x10\x41"),
	TEXT("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22\x41\x16\x03\x03\x08\x07\x1b"),
	TEXT("\x16\x0c\x0c\x35\x31\x14\x16\x17\x15\x01\x28\x02\x00\x2f\x00\x41"),
	TEXT("\x12\x07\x7e\x13\x7e\x11\x03\x02\x05\x0e\x02\x06\x0e\x15\x03\x01\x2e\x08\x41\x07\x03\x08"),
	/* advance in each width, register, val_offset, negative_offset_extended */
	TEXT("\x02\x00\x03\x00\x00\x04\x00\x00\x00\x00\x09\x03\x05\x09\x06\x40\x14\x0c\x02\x2f\x0d\x01"),
	/* set_loc */
	TEXT("\x01\x00\x10\x00\x00\x00\x00\x00\x00\x0e\x18"),
	/* each constant, then each binary operation */
	TEXT("\x16\x03\x3f\x08\x05\x09\xfb\x0a\x01\x00\x0b\xff\xff\x0c\x01\x00\x00\x00\x0d\xff\xff\xff\xff"
	     "\x0e\x02\x00\x00\x00\x00\x00\x00\x00\x0f\x03\x00\x00\x00\x00\x00\x00\x00\x10\x07\x11\x7f"
	     "\x03\x00\x00\x00\x00\x00\x00\x00\x00\x33\x1b\x1c\x1d\x1e\x21\x25\x26\x27\x29\x2b\x22"),
	TEXT("\x16\x03\x18\x31\x32\x33\x34\x35\x2c\x2d\x2e\x2a\x19\x1f\x20\x96\x2f\x01\x00\x30\x92\x07\x00"
	     "\x94\x08\x92\x07\x08"),
	/* divided by zero, an address that is none, from an empty stack, a jump out of it */
	TEXT("\x16\x03\x03\x31\x30\x1b"),
	TEXT("\x16\x03\x03\x31\x30\x1d"),
	TEXT("\x10\x03\x02\x31\x06"),
	TEXT("\x16\x03\x01\x1c"),
	TEXT("\x16\x03\x03\x2f\x00\x40"),
	TEXT("\x16\x03\x02\x94\x03"),
	TEXT("\x16\x03\x01\xe0"),
	TEXT("\x3f"),
	TEXT("\x0b"),
	TEXT("\x0d\x80\x01"),
	TEXT("\x05\x80\x01\x01"),
	TEXT("\x0f\xff\x01\x31"),
	TEXT("\x0c\x12\x08"),
};

/* Code without unwind information: calls, the trampoline of signals, a stack that leads through. */
static size_t seed_stack(unsigned int number, uint8_t *data)
{
	enum {
		CODE = 256,
		STACK_BYTES = 256,
		CALL = 123,
		CALLEE = 96,
		SYSCALL = 110,
		STUB = 160,
		SLOT = 200
	};
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
	static const uint8_t stub[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25 };
	enum way {
		CALLED,
		BY_STUB,
		BY_SLOT,
		BAD_CALL,
		NEW_THREAD,
		RECORDS,
		NO_STACK,
		N_WAYS
	} way = number;
	uint8_t *code = data + CONTROL, *stack = code + CODE;
	uint64_t stack_base = BASE + PAGE, callee = BASE + CALLEE;
	int32_t to_callee = CALLEE - (CALL + 5), to_stub = STUB - (CALL + 5),
		to_slot = SLOT - (CALL + 5), stub_slot = SLOT - (STUB + 10);
	uint64_t frame[32] = { BASE + CALL + 5 };

	if (way >= N_WAYS)
		return 0;
	memset(data, 0, CONTROL + CODE + STACK_BYTES);
	data[0] = NO_FILE | (way == NO_STACK ? SOME_REGISTERS : 0);
	data[1] = way == NEW_THREAD ? 0 : 1;
	data[4] = way == BAD_CALL ? 0 : SYSCALL + 2;
	memcpy(data + 10, &(uint16_t){ STACK_BYTES }, 2);
	memcpy(code + SYSCALL, "\x0f\x05", 2);
	code[CALL] = 0xe8;
	memcpy(code + CALL + 1, way == BY_STUB ? &to_stub : &to_callee, 4);
	if (way == BY_SLOT) {
		memcpy(code + CALL - 1, "\xff\x15", 2);
		memcpy(code + CALL + 1, &to_slot, 4);
	}
	memcpy(code + CALL + 5, sigreturn, sizeof(sigreturn));
	memcpy(code + STUB, stub, sizeof(stub));
	memcpy(code + STUB + sizeof(stub), &stub_slot, 4);
	memcpy(code + SLOT, &callee, 8);
	/* Behind the return address the kernel's structure: registers from byte 40 on. */
	frame[6 + 15] = stack_base;
	frame[6 + 16] = BASE + SYSCALL + 2;
	if (way == RECORDS) { /* two that rbp leads to */
		data[1] = 8;
		code[SYSCALL] = 0;
		frame[1] = stack_base + 32;
		frame[2] = BASE + CALL + 5;
		frame[4] = stack_base + 8;
		frame[5] = BASE + SLOT;
	}
	memcpy(stack, frame, sizeof(frame));
	return CONTROL + CODE + STACK_BYTES;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	unsigned int n_instructions = sizeof(instructions) / sizeof(instructions[0]),
		     which = number / 2;

	if (max < CONTROL + 4096)
		return 0;
	if (which >= n_instructions + 8)
		return seed_stack(number - 2 * (n_instructions + 8), data);
	memset(data, 0, CONTROL + 128);
	data[0] = CFI_ALONE;
	data[1] = number % 2 ? 1 : 0;
	data[4] = 2;
	/* Then the first ones with each encoding. */
	if (which >= n_instructions) {
		data[1] = (uint8_t)(5 * (number - 2 * n_instructions));
		which = 6;
	}
	memcpy(data + CONTROL, instructions[which].bytes, instructions[which].n);
	return CONTROL + instructions[which].n + 8;
}
