/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of this very process, compared with what its own dynamic loader says; and damaged
 * files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/elfsym.h"

struct view {
	struct vt_maps maps;
	struct vt_modules modules;
};

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static void look(struct view *view)
{
	*view = (struct view){ 0 };
	succeed(vt_maps_init(&view->maps, getpid()));
	succeed(vt_modules_init(&view->modules, getpid(), &view->maps));
}

static void unlook(struct view *view)
{
	vt_modules_deinit(&view->modules);
	vt_maps_deinit(&view->maps);
}

/* Build id by the loader's program headers, from memory. */
static size_t build_id_of(const struct dl_phdr_info *info, const uint8_t **id)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uint8_t *p = (const uint8_t *)(info->dlpi_addr + phdr->p_vaddr);
		const uint8_t *end = p + phdr->p_memsz;
		size_t align = phdr->p_align == 8 ? 8 : 4;

		while (phdr->p_type == PT_NOTE && p + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const void *)p;
			size_t name = (note->n_namesz + align - 1) & ~(align - 1);

			if (note->n_type == NT_GNU_BUILD_ID &&
			    !memcmp(p + sizeof(*note), "GNU", 4)) {
				*id = p + sizeof(*note) + name;
				return note->n_descsz;
			}
			p += sizeof(*note) + name + ((note->n_descsz + align - 1) & ~(align - 1));
		}
	}
	return 0;
}

static int compare_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct view *view = arg;
	struct vt_module *module = NULL;
	const uint8_t *id = NULL;
	size_t n;
	(void)size;

	for (int i = 0; i < info->dlpi_phnum && !module; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
			module = vt_modules_find(&view->modules,
						 info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	assert_non_null(module);
	succeed(vt_module_open(&view->modules, module));
	succeed(vt_module_open(&view->modules, module));
	assert_int_equal(module->bias, info->dlpi_addr);
	n = build_id_of(info, &id);
	assert_int_equal(module->build_id_len, n);
	if (n)
		assert_memory_equal(module->build_id, id, n);
	if (strstr(info->dlpi_name, "vdso"))
		assert_int_equal(module->fd, -1);
	else
		assert_true(module->fd >= 0);
	return 0;
}

static void equals_what_the_loader_says(void **state)
{
	struct view view;
	(void)state;

	look(&view);
	assert_true(view.modules.modules.n >= 4);
	dl_iterate_phdr(compare_module, &view);
	for (size_t i = 1; i < view.modules.modules.n; i++)
		assert_true(view.modules.modules.data[i - 1].end <=
			    view.modules.modules.data[i].start);
	assert_null(vt_modules_find(&view.modules, 0));
	assert_null(vt_modules_find(&view.modules, UINT64_MAX));
	assert_null(vt_modules_find(&view.modules, (uintptr_t)&view));
	unlook(&view);
}

/*
 * Functions and objects, in the default and in older versions, that are no indirect functions in
 * any glibc.
 */
static const char *const names[] = {
	"malloc",
	"free",
	"printf",
	"pthread_create",
	"dlopen",
	"environ",
	"stdout",
	"getenv",
	"qsort",
	"fopen",
	"realpath",
	"posix_spawn",
	"sched_getaffinity",
	"timer_create",
	"memfd_create",
	"regexec",
	"glob",
	"nftw",
	"pthread_cond_wait",
	"sem_post",
	"fork",
	"execve",
	"__libc_start_main",
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static void symbols_equal_dlsym(void **state)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	uint64_t addrs[N_NAMES], begin_ns;
	struct vt_module *module;
	struct view view;
	size_t index = 0;
	(void)state;

	assert_non_null(libc);
	look(&view);
	module = vt_modules_by_name(&view.modules, "libc.so", &index);
	assert_non_null(module);
	begin_ns = vt_now_ns();
	succeed(vt_module_dynsyms(&view.modules, module, names, N_NAMES, addrs));
	print_message("%zu symbols of libc: %.3f ms\n", N_NAMES,
		      (double)(vt_now_ns() - begin_ns) / VT_NS_PER_MS);
	for (size_t i = 0; i < N_NAMES; i++) {
		void *truth = dlsym(libc, names[i]);

		if ((uint64_t)(uintptr_t)truth != addrs[i])
			fail_msg("%s: %p, not %#llx", names[i], truth,
				 (unsigned long long)addrs[i]);
		assert_non_null(truth);
	}
	assert_int_equal(vt_modules_symbol(&view.modules, "libc.so", "no_such_symbol_anywhere"), 0);
	assert_int_equal(vt_modules_symbol(&view.modules, "no_such_module", "malloc"), 0);
	assert_int_equal(vt_modules_symbol(&view.modules, NULL, "cm_print_error"),
			 (uintptr_t)dlsym(NULL, "cm_print_error"));
	/*
	 * Undefined in the program, so not found there; an indirect function; a thread-local
	 * variable.
	 */
	assert_int_equal(vt_modules_symbol(&view.modules, "libc.so", "strlen"), 0);
	assert_int_equal(vt_modules_symbol(&view.modules, "libc.so", "errno"), 0);
	assert_int_equal(vt_modules_symbol(&view.modules, "libc.so", ""), 0);
	dlclose(libc);
	unlook(&view);
}

static void the_vdso_is_read_from_memory(void **state)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR), addr;
	struct vt_module *module;
	struct view view;
	(void)state;

	if (!base)
		skip();
	look(&view);
	module = vt_modules_find(&view.modules, base);
	assert_non_null(module);
	assert_string_equal(module->path, "[vdso]");
	addr = vt_modules_symbol(&view.modules, "[vdso]", "__vdso_clock_gettime");
	assert_true(addr > base && addr < module->end);
	assert_int_equal(module->bias, base);
	assert_true(module->build_id_len > 0);
	unlook(&view);
}

