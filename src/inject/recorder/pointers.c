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
#define MAX_SEARCHED (UINT64_C(512) << 20) /* bytes of one process */
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
	size_t room, n, n_more;
	uint64_t *buffer;
	uint64_t searched;
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
		s->n_more++;
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
	while (start < end && s->searched < MAX_SEARCHED) {
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

static void look_in_module(struct search *s, const struct vt_module *module)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	if (module->image_size < sizeof(ehdr))
		return;
	memcpy(&ehdr, module->image, sizeof(ehdr));
	for (unsigned int i = 0; ehdr.e_phentsize == sizeof(phdr) && i < ehdr.e_phnum; i++) {
		uint64_t offset = ehdr.e_phoff + i * sizeof(phdr), start, end;

		if (offset > module->image_size - sizeof(phdr) || ehdr.e_phoff > offset)
			return;
		memcpy(&phdr, module->image + offset, sizeof(phdr));
		start = (phdr.p_vaddr + module->bias + 7) & ~UINT64_C(7);
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_W) ||
		    phdr.p_memsz > MAX_SEARCHED ||
		    __builtin_add_overflow(start, phdr.p_memsz & ~UINT64_C(7), &end))
			continue;
		look_at_range(s, start, end);
	}
}

size_t vt_recorder_pointers_find(struct vt_modules *modules, struct vt_memsrc *src,
				 struct vt_recorder_got *got, size_t room, size_t *n)
{
	VT_FREE struct search *s = calloc(1, sizeof(*s));
	VT_FREE uint64_t *buffer = malloc(PIECE);
	size_t n_more;

	if (!s || !buffer)
		return 0;
	*s = (struct search){
		.modules = modules,
		.src = src,
		.got = got,
		.room = room,
		.n = *n,
		.buffer = buffer,
	};
	find_functions(s);
	for (size_t i = 0; s->n_functions && i < modules->modules.n; i++) {
		struct vt_module *module = &modules->modules.data[i];
		struct vt_error *err VT_ERROR =
			is_searched(module) ? vt_module_open(modules, module) : NULL;

		if (!err && is_searched(module) && module->image && !module->bad)
			look_in_module(s, module);
	}
	*n = s->n;
	n_more = s->n_more;
	return n_more;
}
