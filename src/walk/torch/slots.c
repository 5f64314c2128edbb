/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions by name if the library has symbols, as the official wheels have (2.0 to
 * 2.15), and searches the target's table for them. If it has none (Debian's), the release tells the
 * table: then the number of functions must be that release's, and the last function must return
 * "native". Only PyTorch's native allocator qualifies, and only a table in its own library.
 */
#include "walk/torch/slots.h"

#include <string.h>

#include "target/live.h"
#include "walk/native/symfile.h"
#include "walk/torch/find.h"

#define TABLE_HEAD 2 /* words in front of where a vptr points */
#define MAX_WORDS (VT_RECORDER_MAX_VTABLE - TABLE_HEAD)
#define SYMBOLS_AT_ONCE 1024
#define NATIVE "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator"

/* The virtual table of the target. */
struct table {
	uint64_t words[MAX_WORDS];
	uint32_t n; /* functions */
};

#define SCOPE "3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator"
#define MAX_NAME 128

static const struct {
	const char *name;
	enum vt_recorder_slot slot;
} names[] = {
	{ "_ZN" SCOPE "8allocateEm", VT_SLOT_ALLOCATE },
	{ "_ZNK" SCOPE "8allocateEm", VT_SLOT_ALLOCATE }, /* up to 2.2 */
	{ "_ZN" SCOPE "9raw_allocEm", VT_SLOT_RAW_ALLOC },
	{ "_ZN" SCOPE "21raw_alloc_with_streamEmP11CUstream_st", VT_SLOT_RAW_ALLOC_WITH_STREAM },
	{ "_ZN" SCOPE "19allocateWithAddressEmPv", VT_SLOT_ALLOCATE_WITH_ADDRESS }, /* 2.13 on */
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static struct vt_error *unknown(const char *why)
{
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "the virtual table of PyTorch's allocator is not understood: %s",
			       why);
}

/* ---- the table ---- */

static bool is_code(const struct vt_maps *maps, uint64_t addr)
{
	const struct vt_map_entry *map = vt_maps_find(maps, addr);

	return map && map->flags & VT_MAP_EXEC;
}

static struct vt_error *read_table(const struct vt_maps *maps, struct vt_memsrc *src,
				   const struct vt_module *module, uint64_t vptr,
				   struct table *table)
{
	uint64_t offset_to_top;
	size_t got;

	if (vptr % 8 || vptr < module->start || vptr >= module->end)
		return unknown("it is not in libc10_cuda.so, so something else has replaced it");
	if (vt_mem_read_u64(src, vptr - TABLE_HEAD * 8, &offset_to_top) || offset_to_top)
		return unknown("it is not that of a whole object");
	got = vt_torch_read_some(src, vptr, table->words, sizeof(table->words)) / 8;
	for (table->n = 0; table->n < got && is_code(maps, table->words[table->n]); table->n++)
		;
	return table->n ? NULL : unknown("it has no functions");
}

/*
 * The only slot of the address in the table; VT_RECORDER_NONE: it is not there, or more than once.
 */
static uint32_t slot_of(const struct table *table, uint64_t addr)
{
	uint32_t found = VT_RECORDER_NONE;

	for (uint32_t i = 0; i < table->n; i++) {
		if (table->words[i] != addr)
			continue;
		if (found != VT_RECORDER_NONE)
			return VT_RECORDER_NONE;
		found = i;
	}
	return found;
}

/* ---- by symbols ---- */

static void offer(const struct vt_symfile *file, const Elf64_Shdr *strings, const Elf64_Sym *symbol,
		  uint64_t values[N_NAMES])
{
	char name[MAX_NAME];
	uint64_t room;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_shndx ||
	    symbol->st_name >= strings->sh_size)
		return;
	room = strings->sh_size - symbol->st_name;
	if (room > sizeof(name))
		room = sizeof(name);
	if (strings->sh_offset > file->size ||
	    !vt_symfile_read(file, strings->sh_offset + symbol->st_name, name, (size_t)room))
		return;
	for (size_t i = 0; i < N_NAMES; i++)
		if (strnlen(name, (size_t)room) < room && !strcmp(name, names[i].name))
			values[i] = symbol->st_value;
}

static void scan(const struct vt_symfile *file, const Elf64_Shdr *table, uint64_t values[N_NAMES])
{
	uint64_t left = table->sh_size / sizeof(Elf64_Sym), offset = table->sh_offset;
	VT_FREE Elf64_Sym *symbols = malloc(SYMBOLS_AT_ONCE * sizeof(*symbols));

	if (!symbols || left > VT_SYMFILE_MAX_SYMBOLS || table->sh_entsize != sizeof(Elf64_Sym) ||
	    table->sh_link >= file->n_sections)
		return;
	while (left > 0) {
		size_t now = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;

		if (!vt_symfile_read(file, offset, symbols, now * sizeof(*symbols)))
			return;
		for (size_t i = 0; i < now; i++)
			offer(file, &file->sections[table->sh_link], &symbols[i], values);
		left -= now;
		offset += now * sizeof(*symbols);
	}
}

