/* SPDX-License-Identifier: Apache-2.0 */
/* Call frame information, against libdw's reading of the same files, and damaged in every way. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "target/arch/native.h"
#include "target/arch/x86_64/regs.h"
#include "walk/native/cfi.h"

#define MAX_OPS 64

struct file {
	uint8_t *data;
	size_t size;
};

static bool map_file(const char *path, struct file *file)
{
	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return false;
	file->size = (size_t)st.st_size;
	file->data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
	return file->data != MAP_FAILED;
}

/*
 * Memory with a value everywhere that depends on the address alone; some of it cannot be read when
 * holes is set.
 */
struct fake {
	struct vt_memsrc src;
	bool holes;
};

static int fake_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct fake *fake = (struct fake *)src;

	if (fake->holes && addr % 7 == 0) {
		src->fault_addr = addr;
		return -EFAULT;
	}
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(((addr + i) * 2654435761u) >> 13);
	return 0;
}

static const struct vt_memsrc_ops fake_ops = { .read = fake_read };

/* ---- libdw's rules, which it gives as lists of operations ---- */

enum truth { IS_VALUE, IS_PLACE, IS_REGISTER, UNKNOWN };

static bool truth_binary(uint8_t atom, uint64_t *top)
{
	uint64_t a = top[-1], b = top[0];

	switch (atom) {
	case DW_OP_and:
		a &= b;
		break;
	case DW_OP_plus:
		a += b;
		break;
	case DW_OP_minus:
		a -= b;
		break;
	case DW_OP_mul:
		a *= b;
		break;
	case DW_OP_shl:
		a <<= b;
		break;
	case DW_OP_ge:
		a = (int64_t)a >= (int64_t)b;
		break;
	default:
		return false;
	}
	top[-1] = a;
	return true;
}

static enum truth evaluate(const Dwarf_Op *ops, size_t n, const struct vt_regs *regs, uint64_t cfa,
			   struct vt_memsrc *src, uint64_t *value)
{
	uint64_t stack[MAX_OPS] = { 0 };
	size_t sp = 0;
	bool is_value = false;

	for (size_t i = 0; i < n && sp < MAX_OPS - 1; i++) {
		uint8_t atom = ops[i].atom;

		if (atom == DW_OP_call_frame_cfa) {
			stack[sp++] = cfa;
		} else if (atom == DW_OP_regx) {
			*value = regs->r[ops[i].number];
			return IS_REGISTER;
		} else if (atom == DW_OP_bregx) {
			stack[sp++] = regs->r[ops[i].number] + ops[i].number2;
		} else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
			stack[sp++] = regs->r[atom - DW_OP_breg0] + ops[i].number;
		} else if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
			stack[sp++] = atom - DW_OP_lit0;
		} else if (atom >= DW_OP_const1u && atom <= DW_OP_consts) {
			stack[sp++] = ops[i].number;
		} else if (atom == DW_OP_stack_value) {
			is_value = true;
		} else if (sp > 0 && atom == DW_OP_plus_uconst) {
			stack[sp - 1] += ops[i].number;
		} else if (sp > 0 && atom == DW_OP_deref) {
			if (vt_mem_read(src, stack[sp - 1], &stack[sp - 1], 8))
				return UNKNOWN;
		} else if (sp > 1 && truth_binary(atom, &stack[sp - 1])) {
			sp--;
		} else {
			return UNKNOWN;
		}
	}
	if (sp == 0)
		return UNKNOWN;
	*value = stack[sp - 1];
	return is_value ? IS_VALUE : IS_PLACE;
}

