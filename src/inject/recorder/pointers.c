/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only a library's own data segments are searched, as their life is the library's: the recorder
 * changes a word only while its library is loaded. A word there that equals the address of an
 * exported function of the driver is a pointer to that function.
 */
#include "inject/recorder/pointers.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "vramtap/recorder_calls.h"

#define PIECE (UINT64_C(1) << 20)
/*
 * Of one process. PyTorch 2.11 with CUDA 13.0 has 560 MiB, of which cuFFT 268 and cuBLASLt 185: 64
 * libraries.
 */
#define MAX_SEARCHED (UINT64_C(2) << 30)
#define MAX_FUNCTIONS 256

/*
 * Not searched: the driver, and what hands its functions on. The runtime's own pointers would show
 * a launch twice.
 */
static const char *const not_searched[] = {
	"libcuda.so", "libcudart", "libnvidia-", "libcupti", "libnvperf", VT_RECORDER_FILE_NAME,
};

static const char *const names[] = {
#define X(name) #name,
	VT_RECORDER_LAUNCHES(X)
#undef X
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

struct function {
	uint64_t addr;
	uint32_t call; /* enum vt_recorder_call */
};

struct search {
	struct vt_modules *modules;
	struct vt_memsrc *src;
	struct function functions[MAX_FUNCTIONS];
	size_t n_functions;
	uint64_t low, high; /* of the functions */
	struct vt_recorder_got *got;
	size_t room, n;
	struct vt_recorder_pointers_left left;
	uint64_t *buffer;
	uint64_t searched;
};

/* A library, and how much data it has. */
struct library {
	const struct vt_module *module;
	uint64_t size;
};

static void add_functions(struct search *s, struct vt_module *module)
{
	uint64_t addrs[N_NAMES] = { 0 };
	struct vt_error *err VT_ERROR =
		vt_module_dynsyms(s->modules, module, names, N_NAMES, addrs);

	for (size_t i = 0; !err && i < N_NAMES && s->n_functions < MAX_FUNCTIONS; i++) {
		if (!addrs[i])
			continue;
		s->functions[s->n_functions++] =
			(struct function){ addrs[i], VT_N_CALLS + (uint32_t)i };
		s->low = !s->low || addrs[i] < s->low ? addrs[i] : s->low;
		s->high = addrs[i] > s->high ? addrs[i] : s->high;
	}
}

/* Of the driver and of each shared CUDA runtime. */
static void find_functions(struct search *s)
{
	static const char *const prefixes[] = { "libcuda.so", "libcudart.so" };

	for (size_t k = 0; k < sizeof(prefixes) / sizeof(prefixes[0]); k++) {
		struct vt_module *module;

		for (size_t i = 0; (module = vt_modules_by_name(s->modules, prefixes[k], &i)); i++)
			add_functions(s, module);
	}
}

static bool is_searched(const struct vt_module *module)
{
	const char *name = vt_base_name(module->path);

	if (!strncmp(name, "memfd:", 6))
		name += 6;
	for (size_t i = 0; i < sizeof(not_searched) / sizeof(not_searched[0]); i++)
		if (!strncmp(name, not_searched[i], strlen(not_searched[i])))
			return false;
	return true;
}

/* A word of a table of relocations is there already, with what it is known to call. */
static bool is_known(const struct search *s, uint64_t where)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->got[i].where == where)
			return true;
	return false;
}

static void add_word(struct search *s, const struct function *function, uint64_t where)
{
	if (is_known(s, where))
		return;
	if (s->n == s->room) {
		s->left.no_room++;
		return;
	}
	s->got[s->n++] = (struct vt_recorder_got){
		.where = where,
		.value = function->addr,
		.original = function->addr,
		.function = function->call,
	};
}

static void look_at_words(struct search *s, uint64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t word = s->buffer[i];

		if (word - s->low > s->high - s->low)
			continue;
		for (size_t k = 0; k < s->n_functions; k++) {
			if (s->functions[k].addr != word)
				continue;
			add_word(s, &s->functions[k], at + i * sizeof(word));
			break;
		}
	}
}