/* A copy of a small library in a directory of its own. */
struct copy {
	char dir[64];
	char path[96];
	uint8_t *bytes;
	size_t n;
};

static void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *fp = fopen(path, "w");

	assert_non_null(fp);
	assert_int_equal(fwrite(bytes, 1, n, fp), n);
	assert_int_equal(fclose(fp), 0);
}

static void copy_library(struct copy *copy)
{
	Dl_info info;
	FILE *fp;

	/* The one that holds this function of cmocka is small. */
	assert_true(dladdr(dlsym(NULL, "cm_print_error"), &info));
	fp = fopen(info.dli_fname, "r");
	assert_non_null(fp);
	copy->bytes = malloc(1 << 20);
	copy->n = fread(copy->bytes, 1, 1 << 20, fp);
	fclose(fp);
	assert_true(copy->n > 10000 && copy->n < 1 << 20);
	strcpy(copy->dir, "/tmp/vramtap-test-XXXXXX");
	assert_non_null(mkdtemp(copy->dir));
	chmod(copy->dir, 0755);
	snprintf(copy->path, sizeof(copy->path), "%s/libcopy.so.1", copy->dir);
	write_file(copy->path, copy->bytes, copy->n);
	chmod(copy->path, 0755);
}

static void remove_copy(struct copy *copy)
{
	unlink(copy->path);
	rmdir(copy->dir);
	free(copy->bytes);
}

/*
 * The copy is loaded and then deleted, or replaced; with and without the privilege that map_files
 * needs.
 */
static void deleted_and_replaced(struct copy *copy, bool replaced, bool privileged)
{
	void *handle = dlopen(copy->path, RTLD_NOW | RTLD_LOCAL);
	struct vt_module *module;
	struct view view;
	void *truth;
	uint64_t addr;
	size_t index = 0;

	assert_non_null(handle);
	truth = dlsym(handle, "cm_print_error");
	assert_non_null(truth);
	assert_int_equal(unlink(copy->path), 0);
	if (replaced) {
		/* As an upgrade does it: the same name, another build. */
		copy->bytes[700] ^= 0xff;
		write_file(copy->path, copy->bytes, copy->n);
		chmod(copy->path, 0755);
	}
	if (!privileged && geteuid() == 0) {
		assert_int_equal(setgid(65534) | setuid(65534), 0);
		prctl(PR_SET_DUMPABLE, 1);
	}
	look(&view);
	module = vt_modules_by_name(&view.modules, "libcopy.so", &index);
	assert_non_null(module);
	assert_string_equal(module->path, copy->path);
	assert_true(module->deleted);
	addr = vt_modules_symbol(&view.modules, "libcopy.so", "cm_print_error");
	assert_int_equal(addr, (uintptr_t)truth);
	assert_true(privileged ? module->fd >= 0 : module->fd == -1);
	assert_true(module->build_id_len > 0);
	unlook(&view);
}

