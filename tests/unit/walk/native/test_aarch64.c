/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinding on aarch64, in any build: invented stacks, with call frame information made by hand.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <elf.h>
#include <errno.h>

#include <cmocka.h>

#include "target/arch/aarch64/regs.h"
#include "walk/native/cfi.h"
#include "walk/native/native.h"

#define BIAS UINT64_C(0x400000) /* of the module; its code is one page */
#define CODE UINT64_C(0x10000)  /* of no module */
#define STACK UINT64_C(0x7ffffff0000)
#define PAGE 4096
#define PAC UINT64_C(0x005a000000000000)
#define PAC_MASK UINT64_C(0x007f000000000000)

/* Functions of the module, each of 64 bytes; a call is at 0x20 in each. */
enum {
	LEAF = 0x100,   /* nothing is saved, nothing on the stack */
	FRAME = 0x200,  /* 32 bytes of stack; signs the return address */
	BY_FP = 0x300,  /* the CFA is relative to x29 */
	OUTER = 0x400,  /* has no caller */
	BRANCH = 0x500, /* saves x30 only half way through */
	IN_X15 = 0x600, /* keeps its return address in x15 */
	SIZE = 0x40,
	CALLED_AT = 0x20,
	RETURN = CALLED_AT + 4,
};

#define RETURN_TO(function) (BIAS + (function) + RETURN)

struct image {
	uint8_t data[2048];
	size_t size;
};

static void add(struct image *image, const void *bytes, size_t n)
{
	assert_true(image->size + n <= sizeof(image->data));
	memcpy(image->data + image->size, bytes, n);
	image->size += n;
}

/* A record of .eh_frame: its length, the offset of its CIE from there (0: it is one), the rest. */
static void add_record(struct image *image, size_t cie, const void *bytes, size_t n)
{
	uint32_t head[2] = { (uint32_t)n + 4, cie ? (uint32_t)(image->size + 4 - cie) : 0 };

	add(image, head, sizeof(head));
	add(image, bytes, n);
}

static void add_function(struct image *image, size_t cie, uint64_t at, const char *code, size_t n)
{
	uint8_t body[64] = { 0 };
	uint64_t range[2] = { at, SIZE };

	memcpy(body, range, sizeof(range));
	memcpy(body + sizeof(range), code, n);
	add_record(image, cie, body, sizeof(range) + n);
}

#define ADD_FUNCTION(image, cie, at, code) add_function(image, cie, at, code, sizeof(code) - 1)

static void make_frames(struct image *image, uint16_t machine)
{
	/* version 1, no augmentation, alignment of 4 and -8; the return address; CFA = sp + 0 */
	static const char cie_aarch64[] = "\1\0\4\x78\x1e\x0c\x1f\0",
			  cie_x86_64[] = "\1\0\4\x78\x10\x0c\7\x8";
	bool is_x86_64 = machine == EM_X86_64;
	size_t cie = image->size;

	add_record(image, 0, is_x86_64 ? cie_x86_64 : cie_aarch64, 8);
	ADD_FUNCTION(image, cie, LEAF, "");
	/* negate_ra_state, def_cfa_offset 32, x29 at CFA - 32, x30 at CFA - 24 */
	ADD_FUNCTION(image, cie, FRAME, "\x2d\x0e\x20\x9d\4\x9e\3");
	/* def_cfa x29 16, x29 at CFA - 16, x30 at CFA - 8 */
	ADD_FUNCTION(image, cie, BY_FP, "\x0c\x1d\x10\x9d\2\x9e\1");
	/* undefined x30 */
	ADD_FUNCTION(image, cie, OUTER, "\7\x1e");
	/* after 8 instructions: negate, def_cfa_offset 16, x30 at CFA - 16; 6 later: restored */
	ADD_FUNCTION(image, cie, BRANCH, "\x48\x2d\x0e\x10\x9e\2\x46\xde\x0e\0\x2d");
	cie = image->size;
	add_record(image, 0, "\1\0\4\x78\x0f\x0c\x1f\0", 8);
	ADD_FUNCTION(image, cie, IN_X15, "");
}

