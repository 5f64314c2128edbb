/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of cores, on cores that were made by hand, damaged ones among them. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/target/core/core_image.h"
#include "target/core/core.h"
#include "target/core/files.h"
#include "target/elfsym.h"

#define PAGE 4096u
#define IMAGE_MAX (8u << 20)

static uint8_t *image;

/* A file with these bytes. */
static int file_of(const uint8_t *data, size_t n)
{
	int fd = memfd_create("core", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), n);
	return fd;
}

static struct vt_core *open_image(size_t n)
{
	struct vt_core *core = NULL;
	struct vt_error *err = vt_core_open_fd(file_of(image, n), "core", &core);

	if (err)
		fail_msg("%s", err->message);
	return core;
}

static void check_refused(const uint8_t *data, size_t n, enum vt_error_code code, const char *word)
{
	struct vt_core *core = NULL;
	struct vt_error *err = vt_core_open_fd(file_of(data, n), "core", &core);

	assert_null(core);
	assert_non_null(err);
	assert_int_equal(err->code, code);
	if (!strstr(err->message, word))
		fail_msg("%s", err->message);
	vt_error_destroy(err);
}

static void check_registers(const struct vt_regs *regs)
{
	assert_int_equal(vt_regs_sp(regs), CORE_IMAGE_STACK + 256);
	assert_int_equal(vt_regs_pc(regs), CORE_IMAGE_LIB + PAGE + 16);
	assert_int_equal(regs->r[regs->arch->syscall_result], 17);
	assert_int_equal(regs->thread_pointer, CORE_IMAGE_STACK + PAGE);
	assert_int_equal(regs->unknown, 0);
	if (regs->arch == &vt_arch_x86_64) {
		assert_int_equal(regs->syscall_nr, -1);
		assert_int_equal(regs->pac, 0);
	} else {
		assert_ptr_equal(regs->arch, &vt_arch_aarch64);
		assert_int_equal(regs->syscall_nr, 98);
		assert_int_equal(regs->pac, CORE_IMAGE_PAC);
	}
}

static void check_whole(struct vt_core *core)
{
	assert_int_equal(core->threads.n, 2);
	assert_int_equal(core->threads.data[0].tid, CORE_IMAGE_PID);
	assert_int_equal(core->threads.data[1].tid, CORE_IMAGE_PID + 1);
	assert_int_equal(core->threads.data[0].signal, SIGSEGV);
	assert_true(core->threads.data[0].have_info);
	assert_false(core->threads.data[1].have_info);
	assert_int_equal(core->threads.data[0].info_address, 0x10);
	check_registers(&core->threads.data[1].regs);
	assert_int_equal(core->pid, CORE_IMAGE_PID);
	assert_int_equal(core->uid, 1000);
	assert_string_equal(core->name, "train");
	assert_string_equal(core->args, "train --fast");
	assert_int_equal(vt_core_auxv(core, AT_ENTRY), CORE_IMAGE_LIB + PAGE);
	assert_int_equal(vt_core_auxv(core, AT_PHDR), 0);
	assert_int_equal(core->missing_bytes, 0);
}

static void check_maps(struct vt_core *core)
{
	static const unsigned int flags[] = { VT_MAP_READ, VT_MAP_READ | VT_MAP_EXEC, VT_MAP_READ,
					      VT_MAP_READ | VT_MAP_WRITE };
	static const unsigned int pages[] = { 1, 2, 1, 1 };
	struct vt_maps maps = { 0 };
	uint64_t at = CORE_IMAGE_LIB;

	assert_null(vt_core_maps(core, &maps));
	for (size_t i = 0; i < 4; i++) {
		const struct vt_map_entry *entry = vt_maps_find(&maps, at);

		assert_non_null(entry);
		assert_int_equal(entry->start, at);
		assert_int_equal(entry->end, at + (uint64_t)pages[i] * PAGE);
		assert_int_equal(entry->offset, at - CORE_IMAGE_LIB);
		assert_int_equal(entry->flags, flags[i]);
		assert_string_equal(entry->path, CORE_IMAGE_PATH);
		assert_int_equal(entry->inode, maps.entries.data[0].inode ?
						       maps.entries.data[0].inode :
						       entry->inode);
		at = entry->end;
	}
	assert_non_null(vt_maps_find(&maps, CORE_IMAGE_STACK));
	assert_string_equal(vt_maps_find(&maps, CORE_IMAGE_STACK)->path, "");
	assert_null(vt_maps_find(&maps, CORE_IMAGE_STACK + (uint64_t)2 * PAGE));
	vt_maps_deinit(&maps);
}