static void deleted_and_replaced_files(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct copy copy;
		int status;
		pid_t pid;

		if (i % 2 && geteuid() != 0)
			continue;
		copy_library(&copy);
		pid = fork();
		if (pid == 0) {
			deleted_and_replaced(&copy, i / 2, i % 2);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		remove_copy(&copy);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* Device and inode that do not match (overlayfs, btrfs): the contents decide. */
static void device_numbers_that_differ(void **state)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	struct vt_module *module;
	struct view view;
	size_t index = 0;
	(void)state;

	look(&view);
	for (size_t i = 0; i < view.maps.entries.n; i++)
		view.maps.entries.data[i].dev_minor ^= 0x55;
	module = vt_modules_by_name(&view.modules, "libc.so", &index);
	assert_non_null(module);
	succeed(vt_module_open(&view.modules, module));
	assert_true(module->fd >= 0);
	assert_int_equal(vt_modules_symbol(&view.modules, "libc.so", "malloc"),
			 (uintptr_t)dlsym(libc, "malloc"));
	dlclose(libc);
	unlook(&view);
}

/*
 * A file that is mapped as the loader would do it, whatever it holds: one page to read, one to
 * execute.
 */
static void *map_like_a_library(const char *path, size_t code_offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *base = mmap(NULL, 1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(fd >= 0);
	assert_ptr_not_equal(mmap(base, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0),
			     MAP_FAILED);
	assert_ptr_not_equal(mmap(base + (code_offset ? code_offset : 8192), 4096,
				  PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
				  (off_t)code_offset),
			     MAP_FAILED);
	close(fd);
	return base;
}

static size_t code_offset_of(const uint8_t *bytes)
{
	const Elf64_Ehdr *ehdr = (const void *)bytes;
	const Elf64_Phdr *phdr = (const void *)(bytes + ehdr->e_phoff);

	for (int i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_X)
			return phdr[i].p_offset & ~(size_t)4095;
	return 0;
}

/*
 * Opens the module and looks names up; must neither crash nor hang. Returns whether the good name
 * was found.
 */
static bool try_damaged(const struct copy *copy, const uint8_t *bytes, size_t n, size_t code_offset)
{
	static const char *const wanted[] = { "cm_print_error", "no_such_symbol", "" };
	uint64_t addrs[3] = { 0 };
	struct vt_module *module;
	struct view view;
	size_t index = 0;
	bool found;
	void *base;

	unlink(copy->path);
	write_file(copy->path, bytes, n);
	base = map_like_a_library(copy->path, code_offset);
	look(&view);
	module = vt_modules_by_name(&view.modules, "libcopy.so", &index);
	assert_non_null(module);
	vt_error_destroy(vt_module_dynsyms(&view.modules, module, wanted, 3, addrs));
	found = addrs[0];
	unlook(&view);
	munmap(base, 1 << 22);
	return found;
}

static void damaged_files(void **state)
{
	struct copy copy;
	uint8_t *bytes;
	size_t code_offset;
	int found = 0;
	(void)state;

	copy_library(&copy);
	code_offset = code_offset_of(copy.bytes);
	bytes = malloc(copy.n);
	assert_true(try_damaged(&copy, copy.bytes, copy.n, code_offset));
	srand(3);
	for (int round = 0; round < 400; round++) {
		size_t n = copy.n;

		memcpy(bytes, copy.bytes, n);
		for (int k = 1 + rand() % 8; k > 0; k--) {
			/*
			 * Mostly headers, hash table, symbols; sometimes anywhere (the dynamic
			 * section lies near the end).
			 */
			size_t where = (size_t)rand() % (round % 3 == 0 ? copy.n :
							 round % 3 == 1 ? 1024 :
									  8192);

			switch (rand() % 3) {
			case 0:
				bytes[where] = (uint8_t)rand();
				break;
			case 1:
				memset(bytes + where, rand() % 2 ? 0xff : 0,
				       copy.n - where < 8 ? copy.n - where : 8);
				break;
			default:
				bytes[where] ^= (uint8_t)(1 << rand() % 8);
			}
		}
		if (round % 10 == 0)
			n = (size_t)rand() % copy.n;
		found += try_damaged(&copy, bytes, n < 1 ? 1 : n, code_offset);
	}
	/*
	 * The test is only worth something if a good part of the damage was survived, and a good
	 * part noticed.
	 */
	assert_true(found > 20 && found < 380);
	free(bytes);
	remove_copy(&copy);
}

/* All of the SysV hash table points at itself: an endless chain. */
static void cyclic_hash_chain(void **state)
{
	enum {
		SIZE = 16384,
		TABLE = 0x400,
		SYMTAB = 0x2000,
		STRTAB = 0x3000,
		DYNAMIC = 0x200,
		N_SYMBOLS = 64
	};
	static const char name[] = "cm_print_error";
	uint8_t *bytes = calloc(1, SIZE);
	struct copy copy;
	Elf64_Ehdr ehdr = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_phoff = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
	};
	Elf64_Phdr phdrs[3] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = SIZE, .p_memsz = SIZE },
		{ .p_type = PT_DYNAMIC,
		  .p_offset = DYNAMIC,
		  .p_vaddr = DYNAMIC,
		  .p_filesz = 5 * sizeof(Elf64_Dyn) },
	};
	Elf64_Dyn dynamic[5] = {
		{ .d_tag = DT_HASH, .d_un.d_ptr = TABLE },
		{ .d_tag = DT_SYMTAB, .d_un.d_ptr = SYMTAB },
		{ .d_tag = DT_STRTAB, .d_un.d_ptr = STRTAB },
		{ .d_tag = DT_STRSZ, .d_un.d_val = 256 },
		{ .d_tag = DT_NULL },
	};
	uint32_t table[2 + 1 + N_SYMBOLS] = { 1, N_SYMBOLS, 5 };
	Elf64_Sym symbol = { .st_name = 1,
			     .st_shndx = 1,
			     .st_value = 0x123,
			     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };
	(void)state;

	copy_library(&copy);
	for (uint32_t i = 0; i < N_SYMBOLS; i++)
		table[3 + i] = 5;
	memcpy(bytes, &ehdr, sizeof(ehdr));
	memcpy(bytes + ehdr.e_phoff, phdrs, sizeof(phdrs));
	memcpy(bytes + DYNAMIC, dynamic, sizeof(dynamic));
	memcpy(bytes + TABLE, table, sizeof(table));
	memcpy(bytes + STRTAB + 1, name, sizeof(name));
	assert_false(try_damaged(&copy, bytes, SIZE, 0));
	/* The same with the symbol in the chain, as a check of the image. */
	memcpy(bytes + SYMTAB + 5 * sizeof(symbol), &symbol, sizeof(symbol));
	assert_true(try_damaged(&copy, bytes, SIZE, 0));
	free(bytes);
	remove_copy(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_what_the_loader_says),
		cmocka_unit_test(symbols_equal_dlsym),
		cmocka_unit_test(the_vdso_is_read_from_memory),
		cmocka_unit_test(deleted_and_replaced_files),
		cmocka_unit_test(device_numbers_that_differ),
		cmocka_unit_test(damaged_files),
		cmocka_unit_test(cyclic_hash_chain),
	};

	return cmocka_run_group_tests_name("elfsym", tests, NULL, NULL);
}
