/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of program counters. All of them are collected and sorted first; then each module's symbol
 * table is read once, from the file in pieces (libtorch_cpu.so has 550,000 symbols in 13 MB), and
 * each symbol is offered to the few addresses that it may name. Files are hostile: every offset is
 * bounded, nothing is followed twice.
 */
#include <elf.h>
#include <lzma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parallel.h"
#include "target/readers.h"
#include "walk/native/debugfile.h"
#include "walk/native/demangle.h"
#include "walk/native/native.h"
#include "walk/native/pcs.h"
#include "walk/native/symfile.h"

#define MAX_DEBUGDATA (64u * 1024 * 1024)
/* Parts into which the range of the wanted addresses of a file is divided. */
#define N_GAPS 4096
#define SYMBOLS_AT_ONCE 2048
/* What a thread of ours takes of a table at a time: starting one costs 50 us, a symbol 7 ns. */
#define GRAIN ((size_t)1 << 15)
#define MAX_RELOCS (16 * 1024 * 1024)
#define RELOCS_AT_ONCE 512
#define PLT_ENTRY 16

/* Matching symbols and addresses. */

struct candidate {
	bool found;
	uint8_t rank;
	uint64_t value;
	uint64_t size;
	uint32_t name;
	uint64_t index; /* in the table */
};

/* An address that wants a name. */
struct wanted {
	uint64_t vaddr;
	struct candidate function; /* a symbol with a size that contains vaddr */
	struct candidate label;    /* the nearest preceding one without a size, if that names it */
	/* where the last symbol with a size ends that does not reach vaddr */
	uint64_t label_floor;
	/* result */
	const char *symbol;
	const char *shown;
	uint64_t value;
};

/* One symbol table being read. */
struct scan {
	const struct vt_symfile *file;
	struct wanted *wanted; /* sorted by vaddr */
	size_t n;
	/*
	 * gaps[i + 1]: how many wanted addresses lie below first + (i << shift); part 0 is all that
	 * lies below first
	 */
	uint64_t first;
	unsigned int shift;
	uint32_t gaps[N_GAPS + 3];
	/*
	 * It has the functions that are not global, too. Otherwise, the code behind a symbol
	 * without a size may be that of any function: musl's memset is the last global name in
	 * front of all its system calls.
	 */
	bool has_locals;
	pthread_mutex_t lock; /* of has_locals and of what is written in wanted */
};

/*
 * Of aliases, the global name is the familiar one. A local one counts only if no other contains the
 * address, as in eu-stack.
 */
static uint8_t rank_of(const Elf64_Sym *sym)
{
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return 3;
	case STB_WEAK:
		return 2;
	default:
		return 1;
	}
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
	bool a_local = a->rank == 1, b_local = b->rank == 1;

	if (!b->found)
		return true;
	if (a_local != b_local)
		return b_local;
	if (a->value != b->value)
		return a->value > b->value;
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->size != b->size ? a->size < b->size : a->index < b->index;
}

/*
 * .dynsym is in the order of its hash table, so that one symbol tells nothing of the next: a search
 * among all wanted addresses for each of half a million costs more than reading them.
 */
static void make_gaps(struct scan *scan)
{
	size_t n = scan->n, at = 0;
	uint64_t span = n ? scan->wanted[n - 1].vaddr - scan->wanted[0].vaddr : 0;

	scan->first = n ? scan->wanted[0].vaddr : 0;
	while (span >> scan->shift >= N_GAPS)
		scan->shift++;
	scan->gaps[N_GAPS + 1] = scan->gaps[N_GAPS + 2] = (uint32_t)n;
	for (size_t i = 0; i < N_GAPS; i++) {
		uint64_t offset = (uint64_t)i << scan->shift;

		while (at < n && scan->wanted[at].vaddr - scan->first < offset)
			at++;
		scan->gaps[i + 1] = (uint32_t)at;
	}
}

/* The part that an address is in; N_GAPS + 1: behind the last one. Without branches. */
static uint64_t part_of(const struct scan *scan, uint64_t vaddr)
{
	uint64_t part = (vaddr - scan->first) >> scan->shift;

	part = part < N_GAPS ? part : N_GAPS;
	return vaddr < scan->first ? 0 : part + 1;
}

