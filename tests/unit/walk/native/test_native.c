/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinding, of this process itself and of invented stacks; names, from an ELF file that is made
 * here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <lzma.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/live.h"
#include "walk/native/native.h"
#include "target/arch/native.h"
#include "target/arch/x86_64/regs.h"

/* ---- this process ---- */

struct self {
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_unwinder *unwinder;
};

static void self_init(struct self *self)
{
	memset(self, 0, sizeof(*self));
	assert_null(vt_maps_init(&self->maps, getpid()));
	assert_null(vt_modules_init(&self->modules, getpid(), &self->maps));
	assert_null(vt_live_create(getpid(), &self->live));
	assert_null(
		vt_unwinder_create(&self->modules, vt_live_source(self->live), &self->unwinder));
}

static void self_deinit(struct self *self)
{
	vt_unwinder_destroy(self->unwinder);
	vt_live_destroy(self->live);
	vt_modules_deinit(&self->modules);
	vt_maps_deinit(&self->maps);
}

#ifdef __aarch64__
static struct vt_regs regs_of(const ucontext_t *uc)
{
	struct vt_regs regs = { .arch = VT_NATIVE, .syscall_nr = -1 };

	for (int i = 0; i < 31; i++)
		regs.r[i] = uc->uc_mcontext.regs[i];
	regs.r[VT_NATIVE->abi.sp] = uc->uc_mcontext.sp;
	regs.r[VT_NATIVE->abi.pc] = uc->uc_mcontext.pc;
	return regs;
}
#else
static struct vt_regs regs_of(const ucontext_t *uc)
{
	static const int order[VT_N_REGS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					      REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					      REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
	struct vt_regs regs = { .arch = &vt_arch_x86_64, .syscall_nr = -1 };

	for (int i = 0; i < VT_N_REGS; i++)
		regs.r[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
	return regs;
}
#endif

static volatile int sink;

/* The callers as libgcc's unwinder sees them are the truth. */
static void check_own_stack(struct self *self, const ucontext_t *uc, void *const *truth, int n)
{
	struct vt_native_stack stack = { 0 };
	struct vt_arena arena = { 0 };
	struct vt_regs regs = regs_of(uc);

	assert_null(vt_unwinder_walk(self->unwinder, getpid(), &regs, &stack));
	assert_string_equal(stack.why, "");
	assert_true(stack.complete);
	assert_false(stack.truncated);
	/* Under AddressSanitizer, backtrace() is called by a function of its own. */
	for (int i = 0; i < 2 && (uint64_t)(uintptr_t)truth[1] != stack.frames.data[1].pc; i++, n--)
		truth++;
	assert_true(n > 4);
	/* libgcc may show an address after the outermost one. */
	assert_true((int)stack.frames.n >= n - 1);
	for (int i = 1; i < n && i < (int)stack.frames.n; i++) {
		assert_int_equal(stack.frames.data[i].pc, (uint64_t)(uintptr_t)truth[i]);
		assert_false(stack.frames.data[i].activation);
		assert_true(stack.frames.data[i].cfa > stack.frames.data[i - 1].cfa);
	}
	assert_true(stack.frames.data[0].activation);
	assert_null(vt_native_symbolise(&self->modules, &stack, 1, &arena));
	assert_string_equal(stack.frames.data[0].function, "unwind_here");
	assert_string_equal(stack.frames.data[1].function, "middle");
	assert_non_null(stack.frames.data[0].module);
	assert_true(stack.frames.data[0].function_offset > 0 &&
		    stack.frames.data[0].function_offset < 0x4000);
	vt_native_stack_deinit(&stack);
	vt_arena_deinit(&arena);
}

static __attribute__((noinline)) int unwind_here(struct self *self)
{
	void *truth[64];
	int n = backtrace(truth, 64);
	ucontext_t uc;

	getcontext(&uc);
	check_own_stack(self, &uc, truth, n);
	return 1;
}

static __attribute__((noinline)) int middle(struct self *self)
{
	int n = unwind_here(self);

	sink++;
	return n;
}

static void test_own_stack(void **state)
{
	struct self self;

	(void)state;
	self_init(&self);
	assert_int_equal(middle(&self), 1);
	self_deinit(&self);
}

/* A handler's frame, and what was interrupted. */
static struct self *volatile handler_self;
static volatile sig_atomic_t handler_checked;

static void check_handler(const ucontext_t *uc)
{
	struct vt_native_stack stack = { 0 };
	struct vt_arena arena = { 0 };
	struct vt_regs regs = regs_of(uc);
	size_t i = 0;

	assert_null(vt_unwinder_walk(handler_self->unwinder, getpid(), &regs, &stack));
	assert_null(vt_native_symbolise(&handler_self->modules, &stack, 1, &arena));
	assert_true(stack.complete);
	while (i < stack.frames.n && !stack.frames.data[i].signal)
		i++;
	assert_true(i + 2 < stack.frames.n);
	assert_string_equal(stack.frames.data[i].function, "<signal handler called>");
	assert_true(stack.frames.data[i + 1].activation);
	for (; i < stack.frames.n; i++)
		if (stack.frames.data[i].function &&
		    !strcmp(stack.frames.data[i].function, "test_own_handler"))
			handler_checked = 1;
	vt_native_stack_deinit(&stack);
	vt_arena_deinit(&arena);
}

static void handler(int sig)
{
	ucontext_t uc;

	(void)sig;
	getcontext(&uc);
	check_handler(&uc);
}

static void test_own_handler(void **state)
{
	struct sigaction action = { .sa_handler = handler }, before;
	struct self self;

	(void)state;
	self_init(&self);
	handler_self = &self;
	handler_checked = 0;
	sigaction(SIGUSR1, &action, &before);
	raise(SIGUSR1);
	sink++;
	sigaction(SIGUSR1, &before, NULL);
	assert_true(handler_checked);
	self_deinit(&self);
}

struct deep {
	struct self *self;
	struct vt_native_stack stack;
	struct vt_error *err;
};

static __attribute__((noinline)) int recurse(struct deep *deep, int n)
{
	int result;

	if (n == 0) {
		struct vt_regs regs;
		ucontext_t uc;

		getcontext(&uc);
		regs = regs_of(&uc);
		deep->err = vt_unwinder_walk(deep->self->unwinder, getpid(), &regs, &deep->stack);
		return 0;
	}
	result = recurse(deep, n - 1);
	sink++;
	return result + 1;
}

static void *recurse_deeply(void *arg)
{
	sink = recurse(arg, VT_NATIVE_MAX_FRAMES + 1000);
	return NULL;
}

static void test_deep_recursion(void **state)
{
	struct self self;
	struct deep deep = { .self = &self };
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	pthread_attr_init(&attr);
	/* with the sanitizers' larger frames, too */
	assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)256 << 20), 0);
	self_init(&self);
	assert_int_equal(pthread_create(&thread, &attr, recurse_deeply, &deep), 0);
	pthread_join(thread, NULL);
	assert_null(deep.err);
	assert_true(deep.stack.truncated);
	assert_false(deep.stack.complete);
	assert_int_equal(deep.stack.frames.n, VT_NATIVE_MAX_FRAMES);
	assert_non_null(strstr(deep.stack.why, "more than 65536 frames"));
	vt_native_stack_deinit(&deep.stack);
	pthread_attr_destroy(&attr);
	self_deinit(&self);
}