static void make_image(struct image *image, uint16_t machine)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = machine,
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2,
	};
	Elf64_Shdr sections[3] = { { .sh_type = SHT_NULL } };

	image->size = sizeof(ehdr);
	sections[1] =
		(Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = image->size };
	make_frames(image, machine);
	sections[1].sh_size = image->size - sections[1].sh_offset;
	sections[2] = (Elf64_Shdr){ .sh_name = 11,
				    .sh_type = SHT_STRTAB,
				    .sh_offset = image->size,
				    .sh_size = sizeof(names) };
	add(image, names, sizeof(names));
	image->size = (image->size + 7) & ~(size_t)7;
	ehdr.e_shoff = image->size;
	add(image, sections, sizeof(sections));
	memcpy(image->data, &ehdr, sizeof(ehdr));
}

struct fake {
	struct vt_memsrc src;
	struct image image;
	uint8_t code[PAGE], text[PAGE], stack[PAGE];
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_unwinder *unwinder;
	struct vt_native_stack result;
	struct vt_regs regs;
};

static int fake_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct fake *fake = (struct fake *)src;
	const struct {
		uint64_t at;
		const uint8_t *bytes;
	} pages[] = { { CODE, fake->code }, { BIAS, fake->text }, { STACK, fake->stack } };

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (addr - pages[i].at < PAGE && len <= pages[i].at + PAGE - addr) {
			memcpy(buf, pages[i].bytes + (addr - pages[i].at), len);
			return 0;
		}
	}
	src->fault_addr = addr;
	return -EFAULT;
}

static const struct vt_memsrc_ops fake_ops = { .read = fake_read };

static void add_map(struct fake *fake, uint64_t start, unsigned int flags)
{
	struct vt_map_entry *entry = vt_vec_append(&fake->maps.entries);

	assert_non_null(entry);
	*entry = (struct vt_map_entry){
		.start = start, .end = start + PAGE, .flags = flags, .path = ""
	};
}

static void put_code(uint8_t *page, unsigned int at, uint32_t code)
{
	memcpy(page + at, &code, sizeof(code));
}

static void put_word(struct fake *fake, unsigned int at, uint64_t value)
{
	memcpy(fake->stack + at, &value, sizeof(value));
}

static struct fake *fake_create(void)
{
	static const unsigned int functions[] = { LEAF, FRAME, BY_FP, OUTER, BRANCH, IN_X15 };
	struct fake *fake = calloc(1, sizeof(*fake));
	struct vt_module *module;

	assert_non_null(fake);
	fake->src.ops = &fake_ops;
	add_map(fake, CODE, VT_MAP_READ | VT_MAP_EXEC);
	add_map(fake, BIAS, VT_MAP_READ | VT_MAP_EXEC);
	add_map(fake, STACK, VT_MAP_READ | VT_MAP_WRITE);
	make_image(&fake->image, EM_AARCH64);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		put_code(fake->text, functions[i] + CALLED_AT, 0x94000000); /* bl */
	fake->modules.maps = &fake->maps;
	fake->modules.arch = &vt_arch_aarch64;
	module = vt_vec_append(&fake->modules.modules);
	assert_non_null(module);
	*module = (struct vt_module){ .path = "/lib/libmade.so",
				      .start = BIAS,
				      .end = BIAS + PAGE,
				      .bias = BIAS,
				      .fd = -1,
				      .opened = true,
				      .image = fake->image.data,
				      .image_size = fake->image.size };
	assert_null(vt_unwinder_create(&fake->modules, &fake->src, &fake->unwinder));
	fake->regs =
		(struct vt_regs){ .arch = &vt_arch_aarch64, .syscall_nr = -1, .pac = PAC_MASK };
	return fake;
}

