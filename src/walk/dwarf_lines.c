/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF 5, sections 3.3 (subprograms and inlined instances), 6.1.2 (.debug_aranges: which unit an address belongs to) and
 * 6.2 (line numbers). clang and rustc write no .debug_aranges, and files of several compilers have them for some units:
 * what they lack is found by the units' own ranges.
 */
#include "walk/dwarf_lines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include "base/vec.h"

#define MAX_DEPTH 64
#define PAGE UINT64_C(4096)
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
 * When libelf 0.188 unpacks a section it changes the section's header, in the image itself where that is aligned, also when
 * it was only asked to read. The mapping is a private one.
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
	begin = ehdr.e_shoff & ~(PAGE - 1);
	(void)mprotect((void *)(uintptr_t)(image + begin), (size_t)(end - begin), PROT_READ | PROT_WRITE);
}

static Dwarf *open_image(const uint8_t *image, uint64_t size, Elf **elf)
{
	let_headers_change(image, size);
	*elf = elf_memory((char *)(uintptr_t)image, (size_t)size);
	return *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
}

struct vt_dwarf *vt_dwarf_open(const uint8_t *image, uint64_t size, const uint8_t *shared, uint64_t shared_size)
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
		struct range *range = vt_vec_append(&dwarf->ranges);

		if (!range)
			return;
		*range = (struct range){ .begin = begin, .end = end, .unit = dwarf_dieoffset(unit) };
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
 * Of split DWARF (-gsplit-dwarf) the lines are here, and what was inlined is in a .dwo file where it was compiled: a line
 * without its function would be taken for one of the function that it was inlined into.
 */
static bool is_skeleton(Dwarf_Die *unit)
{
	uint8_t type;

	return dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 && type == DW_UT_skeleton;
}

/* Functions. */

/* The instances that contain an address, the function itself first. */
struct chain {
	uint64_t vaddr;
	bool in_types; /* look inside of types, too */
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
 * Functions are entries of the unit or of a namespace; rustc has methods inside of their types, where gcc and clang have
 * declarations only, in C++ many more than functions. What is inlined into a function is inside of it.
 */
static bool descend(struct chain *chain, Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return false;
	do {
		enum kind kind = kind_of(&die);

		if ((kind == NAMESPACE || (kind == TYPE && chain->in_types)) && descend(chain, &die, depth + 1))
			return true;
		if ((kind != FUNCTION && kind != BLOCK) || dwarf_haspc(&die, chain->vaddr) <= 0)
			continue;
		if (kind == FUNCTION && chain->n < VT_DWARF_MAX_FRAMES)
			chain->dies[chain->n] = die;
		chain->n += kind == FUNCTION;
		descend(chain, &die, depth + 1);
		return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned int attributes[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name };

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		Dwarf_Attribute attribute;
		const char *name = dwarf_formstring(dwarf_attr_integrate(die, attributes[i], &attribute));

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

/* Where the function that `inlined` was inlined into calls it. */
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

size_t vt_dwarf_find(struct vt_dwarf *dwarf, uint64_t vaddr, struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES])
{
	struct chain chain = { .vaddr = vaddr };
	Dwarf_Die unit;
	Dwarf_Line *line;
	size_t n;

	if (!find_unit(dwarf, vaddr, &unit) || is_skeleton(&unit))
		return 0;
	if (!descend(&chain, &unit, 0)) {
		chain.in_types = true;
		descend(&chain, &unit, 0);
	}
	if (chain.n > VT_DWARF_MAX_FRAMES)
		return 0;
	/* Assembler has lines, and no functions. */
	n = chain.n ? chain.n : 1;
	for (size_t i = 0; i < n; i++)
		frames[i] = (struct vt_dwarf_frame){ .name = chain.n ? name_of(&chain.dies[n - 1 - i]) : NULL };
	line = dwarf_getsrc_die(&unit, vaddr);
	if (line) {
		frames[0].file = dwarf_linesrc(line, NULL, NULL);
		if (dwarf_lineno(line, &frames[0].line) != 0)
			frames[0].line = 0;
	}
	for (size_t i = 1; i < n; i++)
		find_call(&unit, &chain.dies[n - i], &frames[i]);
	return n;
}