/* ---- invented stacks, without any unwind information ---- */

#define CODE UINT64_C(0x10000)
#define STACK UINT64_C(0x20000)
#define PAGE 4096

struct fake {
	struct vt_memsrc src;
	uint8_t code[PAGE], stack[PAGE];
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_unwinder *unwinder;
	struct vt_native_stack result;
};

static int fake_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct fake *fake = (struct fake *)src;

	if (addr >= CODE && addr < CODE + PAGE && len <= CODE + PAGE - addr) {
		memcpy(buf, fake->code + (addr - CODE), len);
		return 0;
	}
	if (addr >= STACK && addr < STACK + PAGE && len <= STACK + PAGE - addr) {
		memcpy(buf, fake->stack + (addr - STACK), len);
		return 0;
	}
	src->fault_addr = addr;
	return -EFAULT;
}

static const struct vt_memsrc_ops fake_ops = { .read = fake_read };

static struct fake *fake_create(void)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	struct vt_map_entry *entry;

	assert_non_null(fake);
	fake->src.ops = &fake_ops;
	entry = vt_vec_append(&fake->maps.entries);
	assert_non_null(entry);
	*entry = (struct vt_map_entry){
		.start = CODE, .end = CODE + PAGE, .flags = VT_MAP_READ | VT_MAP_EXEC, .path = ""
	};
	entry = vt_vec_append(&fake->maps.entries);
	assert_non_null(entry);
	*entry = (struct vt_map_entry){
		.start = STACK, .end = STACK + PAGE, .flags = VT_MAP_READ, .path = ""
	};
	fake->modules.maps = &fake->maps;
	fake->modules.arch = &vt_arch_x86_64;
	assert_null(vt_unwinder_create(&fake->modules, &fake->src, &fake->unwinder));
	return fake;
}

static void fake_destroy(struct fake *fake)
{
	vt_unwinder_destroy(fake->unwinder);
	vt_native_stack_deinit(&fake->result);
	vt_vec_deinit(&fake->maps.entries);
	free(fake);
}

/* A return address: the instruction before it is a call. */
static uint64_t put_call(struct fake *fake, unsigned int at)
{
	fake->code[at - 5] = 0xe8;
	return CODE + at;
}

static void put_word(struct fake *fake, unsigned int at, uint64_t value)
{
	memcpy(fake->stack + at, &value, sizeof(value));
}

