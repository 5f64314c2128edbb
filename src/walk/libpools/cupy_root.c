/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CuPy's pools are. Its current allocator is a variable of the module: a method of a
 * MemoryPool. All other pools, and what arrays hold, are in the lists of Python's collector.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "walk/libpools/cupy.h"
#include "walk/libpools/cupy_root.h"
#include "walk/native/symfile.h"
#include "walk/pyheap/pyheap.h"

#define MAX_SYMBOLS 65536 /* the module has some 1,000 */
#define MAX_OBJECTS (UINT64_C(1) << 24)

/* Compiled as C++; a C compiler would not mangle it. */
static const char *const allocators[] = {
	"_ZL46__pyx_v_4cupy_4cuda_6memory__current_allocator",
	"__pyx_v_4cupy_4cuda_6memory__current_allocator",
};

/* ---- the symbol ---- */

static bool is_allocator(const struct vt_symfile *file, const Elf64_Shdr *strings, uint32_t name)
{
	char text[64];

	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		size_t size = strlen(allocators[i]) + 1;

		if (name < strings->sh_size && size <= strings->sh_size - name &&
		    vt_symfile_read(file, strings->sh_offset + name, text, size) &&
		    !memcmp(text, allocators[i], size))
			return true;
	}
	return false;
}

/* The address in the file; 0: no such symbol. */
static uint64_t find_symbol(const struct vt_symfile *file)
{
	const Elf64_Shdr *table = vt_symfile_section(file, SHT_SYMTAB), *strings;
	uint64_t n;

	if (!table || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= file->n_sections)
		return 0;
	strings = &file->sections[table->sh_link];
	n = table->sh_size / sizeof(Elf64_Sym);
	for (uint64_t i = 0; i < n && i < MAX_SYMBOLS; i++) {
		Elf64_Sym symbol;

		if (!vt_symfile_read(file, table->sh_offset + i * sizeof(symbol), &symbol,
				     sizeof(symbol)))
			return 0;
		if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_size == 8 &&
		    symbol.st_value && is_allocator(file, strings, symbol.st_name))
			return symbol.st_value;
	}
	return 0;
}

/* The address of the variable; 0: this module has none. */
static uint64_t allocator_in(struct vt_modules *modules, struct vt_module *module)
{
	struct vt_error *err = vt_module_open(modules, module);
	struct vt_symfile file = { .fd = -1 };
	uint64_t at = 0;

	if (!err && module->image) {
		file.data = module->image;
		file.size = module->image_size;
		if (vt_symfile_init(&file))
			at = find_symbol(&file);
		vt_symfile_deinit(&file);
	}
	vt_error_destroy(err);
	return at ? at + module->bias : 0;
}

uint64_t vt_cupy_allocator_variable(struct vt_modules *modules)
{
	struct vt_module *module;
	uint64_t at = 0;

	for (size_t i = 0; !at && (module = vt_modules_by_name(modules, VT_CUPY_MODULE, &i));)
		at = allocator_in(modules, module);
	return at;
}

/* Both a built-in function and a bound method have the object in their second word. */
uint64_t vt_cupy_allocator_object(struct vt_cupy_objects *o, uint64_t variable)
{
	uint64_t method = variable ? vt_pages_u64(&o->pages, variable) : 0;

	if (vt_cupy_is(o, method, "builtin_function_or_method") || vt_cupy_is(o, method, "method"))
		return vt_cupy_word(o, method, 8);
	return 0;
}

/* ---- the collector's lists ---- */

struct sorting {
	struct vt_cupy_objects *o;
	struct vt_pyheap *heap;
	struct vt_cupy_found *found;
	struct vt_map known; /* type → class + 1; 0: another */
	bool full;
};

static uint64_t class_of(struct sorting *s, uint64_t object)
{
	static const char *const names[VT_CUPY_N_CLASSES] = {
		[VT_CUPY_MEMORY_POOL] = "cupy.cuda.memory.MemoryPool",
		[VT_CUPY_SINGLE_POOL] = "cupy.cuda.memory.SingleDeviceMemoryPool",
		[VT_CUPY_POINTER] = "cupy.cuda.memory.MemoryPointer",
	};
	uint64_t type = vt_pages_u64(&s->o->pages, object + s->o->py->at[VT_PY_OBJECT_TYPE]);
	uint64_t *known = vt_map_get(&s->known, type), which = 0;

	if (known)
		return *known;
	for (uint64_t i = 0; i < VT_CUPY_N_CLASSES; i++)
		if (vt_cupy_is(s->o, object, names[i]))
			which = i + 1;
	if (!vt_map_put(&s->known, type, which))
		s->full = true;
	return which;
}

static void sort_object(void *arg, uint64_t object)
{
	struct sorting *s = arg;
	uint64_t which, *to;

	if (s->full || !vt_cupy_pay(s->o, 1)) {
		s->full = true;
		return;
	}
	which = class_of(s, object);
	if (!which)
		return;
	to = vt_vec_append(&s->found->objects[which - 1]);
	if (to)
		*to = object;
	else
		s->full = true;
}

bool vt_cupy_find_all(struct vt_cupy_objects *o, struct vt_python *python,
		      struct vt_cupy_found *found)
{
	VT_FREE struct vt_pyheap *heap = malloc(sizeof(*heap));
	struct sorting s = { .o = o, .heap = heap, .found = found };
	struct vt_error *err;
	bool all = false;

	if (!heap)
		return false;
	err = vt_pyheap_init(heap, python, &o->pages, NULL);
	if (!err) {
		all = vt_pyheap_collectable(heap, MAX_OBJECTS, sort_object, &s) && !s.full;
		vt_pyheap_deinit(heap);
	}
	vt_error_destroy(err);
	vt_map_deinit(&s.known);
	return all;
}

void vt_cupy_found_deinit(struct vt_cupy_found *found)
{
	for (int i = 0; i < VT_CUPY_N_CLASSES; i++)
		vt_vec_deinit(&found->objects[i]);
	*found = (struct vt_cupy_found){ 0 };
}
