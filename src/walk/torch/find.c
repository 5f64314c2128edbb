/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds PyTorch's allocator in a target and the offset of every field that the walk needs. It goes
 * by the contents of the fields, not by PyTorch's version: first the devices' allocators
 * (walk/torch/devices.c), then the fields of a Block (walk/torch/blocks.c). Then it compares the
 * result with the table of known releases (walk/torch/table.c).
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/live.h"
#include "walk/python/pages.h"
#include "walk/torch/find.h"
#include "walk/torch/table.h"

#define ATTEMPTS 20 /* at a target that runs: each takes about a millisecond */
/*
 * Before the second; it doubles with every other. A thread that lost its processor in the middle of
 * a change must get it back.
 */
#define PAUSE_NS (100 * VT_NS_PER_US)
#define MAX_PAUSE_NS (16 * VT_NS_PER_MS)

static void say_why(struct vt_torch_finder *f, const char *what)
{
	snprintf(f->found->why, sizeof(f->found->why), "%s", what);
}

/* ---- which allocator ---- */

/*
 * The word before the virtual table is the type_info, whose second word is the mangled name
 * (Itanium C++ ABI, 2.5 and 2.9). It is there in stripped files too.
 */
void vt_torch_class_name(struct vt_memsrc *src, uint64_t object, char name[VT_RTTI_MAX])
{
	uint64_t vptr, info, text;
	size_t n;

	name[0] = '\0';
	if (vt_mem_read_u64(src, object, &vptr) || !vt_is_object(vptr) ||
	    vt_mem_read_u64(src, vptr - 8, &info) || !vt_is_object(info) ||
	    vt_mem_read_u64(src, info + 8, &text) || !text)
		return;
	n = vt_torch_read_some(src, text, name, VT_RTTI_MAX - 1);
	name[n] = '\0';
}

static const struct {
	const char *part; /* of the mangled name */
	enum vt_torch_backend backend;
} backends[] = {
	{ "NativeCachingAllocator", VT_TORCH_NATIVE },
	{ "CudaMallocAsync", VT_TORCH_ASYNC },
	{ "CUDAPluggableAllocator", VT_TORCH_PLUGGABLE },
};

static enum vt_torch_backend backend_of(const char *class_name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
		if (strstr(class_name, backends[i].part))
			return backends[i].backend;
	}
	return VT_TORCH_UNKNOWN;
}

static void find_backend(struct vt_torch_finder *f)
{
	const char *why = NULL;
	char class_name[VT_RTTI_MAX];
	enum vt_torch_backend backend;

	f->found->backend = VT_TORCH_UNKNOWN;
	vt_torch_class_name(f->src, f->allocator, class_name);
	backend = backend_of(class_name);
	if (backend == VT_TORCH_ASYNC || backend == VT_TORCH_PLUGGABLE) {
		f->found->backend = backend;
		return;
	}
	f->object_len = vt_torch_read_some(f->src, f->allocator, f->object, sizeof(f->object));
	if (!vt_torch_find_devices(f, &why)) {
		if (!why && backend == VT_TORCH_NATIVE && !vt_torch_object_has_elements(f))
			f->found->backend = VT_TORCH_UNUSED;
		else
			say_why(f, why ? why :
				   f->object_len < 64 ?
					 "the allocator object cannot be read" :
					 "no vector of device allocators in the allocator object");
		return;
	}
	vt_torch_find_graph_pools(f);
	vt_torch_take_samples(f);
	why = f->n_samples  ? vt_torch_find_fields(f) :
	      f->has_blocks ? "no block can be read" :
			      NULL;
	if (!vt_torch_compare_with_table(f, f->n_samples && !why)) {
		say_why(f, why ? why : "the blocks do not fit what was found");
		return;
	}
	vt_torch_place_events(f);
	f->found->layout = f->layout;
	memcpy(f->found->how, f->how, sizeof(f->how));
	f->found->backend = VT_TORCH_NATIVE;
}

static uint64_t pause_before(int attempt)
{
	uint64_t pause = PAUSE_NS << (attempt / 2);

	return pause < MAX_PAUSE_NS ? pause : MAX_PAUSE_NS;
}

/*
 * While the target runs, a read in the middle of a change can be wrong in any way, but not again
 * and again.
 */
static bool is_doubtful(const struct vt_torch_found *found)
{
	return found->backend == VT_TORCH_UNKNOWN ||
	       (found->backend == VT_TORCH_NATIVE && found->differs[0]);
}

/* Samples and their neighbours share pages: each is read once in an attempt. */
static void attempt(struct vt_torch_finder *f, struct vt_py_pages *pages, struct vt_memsrc *src)
{
	vt_py_pages_init(pages, src);
	f->src = &pages->src;
	find_backend(f);
}

void vt_torch_find_layout(const struct vt_maps *maps, struct vt_memsrc *src, uint64_t allocator,
			  struct vt_torch_found *found)
{
	struct vt_torch_finder *f VT_FREE = calloc(1, sizeof(*f));
	struct vt_py_pages *pages VT_FREE = malloc(sizeof(*pages));

	found->backend = VT_TORCH_UNKNOWN;
	found->allocator = allocator;
	found->row = NULL;
	found->differs[0] = found->why[0] = '\0';
	if (!f || !pages) {
		snprintf(found->why, sizeof(found->why), "out of memory");
		return;
	}
	f->maps = maps;
	f->found = found;
	f->allocator = allocator;
	attempt(f, pages, src);
	for (int i = 1; i < ATTEMPTS && is_doubtful(found) && !src->coherent; i++) {
		vt_sleep_ns(pause_before(i));
		found->row = NULL;
		found->differs[0] = found->why[0] = '\0';
		attempt(f, pages, src);
	}
}