static const char *fake_walk(struct fake *fake, uint64_t pc, uint64_t sp, uint64_t bp)
{
	struct vt_regs regs = { .arch = &vt_arch_x86_64, .syscall_nr = -1 };

	regs.r[VT_REG_RIP] = pc;
	regs.r[VT_REG_RSP] = sp;
	regs.r[VT_REG_RBP] = bp;
	vt_native_stack_deinit(&fake->result);
	memset(&fake->result, 0, sizeof(fake->result));
	assert_null(vt_unwinder_walk(fake->unwinder, 1, &regs, &fake->result));
	return fake->result.why;
}

/* In a hurry no file is opened; that is made up for later. */
static void test_hurry(void **state)
{
	struct vt_native_stack stack = { 0 };
	struct vt_regs regs;
	struct self self;
	ucontext_t uc;

	(void)state;
	self_init(&self);
	getcontext(&uc);
	regs = regs_of(&uc);
	vt_unwinder_hurry(self.unwinder, true);
	assert_null(vt_unwinder_walk(self.unwinder, getpid(), &regs, &stack));
	assert_false(stack.complete);
	assert_non_null(strstr(stack.why, "was not opened so far"));
	for (size_t i = 0; i < self.modules.modules.n; i++)
		assert_false(self.modules.modules.data[i].opened);
	vt_native_stack_deinit(&stack);
	for (int i = 0; i < 2; i++) {
		vt_unwinder_hurry(self.unwinder, i == 1);
		memset(&stack, 0, sizeof(stack));
		assert_null(vt_unwinder_walk(self.unwinder, getpid(), &regs, &stack));
		assert_string_equal(stack.why, "");
		assert_true(stack.complete);
		vt_native_stack_deinit(&stack);
	}
	self_deinit(&self);
}

static void test_frame_records(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	put_word(fake, 0x100, STACK + 0x200);
	put_word(fake, 0x108, put_call(fake, 0x50));
	put_word(fake, 0x200, 0);
	put_word(fake, 0x208, put_call(fake, 0x80));
	assert_non_null(strstr(fake_walk(fake, CODE + 0x20, STACK + 0x80, STACK + 0x100),
			       "callers may be missing"));
	assert_int_equal(fake->result.frames.n, 3);
	assert_int_equal(fake->result.frames.data[1].pc, CODE + 0x50);
	assert_int_equal(fake->result.frames.data[1].cfa, STACK + 0x210);
	assert_int_equal(fake->result.frames.data[2].pc, CODE + 0x80);
	assert_true(fake->result.complete);

	/*
	 * a saved rbp that is no record: below the stack pointer, unaligned, not readable, not
	 * behind a call, itself
	 */
	static const uint64_t bad[] = { STACK + 0x10, STACK + 0x101, 0x999000, STACK + PAGE - 8,
					UINT64_MAX - 7 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_string_equal(fake_walk(fake, CODE + 0x20, STACK + 0x80, bad[i]),
				    "no unwind information at 0x10020, which is in no mapped file");
		assert_int_equal(fake->result.frames.n, 1);
		assert_false(fake->result.complete);
	}
	put_word(fake, 0x108, CODE + 0x60);
	assert_non_null(strstr(fake_walk(fake, CODE + 0x20, STACK + 0x80, STACK + 0x100),
			       "no unwind information"));
	assert_int_equal(fake->result.frames.n, 1);
	fake_destroy(fake);
}

static void test_bad_call(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	/* through a null pointer: the return address is on top of the stack */
	put_word(fake, 0x80, put_call(fake, 0x50));
	fake_walk(fake, 0, STACK + 0x80, 0);
	assert_int_equal(fake->result.frames.n, 2);
	assert_int_equal(fake->result.frames.data[0].pc, 0);
	assert_int_equal(fake->result.frames.data[1].pc, CODE + 0x50);
	/* and when that is not one either */
	put_word(fake, 0x80, 0x1234);
	assert_non_null(strstr(fake_walk(fake, 0x5555, STACK + 0x80, 8),
			       "no unwind information at 0x5555"));
	assert_int_equal(fake->result.frames.n, 1);
	assert_non_null(
		strstr(fake_walk(fake, 0x5555, 0x999000, 8), "no unwind information at 0x5555"));
	fake_destroy(fake);
}

static void test_unknown_registers(void **state)
{
	struct fake *fake = fake_create();
	struct vt_regs regs = { .unknown = ~0u };

	(void)state;
	assert_null(vt_unwinder_walk(fake->unwinder, 1, &regs, &fake->result));
	assert_int_equal(fake->result.frames.n, 0);
	assert_string_equal(fake->result.why, "its registers are not known");
	regs.unknown = ~(1u << VT_REG_RIP);
	regs.r[VT_REG_RIP] = CODE;
	memset(&fake->result, 0, sizeof(fake->result));
	assert_null(vt_unwinder_walk(fake->unwinder, 1, &regs, &fake->result));
	assert_int_equal(fake->result.frames.n, 1);
	assert_non_null(strstr(fake->result.why, "the stack pointer is not known"));
	fake_destroy(fake);
}