static void fake_destroy(struct fake *fake)
{
	vt_unwinder_destroy(fake->unwinder);
	vt_native_stack_deinit(&fake->result);
	vt_vec_deinit(&fake->modules.modules);
	vt_vec_deinit(&fake->maps.entries);
	free(fake);
}

static void walk(struct fake *fake, uint64_t pc, unsigned int sp, uint64_t fp, uint64_t lr)
{
	struct vt_regs regs = fake->regs;

	regs.r[VT_REG_PC] = pc;
	regs.r[VT_REG_SP] = STACK + sp;
	regs.r[VT_REG_FP] = fp;
	regs.r[VT_REG_LR] = lr;
	vt_native_stack_deinit(&fake->result);
	memset(&fake->result, 0, sizeof(fake->result));
	assert_null(vt_unwinder_walk(fake->unwinder, 1, &regs, &fake->result));
}

/* The program counters of the frames, innermost first, then 0. */
static void check_frames(struct fake *fake, bool complete, const uint64_t *pcs)
{
	size_t n = 0;

	for (; pcs[n]; n++) {
		if (n >= fake->result.frames.n)
			fail_msg("%zu frames only: %s", n, fake->result.why);
		assert_int_equal(fake->result.frames.data[n].pc, pcs[n]);
	}
	assert_int_equal(fake->result.frames.n, n);
	assert_int_equal(fake->result.complete, complete);
}

#define CHECK_FRAMES(fake, complete, ...) \
	check_frames(fake, complete, (const uint64_t[]){ __VA_ARGS__, 0 })

/* x30 has the return address of a leaf; that of its caller is signed in memory. */
static void test_leaf(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	put_word(fake, 0x100, 0);
	put_word(fake, 0x108, RETURN_TO(OUTER) | PAC);
	walk(fake, BIAS + LEAF + 8, 0x100, 0, RETURN_TO(FRAME));
	CHECK_FRAMES(fake, true, BIAS + LEAF + 8, RETURN_TO(FRAME), RETURN_TO(OUTER));
	assert_string_equal(fake->result.why, "");
	assert_int_equal(fake->result.frames.data[0].cfa, STACK + 0x100);
	assert_int_equal(fake->result.frames.data[1].cfa, STACK + 0x120);
	/* in the register, too: between paciasp and the store */
	walk(fake, BIAS + LEAF + 8, 0x100, 0, RETURN_TO(FRAME) | PAC);
	CHECK_FRAMES(fake, true, BIAS + LEAF + 8, RETURN_TO(FRAME), RETURN_TO(OUTER));
	/* what is not an authentication code is no part of an address either */
	walk(fake, BIAS + LEAF + 8, 0x100, 0, RETURN_TO(FRAME) | UINT64_C(1) << 60);
	CHECK_FRAMES(fake, false, BIAS + LEAF + 8);
	assert_non_null(strstr(fake->result.why, "is not code"));
	fake_destroy(fake);
}

/* Before the return address is saved, after that, and after it is restored. */
static void test_half_way(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	put_word(fake, 0x100, RETURN_TO(OUTER) | PAC);
	walk(fake, BIAS + BRANCH + 0x1c, 0x110, 0, RETURN_TO(OUTER));
	CHECK_FRAMES(fake, true, BIAS + BRANCH + 0x1c, RETURN_TO(OUTER));
	walk(fake, BIAS + BRANCH + 0x20, 0x100, 0, 0x1234);
	CHECK_FRAMES(fake, true, BIAS + BRANCH + 0x20, RETURN_TO(OUTER));
	assert_int_equal(fake->result.frames.data[0].cfa, STACK + 0x110);
	walk(fake, BIAS + BRANCH + 0x38, 0x110, 0, RETURN_TO(OUTER));
	CHECK_FRAMES(fake, true, BIAS + BRANCH + 0x38, RETURN_TO(OUTER));
	fake_destroy(fake);
}