/* The number of wanted addresses below vaddr. */
static size_t find_gap(const struct scan *scan, uint64_t vaddr)
{
	uint64_t part = part_of(scan, vaddr);
	size_t low = scan->gaps[part], high = part > N_GAPS ? scan->n : scan->gaps[part + 1];

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (scan->wanted[mid].vaddr < vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void offer_function(struct scan *scan, size_t gap, const struct candidate *symbol)
{
	uint64_t end = symbol->value + symbol->size;

	if (end < symbol->value)
		return;
	for (; gap < scan->n && scan->wanted[gap].vaddr < end; gap++)
		if (is_better(symbol, &scan->wanted[gap].function))
			scan->wanted[gap].function = *symbol;
}

/* Only the first address behind it; the others inherit it (finish_labels). */
static void offer_label(struct scan *scan, size_t gap, const struct candidate *symbol)
{
	struct candidate *label;

	if (gap == scan->n)
		return;
	label = &scan->wanted[gap].label;
	if (!label->found || symbol->value > label->value ||
	    (symbol->value == label->value &&
	     (symbol->rank > label->rank ||
	      (symbol->rank == label->rank && symbol->index < label->index))))
		*label = *symbol;
}

/* It names code, and is not in another table. */
static bool is_code(const Elf64_Sym *sym)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && sym->st_name &&
	       sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS &&
	       sym->st_shndx != SHN_COMMON;
}

/* A symbol of code. By any thread, in any order: which symbol wins does not depend on it. */
static void offer(struct scan *scan, const Elf64_Sym *sym, uint64_t index)
{
	struct candidate symbol = { .found = true,
				    .rank = rank_of(sym),
				    .value = sym->st_value,
				    .size = sym->st_size,
				    .name = sym->st_name,
				    .index = index };
	size_t gap = find_gap(scan, sym->st_value);

	pthread_mutex_lock(&scan->lock);
	scan->has_locals |= symbol.rank == 1;
	if (sym->st_size)
		offer_function(scan, gap, &symbol);
	else
		offer_label(scan, gap, &symbol);
	pthread_mutex_unlock(&scan->lock);
}

/*
 * Of half a million symbols some ten are near a wanted address. The order of .dynsym, that of its
 * hash table, has no pattern that a processor could predict: so this comes to one branch, which is
 * hardly ever taken. False for a symbol that offer() could do nothing with, once it had a local one
 * (has_locals); but floors are not kept up to date.
 */
static bool may_matter(const struct scan *scan, const Elf64_Sym *sym, bool has_locals)
{
	uint64_t end = sym->st_value + sym->st_size;
	bool near = scan->gaps[part_of(scan, sym->st_value)] != scan->gaps[part_of(scan, end) + 1];
	bool local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL;
	bool label = sym->st_size == 0;

	return near | ((label | (local & !has_locals)) & (sym->st_shndx != SHN_UNDEF));
}

/* The end of the last symbol with a size in front of each wanted address. */
static void raise_floor(struct scan *scan, const Elf64_Sym *sym)
{
	uint64_t end = sym->st_value + sym->st_size;
	size_t gap;

	if (!is_code(sym) || !sym->st_size || end < sym->st_value)
		return;
	gap = find_gap(scan, sym->st_value);
	while (gap < scan->n && scan->wanted[gap].vaddr < end)
		gap++;
	if (gap < scan->n && end > scan->wanted[gap].label_floor)
		scan->wanted[gap].label_floor = end;
}

/* Floors matter where a label is all that there is. */
static bool needs_floors(const struct scan *scan)
{
	bool labels = false, lacks = false;

	for (size_t i = 0; i < scan->n; i++) {
		labels |= scan->wanted[i].label.found;
		lacks |= !scan->wanted[i].function.found;
	}
	return scan->has_locals && labels && lacks;
}

static void finish_labels(struct scan *scan)
{
	for (size_t i = 0; i < scan->n; i++) {
		struct wanted *w = &scan->wanted[i], *before = w - 1;

		if (i > 0) {
			if (!w->label.found)
				w->label = before->label;
			if (w->label_floor < before->label_floor)
				w->label_floor = before->label_floor;
		}
	}
	for (size_t i = 0; i < scan->n; i++) {
		struct wanted *w = &scan->wanted[i];
		const Elf64_Shdr *section;

		if (!scan->has_locals)
			w->label.found = false;

		if (w->function.found || !w->label.found)
			continue;
		/*
		 * Behind another function's end, or in another section, the label is not the code
		 * that runs there.
		 */
		section = vt_symfile_at(scan->file, w->vaddr);
		if (w->label.value < w->label_floor || !section ||
		    !vt_symfile_contains(section, w->label.value))
			w->label.found = false;
	}
}

static bool read_names(struct scan *scan, const Elf64_Shdr *strings, struct vt_arena *arena)
{
	const struct wanted *last = NULL;
	const struct candidate *last_symbol = NULL;

	for (size_t i = 0; i < scan->n; i++) {
		struct wanted *w = &scan->wanted[i];
		const struct candidate *symbol = w->function.found ? &w->function : &w->label;

		if (w->symbol || !symbol->found)
			continue;
		if (last && last_symbol->name == symbol->name &&
		    last_symbol->value == symbol->value) {
			w->symbol = last->symbol;
			w->shown = last->shown;
			w->value = last->value;
			continue;
		}

		VT_FREE char *name = vt_symfile_string(scan->file, strings, symbol->name);

		if (!name || !name[0])
			continue;
		w->symbol = vt_arena_strdup(arena, name);
		w->shown = vt_demangle(arena, name, strlen(name));
		w->value = symbol->value;
		if (!w->symbol || !w->shown)
			return false;
		last = w;
		last_symbol = symbol;
	}
	return true;
}

/* One pass over a symbol table. */
struct pass {
	struct scan *scan;
	uint64_t offset; /* of the table */
	bool floors;
};

/* Symbols [first, end), as far as they can be read. Several threads have a part each. */
static void read_part(void *arg, size_t first, size_t end)
{
	const struct pass *pass = arg;
	Elf64_Sym symbols[SYMBOLS_AT_ONCE];
	bool has_locals = false;

	for (size_t now; first < end; first += now) {
		now = end - first < SYMBOLS_AT_ONCE ? end - first : SYMBOLS_AT_ONCE;
		if (!vt_symfile_read(pass->scan->file, pass->offset + first * sizeof(*symbols),
				     symbols, now * sizeof(*symbols)))
			return;
		for (size_t i = 0; i < now; i++) {
			if (pass->floors) {
				raise_floor(pass->scan, &symbols[i]);
			} else if (may_matter(pass->scan, &symbols[i], has_locals) &&
				   is_code(&symbols[i])) {
				offer(pass->scan, &symbols[i], first + i);
				has_locals |= rank_of(&symbols[i]) == 1;
			}
		}
	}
}

static void read_symbols(struct scan *scan, const Elf64_Shdr *table, bool floors)
{
	struct pass pass = { .scan = scan, .offset = table->sh_offset, .floors = floors };
	uint64_t n = table->sh_size / sizeof(Elf64_Sym);

	/* No part of it may wrap to another place of the file. */
	if (table->sh_offset > scan->file->size)
		return;
	if (n > VT_SYMFILE_MAX_SYMBOLS)
		n = VT_SYMFILE_MAX_SYMBOLS;
	/* Floors are rare, and every symbol raises one. */
	vt_parallel(floors || n <= 2 * GRAIN ? 0 : vt_readers_useful(), (size_t)n, GRAIN, read_part,
		    &pass);
}

/* Reads one symbol table. False when out of memory. */
static bool scan_table(const struct vt_symfile *file, const Elf64_Shdr *table,
		       struct wanted *wanted, size_t n, struct vt_arena *arena)
{
	struct scan scan = {
		.file = file,
		.wanted = wanted,
		.n = n,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};

	if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= file->n_sections)
		return true;
	for (size_t i = 0; i < n; i++) {
		wanted[i].function.found = wanted[i].label.found = false;
		wanted[i].label_floor = 0;
	}
	make_gaps(&scan);
	read_symbols(&scan, table, false);
	if (needs_floors(&scan))
		read_symbols(&scan, table, true);
	finish_labels(&scan);
	return read_names(&scan, &file->sections[table->sh_link], arena);
}