static void check_memory(struct vt_core *core)
{
	struct vt_memsrc *raw = vt_core_raw_source(core);
	uint8_t byte, many[PAGE];

	for (uint64_t at = CORE_IMAGE_STACK; at < CORE_IMAGE_STACK + (uint64_t)2 * PAGE;
	     at += 509) {
		assert_int_equal(vt_mem_read(raw, at, &byte, 1), 0);
		assert_int_equal(byte, (uint8_t)(at >> 4));
	}
	assert_int_equal(vt_mem_read(raw, CORE_IMAGE_STACK + PAGE - 100, many, 200), 0);
	assert_int_equal(many[199], (uint8_t)((CORE_IMAGE_STACK + PAGE + 99) >> 4));
	assert_int_equal(vt_mem_read(raw, CORE_IMAGE_STACK + (uint64_t)2 * PAGE - 100, many, 200),
			 -EFAULT);
	assert_int_equal(raw->fault_addr, CORE_IMAGE_STACK + (uint64_t)2 * PAGE);
	/* code, which is not in the core, and nothing at all */
	assert_int_equal(vt_mem_read(raw, CORE_IMAGE_LIB + PAGE, &byte, 1), -EFAULT);
	assert_int_equal(vt_mem_read(vt_core_source(core), CORE_IMAGE_LIB + PAGE, &byte, 1),
			 -EFAULT);
	assert_int_equal(vt_mem_read(raw, 0, &byte, 1), -EFAULT);
	assert_int_equal(vt_mem_read(raw, UINT64_MAX, &byte, 1), -EFAULT);
	assert_int_equal(vt_mem_read(raw, UINT64_MAX - 7, many, 100), -EFAULT);
}

static void test_of_the_kernel(void **state)
{
	struct vt_core *core =
		open_image(core_image_make(&(struct core_image_options){ 0 }, image, IMAGE_MAX));

	(void)state;
	check_whole(core);
	assert_true(core->by_kernel);
	check_maps(core);
	check_memory(core);
	vt_core_close(core);
}

static void test_of_gdb(void **state)
{
	struct vt_core *core = open_image(core_image_make(
		&(struct core_image_options){ .like_gdb = true }, image, IMAGE_MAX));

	(void)state;
	check_whole(core);
	check_maps(core); /* with the flags that the program headers in memory have */
	check_memory(core);
	vt_core_close(core);
}

/* Any build reads it. */
static void test_of_aarch64(void **state)
{
	(void)state;
	for (int like_gdb = 0; like_gdb < 2; like_gdb++) {
		struct vt_core *core = open_image(core_image_make(
			&(struct core_image_options){ .machine = EM_AARCH64, .like_gdb = like_gdb },
			image, IMAGE_MAX));

		assert_ptr_equal(core->arch, &vt_arch_aarch64);
		check_whole(core);
		check_maps(core);
		check_memory(core);
		vt_core_close(core);
	}
}

/* The kernel that it was written under may have larger pages than ours. */
static void test_larger_pages(void **state)
{
	struct vt_core *core = open_image(
		core_image_make(&(struct core_image_options){ .coarse = true, .like_gdb = true },
				image, IMAGE_MAX));

	(void)state;
	check_maps(core);
	vt_core_close(core);
}