/* What libdw says about one register must be what vt_cfi_apply() made of it. */
static void check_register(Dwarf_Frame *frame, int reg, const struct vt_regs *before,
			   const struct vt_regs *after, uint64_t cfa, struct vt_memsrc *src)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	uint64_t value;
	const struct vt_arch_abi *abi = &before->arch->abi;
	bool known = !(after->unknown & VT_REG_BIT(reg));

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &n), 0);
	if (n == 0) {
		/* 0.188 takes rax for rbx in the defaults of the ABI. */
		if (before->arch == &vt_arch_x86_64 && (reg == VT_REG_RBX || reg == VT_REG_RAX))
			return;
		/* It is not a column of call frame information: vt_cfi_apply() computes it. */
		if (reg == abi->pc && abi->link_register)
			return;
		if (ops)
			assert_true(!known || reg == abi->sp);
		else
			assert_true(known && after->r[reg] == before->r[reg]);
		return;
	}
	switch (evaluate(ops, n, before, cfa, src, &value)) {
	case IS_PLACE:
		assert_int_equal(vt_mem_read(src, value, &value, 8), 0);
		break;
	case UNKNOWN:
		fail_msg("the test does not know an operation of register %d", reg);
		break;
	default:
		break;
	}
	assert_true(known);
	assert_int_equal(after->r[reg], value);
}

static void check_row(const struct vt_cfi *cfi, const struct vt_cfi_row *row, Dwarf_Frame *frame,
		      uint64_t addr)
{
	struct fake fake = { .src = { .ops = &fake_ops } };
	struct vt_regs before = { .arch = vt_arch_of(cfi->abi->machine) }, after;
	uint64_t cfa, want = 0;
	Dwarf_Op *ops;
	size_t n;
	bool signal_frame;

	for (int reg = 0; reg < cfi->abi->n_regs; reg++)
		before.r[reg] = 0x10000 + addr * 17 + (uint64_t)reg * 4096;
	after = before;
	dwarf_frame_info(frame, NULL, NULL, &signal_frame);
	assert_int_equal(signal_frame, row->signal_frame);

	enum vt_cfi_result result = vt_cfi_apply(cfi, row, 0, &fake.src, &after, &cfa);

	assert_int_equal(dwarf_frame_cfa(frame, &ops, &n), 0);
	assert_int_not_equal(evaluate(ops, n, &before, 0, &fake.src, &want), UNKNOWN);
	assert_int_equal(cfa, want);
	if (result == VT_CFI_OUTERMOST) {
		Dwarf_Op mem[3];

		assert_int_equal(dwarf_frame_register(frame, cfi->abi->ra, mem, &ops, &n), 0);
		assert_true(n == 0 && ops);
		return;
	}
	assert_int_equal(result, VT_CFI_STEPPED);
	for (int reg = 0; reg < cfi->abi->n_regs; reg++)
		/* libdw has no caller where the return address is in x15 (glibc's rawmemchr()) */
		if (reg != row->ra || row->ra == cfi->abi->ra)
			check_register(frame, reg, &before, &after, cfa, &fake.src);
}

static size_t compare_segment(const struct vt_cfi *cfi, Dwarf_CFI *truth, const Elf64_Phdr *phdr,
			      uint64_t step)
{
	size_t rows = 0;

	for (uint64_t addr = phdr->p_vaddr; addr < phdr->p_vaddr + phdr->p_memsz; addr += step) {
		Dwarf_Frame *frame = NULL;
		struct vt_cfi_row row;
		bool known = dwarf_cfi_addrframe(truth, addr, &frame) == 0;

		if (known != vt_cfi_find(cfi, addr, &row))
			fail_msg("0x%llx: %s by libdw", (unsigned long long)addr,
				 known ? "known" : "unknown");
		if (known)
			check_row(cfi, &row, frame, addr);
		rows += known;
		free(frame);
	}
	return rows;
}

