/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores: whatever is in the file, the reader ends, stays within the file, and what it returns is in
 * order.
 *
 * An input is a core. The last byte of its e_ident, which means nothing, says where the files of
 * its modules are looked for: on this machine, or in a sysroot that has some that are right, some
 * that are not.
 */
#include <elf.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/target/core/core_image.h"
#include "fuzz.h"
#include "scratch.h"
#include "target/core/core.h"
#include "target/core/files.h"
#include "target/elfsym.h"

#define SAMPLES 64
#define PAGE 4096u
#define WHERE (EI_NIDENT - 1)

enum where { SYSROOT = 1, EXE = 2, ODD = 4 };

/* ---- files of the modules ---- */

/* What core_image_make() has of libfoo.so: its first page, and its data, the last of five. */
#define LIBRARY_PAGES 5
#define BUILD_ID "ab/cdef0000000000000000000000000000000000"

/* The library as a file, with a change. */
enum change { RIGHT, OTHER_CODE, OTHER_ID, NO_ID, SHORT, NO_ELF };

static const struct {
	const char *path;
	enum change change;
} in_sysroot[] = {
	{ "/nowhere/libfoo.so", RIGHT },
	{ "/.build-id/" BUILD_ID, OTHER_CODE },
	{ "/usr/lib/debug/.build-id/" BUILD_ID, RIGHT },
	{ "/opt/a/b/libfoo.so", OTHER_ID },
	{ "/opt/a/libfoo.so", NO_ID },
	{ "/opt/libfoo.so", SHORT },
	{ "/libfoo.so", NO_ELF },
};

static char sysroot[64], exe[128];

static void make_file(const char *path, enum change change, const uint8_t *head,
		      const uint8_t *tail)
{
	uint8_t image[LIBRARY_PAGES * PAGE] = { 0 };

	memcpy(image, head, PAGE);
	memcpy(image + (LIBRARY_PAGES - 1) * PAGE, tail, PAGE);
	if (change == OTHER_CODE)
		image[2000] ^= 1;
	if (change == OTHER_ID)
		image[1024 + 16] ^= 1;
	if (change == NO_ID)
		image[1024 + 8] ^= 1; /* the note's type */
	if (change == NO_ELF)
		image[0] = 'M';
	scratch_write(path, image, change == SHORT ? 100 : sizeof(image), 0600);
}

/* Bytes of a segment, by its address: of a whole core. */
static const uint8_t *segment_at(const uint8_t *core, uint64_t addr)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	memcpy(&ehdr, core, sizeof(ehdr));
	for (size_t i = 0; i < ehdr.e_phnum; i++) {
		memcpy(&phdr, core + ehdr.e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_LOAD && phdr.p_vaddr == addr)
			return core + phdr.p_offset;
	}
	abort();
}

static void make_sysroot(void)
{
	static uint8_t core[1u << 16];
	const struct core_image_options options = { 0 };

	if (exe[0])
		return;
	fuzz_check(core_image_make(&options, core, sizeof(core)), "no core");
	snprintf(sysroot, sizeof(sysroot), "%s", scratch_directory());
	for (size_t i = 0; i < sizeof(in_sysroot) / sizeof(in_sysroot[0]); i++)
		make_file(in_sysroot[i].path, in_sysroot[i].change,
			  segment_at(core, CORE_IMAGE_LIB),
			  segment_at(core, CORE_IMAGE_LIB + (LIBRARY_PAGES - 1) * PAGE));
	snprintf(exe, sizeof(exe), "%s%s", sysroot, in_sysroot[0].path);
}

/* ---- what is well-formed ---- */

static void replace(uint8_t *data, size_t size, const char *text, const char *by, size_t n)
{
	for (uint8_t *at = data; (at = memmem(at, size - (size_t)(at - data), text, n)); at += n)
		memcpy(at, by, n);
}

/*
 * Ways in which a core leads to its files; each is made of the core that the kernel writes, of
 * which a text is replaced.
 */
static const struct {
	enum where where;
	const char *text, *by;
	size_t n;
} ways[] = {
	{ SYSROOT, "", "", 0 },
	{ SYSROOT | EXE, "", "", 0 },
	{ EXE, "", "", 0 },
	/* by its build id alone, by its name alone */
	{ SYSROOT, "/nowhere", "/nowhen.", 8 },
	{ SYSROOT, "\x03\0\0\0GNU", "\x04\0\0\0GNU", 8 },
	{ SYSROOT, "GNU\0\xab\xcd", "GNU\0\xab\xcc", 6 },
	{ SYSROOT, "libfoo.so", "libfoo.s ", 9 },
	/* headers that say nothing */
	{ SYSROOT,
	  "\x7f"
	  "ELF",
	  "MELF", 4 },
	{ SYSROOT, "\x40\0\x38\0\5", "\x40\0\x37\0\5", 5 },
	{ ODD, "", "", 0 },
};