static void put_sigreturn(struct fake *fake, unsigned int at)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

	memcpy(fake->code + at, code, sizeof(code));
}

/* struct ucontext at this offset of the stack: its registers begin at byte 40. */
static void put_context(struct fake *fake, unsigned int at, uint64_t pc, uint64_t sp, uint64_t bp)
{
	put_word(fake, at + 40 + 10 * 8, bp);
	put_word(fake, at + 40 + 15 * 8, sp);
	put_word(fake, at + 40 + 16 * 8, pc);
}

static void test_signal_frame(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	/*
	 * handler → trampoline (not described by any file) → interrupted function → its caller →
	 * outermost
	 */
	put_word(fake, 0x100, STACK + 0x800);
	put_word(fake, 0x108, put_call(fake, 0x50));
	put_sigreturn(fake, 0x50);
	put_context(fake, 0x110, CODE + 0x300, STACK + 0x700, STACK + 0x800);
	put_word(fake, 0x800, 0);
	put_word(fake, 0x808, put_call(fake, 0x80));
	fake_walk(fake, CODE + 0x20, STACK + 0x80, STACK + 0x100);
	assert_int_equal(fake->result.frames.n, 4);
	assert_true(fake->result.frames.data[1].signal);
	assert_int_equal(fake->result.frames.data[2].pc, CODE + 0x300);
	assert_true(fake->result.frames.data[2].activation);
	assert_int_equal(fake->result.frames.data[3].pc, CODE + 0x80);
	assert_false(fake->result.frames.data[3].activation);
	assert_true(fake->result.complete);
	fake_destroy(fake);
}

static void test_circles(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	/* the interrupted function's record leads to the same trampoline again */
	put_word(fake, 0x100, STACK + 0x100);
	put_word(fake, 0x108, put_call(fake, 0x50));
	put_sigreturn(fake, 0x50);
	put_context(fake, 0x110, CODE + 0x300, STACK + 0x80, STACK + 0x100);
	assert_string_equal(fake_walk(fake, CODE + 0x20, STACK + 0x80, STACK + 0x100),
			    "the stack goes in circles");
	assert_true(fake->result.frames.n < 10);
	assert_false(fake->result.complete);
	fake_destroy(fake);
}

/* Any bytes as code and stack: it ends, and says something. */
static void test_random_stacks(void **state)
{
	struct fake *fake = fake_create();

	(void)state;
	srand(3);
	for (int round = 0; round < 3000; round++) {
		for (size_t i = 0; i < PAGE; i++)
			fake->code[i] = (uint8_t)(rand() % 3 ? 0xe8 : rand());
		for (unsigned int i = 0; i < PAGE; i += 8)
			put_word(fake, i,
				 (rand() % 2 ? CODE : STACK) + ((uint64_t)rand() % (PAGE / 8)) * 8);
		if (round % 2)
			put_sigreturn(fake, (unsigned int)rand() % (PAGE - 16));
		fake_walk(fake, CODE + (uint64_t)rand() % PAGE, STACK + (uint64_t)rand() % PAGE,
			  STACK + (uint64_t)rand() % PAGE);
		assert_true(fake->result.complete || fake->result.why[0]);
		assert_true(fake->result.frames.n <= PAGE);
		vt_unwinder_destroy(fake->unwinder);
		assert_null(vt_unwinder_create(&fake->modules, &fake->src, &fake->unwinder));
	}
	fake_destroy(fake);
}

/* ---- names ---- */

#define BIAS UINT64_C(0x7f0000000000)
#define TEXT UINT64_C(0x1000)
#define TEXT2 UINT64_C(0x2000)
#define PLT UINT64_C(0x3000)
#define SLOT UINT64_C(0x5018)
#define N_SECTIONS 9

/* An ELF file with two sections of code, one of stubs, and symbols. */
struct elf {
	uint8_t data[65536];
	size_t size;
	Elf64_Shdr sections[N_SECTIONS];
	size_t n_sections;
	char strings[8192];
	size_t n_strings;
	Elf64_Sym symbols[256];
	size_t n_symbols;
};

static uint32_t add_string(struct elf *elf, const char *text)
{
	size_t at = elf->n_strings;

	memcpy(elf->strings + at, text, strlen(text) + 1);
	elf->n_strings += strlen(text) + 1;
	return (uint32_t)at;
}

static void add_symbol(struct elf *elf, const char *name, uint64_t value, uint64_t size, int bind,
		       int type, uint16_t section)
{
	elf->symbols[elf->n_symbols++] = (Elf64_Sym){
		.st_name = name[0] ? add_string(elf, name) : 0,
		.st_info = ELF64_ST_INFO(bind, type),
		.st_shndx = section,
		.st_value = value,
		.st_size = size,
	};
}

static size_t add_data(struct elf *elf, const void *data, size_t n)
{
	size_t at = elf->size;

	assert_true(at + n <= sizeof(elf->data));
	memcpy(elf->data + at, data, n);
	elf->size = at + ((n + 7) & ~(size_t)7);
	return at;
}