/* What cannot be read (pages that a library has protected) is passed over, page by page. */
static void look_at_range(struct search *s, uint64_t start, uint64_t end)
{
	while (start < end) {
		uint64_t n = end - start < PIECE ? end - start : PIECE;

		if (vt_mem_read(s->src, start, s->buffer, n)) {
			n = n < 4096 ? n : 4096 - start % 4096;
			n = n < end - start ? n : end - start;
			if (vt_mem_read(s->src, start, s->buffer, n)) {
				start += n;
				s->searched += n;
				continue;
			}
		}
		look_at_words(s, start, n / sizeof(uint64_t));
		start += n;
		s->searched += n;
	}
}

/* The i-th data segment, rounded to words. False: there is none, or the file is damaged. */
static bool data_segment(const struct vt_module *module, unsigned int i, uint64_t *start,
			 uint64_t *end)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	uint64_t offset;

	memcpy(&ehdr, module->image, sizeof(ehdr));
	offset = ehdr.e_phoff + i * sizeof(phdr);
	if (ehdr.e_phoff > offset || offset > module->image_size - sizeof(phdr))
		return false;
	memcpy(&phdr, module->image + offset, sizeof(phdr));
	*start = (phdr.p_vaddr + module->bias + 7) & ~UINT64_C(7);
	return phdr.p_type == PT_LOAD && (phdr.p_flags & PF_W) &&
	       !__builtin_add_overflow(*start, phdr.p_memsz & ~UINT64_C(7), end);
}

static unsigned int n_segments(const struct vt_module *module)
{
	Elf64_Ehdr ehdr;

	if (!module->image || module->bad || module->image_size < sizeof(ehdr) ||
	    module->image_size < sizeof(Elf64_Phdr))
		return 0;
	memcpy(&ehdr, module->image, sizeof(ehdr));
	return ehdr.e_phentsize == sizeof(Elf64_Phdr) ? ehdr.e_phnum : 0;
}

static uint64_t size_of_data(const struct vt_module *module)
{
	uint64_t size = 0, start, end;

	for (unsigned int i = 0; i < n_segments(module); i++)
		if (data_segment(module, i, &start, &end) &&
		    __builtin_add_overflow(size, end - start, &size))
			size = UINT64_MAX;
	return size;
}

static void look_in_library(struct search *s, const struct library *library)
{
	uint64_t start, end;

	if (library->size > MAX_SEARCHED - s->searched) {
		s->left.unread += library->size;
		return;
	}
	for (unsigned int i = 0; i < n_segments(library->module); i++)
		if (data_segment(library->module, i, &start, &end))
			look_at_range(s, start, end);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = ((const struct library *)a)->size, y = ((const struct library *)b)->size;

	return (x > y) - (x < y);
}

/* The small ones first: what is left out is a large one's data, which are mostly tables. */
static void look_in_all(struct search *s)
{
	VT_FREE struct library *libraries = calloc(s->modules->modules.n + 1, sizeof(*libraries));
	size_t n = 0;

	for (size_t i = 0; libraries && i < s->modules->modules.n; i++) {
		struct vt_module *module = &s->modules->modules.data[i];
		struct vt_error *err VT_ERROR =
			is_searched(module) ? vt_module_open(s->modules, module) : NULL;

		if (!err && is_searched(module))
			libraries[n++] = (struct library){ module, size_of_data(module) };
	}
	if (libraries)
		qsort(libraries, n, sizeof(*libraries), by_size);
	for (size_t i = 0; i < n; i++)
		look_in_library(s, &libraries[i]);
}

void vt_recorder_pointers_find(struct vt_modules *modules, struct vt_memsrc *src,
			       struct vt_recorder_got *got, size_t room, size_t *n,
			       struct vt_recorder_pointers_left *left)
{
	VT_FREE struct search *s = calloc(1, sizeof(*s));
	VT_FREE uint64_t *buffer = malloc(PIECE);

	*left = (struct vt_recorder_pointers_left){ 0 };
	if (!s || !buffer)
		return;
	*s = (struct search){
		.modules = modules,
		.src = src,
		.got = got,
		.room = room,
		.n = *n,
		.buffer = buffer,
	};
	find_functions(s);
	if (s->n_functions)
		look_in_all(s);
	*n = s->n;
	*left = s->left;
}
