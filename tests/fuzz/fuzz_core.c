/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores: whatever is in the file, the reader ends, stays within the file, and what it returns is in
 * order.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "unit/target/core/core_image.h"
#include "fuzz.h"
#include "target/core/core.h"
#include "target/core/files.h"
#include "target/elfsym.h"

#define SAMPLES 64

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	struct core_image_options options = { .like_gdb = number == 1,
					      .segments = number == 2 ? 100 : 0 };

	return number > 2 ? 0 : core_image_make(&options, data, max);
}

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

static void check_modules(struct vt_core *core, const struct vt_maps *maps)
{
	struct vt_core_paths paths = { 0 };
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
	vt_core_set_modules(core, NULL);
	vt_modules_deinit(&modules);
	vt_files_destroy(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct vt_core *core = NULL;
	struct vt_maps maps = { 0 };

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
		check_modules(core, &maps);
	}
	vt_maps_deinit(&maps);
	vt_core_close(core);
	return 0;
}