/* Cores of other kinds: the header of one with one byte changed, or a packed file. */
static size_t refused_seed(size_t number, uint8_t *data, size_t max)
{
	static const struct {
		uint8_t at, value;
	} bytes[] = { { offsetof(Elf64_Ehdr, e_machine), 190 },
		      { EI_CLASS, ELFCLASS32 },
		      { offsetof(Elf64_Ehdr, e_type), ET_DYN },
		      { offsetof(Elf64_Ehdr, e_phentsize), 1 } };
	static const char packed[] = "\x28\xb5\x2f\xfd";
	const struct core_image_options options = { 0 };
	size_t n = sizeof(bytes) / sizeof(bytes[0]);

	if (number > n || !core_image_make(&options, data, max))
		return 0;
	if (number == n)
		memcpy(data, packed, sizeof(packed));
	else
		data[bytes[number].at] = bytes[number].value;
	return sizeof(Elf64_Ehdr);
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	struct core_image_options options = { .like_gdb = number == 1,
					      .segments = number == 2 ? 100 : 0 };
	size_t n_ways = sizeof(ways) / sizeof(ways[0]), size;

	if (number >= 3 + n_ways)
		return refused_seed(number - 3 - n_ways, data, max);
	size = core_image_make(&options, data, max);
	if (size && number >= 3) {
		size_t way = number - 3;

		data[WHERE] = (uint8_t)ways[way].where;
		if (ways[way].n)
			replace(data + EI_NIDENT, size - EI_NIDENT, ways[way].text, ways[way].by,
				ways[way].n);
	}
	return size;
}

/* ---- checks ---- */

static void check_segments(const struct vt_core *core)
{
	for (size_t i = 0; i < core->segments.n; i++) {
		const struct vt_core_segment *segment = &core->segments.data[i];

		fuzz_check(segment->start < segment->end &&
				   segment->filled <= segment->end - segment->start,
			   "segment %zu", i);
		fuzz_check(!segment->filled || (segment->offset <= core->size &&
						segment->filled <= core->size - segment->offset),
			   "segment %zu is not in the file", i);
		fuzz_check(i == 0 || segment[-1].end <= segment->start, "segments %zu overlap", i);
	}
}

static void check_maps(const struct vt_maps *maps)
{
	for (size_t i = 0; i < maps->entries.n; i++) {
		fuzz_check(maps->entries.data[i].start < maps->entries.data[i].end, "entry %zu", i);
		fuzz_check(i == 0 || maps->entries.data[i - 1].end <= maps->entries.data[i].start,
			   "entries %zu overlap", i);
	}
}

/* The ends of segments: what the file has is read as it is there. */
static void check_memory(struct vt_core *core, const uint8_t *data)
{
	for (size_t i = 0; i < core->segments.n && i < SAMPLES; i++) {
		const struct vt_core_segment *segment = &core->segments.data[i];
		uint8_t byte = 0;
		int ret = vt_mem_read(vt_core_source(core), segment->start, &byte, 1);

		if (segment->filled)
			fuzz_check(!ret && byte == data[segment->offset],
				   "segment %zu begins wrongly", i);
		ret = vt_mem_read(vt_core_raw_source(core), segment->end - 1, &byte, 1);
		if (segment->filled == segment->end - segment->start)
			fuzz_check(!ret && byte == data[segment->offset + segment->filled - 1],
				   "segment %zu ends wrongly", i);
		else
			fuzz_check(ret < 0, "segment %zu has bytes that are not in the core", i);
	}
}

static void check_modules(struct vt_core *core, const struct vt_maps *maps, unsigned int where)
{
	struct vt_core_paths paths = { .sysroot = where & SYSROOT ? sysroot : NULL,
				       .exe = where & EXE ? exe : NULL };
	struct vt_modules modules = { 0 };
	struct vt_files *files = NULL;
	VT_ERROR struct vt_error *err = vt_core_files_create(core, maps, &paths, &files);

	if (err)
		return;
	err = vt_modules_init_files(&modules, files, maps);
	vt_core_set_modules(core, err ? NULL : &modules);
	for (size_t i = 0; i < modules.modules.n && i < SAMPLES; i++) {
		struct vt_module *module = &modules.modules.data[i];
		const char *name = "foo";
		uint64_t addr;

		vt_error_destroy(vt_module_open(&modules, module));
		vt_error_destroy(vt_module_dynsyms(&modules, module, &name, 1, &addr));
		(void)!vt_mem_read_u64(vt_core_source(core), module->start + 4096, &addr);
	}
	(void)vt_core_files_cut(files);
	vt_core_set_modules(core, NULL);
	vt_modules_deinit(&modules);
	vt_files_destroy(files);
}

/* What is refused whatever is in it: a directory, what is not there, a sysroot that is none. */
static void open_odd(struct vt_core *core, const struct vt_maps *maps)
{
	static const struct vt_core_paths odd[] = { { .sysroot = "/nowhere" }, { .exe = "/" } };
	static const char *const paths[] = { "/", "/nowhere/core", "/dev/null" };
	struct vt_files *files;
	struct vt_core *none;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		VT_ERROR struct vt_error *err = vt_core_open(paths[i], &none);

		fuzz_check(err, "%s is a core", paths[i]);
	}
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		VT_ERROR struct vt_error *err = vt_core_files_create(core, maps, &odd[i], &files);

		fuzz_check(err, "odd paths %zu", i);
	}
	fuzz_check(!vt_core_changed(core), "it has changed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct vt_core *core = NULL;
	struct vt_maps maps = { 0 };

	make_sysroot();
	if (fd < 0)
		fd = memfd_create("core", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size,
		   "no file");

	VT_ERROR struct vt_error *err = vt_core_open_fd(dup(fd), "core", &core);

	if (err)
		return 0;
	fuzz_check(core->threads.n > 0, "no threads");
	check_segments(core);
	err = vt_core_maps(core, &maps);
	if (!err) {
		check_maps(&maps);
		check_memory(core, data);
		check_modules(core, &maps, data[WHERE]);
		if (data[WHERE] & ODD)
			open_odd(core, &maps);
	}
	vt_maps_deinit(&maps);
	vt_core_close(core);
	return 0;
}