static size_t compare_file(const char *path, const struct vt_arch *arch, uint64_t step)
{
	struct file file;
	struct vt_cfi cfi;
	Elf64_Ehdr ehdr;
	size_t rows = 0;

	if (!map_file(path, &file))
		return 0;
	elf_version(EV_CURRENT);

	Elf *elf = elf_memory((char *)file.data, file.size);
	Dwarf_CFI *truth = dwarf_getcfi_elf(elf);

	assert_non_null(truth);
	assert_true(vt_cfi_init(&cfi, &arch->abi, file.data, file.size));
	memcpy(&ehdr, file.data, sizeof(ehdr));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		Elf64_Phdr phdr;

		memcpy(&phdr, file.data + ehdr.e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_LOAD && phdr.p_flags & PF_X)
			rows += compare_segment(&cfi, truth, &phdr, step);
	}
	dwarf_cfi_end(truth);
	elf_end(elf);
	munmap(file.data, file.size);
	return rows;
}

/* Every file that this process has mapped: at least itself, libc and the loader. */
static int compare_object(struct dl_phdr_info *info, size_t size, void *opaque)
{
	size_t *files = opaque;
	const char *path = info->dlpi_name[0] ? info->dlpi_name :
			   *files == 0        ? "/proc/self/exe" :
						NULL;

	(void)size;
	if (path && path[0] == '/' && compare_file(path, VT_NATIVE, 29) > 0)
		++*files;
	return 0;
}

static void test_libdw_agrees(void **state)
{
	size_t files = 0;

	(void)state;
	dl_iterate_phdr(compare_object, &files);
	assert_true(files >= 3);
}

/* Of the other architecture, where the cross compiler of Debian has brought its libraries. */
static void test_libdw_agrees_abroad(void **state)
{
	static const struct {
		const struct vt_arch *arch;
		const char *path;
	} files[] = {
		{ &vt_arch_aarch64, "/usr/aarch64-linux-gnu/lib/libc.so.6" },
		{ &vt_arch_aarch64, "/usr/aarch64-linux-gnu/lib/libstdc++.so.6" },
		{ &vt_arch_aarch64, "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1" },
	};
	size_t rows = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		rows += compare_file(files[i].path, files[i].arch, 28);
	if (!rows)
		skip();
}

int main(void);

static int find_base(struct dl_phdr_info *info, size_t size, void *opaque)
{
	(void)size;
	*(uint64_t *)opaque = info->dlpi_addr;
	return 1; /* the program is the first one */
}

static uint64_t image_base(void)
{
	uint64_t base = 0;

	dl_iterate_phdr(find_base, &base);
	return base;
}

/* Without .eh_frame_hdr the section is searched: the answers must be the same. */
static void test_search_without_table(void **state)
{
	struct file file;
	struct vt_cfi with, without;
	size_t both = 0;

	(void)state;
	assert_true(map_file("/proc/self/exe", &file));
	assert_true(vt_cfi_init(&with, &vt_arch_x86_64.abi, file.data, file.size));
	assert_true(with.n_table > 0);
	without = with;
	without.n_table = 0;
	for (uint64_t addr = 0; addr < file.size; addr += 3) {
		struct vt_cfi_row a, b;
		bool known = vt_cfi_find(&with, addr, &a);

		assert_int_equal(known, vt_cfi_find(&without, addr, &b));
		if (known) {
			assert_int_equal(a.cfa.how, b.cfa.how);
			assert_int_equal(a.cfa.reg, b.cfa.reg);
			assert_int_equal(a.cfa.offset, b.cfa.offset);
			both++;
		}
	}
	assert_true(both > 100);

	/* As much work as is allowed, and no wrong row for want of it. */
	uint64_t allowed = 0, work_left = 0, addr = (uint64_t)(uintptr_t)main - image_base();
	struct vt_cfi_row whole, row;

	assert_true(vt_cfi_find(&with, addr, &whole));
	without.work_left = &work_left;
	while (!vt_cfi_find(&without, addr, &row)) {
		assert_int_equal(work_left, 0);
		work_left = ++allowed;
		assert_true(allowed < 10000);
	}
	assert_true(allowed > 1);
	assert_memory_equal(&row, &whole, sizeof(row));

	/* and the section is found by its name when no program header tells */
	uint8_t *copy = malloc(file.size);
	Elf64_Ehdr ehdr;

	assert_non_null(copy);
	memcpy(copy, file.data, file.size);
	memcpy(&ehdr, copy, sizeof(ehdr));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		Elf64_Phdr phdr;

		memcpy(&phdr, copy + ehdr.e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_GNU_EH_FRAME)
			phdr.p_type = PT_NULL;
		memcpy(copy + ehdr.e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr));
	}
	assert_true(vt_cfi_init(&without, &vt_arch_x86_64.abi, copy, file.size));
	assert_int_equal(without.n_table, 0);
	assert_int_equal(without.frames, with.frames);
	free(copy);
	munmap(file.data, file.size);
}