static bool all_named(const struct wanted *wanted, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!wanted[i].symbol)
			return false;
	return true;
}

/* Other places of symbols. */

/* The xz stream of n bytes, unpacked; NULL if it is invalid or too large. */
static uint8_t *unpack_xz(const uint8_t *packed, size_t n, size_t *size)
{
	lzma_stream xz = LZMA_STREAM_INIT;
	size_t capacity = n * 4 < 65536 ? 65536 : n * 4;
	uint8_t *out = NULL;
	lzma_ret ret = lzma_stream_decoder(&xz, MAX_DEBUGDATA, 0);

	xz.next_in = packed;
	xz.avail_in = n;
	*size = 0;
	while (ret == LZMA_OK && *size < MAX_DEBUGDATA) {
		uint8_t *more = realloc(out, capacity);

		if (!more)
			break;
		out = more;
		xz.next_out = out + *size;
		xz.avail_out = capacity - *size;
		ret = lzma_code(&xz, LZMA_FINISH);
		*size = (size_t)xz.total_out;
		if (*size == capacity)
			capacity = capacity * 2 < MAX_DEBUGDATA ? capacity * 2 : MAX_DEBUGDATA;
	}
	lzma_end(&xz);
	if (ret == LZMA_STREAM_END)
		return out;
	free(out);
	return NULL;
}