/* A function that has called another one has saved x30: a rule that denies it is not believed. */
static void test_leaf_that_calls(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	walk(fake, BIAS + LEAF + 8, 0x100, 8, RETURN_TO(LEAF));
	CHECK_FRAMES(fake, false, BIAS + LEAF + 8, RETURN_TO(LEAF));
	assert_non_null(strstr(fake->result.why, "no unwind information at libmade.so+0x124"));
	fake_destroy(fake);
}

/* As glibc's rawmemchr() does; no other register is believed to have it then. */
static void test_other_column(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	fake->regs.r[15] = RETURN_TO(OUTER) | PAC;
	walk(fake, BIAS + IN_X15 + 0x20, 0x100, 0, 0x1234);
	CHECK_FRAMES(fake, true, BIAS + IN_X15 + 0x20, RETURN_TO(OUTER));
	/* what it calls may have changed x15 */
	walk(fake, BIAS + LEAF, 0x100, 0, RETURN_TO(IN_X15));
	CHECK_FRAMES(fake, false, BIAS + LEAF, RETURN_TO(IN_X15));
	assert_non_null(strstr(fake->result.why, "a register that unwinding needs is not known"));
	fake_destroy(fake);
}

/* As of a thread that sleeps and is not stopped: pc and sp alone. */
static void test_unknown(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	fake->regs.unknown = ~(VT_REG_BIT(VT_REG_PC) | VT_REG_BIT(VT_REG_SP));
	put_word(fake, 0x100, 0);
	put_word(fake, 0x108, RETURN_TO(OUTER) | PAC);
	walk(fake, BIAS + FRAME + 0x20, 0x100, 0, 0);
	CHECK_FRAMES(fake, true, BIAS + FRAME + 0x20, RETURN_TO(OUTER));
	walk(fake, BIAS + LEAF, 0x100, 0, RETURN_TO(FRAME));
	CHECK_FRAMES(fake, false, BIAS + LEAF);
	assert_non_null(strstr(fake->result.why, "a register that unwinding needs is not known"));
	fake_destroy(fake);
}

/*
 * Frame records: they are anywhere in their frames, so the caller's stack pointer is not known, but
 * never below the record.
 */
static void test_frame_records(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	put_code(fake->code, 0x4c, 0x94000001);
	put_code(fake->code, 0x7c, 0xd63f0100); /* blr x8 */
	put_word(fake, 0x100, STACK + 0x200);
	put_word(fake, 0x108, (CODE + 0x50) | PAC);
	put_word(fake, 0x200, 0);
	put_word(fake, 0x208, CODE + 0x80);
	walk(fake, CODE + 0x20, 0x80, STACK + 0x100, 0);
	CHECK_FRAMES(fake, true, CODE + 0x20, CODE + 0x50, CODE + 0x80);
	assert_non_null(strstr(fake->result.why, "callers may be missing"));
	assert_int_equal(fake->result.frames.data[1].cfa, 0);
	/* one that goes down, is not aligned, or not behind a call */
	put_word(fake, 0x100, STACK + 0xf0);
	walk(fake, CODE + 0x20, 0x80, STACK + 0x100, 0);
	CHECK_FRAMES(fake, false, CODE + 0x20, CODE + 0x50);
	walk(fake, CODE + 0x20, 0x80, STACK + 0x104, 0);
	CHECK_FRAMES(fake, false, CODE + 0x20);
	put_word(fake, 0x108, CODE + 0x60);
	walk(fake, CODE + 0x20, 0x80, STACK + 0x100, 0);
	CHECK_FRAMES(fake, false, CODE + 0x20);
	/* into functions with rows: by x29 it goes on, by the stack pointer it cannot */
	put_word(fake, 0x100, STACK + 0x200);
	put_word(fake, 0x108, RETURN_TO(BY_FP));
	put_word(fake, 0x208, RETURN_TO(OUTER));
	walk(fake, CODE + 0x20, 0x80, STACK + 0x100, 0);
	CHECK_FRAMES(fake, true, CODE + 0x20, RETURN_TO(BY_FP), RETURN_TO(OUTER));
	assert_int_equal(fake->result.frames.data[1].cfa, STACK + 0x210);
	put_word(fake, 0x108, RETURN_TO(FRAME));
	walk(fake, CODE + 0x20, 0x80, STACK + 0x100, 0);
	CHECK_FRAMES(fake, false, CODE + 0x20, RETURN_TO(FRAME));
	assert_non_null(strstr(fake->result.why, "a register that unwinding needs is not known"));
	fake_destroy(fake);
}