/* ---- images that the loader has mapped ---- */

/* The same rule; expressions are the same bytes, in memory and in the file. */
static bool same_rule(const struct vt_cfi *a, const struct vt_cfi_rule *x, const struct vt_cfi *b,
		      const struct vt_cfi_rule *y)
{
	if (x->how != y->how || x->reg != y->reg || x->len != y->len)
		return false;
	if (x->how == VT_CFI_EXPR || x->how == VT_CFI_AT_EXPR)
		return !memcmp(a->image + x->offset, b->image + y->offset, x->len);
	return x->offset == y->offset;
}

static bool same_row(const struct vt_cfi *a, const struct vt_cfi_row *x, const struct vt_cfi *b,
		     const struct vt_cfi_row *y)
{
	bool same = x->signal_frame == y->signal_frame && same_rule(a, &x->cfa, b, &y->cfa);

	for (int reg = 0; reg < VT_N_REGS; reg++)
		same = same && same_rule(a, &x->regs[reg], b, &y->regs[reg]);
	return same;
}

static int compare_loaded(struct dl_phdr_info *info, size_t size, void *opaque)
{
	size_t *rows = opaque;
	const char *path = info->dlpi_name[0] ? info->dlpi_name :
			   *rows == 0         ? "/proc/self/exe" :
						"";
	struct vt_cfi from_file, loaded;
	struct file file;

	(void)size;
	if (path[0] != '/' || !map_file(path, &file))
		return 0;
	assert_true(vt_cfi_init(&from_file, &vt_arch_x86_64.abi, file.data, file.size));
	assert_true(vt_cfi_init_loaded(&loaded, &vt_arch_x86_64.abi, info->dlpi_phdr,
				       info->dlpi_phnum, info->dlpi_addr));
	assert_int_equal(loaded.n_table, from_file.n_table);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *phdr = &info->dlpi_phdr[i];

		for (uint64_t at = 0;
		     phdr->p_type == PT_LOAD && phdr->p_flags & PF_X && at < phdr->p_memsz;
		     at += 31) {
			struct vt_cfi_row a, b;
			bool known = vt_cfi_find(&from_file, phdr->p_vaddr + at, &a);

			assert_int_equal(known, vt_cfi_find(&loaded, phdr->p_vaddr + at, &b));
			assert_true(!known || same_row(&from_file, &a, &loaded, &b));
			*rows += known;
		}
	}
	munmap(file.data, file.size);
	return 0;
}

static void test_loaded(void **state)
{
	size_t rows = 0;

	(void)state;
	dl_iterate_phdr(compare_loaded, &rows);
	assert_true(rows > 1000);
}

/* ---- damage ---- */

/* ---- damage ---- */

/* A copy of the file that ends right before an unmapped page. */
static uint8_t *guarded_copy(const struct file *file, void **base, size_t *len)
{
	size_t room = (file->size + 4095) & ~(size_t)4095;
	uint8_t *p =
		mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + room, 4096, PROT_NONE), 0);
	*base = p;
	*len = room + 4096;
	memcpy(p + room - file->size, file->data, file->size);
	return p + room - file->size;
}

static void damage(uint8_t *image, size_t from, size_t n, int flips, size_t size)
{
	for (int i = 0; i < flips && n > 0; i++) {
		size_t at = from + (size_t)rand() % n;

		if (at < size)
			image[at] = (uint8_t)(rand() % 3 ? rand() : rand() % 2 ? 0 : 255);
	}
}