static bool scan_symtab_of(struct vt_symfile *file, struct wanted *wanted, size_t n,
			   struct vt_arena *arena)
{
	const Elf64_Shdr *table = vt_symfile_init(file) ? vt_symfile_section(file, SHT_SYMTAB) :
							  NULL;
	bool ok = !table || scan_table(file, table, wanted, n, arena);

	vt_symfile_deinit(file);
	return ok;
}

/*
 * Fedora and its kin: .gnu_debugdata is an xz-packed ELF file with the symbols that .dynsym lacks
 * ("MiniDebugInfo").
 */
static bool scan_debugdata(const struct vt_symfile *file, struct wanted *wanted, size_t n,
			   struct vt_arena *arena)
{
	const Elf64_Shdr *section = vt_symfile_named(file, ".gnu_debugdata");

	if (!section || section->sh_type != SHT_PROGBITS || section->sh_size > MAX_DEBUGDATA / 4)
		return true;

	VT_FREE uint8_t *packed = malloc((size_t)section->sh_size + 1);
	VT_FREE uint8_t *unpacked = NULL;
	size_t size;

	if (!packed)
		return false;
	if (!vt_symfile_read(file, section->sh_offset, packed, (size_t)section->sh_size))
		return true;
	unpacked = unpack_xz(packed, (size_t)section->sh_size, &size);
	if (!unpacked)
		return true;

	struct vt_symfile inner = { .fd = -1, .data = unpacked, .size = size };

	return scan_symtab_of(&inner, wanted, n, arena);
}

/* Stripped symbols are in a separate file, if it is installed. */
static bool scan_debug_file(const struct vt_modules *modules, const struct vt_module *module,
			    struct wanted *wanted, size_t n, struct vt_arena *arena)
{
	struct vt_debugfile found = { .fd = -1 };
	bool ok = true;

	if (vt_debugfile_find(modules, module, &found)) {
		struct vt_symfile file = { .fd = found.fd, .size = found.size };

		ok = scan_symtab_of(&file, wanted, n, arena);
	}
	vt_debugfile_close(&found);
	return ok;
}

/*
 * Procedure linkage table: a stub jumps through a slot, and a relocation says which symbol the slot
 * is for.
 */

/*
 * .plt.got has short stubs where the processor is not asked to check branch targets (no endbr64).
 */