static void test_many_segments(void **state)
{
	struct vt_core *core = open_image(core_image_make(
		&(struct core_image_options){ .segments = 70000 }, image, IMAGE_MAX));

	(void)state;
	assert_int_equal(core->segments.n, 70005);
	check_whole(core);
	check_maps(core);
	check_memory(core);
	vt_core_close(core);
}

/* The build id is known by the memory alone; no file of that name is there. */
static void check_module_without_file(const struct core_image_options *options)
{
	struct vt_core *core = open_image(core_image_make(options, image, IMAGE_MAX));
	struct vt_core_paths paths = { 0 };
	struct vt_files *files = NULL;
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_module *module;

	assert_null(vt_core_maps(core, &maps));
	assert_null(vt_core_files_create(core, &maps, &paths, &files));
	assert_null(vt_modules_init_files(&modules, files, &maps));
	modules.arch = core->arch;
	assert_int_equal(modules.modules.n, 1);
	module = &modules.modules.data[0];
	assert_null(vt_module_open(&modules, module));
	assert_int_equal(module->file, VT_FILE_MISSING);
	assert_int_equal(module->build_id_len, 20);
	assert_int_equal(module->build_id[1], 0xcd);
	assert_int_equal(module->bias, CORE_IMAGE_LIB);
	vt_modules_deinit(&modules);
	vt_files_destroy(files);
	vt_maps_deinit(&maps);
	vt_core_close(core);
}

static void test_module_without_file(void **state)
{
	(void)state;
	check_module_without_file(&(struct core_image_options){ .like_gdb = true });
	check_module_without_file(
		&(struct core_image_options){ .machine = EM_AARCH64, .like_gdb = true });
	check_module_without_file(&(struct core_image_options){ .coarse = true, .like_gdb = true });
}

/*
 * Whatever is cut off, the bytes that are missing are counted, and none of them reads as anything.
 */
static void test_cut_short(void **state)
{
	size_t n = core_image_make(&(struct core_image_options){ 0 }, image, IMAGE_MAX);

	(void)state;
	for (size_t cut = 1; cut < (size_t)3 * PAGE; cut += 97) {
		struct vt_core *core = open_image(n - cut);
		struct vt_memsrc *raw = vt_core_raw_source(core);
		uint8_t bytes[2 * PAGE];

		assert_int_equal(core->missing_bytes, cut);
		if (cut < (size_t)2 * PAGE) {
			assert_int_equal(vt_mem_read(raw, CORE_IMAGE_STACK, bytes, sizeof(bytes)),
					 -EFAULT);
			assert_int_equal(raw->fault_addr, CORE_IMAGE_STACK + sizeof(bytes) - cut);
			assert_int_equal(
				vt_mem_read(raw, CORE_IMAGE_STACK, bytes, sizeof(bytes) - cut), 0);
		}
		vt_core_close(core);
	}
	n = core_image_make(&(struct core_image_options){ .like_gdb = true }, image, IMAGE_MAX);
	check_refused(image, n - 3 * PAGE, VT_ERR_FORMAT, "cut short");
	check_refused(image, 100, VT_ERR_FORMAT, "cut short");
}

/* A file that shrinks while it is read: an error, not zeros. */
static void test_shrinks(void **state)
{
	size_t n = core_image_make(&(struct core_image_options){ 0 }, image, IMAGE_MAX);
	int fd = file_of(image, n);
	struct vt_core *core = NULL;
	uint8_t bytes[16];

	(void)state;
	assert_null(vt_core_open_fd(dup(fd), "core", &core));
	assert_false(vt_core_changed(core));
	assert_int_equal(ftruncate(fd, (off_t)(n - PAGE - PAGE / 2)), 0);
	assert_true(vt_core_changed(core));
	assert_int_equal(vt_mem_read(vt_core_raw_source(core), CORE_IMAGE_STACK + PAGE + PAGE / 2,
				     bytes, sizeof(bytes)),
			 -EFAULT);
	assert_int_equal(
		vt_mem_read(vt_core_raw_source(core), CORE_IMAGE_STACK, bytes, sizeof(bytes)), 0);
	vt_core_close(core);
	close(fd);
}