static uint32_t add_section(struct elf *elf, Elf64_Shdr shdr, const char *name, const void *data,
			    size_t n)
{
	if (data) {
		shdr.sh_offset = add_data(elf, data, n);
		shdr.sh_size = n;
	}
	shdr.sh_name = add_string(elf, name);
	elf->sections[elf->n_sections] = shdr;
	return (uint32_t)elf->n_sections++;
}

static struct elf *elf_create(void)
{
	struct elf *elf = calloc(1, sizeof(*elf));

	assert_non_null(elf);
	elf->size = sizeof(Elf64_Ehdr);
	elf->n_sections = 1;
	elf->n_symbols = 1;
	elf->n_strings = 1;
	return elf;
}

static void add_code_sections(struct elf *elf)
{
	Elf64_Shdr text = { .sh_type = SHT_PROGBITS,
			    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			    .sh_addr = TEXT,
			    .sh_size = 0x1000 };

	add_section(elf, text, ".text", NULL, 0);
	text.sh_addr = TEXT2;
	add_section(elf, text, ".text2", NULL, 0);
}

/* symtab_type: SHT_SYMTAB, SHT_DYNSYM, or 0 for none. */
static void elf_finish(struct elf *elf, uint32_t symtab_type)
{
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_shentsize = sizeof(Elf64_Shdr),
	};
	Elf64_Shdr symtab = { .sh_type = symtab_type, .sh_entsize = sizeof(Elf64_Sym) };
	Elf64_Shdr strtab = { .sh_type = SHT_STRTAB };

	if (symtab_type) {
		symtab.sh_link = (uint32_t)elf->n_sections + 1;
		add_section(elf, symtab, "symbols", elf->symbols,
			    elf->n_symbols * sizeof(elf->symbols[0]));
	}
	strtab.sh_name = add_string(elf, "strings");
	strtab.sh_size = elf->n_strings;
	strtab.sh_offset = add_data(elf, elf->strings, elf->n_strings);
	elf->sections[elf->n_sections++] = strtab;
	ehdr.e_shnum = (uint16_t)elf->n_sections;
	ehdr.e_shstrndx = (uint16_t)(elf->n_sections - 1);
	ehdr.e_shoff = add_data(elf, elf->sections, elf->n_sections * sizeof(elf->sections[0]));
	memcpy(elf->data, &ehdr, sizeof(ehdr));
}

struct named {
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_native_stack stack;
	struct vt_arena arena;
};

static void named_deinit(struct named *named)
{
	vt_vec_deinit(&named->modules.modules);
	vt_native_stack_deinit(&named->stack);
	vt_arena_deinit(&named->arena);
}

static void add_frame(struct named *named, uint64_t pc, bool activation)
{
	struct vt_native_frame *frame = vt_vec_append(&named->stack.frames);

	assert_non_null(frame);
	*frame = (struct vt_native_frame){ .pc = pc, .activation = activation };
}

static void symbolise(struct named *named, const uint8_t *image, size_t size)
{
	struct vt_module *module = vt_vec_append(&named->modules.modules);

	assert_non_null(module);
	named->modules.maps = &named->maps;
	*module = (struct vt_module){ .path = "/lib/libmade.so",
				      .start = BIAS,
				      .end = BIAS + 0x1000000,
				      .bias = BIAS,
				      .fd = -1,
				      .opened = true,
				      .image = image,
				      .image_size = size };
	assert_null(vt_native_symbolise(&named->modules, &named->stack, 1, &named->arena));
}

/* The name that the instruction at this address gets; NULL for none. */
static void check_name(struct elf *elf, uint64_t vaddr, const char *want, uint64_t offset)
{
	struct named named = { 0 };
	const struct vt_native_frame *frame;

	add_frame(&named, BIAS + vaddr, true);
	symbolise(&named, elf->data, elf->size);
	frame = &named.stack.frames.data[0];
	assert_int_equal(frame->module_offset, vaddr);
	if (!want) {
		if (frame->symbol)
			fail_msg("0x%llx is named %s", (unsigned long long)vaddr, frame->symbol);
		assert_null(frame->function);
	} else {
		if (!frame->symbol || strcmp(frame->symbol, want) != 0)
			fail_msg("0x%llx is named %s, not %s", (unsigned long long)vaddr,
				 frame->symbol ? frame->symbol : "(nothing)", want);
		assert_int_equal(frame->function_offset, offset);
	}
	named_deinit(&named);
}

static struct elf *elf_with_symbols(uint32_t symtab_type)
{
	struct elf *elf = elf_create();