/* The functions' places in the file; 0: no symbol has the name. */
static void find_symbols(const struct vt_module *module, uint64_t values[N_NAMES])
{
	struct vt_symfile file = { .fd = -1, .data = module->image, .size = module->image_size };
	const Elf64_Shdr *table = module->image && vt_symfile_init(&file) ?
					  vt_symfile_section(&file, SHT_SYMTAB) :
					  NULL;

	if (table)
		scan(&file, table, values);
	vt_symfile_deinit(&file);
}

/*
 * All that have a symbol must be in the table, or this is not the table of that class.
 * VT_ERR_NOTFOUND: there are no symbols.
 */
static struct vt_error *by_symbols(const struct vt_module *module, const struct table *table,
				   struct vt_recorder_torch *out)
{
	uint64_t values[N_NAMES] = { 0 };

	find_symbols(module, values);
	for (size_t i = 0; i < N_NAMES; i++) {
		if (!values[i])
			continue;
		out->slots[names[i].slot] = slot_of(table, values[i] + module->bias);
		if (out->slots[names[i].slot] == VT_RECORDER_NONE)
			return unknown("a function that allocates is not in it");
	}
	for (enum vt_recorder_slot slot = VT_SLOT_ALLOCATE; slot <= VT_SLOT_RAW_ALLOC_WITH_STREAM;
	     slot++)
		if (out->slots[slot] == VT_RECORDER_NONE)
			return vt_error_create(VT_ERR_NOTFOUND, "no symbols");
	return NULL;
}

/* ---- by release ---- */

struct slots_row {
	const char *release;
	uint32_t n;    /* functions */
	uint32_t name; /* index of name() */
	uint32_t slots[VT_N_SLOTS];
};

#include "walk/torch/slots_table.h"

/* "2.6" of "2.6.0+cu124" */
static bool is_release(const char *version, const char *release)
{
	size_t n = strlen(release);

	return !strncmp(version, release, n) && (version[n] == '.' || version[n] == '\0');
}

/* By its version.py, or by the name of the library in Debian: libc10_cuda.so.2.6 or .2.6.0. */
static const struct slots_row *find_row(const struct vt_torch_found *found,
					const struct vt_module *module)
{
	static const char file[] = "/libc10_cuda.so.";
	const char *in_name = strstr(module->path, file);
	const char *version = found->version[0] ? found->version :
			      in_name           ? in_name + sizeof(file) - 1 :
						  "";

	for (size_t i = 0; i < sizeof(slots_table) / sizeof(slots_table[0]); i++)
		if (is_release(version, slots_table[i].release))
			return &slots_table[i];
	return NULL;
}

/*
 * std::string name() { return "native"; }: with today's string the word is in the instructions,
 * with the one before C++11 they have its address: lea disp(%rip), %rsi.
 */
static bool returns_native(struct vt_memsrc *src, uint64_t function)
{
	uint8_t code[64];
	char text[7];
	const uint8_t *lea;
	int32_t disp;

	if (vt_mem_read(src, function, code, sizeof(code)))
		return false;
	if (memmem(code, sizeof(code), "nati", 4))
		return true;
	lea = memmem(code, sizeof(code) - 4, "\x48\x8d\x35", 3);
	if (!lea)
		return false;
	memcpy(&disp, lea + 3, sizeof(disp));
	return !vt_mem_read(src, function + (uint64_t)(lea - code) + 7 + (uint64_t)(int64_t)disp,
			    text, sizeof(text)) &&
	       !memcmp(text, "native", sizeof(text));
}

static struct vt_error *by_release(struct vt_memsrc *src, const struct vt_torch_found *found,
				   const struct vt_module *module, const struct table *table,
				   struct vt_recorder_torch *out)
{
	const struct slots_row *row = find_row(found, module);

	if (!row)
		return unknown("libc10_cuda.so has no symbols, and its release is unknown");
	if (table->n != row->n || !returns_native(src, table->words[row->name]))
		return unknown(
			"libc10_cuda.so has no symbols, and its table is not that of its release");
	memcpy(out->slots, row->slots, sizeof(out->slots));
	return NULL;
}

/* ---- */

struct vt_error *vt_torch_slots(struct vt_modules *modules, const struct vt_maps *maps,
				struct vt_memsrc *src, const struct vt_torch_found *found,
				uint64_t vptr, struct vt_recorder_torch *out)
{
	struct vt_recorder_torch torch = { .object = found->allocator, .vptr = vptr };
	/* A module of ours that is opened for its symbols. */
	struct vt_module *module =
		found->c10_cuda ? vt_modules_find(modules, found->c10_cuda->start) : NULL;
	char class_name[VT_RTTI_MAX];
	struct table table;
	struct vt_error *err;

	if (!found->allocator || !module)
		return unknown("there is no allocator");
	vt_torch_class_name(src, found->allocator, class_name);
	if (!strstr(class_name, "NativeCachingAllocator"))
		return unknown("it is not that of " NATIVE);
	for (size_t i = 0; i < VT_N_SLOTS; i++)
		torch.slots[i] = VT_RECORDER_NONE;
	VT_TRY(vt_module_open(modules, module));
	VT_TRY(read_table(maps, src, module, vptr, &table));
	torch.n_words = table.n;
	err = by_symbols(module, &table, &torch);
	if (vt_error_catch(&err, VT_ERR_NOTFOUND))
		err = by_release(src, found, module, &table, &torch);
	if (err)
		return err;
	*out = torch;
	return NULL;
}