static Elf64_Phdr *phdr_of(size_t i)
{
	return (Elf64_Phdr *)(void *)(image + sizeof(Elf64_Ehdr)) + i;
}

/* Segments that overlap, wrap around, or lie nowhere. */
static void test_bad_segments(void **state)
{
	size_t n = core_image_make(&(struct core_image_options){ 0 }, image, IMAGE_MAX);
	struct vt_core *core;
	uint8_t byte;

	(void)state;
	phdr_of(2)->p_vaddr = CORE_IMAGE_STACK + PAGE;
	phdr_of(3)->p_offset = UINT64_MAX - 100;
	phdr_of(3)->p_filesz = PAGE;
	phdr_of(4)->p_memsz = UINT64_MAX;
	core = open_image(n);
	for (size_t i = 1; i < core->segments.n; i++)
		assert_true(core->segments.data[i].start >= core->segments.data[i - 1].end);
	assert_int_equal(vt_mem_read(vt_core_raw_source(core), CORE_IMAGE_STACK + PAGE, &byte, 1),
			 0);
	assert_int_equal(byte, (uint8_t)((CORE_IMAGE_STACK + PAGE) >> 4));
	vt_core_close(core);
}

static void test_refused(void **state)
{
	static const uint8_t zstd[64] = { 0x28, 0xb5, 0x2f, 0xfd },
			     lz4[64] = { 0x04, 0x22, 0x4d, 0x18 }, text[] = "no core";
	Elf64_Ehdr ehdr;
	size_t n = core_image_make(&(struct core_image_options){ 0 }, image, IMAGE_MAX);

	(void)state;
	check_refused(zstd, sizeof(zstd), VT_ERR_FORMAT, "zstd -d");
	check_refused(lz4, sizeof(lz4), VT_ERR_FORMAT, "lz4 -d");
	check_refused(text, sizeof(text), VT_ERR_FORMAT, "not a core");
	check_refused(text, 0, VT_ERR_FORMAT, "not a core");
	memcpy(&ehdr, image, sizeof(ehdr));
	ehdr.e_machine = 190;
	memcpy(image, &ehdr, sizeof(ehdr));
	check_refused(image, n, VT_ERR_FORMAT, "core of a GPU");
	ehdr.e_machine = EM_PPC64;
	memcpy(image, &ehdr, sizeof(ehdr));
	check_refused(image, n, VT_ERR_FORMAT, "x86-64 or aarch64");
	ehdr.e_machine = EM_386;
	ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	memcpy(image, &ehdr, sizeof(ehdr));
	check_refused(image, n, VT_ERR_FORMAT, "x86-64 or aarch64");
	ehdr.e_machine = EM_X86_64;
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	ehdr.e_type = ET_DYN;
	memcpy(image, &ehdr, sizeof(ehdr));
	check_refused(image, n, VT_ERR_FORMAT, "a library");
	ehdr.e_type = ET_CORE;
	ehdr.e_phnum = 0;
	memcpy(image, &ehdr, sizeof(ehdr));
	check_refused(image, n, VT_ERR_FORMAT, "without threads");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_the_kernel), cmocka_unit_test(test_of_gdb),
		cmocka_unit_test(test_of_aarch64),    cmocka_unit_test(test_larger_pages),
		cmocka_unit_test(test_many_segments), cmocka_unit_test(test_module_without_file),
		cmocka_unit_test(test_cut_short),     cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_bad_segments),  cmocka_unit_test(test_refused),
	};
	int failed;

	image = malloc(IMAGE_MAX);
	failed = !image || cmocka_run_group_tests(tests, NULL, NULL);
	free(image);
	return failed;
}