	add_code_sections(elf);
	add_symbol(elf, "file.c", 0, 0, STB_LOCAL, STT_FILE, SHN_ABS);
	add_symbol(elf, "first", TEXT + 0x10, 0x20, STB_GLOBAL, STT_FUNC, 1);
	/* a label inside a function, one behind its end, one in front of everything */
	add_symbol(elf, "inner", TEXT + 0x18, 0, STB_LOCAL, STT_NOTYPE, 1);
	add_symbol(elf, "behind", TEXT + 0x40, 0, STB_LOCAL, STT_NOTYPE, 1);
	add_symbol(elf, "leading", TEXT + 0x4, 0, STB_GLOBAL, STT_FUNC, 1);
	/* aliases, in both orders */
	add_symbol(elf, "alias_local", TEXT + 0x100, 0x10, STB_LOCAL, STT_FUNC, 1);
	add_symbol(elf, "alias_weak", TEXT + 0x100, 0x10, STB_WEAK, STT_FUNC, 1);
	add_symbol(elf, "alias_global", TEXT + 0x100, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "other_global", TEXT + 0x110, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "other_weak", TEXT + 0x110, 0x10, STB_WEAK, STT_FUNC, 1);
	add_symbol(elf, "other_local", TEXT + 0x110, 0x10, STB_LOCAL, STT_FUNC, 1);
	/* one inside another */
	add_symbol(elf, "outer", TEXT + 0x200, 0x100, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "nested", TEXT + 0x240, 0x20, STB_GLOBAL, STT_FUNC, 1);
	/* what is no function, or nowhere */
	add_symbol(elf, "object", TEXT + 0x400, 0x100, STB_GLOBAL, STT_OBJECT, 1);
	add_symbol(elf, "undefined", TEXT + 0x410, 0x100, STB_GLOBAL, STT_FUNC, SHN_UNDEF);
	add_symbol(elf, "wraps", TEXT + 0x420, UINT64_MAX - 8, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "", TEXT + 0x430, 0x100, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "resolver", TEXT + 0x600, 0x10, STB_GLOBAL, STT_GNU_IFUNC, 1);
	add_symbol(elf, "_ZN3foo3barEv.cold", TEXT + 0x700, 0x10, STB_LOCAL, STT_FUNC, 1);
	add_symbol(elf, "last", TEXT + 0xff0, 0, STB_GLOBAL, STT_NOTYPE, 1);
	elf_finish(elf, symtab_type);
	return elf;
}

/* As in .dynsym, or after strip -x: what runs behind a label may be a function without a name. */
static void test_labels_without_locals(void **state)
{
	struct elf *elf = elf_create();

	(void)state;
	add_code_sections(elf);
	add_symbol(elf, "first", TEXT + 0x10, 0x20, STB_GLOBAL, STT_FUNC, 1);
	add_symbol(elf, "memset", TEXT + 0x40, 0, STB_GLOBAL, STT_FUNC, 1);
	elf_finish(elf, SHT_DYNSYM);
	check_name(elf, TEXT + 0x14, "first", 4);
	check_name(elf, TEXT + 0x40, NULL, 0);
	check_name(elf, TEXT + 0x180, NULL, 0);
	free(elf);
}

static void check_all_names(struct elf *elf)
{
	check_name(elf, TEXT, NULL, 0);
	check_name(elf, TEXT + 0x8, "leading", 4);
	check_name(elf, TEXT + 0x10, "first", 0);
	check_name(elf, TEXT + 0x1c, "first", 0xc);
	check_name(elf, TEXT + 0x2f, "first", 0x1f);
	/* padding behind a function: the labels before its end are not what runs there */
	check_name(elf, TEXT + 0x30, NULL, 0);
	check_name(elf, TEXT + 0x40, "behind", 0);
	check_name(elf, TEXT + 0x60, "behind", 0x20);
	check_name(elf, TEXT + 0x108, "alias_global", 8);
	check_name(elf, TEXT + 0x118, "other_global", 8);
	check_name(elf, TEXT + 0x210, "outer", 0x10);
	check_name(elf, TEXT + 0x250, "nested", 0x10);
	check_name(elf, TEXT + 0x270, "outer", 0x70);
	check_name(elf, TEXT + 0x300, NULL, 0);
	check_name(elf, TEXT + 0x440, NULL, 0);
	check_name(elf, TEXT + 0x604, "resolver", 4);
	check_name(elf, TEXT + 0x704, "_ZN3foo3barEv.cold", 4);
	check_name(elf, TEXT + 0xff8, "last", 8);
	/* not across the end of a section, nor outside of all */
	check_name(elf, TEXT2 + 8, NULL, 0);
	check_name(elf, 0x8000, NULL, 0);
}

static void test_names(void **state)
{
	struct elf *elf = elf_with_symbols(SHT_SYMTAB);

	(void)state;
	check_all_names(elf);
	free(elf);
	elf = elf_with_symbols(SHT_DYNSYM);
	check_all_names(elf);
	free(elf);
}

/*
 * All at once gives what one by one gives, in any order, and return addresses belong to the call
 * before them.
 */
