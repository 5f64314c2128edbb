/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF 5, sections 3.3 (subprograms and inlined instances), 6.1.2 (.debug_aranges: which unit an
 * address belongs to) and 6.2 (line numbers). clang and rustc write no .debug_aranges, and files
 * built by several compilers have them for some units only: the units' own ranges fill the gaps.
 */
#include "walk/native/dwarf_lines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include "base/page.h"
#include "base/vec.h"

#define MAX_DEPTH 64
#define MAX_LEFT_OUT (UINT64_C(1) << 20) /* of a function: compilers make none of this size */
#define MAX_HEADERS (UINT64_C(65536) * sizeof(Elf64_Shdr))

/* Part of a unit's code. */
struct range {
	uint64_t begin, end;
	Dwarf_Off unit; /* offset of its DIE */
};

struct vt_dwarf {
	Elf *elf, *shared_elf;
	Dwarf *dw, *shared;
	bool have_ranges;
	VT_VEC(struct range) ranges;
};

/*
 * libelf 0.188 changes a section's header when it unpacks the section, even if it is only asked to
 * read: in the image itself if the header is aligned there. So the mapping is private.
 */
static void let_headers_change(const uint8_t *image, uint64_t size)
{
	uint64_t begin, end;
	Elf64_Ehdr ehdr;

	if (size < sizeof(ehdr))
		return;
	memcpy(&ehdr, image, sizeof(ehdr));
	if (ehdr.e_shoff >= size)
		return;
	end = size - ehdr.e_shoff < MAX_HEADERS ? size : ehdr.e_shoff + MAX_HEADERS;
	begin = ehdr.e_shoff & ~(vt_page_size() - 1);
	(void)mprotect((void *)(uintptr_t)(image + begin), (size_t)(end - begin),
		       PROT_READ | PROT_WRITE);
}

static Dwarf *open_image(const uint8_t *image, uint64_t size, Elf **elf)
{
	let_headers_change(image, size);
	*elf = elf_memory((char *)(uintptr_t)image, (size_t)size);
	return *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
}

struct vt_dwarf *vt_dwarf_open(const uint8_t *image, uint64_t size, const uint8_t *shared,
			       uint64_t shared_size)
{
	struct vt_dwarf *dwarf = calloc(1, sizeof(*dwarf));

	if (!dwarf || elf_version(EV_CURRENT) == EV_NONE) {
		free(dwarf);
		return NULL;
	}
	dwarf->dw = open_image(image, size, &dwarf->elf);
	if (!dwarf->dw) {
		vt_dwarf_close(dwarf);
		return NULL;
	}
	if (shared)
		dwarf->shared = open_image(shared, shared_size, &dwarf->shared_elf);
	if (dwarf->shared)
		dwarf_setalt(dwarf->dw, dwarf->shared);
	return dwarf;
}

void vt_dwarf_close(struct vt_dwarf *dwarf)
{
	dwarf_end(dwarf->dw);
	dwarf_end(dwarf->shared);
	elf_end(dwarf->elf);
	elf_end(dwarf->shared_elf);
	vt_vec_deinit(&dwarf->ranges);
	free(dwarf);
}

/* Units. */

static void add_ranges(struct vt_dwarf *dwarf, Dwarf_Die *unit)
{
	Dwarf_Addr base, begin, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(unit, offset, &base, &begin, &end)) > 0) {
		/* 0: see left_out_end() */
		struct range *range = begin ? vt_vec_append(&dwarf->ranges) : NULL;

		if (!begin)
			continue;
		if (!range)
			return;
		*range =
			(struct range){ .begin = begin, .end = end, .unit = dwarf_dieoffset(unit) };
	}
}

static void find_ranges(struct vt_dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	uint8_t type;

	while (dwarf_get_units(dwarf->dw, cu, &cu, NULL, &type, &unit, NULL) == 0)
		if (type == DW_UT_compile)
			add_ranges(dwarf, &unit);
}

static bool find_unit(struct vt_dwarf *dwarf, uint64_t vaddr, Dwarf_Die *unit)
{
	if (dwarf_addrdie(dwarf->dw, vaddr, unit))
		return true;
	if (!dwarf->have_ranges)
		find_ranges(dwarf);
	dwarf->have_ranges = true;
	for (size_t i = 0; i < dwarf->ranges.n; i++)
		if (vaddr >= dwarf->ranges.data[i].begin && vaddr < dwarf->ranges.data[i].end)
			return dwarf_offdie(dwarf->dw, dwarf->ranges.data[i].unit, unit);
	return false;
}

/*
 * With split DWARF (-gsplit-dwarf) the lines are here, but inlined functions are in a .dwo file on
 * the machine that compiled: a line without them would be attributed to the function that contains
 * them.
 */
static bool is_skeleton(Dwarf_Die *unit)
{
	uint8_t type;

	return dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 &&
	       type == DW_UT_skeleton;
}

/* Functions. */

/* Where functions are searched. More places take longer. */
enum effort { IN_NAMESPACES, IN_TYPES, IN_FUNCTIONS, N_EFFORTS };

/* The instances that contain an address, the function itself first. */
struct chain {
	uint64_t vaddr;
	enum effort effort;
	Dwarf_Die dies[VT_DWARF_MAX_FRAMES];
	size_t n; /* more than fit, if there are more */
};

enum kind { OTHER, FUNCTION, BLOCK, NAMESPACE, TYPE };

static enum kind kind_of(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
		return FUNCTION;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return BLOCK;
	case DW_TAG_namespace:
	case DW_TAG_module:
		return NAMESPACE;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return TYPE;
	default:
		return OTHER;
	}
}