/* Through a null pointer: the return address is in x30. */
static void test_bad_call(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	walk(fake, 0, 0x80, 0, RETURN_TO(OUTER));
	assert_int_equal(fake->result.frames.n, 2);
	assert_int_equal(fake->result.frames.data[0].cfa, STACK + 0x80);
	assert_int_equal(fake->result.frames.data[1].pc, RETURN_TO(OUTER));
	assert_true(fake->result.complete);
	walk(fake, 0x5554, 0x80, 0, RETURN_TO(OUTER) | PAC);
	CHECK_FRAMES(fake, true, 0x5554, RETURN_TO(OUTER));
	walk(fake, 0x5554, 0x80, 8, CODE + 0x60);
	CHECK_FRAMES(fake, false, 0x5554);
	fake_destroy(fake);
}

/* handler → trampoline → interrupted leaf, whose x30 is still in the signal's frame */
static void test_signal_frame(void **state)
{
	enum { FRAME_AT = 0x120, REGS = FRAME_AT + 312 };
	struct fake *fake = fake_create();

	(void)state;
	/* with no code in front of it, as it is under qemu */
	put_code(fake->code, 0, 0xd2801168);
	put_code(fake->code, 4, 0xd4000001);
	put_word(fake, 0x100, 0);
	put_word(fake, 0x108, CODE);
	put_word(fake, REGS + 29 * 8, 0x77);
	put_word(fake, REGS + 30 * 8, RETURN_TO(OUTER));
	put_word(fake, REGS + 31 * 8, STACK + 0x800);
	put_word(fake, REGS + 32 * 8, BIAS + LEAF);
	walk(fake, BIAS + FRAME + 0x20, 0x100, 0, 0);
	CHECK_FRAMES(fake, true, BIAS + FRAME + 0x20, CODE, BIAS + LEAF, RETURN_TO(OUTER));
	assert_true(fake->result.frames.data[1].signal);
	assert_true(fake->result.frames.data[2].activation);
	assert_int_equal(fake->result.frames.data[2].cfa, STACK + 0x800);
	fake_destroy(fake);
}

/* The same number is another instruction elsewhere; and an image is of one architecture. */
static void test_of_another(void **state)
{
	struct image arm = { .size = 0 }, x86 = { .size = 0 };
	struct vt_cfi_row row;
	struct vt_cfi cfi;

	(void)state;
	make_image(&arm, EM_AARCH64);
	make_image(&x86, EM_X86_64);
	assert_false(vt_cfi_init(&cfi, &vt_arch_x86_64.abi, arm.data, arm.size));
	assert_false(vt_cfi_init(&cfi, &vt_arch_aarch64.abi, x86.data, x86.size));
	assert_true(vt_cfi_init(&cfi, &vt_arch_aarch64.abi, arm.data, arm.size));
	assert_true(vt_cfi_find(&cfi, FRAME, &row));
	assert_true(vt_cfi_init(&cfi, &vt_arch_x86_64.abi, x86.data, x86.size));
	assert_false(vt_cfi_find(&cfi, FRAME, &row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaf),
		cmocka_unit_test(test_half_way),
		cmocka_unit_test(test_leaf_that_calls),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_other_column),
		cmocka_unit_test(test_frame_records),
		cmocka_unit_test(test_bad_call),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