static void test_names_at_once(void **state)
{
	struct elf *elf = elf_with_symbols(SHT_SYMTAB);
	struct named all = { 0 };

	(void)state;
	srand(4);
	for (int i = 0; i < 3000; i++)
		add_frame(&all, BIAS + (uint64_t)rand() % 0x4000, rand() % 2);
	add_frame(&all, 0x1234, true);
	symbolise(&all, elf->data, elf->size);
	for (size_t i = 0; i < all.stack.frames.n; i++) {
		const struct vt_native_frame *frame = &all.stack.frames.data[i];
		struct named one = { 0 };
		const char *symbol;

		add_frame(&one, frame->pc - !frame->activation, true);
		symbolise(&one, elf->data, elf->size);
		symbol = one.stack.frames.data[0].symbol;
		assert_int_equal(!symbol, !frame->symbol);
		if (symbol)
			assert_string_equal(symbol, frame->symbol);
		named_deinit(&one);
	}
	assert_null(all.stack.frames.data[3000].module);
	named_deinit(&all);
	free(elf);
}

static void test_demangled(void **state)
{
	struct elf *elf = elf_with_symbols(SHT_SYMTAB);
	struct named named = { 0 };

	(void)state;
	add_frame(&named, BIAS + TEXT + 0x708, false);
	add_frame(&named, BIAS + TEXT + 0x10, false);
	named.stack.frames.data[1].signal = true;
	symbolise(&named, elf->data, elf->size);
	assert_string_equal(named.stack.frames.data[0].function, "foo::bar");
	assert_string_equal(named.stack.frames.data[1].function, "<signal handler called>");
	assert_string_equal(named.stack.frames.data[1].symbol, "first");
	named_deinit(&named);
	free(elf);
}

/* The symbols that .dynsym lacks, packed into a section. */
static struct elf *elf_with_debugdata(const struct elf *inner)
{
	struct elf *elf = elf_create();
	Elf64_Shdr packed = { .sh_type = SHT_PROGBITS };
	static uint8_t buf[65536];
	size_t n = 0;

	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, inner->data,
						 inner->size, buf, &n, sizeof(buf)),
			 LZMA_OK);
	add_code_sections(elf);
	add_section(elf, packed, ".gnu_debugdata", buf, n);
	add_symbol(elf, "exported", TEXT + 0x800, 0x10, STB_GLOBAL, STT_FUNC, 1);
	elf_finish(elf, SHT_DYNSYM);
	return elf;
}

static void test_debugdata(void **state)
{
	struct elf *inner = elf_with_symbols(SHT_SYMTAB);
	struct elf *elf = elf_with_debugdata(inner);

	(void)state;
	check_name(elf, TEXT + 0x804, "exported", 4);
	check_name(elf, TEXT + 0x1c, "first", 0xc);
	check_name(elf, TEXT + 0x30, NULL, 0);
	/* damaged in the packed part: fewer names, no harm */
	srand(5);
	for (int round = 0; round < 200; round++) {
		struct elf *bad = malloc(sizeof(*bad));
		struct named named = { 0 };

		assert_non_null(bad);
		*bad = *elf;
		for (int i = 0; i < 3; i++)
			bad->data[elf->sections[3].sh_offset +
				  (size_t)rand() % elf->sections[3].sh_size] = (uint8_t)rand();
		add_frame(&named, BIAS + TEXT + 0x1c, true);
		symbolise(&named, bad->data, bad->size);
		named_deinit(&named);
		free(bad);
	}
	free(inner);
	free(elf);
}

static void test_plt(void **state)
{
	/* push; jmp *slot(%rip) as linkers write it, after endbr64 */
	uint8_t stubs[64] = { 0 };
	/* and two in .plt.got, without: 8 bytes each */
	uint8_t short_stubs[16] = "\xff\x25....\x66\x90\xff\x25....\x66\x90";
	int32_t disp = (int32_t)(SLOT - (PLT + 16 + 4 + 6));
	Elf64_Shdr plt = { .sh_type = SHT_PROGBITS,
			   .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			   .sh_addr = PLT };
	Elf64_Shdr relocs = { .sh_type = SHT_RELA, .sh_entsize = sizeof(Elf64_Rela), .sh_link = 6 };
	Elf64_Rela rela[2] = {
		{ .r_offset = SLOT - 8, .r_info = ELF64_R_INFO(1, R_X86_64_JUMP_SLOT) },
		{ .r_offset = SLOT, .r_info = ELF64_R_INFO(2, R_X86_64_JUMP_SLOT) },
	};
	Elf64_Shdr plt_got = plt;
	struct elf *elf = elf_create();

	(void)state;
	plt_got.sh_addr = PLT + 0x100;
	plt_got.sh_entsize = 8;
	for (int32_t i = 0; i < 2; i++) {
		int32_t short_disp = (int32_t)(SLOT - 8 - (PLT + 0x100) - 6);

		/* the second slot is 8 bytes on, and so is the second stub */
		memcpy(short_stubs + 8 * i + 2, &short_disp, sizeof(short_disp));
	}
	memcpy(stubs + 16, "\xf3\x0f\x1e\xfa\xff\x25", 6);
	memcpy(stubs + 22, &disp, sizeof(disp));
	add_code_sections(elf);
	add_section(elf, plt, ".plt.sec", stubs, sizeof(stubs));
	add_section(elf, relocs, ".rela.plt", rela, sizeof(rela));
	add_section(elf, plt_got, ".plt.got", short_stubs, sizeof(short_stubs));
	add_symbol(elf, "malloc", 0, 0, STB_GLOBAL, STT_FUNC, SHN_UNDEF);
	add_symbol(elf, "_ZN3foo3barEv", 0, 0, STB_GLOBAL, STT_FUNC, SHN_UNDEF);
	elf_finish(elf, SHT_DYNSYM);
	check_name(elf, PLT + 16, "_ZN3foo3barEv@plt", 0);
	check_name(elf, PLT + 20, "_ZN3foo3barEv@plt", 4);
	check_name(elf, PLT, NULL, 0);
	check_name(elf, PLT + 0x100, "malloc@plt", 0);
	check_name(elf, PLT + 0x108, "_ZN3foo3barEv@plt", 0);
	check_name(elf, PLT + 0x10a, "_ZN3foo3barEv@plt", 2);
	free(elf);
}