/* ---- the module ---- */

/*
 * The executable can hold a copy of an exported variable (R_X86_64_COPY); every other module then
 * uses that one.
 */
static struct vt_module *main_module(struct vt_modules *modules)
{
	uint64_t headers = modules->files->ops->auxv(modules->files, AT_PHDR);

	return headers ? vt_modules_find(modules, headers) : NULL;
}

/*
 * Sets *allocator to the current value of the pointer that the module exports; 0 when it exports
 * none or the pointer is not set. Returns what vt_mem_read() returns.
 */
static int allocator_of(struct vt_modules *modules, struct vt_module *module, struct vt_memsrc *src,
			uint64_t *allocator)
{
	static const char *const name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
	uint64_t slot = 0;
	struct vt_error *err VT_ERROR = NULL;
	int ret;

	*allocator = 0;
	err = vt_module_dynsyms(modules, module, &name, 1, &slot);
	if (err || !slot)
		return 0;
	ret = vt_mem_read_u64(src, slot, allocator);
	if (ret || !vt_is_object(*allocator))
		*allocator = 0;
	return ret;
}

/*
 * PyTorch's version from torch/version.py, next to torch/lib/libc10_cuda.so: __version__ =
 * '2.11.0+cu130'
 */
static void read_version(struct vt_files *files, const char *module_path, char *version,
			 size_t size)
{
	const char *slash = strrchr(module_path, '/'), *lib = "/lib";
	char path[PATH_MAX], text[4096], *at, *end;
	int fd VT_CLOSE = -1;
	ssize_t n;
	size_t dir;

	version[0] = '\0';
	if (!slash || (size_t)(slash - module_path) < strlen(lib))
		return;
	dir = (size_t)(slash - module_path) - strlen(lib);
	if (strncmp(module_path + dir, lib, strlen(lib)) ||
	    (size_t)snprintf(path, sizeof(path), "%.*s/version.py", (int)dir, module_path) >=
		    sizeof(path))
		return;
	fd = files->ops->open(files, path);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	at = strstr(text, "__version__ = ");
	if (!at)
		return;
	at += strlen("__version__ = ");
	if (*at != '\'' && *at != '"')
		return;
	end = strchr(at + 1, *at);
	if (end && (size_t)(end - at) <= size) {
		memcpy(version, at + 1, (size_t)(end - at) - 1);
		version[end - at - 1] = '\0';
	}
}

/* The value of a result: if two copies of the library are loaded, we want the one in use. */
static int rank(enum vt_torch_backend backend)
{
	switch (backend) {
	case VT_TORCH_NATIVE:
	case VT_TORCH_ASYNC:
	case VT_TORCH_PLUGGABLE:
		return 3;
	case VT_TORCH_UNKNOWN:
		return 2;
	case VT_TORCH_UNUSED:
		return 1;
	case VT_TORCH_ABSENT:
		break;
	}
	return 0;
}

static struct vt_error *find_in_module(struct vt_modules *modules, struct vt_module *module,
				       const struct vt_maps *maps, struct vt_memsrc *src,
				       struct vt_torch_found *found)
{
	struct vt_module *executable = main_module(modules);
	struct vt_error *err VT_ERROR = NULL;
	uint64_t allocator = 0;
	int ret = 0;

	if (executable)
		ret = allocator_of(modules, executable, src, &allocator);
	if (!ret && !allocator)
		ret = allocator_of(modules, module, src, &allocator);
	if (ret)
		return vt_mem_error(src, ret, "the pointer to PyTorch's allocator");
	found->c10_cuda = module;
	vt_error_destroy(vt_module_open(modules, module));
	/* The version next to another file than the process runs is another release's. */
	if (module->file >= VT_FILE_UNCHECKED)
		read_version(modules->files, module->path, found->version, sizeof(found->version));
	if (allocator) {
		vt_torch_find_layout(maps, src, allocator, found);
		return NULL;
	}
	found->backend = VT_TORCH_UNKNOWN;
	err = vt_module_open(modules, module);
	if (vt_module_lacks_file(modules, module))
		snprintf(found->why, sizeof(found->why),
			 "the file of libc10_cuda.so is needed, and none can be used");
	else if (err)
		snprintf(found->why, sizeof(found->why), "%s", err->message);
	else
		snprintf(
			found->why, sizeof(found->why),
			"libc10_cuda.so does not export its allocator: older than PyTorch 2.0, or not yet initialised");
	return NULL;
}

struct vt_error *vt_torch_find(struct vt_modules *modules, const struct vt_maps *maps,
			       struct vt_memsrc *src, struct vt_torch_found *found)
{
	struct vt_module *module;
	size_t index = 0;

	memset(found, 0, sizeof(*found));
	found->backend = VT_TORCH_ABSENT;
	while ((module = vt_modules_by_name(modules, "libc10_cuda.so", &index))) {
		struct vt_torch_found one = { .backend = VT_TORCH_ABSENT };

		VT_TRY(find_in_module(modules, module, maps, src, &one));
		if (rank(one.backend) > rank(found->backend))
			*found = one;
	}
	return NULL;
}