static uint64_t plt_entry(const Elf64_Shdr *plt, uint64_t vaddr)
{
	uint64_t size = plt->sh_entsize == PLT_ENTRY / 2 ? PLT_ENTRY / 2 : PLT_ENTRY;

	return (vaddr - plt->sh_addr) / size * size;
}

/*
 * The address of the slot: the stub has, after endbr64 or bnd, the instruction FF 25 (jmp
 * *disp32(%rip)).
 */
static bool plt_slot(const struct vt_symfile *file, const Elf64_Shdr *plt, uint64_t vaddr,
		     uint64_t *slot)
{
	uint64_t entry = plt_entry(plt, vaddr);
	uint8_t code[PLT_ENTRY] = { 0 };
	size_t n = plt->sh_entsize == PLT_ENTRY / 2 ? PLT_ENTRY / 2 : PLT_ENTRY;

	if (plt->sh_offset > file->size || !vt_symfile_read(file, plt->sh_offset + entry, code, n))
		return false;
	for (size_t i = 0; i + 6 <= sizeof(code); i++) {
		int32_t disp;

		if (code[i] != 0xff || code[i + 1] != 0x25)
			continue;
		memcpy(&disp, code + i + 2, sizeof(disp));
		*slot = plt->sh_addr + entry + i + 6 + (uint64_t)(int64_t)disp;
		return true;
	}
	return false;
}

/* The relocation for the slot in one table; false when it has none. */
static bool find_reloc(const struct vt_symfile *file, const Elf64_Shdr *table, uint64_t slot,
		       Elf64_Rela *found)
{
	uint64_t n = table->sh_size / sizeof(*found), offset = table->sh_offset;
	Elf64_Rela relocs[RELOCS_AT_ONCE];

	if (table->sh_type != SHT_RELA || table->sh_entsize != sizeof(*found))
		return false;
	for (uint64_t left = n < MAX_RELOCS ? n : MAX_RELOCS; left > 0;) {
		size_t now = left < RELOCS_AT_ONCE ? (size_t)left : RELOCS_AT_ONCE;

		if (!vt_symfile_read(file, offset, relocs, now * sizeof(relocs[0])))
			return false;
		for (size_t i = 0; i < now; i++) {
			if (relocs[i].r_offset == slot) {
				*found = relocs[i];
				return true;
			}
		}
		left -= now;
		offset += now * sizeof(relocs[0]);
	}
	return false;
}

/* The name of the symbol in the slot, or NULL. The caller frees it. */
static char *slot_name(const struct vt_symfile *file, uint64_t slot)
{
	for (size_t i = 1; i < file->n_sections; i++) {
		const Elf64_Shdr *relocs = &file->sections[i], *symtab;
		Elf64_Rela rela;
		Elf64_Sym sym;

		if (relocs->sh_link >= file->n_sections || !find_reloc(file, relocs, slot, &rela))
			continue;
		symtab = &file->sections[relocs->sh_link];
		if (symtab->sh_link < file->n_sections && symtab->sh_offset <= file->size &&
		    vt_symfile_read(file,
				    symtab->sh_offset + ELF64_R_SYM(rela.r_info) * sizeof(sym),
				    &sym, sizeof(sym)))
			return vt_symfile_string(file, &file->sections[symtab->sh_link],
						 sym.st_name);
	}
	return NULL;
}

static bool name_plt(const struct vt_symfile *file, struct wanted *w, struct vt_arena *arena)
{
	const Elf64_Shdr *section = vt_symfile_at(file, w->vaddr);
	uint64_t slot;

	if (!section || section->sh_type != SHT_PROGBITS ||
	    !vt_symfile_has_name(file, section, ".plt", false) ||
	    !plt_slot(file, section, w->vaddr, &slot))
		return true;

	VT_FREE char *name = slot_name(file, slot);

	if (!name || !name[0])
		return true;

	const char *shown = vt_demangle(arena, name, strlen(name));

	w->symbol = vt_arena_printf(arena, "%s@plt", name);
	w->shown = shown ? vt_arena_printf(arena, "%s@plt", shown) : NULL;
	w->value = section->sh_addr + plt_entry(section, w->vaddr);
	return w->symbol && w->shown;
}