static void look_everywhere(const uint8_t *image, size_t size, int n)
{
	struct fake fake = { .src = { .ops = &fake_ops }, .holes = true };
	struct vt_cfi cfi;

	if (!vt_cfi_init(&cfi, &vt_arch_x86_64.abi, image, size))
		return;
	for (int i = 0; i < n; i++) {
		struct vt_cfi_row row;
		struct vt_regs regs = { .unknown = (uint32_t)rand() & 0xf };
		uint64_t cfa;

		if (!vt_cfi_find(&cfi, (uint64_t)rand() % size, &row))
			continue;
		for (int reg = 0; reg < VT_N_REGS; reg++)
			regs.r[reg] = (uint64_t)rand() * (uint64_t)rand();
		vt_cfi_apply(&cfi, &row, 0, &fake.src, &regs, &cfa);
	}
}

/*
 * As loaded, with nothing between the segments and behind them: bad lengths and offsets must not
 * lead there.
 */
static void test_damaged_loaded(void **state)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[32];
	struct file file;
	struct vt_cfi cfi;
	uint64_t span = 0;

	(void)state;
	srand(2);
	assert_true(map_file("/proc/self/exe", &file));
	memcpy(&ehdr, file.data, sizeof(ehdr));
	assert_true(ehdr.e_phnum <= 32);
	memcpy(phdrs, file.data + ehdr.e_phoff, ehdr.e_phnum * sizeof(phdrs[0]));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		if (phdrs[i].p_type != PT_LOAD)
			continue;
		/*
		 * What can be written comes behind the tables. A hole in between, which is part of
		 * no segment.
		 */
		if (phdrs[i].p_flags & PF_W)
			phdrs[i].p_vaddr += 16 * 4096;
		span = (phdrs[i].p_vaddr + phdrs[i].p_memsz + 8191) & ~UINT64_C(4095);
	}

	uint8_t *image = mmap(NULL, 2 * span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(image, MAP_FAILED);
	for (int round = 0; round < 300; round++) {
		for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
			uint64_t from = phdrs[i].p_vaddr & ~UINT64_C(4095),
				 to = phdrs[i].p_vaddr + phdrs[i].p_filesz;

			if (phdrs[i].p_type != PT_LOAD)
				continue;
			assert_int_equal(mprotect(image + from, to - from, PROT_READ | PROT_WRITE),
					 0);
			memcpy(image + phdrs[i].p_vaddr, file.data + phdrs[i].p_offset,
			       phdrs[i].p_filesz);
		}
		assert_true(vt_cfi_init_loaded(&cfi, &vt_arch_x86_64.abi, phdrs, ehdr.e_phnum,
					       (uintptr_t)image));
		if (round % 2)
			damage(image, (size_t)cfi.table - 12, 12 + (size_t)cfi.n_table * 8, 8,
			       span);
		else
			damage(image, (size_t)cfi.frames, (size_t)(cfi.frames_end - cfi.frames),
			       300, span);

		uint64_t work = 100000;

		if (!vt_cfi_init_loaded(&cfi, &vt_arch_x86_64.abi, phdrs, ehdr.e_phnum,
					(uintptr_t)image))
			continue;
		cfi.work_left = &work;
		for (int i = 0; i < 100; i++) {
			struct vt_cfi_row row;

			vt_cfi_find(&cfi, (uint64_t)rand() % span, &row);
		}
	}
	munmap(image, 2 * span);
	munmap(file.data, file.size);
}