/*
 * Functions are entries of the unit or of a namespace. rustc puts methods inside their types, where
 * gcc and clang have declarations only, in C++ many more than functions. The function that gcc
 * makes of an OpenMP region, and a nested function in C or Fortran, are inside a function whose
 * code is elsewhere.
 */
static bool may_hold_functions(const struct chain *chain, enum kind kind)
{
	switch (kind) {
	case NAMESPACE:
		return true;
	case TYPE:
		return chain->effort >= IN_TYPES;
	case FUNCTION:
	case BLOCK:
		return chain->effort >= IN_FUNCTIONS;
	case OTHER:
		break;
	}
	return false;
}

/* Not for code that the linker left out (see left_out_end()): its ranges may overlap real code. */
static bool has_address(Dwarf_Die *die, uint64_t vaddr)
{
	Dwarf_Addr low;

	return dwarf_haspc(die, vaddr) > 0 && !(dwarf_lowpc(die, &low) == 0 && low == 0);
}

/* What is inlined into a function is inside its entry. */
static bool descend(struct chain *chain, Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return false;
	do {
		enum kind kind = kind_of(&die);

		if ((kind == FUNCTION || kind == BLOCK) && has_address(&die, chain->vaddr)) {
			/* It is a separate function, wherever its entry is. */
			if (dwarf_tag(&die) == DW_TAG_subprogram)
				chain->n = 0;
			if (kind == FUNCTION && chain->n < VT_DWARF_MAX_FRAMES)
				chain->dies[chain->n] = die;
			chain->n += kind == FUNCTION;
			descend(chain, &die, depth + 1);
			return true;
		}
		if (may_hold_functions(chain, kind) && descend(chain, &die, depth + 1))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* False when no function of the unit is at the address. */
static bool find_functions(struct chain *chain, Dwarf_Die *unit)
{
	for (int effort = 0; effort < N_EFFORTS && chain->n == 0; effort++) {
		chain->effort = (enum effort)effort;
		descend(chain, unit, 0);
	}
	return chain->n > 0;
}

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned int attributes[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
						   DW_AT_name };

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		Dwarf_Attribute attribute;
		const char *name =
			dwarf_formstring(dwarf_attr_integrate(die, attributes[i], &attribute));

		if (name)
			return name;
	}
	return NULL;
}

static int number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0 || value > INT32_MAX)
		return 0;
	return (int)value;
}

/* Lines. */

/*
 * Linkers leave out functions (--gc-sections, copies of templates) but keep their debug
 * information, at address 0, where the ELF header is. Returns where the longest of them ends.
 */
static uint64_t left_out_end(Dwarf_Die *parent, unsigned int depth)
{
	uint64_t last = 0;
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		enum kind kind = kind_of(&die);
		Dwarf_Addr base, begin, end;
		ptrdiff_t offset = 0;

		while (kind == FUNCTION &&
		       (offset = dwarf_ranges(&die, offset, &base, &begin, &end)) > 0)
			if (begin == 0 && end > last)
				last = end;
		if (kind != OTHER) {
			end = left_out_end(&die, depth + 1);
			last = end > last ? end : last;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return last;
}

/*
 * libdw sorts the lines of all functions by address: those of left-out functions lie between the
 * wanted ones.
 */
static bool is_mixed_up(Dwarf_Die *unit, uint64_t vaddr, bool in_function)
{
	Dwarf_Lines *lines;
	Dwarf_Addr first;
	size_t n;

	return vaddr < MAX_LEFT_OUT && dwarf_getsrclines(unit, &lines, &n) == 0 && n > 0 &&
	       dwarf_lineaddr(dwarf_onesrcline(lines, 0), &first) == 0 && first == 0 &&
	       (!in_function || vaddr < left_out_end(unit, 0));
}

static void find_line(Dwarf_Die *unit, uint64_t vaddr, struct vt_dwarf_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, vaddr);

	if (!line)
		return;
	frame->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &frame->line) != 0)
		frame->line = 0;
}

/* Where its function calls the function `inlined`. */
static void find_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct vt_dwarf_frame *caller)
{
	Dwarf_Attribute attribute;
	Dwarf_Files *files;
	Dwarf_Word file;
	size_t n;

	caller->line = number_of(inlined, DW_AT_call_line);
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
	    dwarf_getsrcfiles(unit, &files, &n) == 0 && file < n)
		caller->file = dwarf_filesrc(files, (size_t)file, NULL, NULL);
}

size_t vt_dwarf_find(struct vt_dwarf *dwarf, uint64_t vaddr,
		     struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES])
{
	struct chain chain = { .vaddr = vaddr };
	Dwarf_Die unit;
	size_t n;

	if (!find_unit(dwarf, vaddr, &unit) || is_skeleton(&unit))
		return 0;
	/*
	 * Assembler code has lines but no functions. Elsewhere, a line without its function may
	 * belong to an inlined one.
	 */
	if ((!find_functions(&chain, &unit) && dwarf_srclang(&unit) != DW_LANG_Mips_Assembler) ||
	    chain.n > VT_DWARF_MAX_FRAMES)
		return 0;
	n = chain.n ? chain.n : 1;
	for (size_t i = 0; i < n; i++)
		frames[i] =
			(struct vt_dwarf_frame){ .name = chain.n ? name_of(&chain.dies[n - 1 - i]) :
								   NULL };
	if (!is_mixed_up(&unit, vaddr, chain.n > 0))
		find_line(&unit, vaddr, &frames[0]);
	for (size_t i = 1; i < n; i++)
		find_call(&unit, &chain.dies[n - i], &frames[i]);
	return n;
}