/* Modules and frames. */

static bool name_addresses(const struct vt_modules *modules, const struct vt_module *module,
			   const struct vt_symfile *file, struct wanted *wanted, size_t n,
			   struct vt_arena *arena)
{
	const Elf64_Shdr *symtab = vt_symfile_section(file, SHT_SYMTAB);
	const Elf64_Shdr *dynsym = vt_symfile_section(file, SHT_DYNSYM);
	bool ok = true;

	if (symtab) {
		ok = scan_table(file, symtab, wanted, n, arena);
	} else {
		if (dynsym)
			ok = scan_table(file, dynsym, wanted, n, arena);
		if (ok && !all_named(wanted, n))
			ok = scan_debugdata(file, wanted, n, arena);
		if (ok && !all_named(wanted, n))
			ok = scan_debug_file(modules, module, wanted, n, arena);
	}
	for (size_t i = 0; ok && i < n; i++)
		if (!wanted[i].symbol)
			ok = name_plt(file, &wanted[i], arena);
	return ok;
}

static void assign(const struct vt_module *module, const struct wanted *w,
		   struct vt_native_frame *frame)
{
	frame->function = frame->signal ? "<signal handler called>" : w->shown;
	frame->symbol = w->symbol;
	frame->function_offset = w->symbol ? frame->pc - module->bias - w->value : 0;
}

/* False when the file has neither symbols nor sections that could lead to some. */
static bool open_symbols(struct vt_symfile *file, const struct vt_module *module)
{
	if (vt_symfile_init(file) &&
	    (vt_symfile_section(file, SHT_SYMTAB) || vt_symfile_section(file, SHT_DYNSYM)))
		return true;
	return vt_symfile_init_dynamic(file, module->bias) || file->n_sections > 0;
}

/* Names the frames of one module, which are sorted by address. */
static struct vt_error *name_module(struct vt_modules *modules, struct vt_module *module,
				    struct vt_native_pc *pcs, size_t n, struct vt_arena *arena)
{
	struct vt_error *err = vt_module_open(modules, module);

	for (size_t i = 0; i < n; i++) {
		pcs[i].frame->module = module;
		pcs[i].frame->module_offset =
			pcs[i].frame->pc - (err ? module->start : module->bias);
	}
	if (err) {
		/*
		 * A module that cannot be read has no names; its frames are still shown by offset.
		 */
		vt_error_destroy(err);
		return NULL;
	}

	VT_FREE struct wanted *wanted = calloc(n, sizeof(*wanted));
	struct vt_symfile file = { .fd = module->fd,
				   .data = module->fd < 0 ? module->image : NULL,
				   .size = module->image_size };
	size_t n_wanted = 0;
	bool ok = true;

	if (!wanted)
		return &vt_enomem;
	for (size_t i = 0; i < n; i++)
		if (i == 0 || pcs[i].pc != pcs[i - 1].pc)
			wanted[n_wanted++].vaddr = pcs[i].pc - module->bias;
	if (open_symbols(&file, module))
		ok = name_addresses(modules, module, &file, wanted, n_wanted, arena);
	vt_symfile_deinit(&file);
	for (size_t i = 0, k = 0; ok && i < n; i++) {
		if (i > 0 && pcs[i].pc != pcs[i - 1].pc)
			k++;
		assign(module, &wanted[k], pcs[i].frame);
	}
	return ok ? NULL : &vt_enomem;
}

struct vt_error *vt_native_symbolise(struct vt_modules *modules, struct vt_native_stack *stacks,
				     size_t n, struct vt_arena *arena)
{
	VT_FREE struct vt_native_pc *pcs = NULL;
	size_t n_pcs;

	VT_TRY(vt_native_pcs(modules, stacks, n, &pcs, &n_pcs));
	for (size_t i = 0, end; i < n_pcs; i = end) {
		end = vt_native_pcs_end(pcs, n_pcs, i);
		VT_TRY(name_module(modules, pcs[i].module, pcs + i, end - i, arena));
	}
	return NULL;
}