static void test_damaged(void **state)
{
	struct file file;
	struct vt_cfi cfi;
	void *base;
	size_t len;

	(void)state;
	srand(1);
	assert_true(map_file("/proc/self/exe", &file));
	assert_true(vt_cfi_init(&cfi, &vt_arch_x86_64.abi, file.data, file.size));

	uint8_t *image = guarded_copy(&file, &base, &len);
	Elf64_Ehdr ehdr;

	memcpy(&ehdr, image, sizeof(ehdr));
	for (int round = 0; round < 400; round++) {
		memcpy(image, file.data, file.size);
		switch (round % 4) {
		case 0:
			damage(image, 16, sizeof(ehdr) - 16, 2, file.size);
			break;
		case 1:
			damage(image, (size_t)ehdr.e_phoff, ehdr.e_phnum * sizeof(Elf64_Phdr), 8,
			       file.size);
			break;
		case 2:
			damage(image, (size_t)cfi.table - 12, 12 + (size_t)cfi.n_table * 8, 8,
			       file.size);
			break;
		default:
			damage(image, (size_t)cfi.frames, (size_t)(cfi.frames_end - cfi.frames),
			       300, file.size);
			break;
		}
		look_everywhere(image, file.size, 100);
	}
	/* cut off anywhere */
	for (int round = 0; round < 100; round++) {
		size_t n = (size_t)rand() % file.size;

		memcpy(image + file.size - n, file.data, n);
		look_everywhere(image + file.size - n, n, 100);
	}
	munmap(base, len);
	munmap(file.data, file.size);
}

/* ---- expressions ---- */

static uint64_t *allowed_work;

static enum vt_cfi_result run(const uint8_t *expr, size_t n, const struct vt_regs *regs, bool holes,
			      uint64_t *cfa)
{
	struct fake fake = { .src = { .ops = &fake_ops }, .holes = holes };
	struct vt_cfi cfi = {
		.abi = &vt_arch_x86_64.abi, .image = expr, .size = n, .work_left = allowed_work
	};
	struct vt_cfi_row row = { .cfa = { .how = VT_CFI_EXPR, .len = (uint32_t)n },
				  .ra = VT_REG_RIP };
	struct vt_regs copy = *regs;

	row.regs[VT_REG_RIP].how = VT_CFI_CFA;
	return vt_cfi_apply(&cfi, &row, 0x1000, &fake.src, &copy, cfa);
}