/*
 * Without section headers, as in the memory of a process: the dynamic symbols are found as the
 * loader finds them.
 */
static void test_without_sections(void **state)
{
	struct named named = { 0 };
	struct self self;
	struct vt_module *libc;
	uint64_t value;
	size_t index = 0;
	uint8_t *image;

	(void)state;
	self_init(&self);
	libc = vt_modules_by_name(&self.modules, "libc.so.6", &index);
	assert_non_null(libc);
	assert_null(vt_module_open(&self.modules, libc));
	value = vt_modules_symbol(&self.modules, "libc.so.6", "qsort") - libc->bias;
	image = malloc((size_t)libc->image_size);
	assert_non_null(image);
	memcpy(image, libc->image, (size_t)libc->image_size);
	memset(image + offsetof(Elf64_Ehdr, e_shoff), 0, sizeof(Elf64_Off));
	memset(image + offsetof(Elf64_Ehdr, e_shnum), 0, 2 * sizeof(Elf64_Half));
	add_frame(&named, BIAS + value + 3, true);
	symbolise(&named, image, (size_t)libc->image_size);
	assert_string_equal(named.stack.frames.data[0].symbol, "qsort");
	assert_int_equal(named.stack.frames.data[0].function_offset, 3);
	named_deinit(&named);

	/* damaged anywhere: fewer names, no harm */
	srand(9);
	for (int round = 0; round < 300; round++) {
		struct named bad = { 0 };
		size_t at = (size_t)rand() % (round % 2 ? 1024 : 65536);

		image[at] = (uint8_t)rand();
		add_frame(&bad, BIAS + value + 3, true);
		symbolise(&bad, image, (size_t)libc->image_size);
		named_deinit(&bad);
	}
	free(image);
	self_deinit(&self);
}

/* The whole file with bytes changed, cut off, and ending at an unmapped page. */
static void test_damaged_file(void **state)
{
	struct elf *inner = elf_with_symbols(SHT_SYMTAB);
	struct elf *const files[] = { elf_with_symbols(SHT_SYMTAB), elf_with_debugdata(inner) };
	size_t room = sizeof(files[0]->data);
	uint8_t *p =
		mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + room, PAGE, PROT_NONE), 0);
	srand(6);
	for (int round = 0; round < 2000; round++) {
		const struct elf *elf = files[round % 2];
		size_t n = round % 5 ? elf->size : (size_t)rand() % elf->size;
		uint8_t *image = p + room - n;
		struct named named = { 0 };

		memcpy(image, elf->data, n);
		for (int i = 0; i < round % 12; i++) {
			/* headers of the file, headers of sections, anything */
			size_t at = i % 3 == 0 ? (size_t)rand() % 64 :
				    i % 3 == 1 ? elf->size - (size_t)rand() % 600 - 1 :
						 (size_t)rand();

			image[at % n] = (uint8_t)(rand() % 2 ? rand() : 255);
		}
		for (int i = 0; i < 50; i++)
			add_frame(&named, BIAS + (uint64_t)rand() % 0x4000, rand() % 2);
		symbolise(&named, image, n);
		named_deinit(&named);
	}
	munmap(p, room + PAGE);
	free(inner);
	free(files[0]);
	free(files[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_stack),
		cmocka_unit_test(test_own_handler),
		cmocka_unit_test(test_deep_recursion),
		cmocka_unit_test(test_hurry),
		cmocka_unit_test(test_frame_records),
		cmocka_unit_test(test_bad_call),
		cmocka_unit_test(test_unknown_registers),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_random_stacks),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_labels_without_locals),
		cmocka_unit_test(test_names_at_once),
		cmocka_unit_test(test_demangled),
		cmocka_unit_test(test_debugdata),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_damaged_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