static void test_expressions(void **state)
{
	static const struct {
		uint8_t expr[16];
		size_t n;
		enum vt_cfi_result result;
		uint64_t cfa;
	} cases[] = {
		/* the stub of a procedure linkage table: rsp + 8 + ((rip & 15) >= 11) << 3 */
		{ { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 },
		  11,
		  VT_CFI_STEPPED,
		  0x7008 },
		{ { 0x03, 1, 0, 0, 0, 0, 0, 0, 0 }, 9, VT_CFI_STEPPED, 0x1001 }, /* addr + bias */
		{ { 0x09, 0xff }, 2, VT_CFI_STEPPED, UINT64_MAX },               /* const1s -1 */
		/* consts -1, abs */
		{ { 0x11, 0x7f, 0x19 }, 3, VT_CFI_STEPPED, 1 },
		{ { 0x0d, 0, 0, 0, 0x80, 0x1f }, 6, VT_CFI_STEPPED, 0x80000000 }, /* const4s, neg */
		{ { 0x35, 0x32, 0x1b }, 3, VT_CFI_STEPPED, 2 },                   /* 5 / 2 */
		{ { 0x0f, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x09, 0xff, 0x1b },
		  12,
		  VT_CFI_STEPPED,
		  UINT64_C(1) << 63 },
		{ { 0x35, 0x30, 0x1b }, 3, VT_CFI_BAD_RULE, 0 }, /* 5 / 0 */
		{ { 0x35, 0x30, 0x1d }, 3, VT_CFI_BAD_RULE, 0 }, /* 5 % 0 */
		/* rot of 1 2 3: 3 1 2 */
		{ { 0x31, 0x32, 0x33, 0x17 }, 4, VT_CFI_STEPPED, 2 },
		{ { 0x31, 0x32, 0x16, 0x1c }, 4, VT_CFI_STEPPED, 1 },       /* swap, minus */
		{ { 0x31, 0x28, 1, 0, 0x32, 0x33 }, 6, VT_CFI_STEPPED, 3 }, /* bra over one */
		/* bra not taken */
		{ { 0x30, 0x28, 1, 0, 0x32, 0x33, 0x22 }, 7, VT_CFI_STEPPED, 5 },
		{ { 0x2f, 0xfd, 0xff }, 3, VT_CFI_BAD_RULE, 0 }, /* for ever */
		/* out of the expression */
		{ { 0x31, 0x2f, 0x10, 0 }, 4, VT_CFI_BAD_RULE, 0 },
		{ { 0x31, 0x2f, 0xf0, 0xff }, 4, VT_CFI_BAD_RULE, 0 },
		{ { 0x31, 0x12, 0x2f, 0xfc, 0xff }, 5, VT_CFI_BAD_RULE, 0 }, /* fills the stack */
		{ { 0x22 }, 1, VT_CFI_BAD_RULE, 0 },                         /* empty stack */
		{ { 0x15, 3 }, 2, VT_CFI_BAD_RULE, 0 },                      /* pick beyond it */
		{ { 0x10, 0x80 }, 2, VT_CFI_BAD_RULE, 0 },                   /* cut off */
		{ { 0xff }, 1, VT_CFI_BAD_RULE, 0 },                         /* unknown */
		/* a register that we do not have */
		{ { 0x92, 0x99, 0x01, 0 }, 4, VT_CFI_BAD_RULE, 0 },
		{ { 0x94, 9 }, 2, VT_CFI_BAD_RULE, 0 },
		{ { 0x31, 0x94, 9 }, 3, VT_CFI_BAD_RULE, 0 }, /* deref of 9 bytes */
		{ { 0x37, 0x06 }, 2, VT_CFI_NO_MEMORY, 0 },   /* address 7 is a hole */
		{ { 0x73, 0 }, 2, VT_CFI_NO_REGISTER, 0 },    /* rbx is not known */
		{ { 0 }, 0, VT_CFI_BAD_RULE, 0 },
	};
	struct vt_regs regs = { .unknown = 1u << VT_REG_RBX };

	(void)state;
	regs.r[VT_REG_RSP] = 0x7000;
	regs.r[VT_REG_RIP] = 0x4005;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t cfa;
		enum vt_cfi_result got = run(cases[i].expr, cases[i].n, &regs, true, &cfa);

		if (got != cases[i].result || cfa != cases[i].cfa)
			fail_msg("case %zu: result %d, cfa 0x%llx", i, (int)got,
				 (unsigned long long)cfa);
	}
}

static void test_expression_work(void **state)
{
	static const uint8_t adds[] = { 0x35, 0x32, 0x22 };
	struct vt_regs regs = { 0 };
	uint64_t work_left = 2, cfa;

	(void)state;
	allowed_work = &work_left;
	assert_int_equal(run(adds, sizeof(adds), &regs, false, &cfa), VT_CFI_BAD_RULE);
	work_left = 3;
	assert_int_equal(run(adds, sizeof(adds), &regs, false, &cfa), VT_CFI_STEPPED);
	assert_int_equal(work_left, 0);
	allowed_work = NULL;
}

/* Random bytes as expressions, at the end of the mapped memory. */
static void test_random_expressions(void **state)
{
	struct vt_regs regs = { 0 };
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + 4096, 4096, PROT_NONE), 0);
	srand(2);
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)rand() % 64;
		uint64_t cfa;

		for (size_t i = 0; i < n; i++)
			p[4096 - n + i] = (uint8_t)(rand() % 4 ? rand() % 0x90 : rand());
		run(p + 4096 - n, n, &regs, round % 2, &cfa);
	}
	munmap(p, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libdw_agrees),
		cmocka_unit_test(test_libdw_agrees_abroad),
		cmocka_unit_test(test_search_without_table),
		cmocka_unit_test(test_loaded),
		cmocka_unit_test(test_damaged_loaded),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_expression_work),
		cmocka_unit_test(test_random_expressions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
