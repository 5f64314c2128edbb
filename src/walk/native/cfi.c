/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats: LSB 5, "Exception Frames" (.eh_frame, .eh_frame_hdr, pointer encodings); DWARF 5,
 * sections 2.5 (expressions) and 6.4 (call frame information). What depends on the processor is in
 * struct vt_arch_abi.
 *
 * All bytes come from a file that may be damaged or hostile. They are read through a cursor, which
 * yields zeros and remembers that it went wrong once it reaches its end.
 */
#include "walk/native/cfi.h"

#include <string.h>

/* DW_EH_PE_*: the low half is the format, the high half what it is relative to. */
#define ENC_OMIT 0xff
#define ENC_FORMAT 0x0f
#define ENC_BASE 0xf0
#define ENC_PCREL 0x10
#define ENC_DATAREL 0x30
#define ENC_TABLE 0x3b /* relative to .eh_frame_hdr, 4 bytes, signed: what every linker writes */

#define TABLE_ENTRY 8
#define MAX_PHDRS 1024
#define MAX_SECTIONS 65536
#define MAX_REMEMBERED 16
#define MAX_EXPR_STACK 64
#define MAX_LEB_BITS 140 /* twice what a number needs, because some tools pad */
#define MAX_AUGMENTATION 64
#define MAX_EXPR_STEPS 1000 /* expressions may jump backwards */

/* Reading. */

struct cursor {
	const struct vt_cfi *cfi;
	uint64_t at, end; /* offsets in the file */
	bool bad;
};

/* How far what lies at this offset can be read: to the end of the file, or of the segment. */
static uint64_t end_of(const struct vt_cfi *cfi, uint64_t at)
{
	for (size_t i = 0; cfi->loaded && i < cfi->n_segments; i++)
		if (at >= cfi->segments[i].offset &&
		    at - cfi->segments[i].offset < cfi->segments[i].size)
			return cfi->segments[i].offset + cfi->segments[i].size;
	return cfi->loaded ? 0 : cfi->size;
}

static struct cursor cursor_at(const struct vt_cfi *cfi, uint64_t at, uint64_t len)
{
	struct cursor c = { .cfi = cfi, .at = at, .end = at };
	uint64_t end = end_of(cfi, at);

	if (at <= end && len <= end - at)
		c.end = at + len;
	else
		c.bad = true;
	return c;
}

static uint64_t left(const struct cursor *c)
{
	return c->end - c->at;
}

static uint64_t take_fixed(struct cursor *c, size_t n)
{
	uint64_t value = 0;

	if (left(c) < n) {
		c->bad = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&value, c->cfi->image + c->at, n);
	c->at += n;
	return value;
}

/* The low n bytes as a signed number. */
static int64_t extend(uint64_t value, size_t n)
{
	unsigned int shift = 64 - 8 * (unsigned int)n;

	return (int64_t)(value << shift) >> shift;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t value = 0;
	uint8_t byte;

	for (unsigned int shift = 0;; shift += 7) {
		byte = (uint8_t)take_fixed(c, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
		if (shift > MAX_LEB_BITS) {
			c->bad = true;
			return 0;
		}
	}
}

static int64_t take_sleb(struct cursor *c)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)take_fixed(c, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		c->bad = c->bad || shift > MAX_LEB_BITS;
	} while (byte & 0x80 && !c->bad);
	if (shift < 64 && byte & 0x40)
		value |= ~UINT64_C(0) << shift;
	return (int64_t)value;
}

static void skip(struct cursor *c, uint64_t n)
{
	if (left(c) < n) {
		c->bad = true;
		n = left(c);
	}
	c->at += n;
}

/* The offset in the file of an address; false when no segment has it. */
static bool offset_of(const struct vt_cfi *cfi, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < cfi->n_segments; i++) {
		if (vaddr >= cfi->segments[i].vaddr &&
		    vaddr - cfi->segments[i].vaddr < cfi->segments[i].size) {
			*offset = cfi->segments[i].offset + (vaddr - cfi->segments[i].vaddr);
			return *offset < cfi->size;
		}
	}
	return false;
}

/* The address of an offset in the file: of the segment that maps it. */
static uint64_t address_of(const struct vt_cfi *cfi, uint64_t offset)
{
	for (size_t i = 0; i < cfi->n_segments; i++)
		if (offset >= cfi->segments[i].offset &&
		    offset - cfi->segments[i].offset < cfi->segments[i].size)
			return cfi->segments[i].vaddr + (offset - cfi->segments[i].offset);
	return 0;
}

static uint64_t take_format(struct cursor *c, uint8_t encoding)
{
	switch (encoding & ENC_FORMAT) {
	case 0x0:
	case 0x4:
	case 0x8:
	case 0xc:
		return take_fixed(c, 8);
	case 0x1:
		return take_uleb(c);
	case 0x2:
		return take_fixed(c, 2);
	case 0x3:
		return take_fixed(c, 4);
	case 0x9:
		return (uint64_t)take_sleb(c);
	case 0xa:
		return (uint64_t)extend(take_fixed(c, 2), 2);
	case 0xb:
		return (uint64_t)extend(take_fixed(c, 4), 4);
	default:
		c->bad = true;
		return 0;
	}
}

/*
 * An encoded address. What is relative to text or function, aligned, or indirect, is not used for
 * code addresses.
 */
static uint64_t take_address(struct cursor *c, uint8_t encoding)
{
	uint64_t from = c->at, value = take_format(c, encoding);

	switch (encoding & ENC_BASE) {
	case 0:
		return value;
	case ENC_PCREL:
		return value + address_of(c->cfi, from);
	case ENC_DATAREL:
		return value + c->cfi->header_vaddr;
	default:
		c->bad = true;
		return 0;
	}
}

/*
 * Files may be made so that each look-up reads a gigabyte, and each of a million frames runs long
 * expressions.
 */
static bool may_work(const struct vt_cfi *cfi)
{
	if (!cfi->work_left)
		return true;
	if (*cfi->work_left == 0)
		return false;
	--*cfi->work_left;
	return true;
}

/* Finding the tables in a file. */

static void find_segments(struct vt_cfi *cfi, const Elf64_Ehdr *ehdr, Elf64_Phdr *eh_frame_hdr)
{
	for (unsigned int i = 0; i < ehdr->e_phnum && i < MAX_PHDRS; i++) {
		struct cursor c = cursor_at(cfi, ehdr->e_phoff, (i + 1) * sizeof(Elf64_Phdr));
		Elf64_Phdr phdr;

		if (c.bad)
			break;
		memcpy(&phdr, cfi->image + ehdr->e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_GNU_EH_FRAME)
			*eh_frame_hdr = phdr;
		if (phdr.p_type != PT_LOAD || cfi->n_segments == VT_CFI_MAX_SEGMENTS ||
		    phdr.p_offset > cfi->size)
			continue;
		if (phdr.p_filesz > cfi->size - phdr.p_offset)
			phdr.p_filesz = cfi->size - phdr.p_offset;
		cfi->segments[cfi->n_segments].offset = phdr.p_offset;
		cfi->segments[cfi->n_segments].vaddr = phdr.p_vaddr;
		cfi->segments[cfi->n_segments++].size = phdr.p_filesz;
	}
}

/* To the end of the segment that has this offset. */
static uint64_t segment_end(const struct vt_cfi *cfi, uint64_t offset)
{
	for (size_t i = 0; i < cfi->n_segments; i++)
		if (offset >= cfi->segments[i].offset &&
		    offset - cfi->segments[i].offset < cfi->segments[i].size)
			return cfi->segments[i].offset + cfi->segments[i].size;
	return offset;
}

static bool read_header(struct vt_cfi *cfi, const Elf64_Phdr *phdr)
{
	struct cursor c = cursor_at(cfi, phdr->p_offset, phdr->p_filesz);
	uint8_t version = (uint8_t)take_fixed(&c, 1), frames_encoding = (uint8_t)take_fixed(&c, 1);
	uint8_t count_encoding = (uint8_t)take_fixed(&c, 1),
		table_encoding = (uint8_t)take_fixed(&c, 1);
	uint64_t frames, count;

	cfi->header_vaddr = phdr->p_vaddr;
	if (version != 1 || frames_encoding == ENC_OMIT)
		return false;
	frames = take_address(&c, frames_encoding);
	if (c.bad || !offset_of(cfi, frames, &cfi->frames))
		return false;
	cfi->frames_end = segment_end(cfi, cfi->frames);
	if (count_encoding == ENC_OMIT || table_encoding != ENC_TABLE)
		return true;
	count = take_address(&c, count_encoding);
	if (!c.bad && count <= left(&c) / TABLE_ENTRY) {
		cfi->table = c.at;
		cfi->n_table = count;
	}
	return true;
}

/* Files linked without .eh_frame_hdr: by the name of the section. */
static bool find_section(struct vt_cfi *cfi, const Elf64_Ehdr *ehdr)
{
	static const char name[] = ".eh_frame";
	Elf64_Shdr names, shdr;
	struct cursor all = cursor_at(cfi, ehdr->e_shoff, (uint64_t)ehdr->e_shnum * sizeof(shdr));

	if (all.bad || ehdr->e_shentsize != sizeof(shdr) || ehdr->e_shstrndx >= ehdr->e_shnum)
		return false;
	memcpy(&names, cfi->image + ehdr->e_shoff + ehdr->e_shstrndx * sizeof(names),
	       sizeof(names));
	for (unsigned int i = 1; i < ehdr->e_shnum; i++) {
		struct cursor text, body;

		memcpy(&shdr, cfi->image + ehdr->e_shoff + i * sizeof(shdr), sizeof(shdr));
		text = cursor_at(cfi,
				 names.sh_offset <= cfi->size ? names.sh_offset + shdr.sh_name :
								cfi->size + 1,
				 sizeof(name));
		body = cursor_at(cfi, shdr.sh_offset, shdr.sh_size);
		if (text.bad || memcmp(cfi->image + text.at, name, sizeof(name)) != 0 ||
		    shdr.sh_type == SHT_NOBITS || body.bad)
			continue;
		cfi->frames = body.at;
		cfi->frames_end = body.end;
		return true;
	}
	return false;
}

bool vt_cfi_init(struct vt_cfi *cfi, const struct vt_arch_abi *abi, const uint8_t *image,
		 uint64_t size)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr header = { .p_type = PT_NULL };

	*cfi = (struct vt_cfi){ .abi = abi, .image = image, .size = size };
	if (size < sizeof(ehdr))
		return false;
	memcpy(&ehdr, image, sizeof(ehdr));
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_machine != abi->machine ||
	    ehdr.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	find_segments(cfi, &ehdr, &header);
	if (header.p_type == PT_GNU_EH_FRAME && read_header(cfi, &header))
		return true;
	return find_section(cfi, &ehdr);
}

bool vt_cfi_init_loaded(struct vt_cfi *cfi, const struct vt_arch_abi *abi, const Elf64_Phdr *phdrs,
			size_t n, uint64_t bias)
{
	const Elf64_Phdr *header = NULL;
	uint64_t low = UINT64_MAX, high = 0;

	*cfi = (struct vt_cfi){ .abi = abi, .loaded = true };
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *phdr = &phdrs[i];

		if (phdr->p_type == PT_GNU_EH_FRAME)
			header = phdr;
		/*
		 * Pages of a file are mapped as a whole, but what is behind its bytes is another
		 * segment's, or zeros. More bytes of the file than of memory are in no sound
		 * segment.
		 */
		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_R) ||
		    phdr->p_filesz > phdr->p_memsz || cfi->n_segments == VT_CFI_MAX_SEGMENTS ||
		    phdr->p_filesz > UINT64_MAX - phdr->p_vaddr)
			continue;
		cfi->segments[cfi->n_segments].vaddr = phdr->p_vaddr;
		cfi->segments[cfi->n_segments++].size = phdr->p_filesz;
		low = phdr->p_vaddr < low ? phdr->p_vaddr : low;
		high = phdr->p_vaddr + phdr->p_filesz > high ? phdr->p_vaddr + phdr->p_filesz :
							       high;
	}
	if (!header || low >= high)
		return false;
	/* An offset is then how far something is from the lowest segment. */
	cfi->image = (const uint8_t *)(uintptr_t)(bias + low);
	cfi->size = high - low;
	for (size_t i = 0; i < cfi->n_segments; i++)
		cfi->segments[i].offset = cfi->segments[i].vaddr - low;

	Elf64_Phdr at = *header;

	at.p_offset = at.p_vaddr - low;
	return at.p_vaddr >= low && read_header(cfi, &at);
}

/*
 * Records: a common information entry (CIE), or a frame description entry (FDE), which refers to
 * one.
 */

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* of the FDE's addresses */
	bool has_sizes;   /* the augmentation data of an FDE begins with its size */
	bool signal_frame;
	uint8_t ra; /* column of the return address */
	struct cursor instructions;
};

struct fde {
	uint64_t begin, end; /* addresses */
	struct cie cie;
	struct cursor instructions;
};

/* The body of the record at this offset; bad when there is none (a length of 0 ends .eh_frame). */
static struct cursor record_at(const struct vt_cfi *cfi, uint64_t offset)
{
	struct cursor c = cursor_at(cfi, offset, 4);
	uint64_t len = take_fixed(&c, 4);

	/* 0xffffffff introduces a 64-bit length; no single function needs one. */
	if (c.bad || len == 0 || len == UINT32_MAX) {
		c.bad = true;
		return c;
	}
	return cursor_at(cfi, offset + 4, len);
}

/* The letters after 'z' say what the augmentation data holds. */
static bool read_augmentation(struct cursor *c, struct cursor letters, struct cie *cie)
{
	if (take_fixed(&letters, 1) != 'z')
		return false;

	uint64_t len = take_uleb(c);
	struct cursor data = *c;

	if (c->bad || len > left(c))
		return false;
	data.end = data.at + len;
	cie->has_sizes = true;
	while (!data.bad && left(&letters) > 0) {
		uint8_t encoding;

		switch (take_fixed(&letters, 1)) {
		case 'R':
			cie->encoding = (uint8_t)take_fixed(&data, 1);
			break;
		case 'P':
			encoding = (uint8_t)take_fixed(&data, 1);
			take_format(&data, encoding);
			break;
		case 'L':
			take_fixed(&data, 1);
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		default:
			/*
			 * The size says where the unknown ends, but what we know must have come
			 * before.
			 */
			letters.at = letters.end;
			break;
		}
	}
	c->at += len;
	return !data.bad;
}

/* Functions of glibc for aarch64 that call another one keep it in x15 (rawmemchr()). */
static bool is_return_register(const struct vt_arch_abi *abi, uint64_t reg)
{
	return reg == abi->ra || (abi->link_register && reg < abi->sp);
}

static bool read_cie(const struct vt_cfi *cfi, uint64_t offset, struct cie *cie)
{
	struct cursor c = record_at(cfi, offset), letters;
	uint64_t id = take_fixed(&c, 4), version = take_fixed(&c, 1), return_register;

	*cie = (struct cie){ 0 };
	if (c.bad || id != 0 || (version != 1 && version != 3))
		return false;
	letters = c;
	while (take_fixed(&c, 1) != 0)
		if (c.at - letters.at > MAX_AUGMENTATION)
			return false;
	letters.end = c.at - (c.bad ? 0 : 1);
	cie->code_align = take_uleb(&c);
	cie->data_align = take_sleb(&c);
	return_register = version == 1 ? take_fixed(&c, 1) : take_uleb(&c);
	if (left(&letters) > 0 && !read_augmentation(&c, letters, cie))
		return false;
	cie->instructions = c;
	cie->ra = (uint8_t)return_register;
	return !c.bad && is_return_register(cfi->abi, return_register);
}

/* *cie_at: where fde->cie was read from already; 0 at first. */
static bool read_fde(const struct vt_cfi *cfi, uint64_t offset, struct fde *fde, uint64_t *cie_at)
{
	struct cursor c = record_at(cfi, offset);
	uint64_t from = c.at, back = take_fixed(&c, 4), size;

	/* The reference counts backwards from itself; 0 makes it a CIE. */
	if (c.bad || back == 0 || back > from)
		return false;
	if (*cie_at != from - back) {
		*cie_at = 0;
		if (!read_cie(cfi, from - back, &fde->cie))
			return false;
		*cie_at = from - back;
	}
	fde->begin = take_address(&c, fde->cie.encoding);
	size = take_format(&c, fde->cie.encoding);
	fde->end = fde->begin + size;
	if (fde->cie.has_sizes)
		skip(&c, take_uleb(&c));
	fde->instructions = c;
	return !c.bad && fde->end > fde->begin;
}

static int64_t table_value(const struct vt_cfi *cfi, uint64_t index, size_t at)
{
	int32_t value;

	memcpy(&value, cfi->image + cfi->table + index * TABLE_ENTRY + at, sizeof(value));
	return value;
}

/* The FDE for an address by the sorted table: the last entry that begins at or before it. */
static bool search_table(const struct vt_cfi *cfi, uint64_t vaddr, struct fde *fde)
{
	uint64_t low = 0, high = cfi->n_table, offset, cie_at = 0;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (cfi->header_vaddr + (uint64_t)table_value(cfi, mid, 0) <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 &&
	       offset_of(cfi, cfi->header_vaddr + (uint64_t)table_value(cfi, low - 1, 4),
			 &offset) &&
	       read_fde(cfi, offset, fde, &cie_at) && vaddr >= fde->begin && vaddr < fde->end;
}

static bool search_all(const struct vt_cfi *cfi, uint64_t vaddr, struct fde *fde)
{
	uint64_t offset = cfi->frames, cie_at = 0;

	while (offset < cfi->frames_end && may_work(cfi)) {
		struct cursor c = record_at(cfi, offset);

		if (c.bad)
			return false;
		if (read_fde(cfi, offset, fde, &cie_at) && vaddr >= fde->begin && vaddr < fde->end)
			return true;
		offset = c.end;
	}
	return false;
}

/* Instructions. */

/*
 * What an unmentioned register means: callee-saved ones are unchanged, the caller's stack pointer
 * is the CFA.
 */
static void row_init(const struct vt_arch_abi *abi, uint8_t ra, struct vt_cfi_row *row)
{
	*row = (struct vt_cfi_row){ .ra = ra };
	for (int reg = 0; reg < abi->n_regs; reg++)
		row->regs[reg].how = abi->preserved & VT_REG_BIT(reg) ? VT_CFI_SAME :
									VT_CFI_UNDEFINED;
	row->regs[abi->sp].how = VT_CFI_CFA;
	if (abi->link_register)
		row->regs[ra].how = VT_CFI_SAME;
}

struct program {
	const struct vt_arch_abi *abi;
	const struct cie *cie;
	struct vt_cfi_row row;
	struct vt_cfi_row initial; /* as the CIE left it: what "restore" goes back to */
	struct vt_cfi_row remembered[MAX_REMEMBERED];
	size_t n_remembered;
	uint64_t at, target; /* addresses: instructions beyond target do not count */
	bool bad;
};

static void set_rule(struct program *p, uint64_t reg, enum vt_cfi_how how, int64_t offset)
{
	/* Others (vector registers) are not needed to find the caller. */
	if (reg < p->abi->n_regs)
		p->row.regs[reg] = (struct vt_cfi_rule){ .how = (uint8_t)how, .offset = offset };
}

static void set_expression(struct program *p, struct cursor *c, struct vt_cfi_rule *rule,
			   enum vt_cfi_how how)
{
	uint64_t len = take_uleb(c), at = c->at;

	skip(c, len);
	if (c->bad || len > UINT32_MAX) {
		p->bad = true;
		return;
	}
	if (rule)
		*rule = (struct vt_cfi_rule){ .how = (uint8_t)how,
					      .len = (uint32_t)len,
					      .offset = (int64_t)at };
}

static struct vt_cfi_rule *rule_of(struct program *p, uint64_t reg)
{
	return reg < p->abi->n_regs ? &p->row.regs[reg] : NULL;
}

static void set_cfa(struct program *p, uint64_t reg, int64_t offset)
{
	if (reg >= p->abi->n_regs)
		p->bad = true;
	else
		p->row.cfa = (struct vt_cfi_rule){ .how = VT_CFI_REGISTER,
						   .reg = (uint8_t)reg,
						   .offset = offset };
}

/* The register or the offset alone may only change where the CFA is a register and an offset. */
static void change_cfa(struct program *p, uint64_t reg, int64_t offset)
{
	if (p->row.cfa.how == VT_CFI_REGISTER)
		set_cfa(p, reg, offset);
	else
		p->bad = true;
}

static void restore(struct program *p, uint64_t reg)
{
	if (reg < p->abi->n_regs)
		p->row.regs[reg] = p->initial.regs[reg];
}

static void remember(struct program *p)
{
	if (p->n_remembered == MAX_REMEMBERED)
		p->bad = true;
	else
		p->remembered[p->n_remembered++] = p->row;
}

static void recall(struct program *p)
{
	if (p->n_remembered == 0)
		p->bad = true;
	else
		p->row = p->remembered[--p->n_remembered];
}

static void advance(struct program *p, uint64_t delta)
{
	p->at += delta * p->cie->code_align;
}

static int64_t scaled(const struct program *p, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)p->cie->data_align);
}

/* DW_CFA_*, the instructions without an operand in their first byte. */
static void extended_instruction(struct program *p, struct cursor *c, uint8_t op)
{
	uint64_t a;

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		p->at = take_address(c, p->cie->encoding);
		break;
	case 0x02:
		advance(p, take_fixed(c, 1));
		break;
	case 0x03:
		advance(p, take_fixed(c, 2));
		break;
	case 0x04:
		advance(p, take_fixed(c, 4));
		break;
	case 0x05: /* offset_extended */
		a = take_uleb(c);
		set_rule(p, a, VT_CFI_AT_CFA, scaled(p, take_uleb(c)));
		break;
	case 0x06:
		restore(p, take_uleb(c));
		break;
	case 0x07:
		set_rule(p, take_uleb(c), VT_CFI_UNDEFINED, 0);
		break;
	case 0x08:
		set_rule(p, take_uleb(c), VT_CFI_SAME, 0);
		break;
	case 0x09: { /* register */
		struct vt_cfi_rule *rule = rule_of(p, take_uleb(c));

		a = take_uleb(c);
		if (rule && a < p->abi->n_regs)
			*rule = (struct vt_cfi_rule){ .how = VT_CFI_REGISTER, .reg = (uint8_t)a };
		else if (rule)
			rule->how = VT_CFI_UNDEFINED;
		break;
	}
	case 0x0a:
		remember(p);
		break;
	case 0x0b:
		recall(p);
		break;
	case 0x0c: /* def_cfa */
		a = take_uleb(c);
		set_cfa(p, a, (int64_t)take_uleb(c));
		break;
	case 0x0d:
		change_cfa(p, take_uleb(c), p->row.cfa.offset);
		break;
	case 0x0e:
		change_cfa(p, p->row.cfa.reg, (int64_t)take_uleb(c));
		break;
	case 0x0f:
		set_expression(p, c, &p->row.cfa, VT_CFI_EXPR);
		break;
	case 0x10: /* expression */
		a = take_uleb(c);
		set_expression(p, c, rule_of(p, a), VT_CFI_AT_EXPR);
		break;
	case 0x11: /* offset_extended_sf */
		a = take_uleb(c);
		set_rule(p, a, VT_CFI_AT_CFA, scaled(p, (uint64_t)take_sleb(c)));
		break;
	case 0x12: /* def_cfa_sf */
		a = take_uleb(c);
		set_cfa(p, a, scaled(p, (uint64_t)take_sleb(c)));
		break;
	case 0x13:
		change_cfa(p, p->row.cfa.reg, scaled(p, (uint64_t)take_sleb(c)));
		break;
	case 0x14: /* val_offset */
		a = take_uleb(c);
		set_rule(p, a, VT_CFI_CFA, scaled(p, take_uleb(c)));
		break;
	case 0x15: /* val_offset_sf */
		a = take_uleb(c);
		set_rule(p, a, VT_CFI_CFA, scaled(p, (uint64_t)take_sleb(c)));
		break;
	case 0x16: /* val_expression */
		a = take_uleb(c);
		set_expression(p, c, rule_of(p, a), VT_CFI_EXPR);
		break;
	case 0x2e:
		take_uleb(c);
		break; /* GNU_args_size */
	case 0x2f:     /* GNU_negative_offset_extended */
		a = take_uleb(c);
		set_rule(p, a, VT_CFI_AT_CFA, scaled(p, 0 - take_uleb(c)));
		break;
	default:
		/* Return addresses lose their authentication codes anyway: vt_cfi_apply(). */
		p->bad = op != p->abi->sign_ops[0] && op != p->abi->sign_ops[1];
		break;
	}
}

static void run_instructions(struct program *p, struct cursor c)
{
	while (left(&c) > 0 && !p->bad && p->at <= p->target) {
		/* Half a program would give a wrong row. */
		if (!may_work(c.cfi)) {
			p->bad = true;
			return;
		}

		uint8_t byte = (uint8_t)take_fixed(&c, 1), operand = byte & 0x3f;

		switch (byte >> 6) {
		case 1:
			advance(p, operand);
			break;
		case 2:
			set_rule(p, operand, VT_CFI_AT_CFA, scaled(p, take_uleb(&c)));
			break;
		case 3:
			restore(p, operand);
			break;
		default:
			extended_instruction(p, &c, operand);
			break;
		}
		p->bad = p->bad || c.bad;
	}
}

bool vt_cfi_find(const struct vt_cfi *cfi, uint64_t vaddr, struct vt_cfi_row *row)
{
	struct fde fde;
	struct program p; /* not all set to zero: the remembered rows are a large part */

	if (!(cfi->n_table ? search_table(cfi, vaddr, &fde) : search_all(cfi, vaddr, &fde)))
		return false;
	p.abi = cfi->abi;
	p.cie = &fde.cie;
	p.n_remembered = 0;
	p.at = p.target = 0;
	p.bad = false;
	row_init(p.abi, fde.cie.ra, &p.row);
	p.initial = p.row;
	run_instructions(&p, fde.cie.instructions);
	p.initial = p.row;
	p.at = fde.begin;
	p.target = vaddr;
	p.n_remembered = 0;
	run_instructions(&p, fde.instructions);
	/* Where a call pushes the return address, "unchanged" would be its own caller for ever. */
	if (p.bad || p.row.cfa.how == VT_CFI_UNDEFINED ||
	    (!p.abi->link_register && p.row.regs[p.row.ra].how == VT_CFI_SAME))
		return false;
	*row = p.row;
	row->signal_frame = fde.cie.signal_frame;
	return true;
}

/* Expressions. */

struct machine {
	const struct vt_arch_abi *abi;
	const struct vt_regs *regs;
	struct vt_memsrc *src;
	uint64_t bias;
	uint64_t cfa;
	uint64_t stack[MAX_EXPR_STACK];
	size_t n;
	enum vt_cfi_result bad; /* VT_CFI_STEPPED while nothing is wrong */
};

static void push(struct machine *m, uint64_t value)
{
	if (m->n == MAX_EXPR_STACK)
		m->bad = VT_CFI_BAD_RULE;
	else
		m->stack[m->n++] = value;
}

static uint64_t pop(struct machine *m)
{
	if (m->n > 0)
		return m->stack[--m->n];
	m->bad = VT_CFI_BAD_RULE;
	return 0;
}

static void push_register(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg >= m->abi->n_regs)
		m->bad = VT_CFI_BAD_RULE;
	else if (m->regs->unknown & VT_REG_BIT(reg))
		m->bad = VT_CFI_NO_REGISTER;
	else
		push(m, m->regs->r[reg] + (uint64_t)offset);
}

static void push_memory(struct machine *m, uint64_t size)
{
	uint64_t value = 0, addr = pop(m);

	if (m->bad != VT_CFI_STEPPED)
		return;
	if (size < 1 || size > sizeof(value))
		m->bad = VT_CFI_BAD_RULE;
	else if (vt_mem_read(m->src, addr, &value, (size_t)size))
		m->bad = VT_CFI_NO_MEMORY;
	else
		push(m, value);
}

/* A copy of the entry at depth n. */
static void pick(struct machine *m, uint64_t n)
{
	if (n >= m->n)
		m->bad = VT_CFI_BAD_RULE;
	else
		push(m, m->stack[m->n - 1 - n]);
}

/* The top goes below the next n - 1. */
static void rotate(struct machine *m, size_t n)
{
	if (m->n < n) {
		m->bad = VT_CFI_BAD_RULE;
		return;
	}

	uint64_t *base = &m->stack[m->n - n], top = base[n - 1];

	memmove(base + 1, base, (n - 1) * sizeof(*base));
	base[0] = top;
}

/*
 * Modulo 2^64; division, comparison and the arithmetic shift are signed, the remainder is not
 * (DWARF 5, 2.5.1.4).
 */
static void binary(struct machine *m, uint8_t op)
{
	uint64_t b = pop(m), a = pop(m);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case 0x1a:
		push(m, a & b);
		break;
	case 0x1b: /* div */
		if (b == 0)
			m->bad = VT_CFI_BAD_RULE;
		else
			push(m, sb == -1 ? -a : (uint64_t)(sa / sb));
		break;
	case 0x1c:
		push(m, a - b);
		break;
	case 0x1d: /* mod */
		if (b == 0)
			m->bad = VT_CFI_BAD_RULE;
		else
			push(m, a % b);
		break;
	case 0x1e:
		push(m, a * b);
		break;
	case 0x21:
		push(m, a | b);
		break;
	case 0x22:
		push(m, a + b);
		break;
	case 0x24:
		push(m, b < 64 ? a << b : 0);
		break;
	case 0x25:
		push(m, b < 64 ? a >> b : 0);
		break;
	case 0x26:
		push(m, (uint64_t)(sa >> (b < 64 ? b : 63)));
		break;
	case 0x27:
		push(m, a ^ b);
		break;
	case 0x29:
		push(m, a == b);
		break;
	case 0x2a:
		push(m, sa >= sb);
		break;
	case 0x2b:
		push(m, sa > sb);
		break;
	case 0x2c:
		push(m, sa <= sb);
		break;
	case 0x2d:
		push(m, sa < sb);
		break;
	case 0x2e:
		push(m, a != b);
		break;
	default:
		m->bad = VT_CFI_BAD_RULE;
		break;
	}
}

/* Jumps by a signed number of bytes, inside the expression. */
static void jump(struct machine *m, struct cursor *c, uint64_t begin, bool taken)
{
	int64_t by = extend(take_fixed(c, 2), 2);
	uint64_t to = c->at + (uint64_t)by;

	if (!taken)
		return;
	if (to < begin || to > c->end)
		m->bad = VT_CFI_BAD_RULE;
	else
		c->at = to;
}

/* DW_OP_*: those that make sense in call frame information. */
static void operation(struct machine *m, struct cursor *c, uint64_t begin)
{
	uint8_t op = (uint8_t)take_fixed(c, 1);
	uint64_t a;

	/* clang-format off */
	switch (op) {
	case 0x03: push(m, take_fixed(c, 8) + m->bias); break; /* addr */
	case 0x06: push_memory(m, 8); break; /* deref */
	case 0x08: push(m, take_fixed(c, 1)); break; /* const1u, const1s, const2u, ... */
	case 0x09: push(m, (uint64_t)extend(take_fixed(c, 1), 1)); break;
	case 0x0a: push(m, take_fixed(c, 2)); break;
	case 0x0b: push(m, (uint64_t)extend(take_fixed(c, 2), 2)); break;
	case 0x0c: push(m, take_fixed(c, 4)); break;
	case 0x0d: push(m, (uint64_t)extend(take_fixed(c, 4), 4)); break;
	case 0x0e: case 0x0f: push(m, take_fixed(c, 8)); break;
	case 0x10: push(m, take_uleb(c)); break;
	case 0x11: push(m, (uint64_t)take_sleb(c)); break;
	case 0x12: pick(m, 0); break; /* dup */
	case 0x13: pop(m); break; /* drop */
	case 0x14: pick(m, 1); break; /* over */
	case 0x15: pick(m, take_fixed(c, 1)); break;
	case 0x16: rotate(m, 2); break; /* swap */
	case 0x17: rotate(m, 3); break; /* rot */
	case 0x19: /* abs */
		a = pop(m);
		push(m, (int64_t)a < 0 ? -a : a);
		break;
	case 0x1f: push(m, -pop(m)); break;
	case 0x20: push(m, ~pop(m)); break;
	case 0x23: push(m, pop(m) + take_uleb(c)); break; /* plus_uconst */
	case 0x28: jump(m, c, begin, pop(m) != 0); break; /* bra */
	case 0x2f: jump(m, c, begin, true); break; /* skip */
	case 0x30 ... 0x4f: push(m, op - 0x30u); break; /* lit0 to lit31 */
	case 0x70 ... 0x8f: push_register(m, op - 0x70u, take_sleb(c)); break; /* breg0 to breg31 */
	case 0x92: /* bregx */
		a = take_uleb(c);
		push_register(m, a, take_sleb(c));
		break;
	case 0x94: push_memory(m, take_fixed(c, 1)); break; /* deref_size */
	case 0x96: break; /* nop */
	default: binary(m, op); break;
	}
	/* clang-format on */
	if (c->bad && m->bad == VT_CFI_STEPPED)
		m->bad = VT_CFI_BAD_RULE;
}

/* The CFA is on the stack before a register's expression, and not before that of the CFA itself. */
static enum vt_cfi_result run_expression(const struct vt_cfi *cfi, const struct vt_cfi_rule *rule,
					 struct machine *m, bool with_cfa, uint64_t *value)
{
	struct cursor c = cursor_at(cfi, (uint64_t)rule->offset, rule->len);
	uint64_t begin = c.at;

	m->n = 0;
	m->bad = VT_CFI_STEPPED;
	if (with_cfa)
		push(m, m->cfa);
	for (int steps = 0; left(&c) > 0 && m->bad == VT_CFI_STEPPED; steps++) {
		if (steps == MAX_EXPR_STEPS || !may_work(cfi))
			m->bad = VT_CFI_BAD_RULE;
		else
			operation(m, &c, begin);
	}
	if (m->bad == VT_CFI_STEPPED)
		*value = pop(m);
	return m->bad;
}

/* Applying a row. */

static enum vt_cfi_result read_word(struct vt_memsrc *src, uint64_t addr, uint64_t *value)
{
	return vt_mem_read_u64(src, addr, value) ? VT_CFI_NO_MEMORY : VT_CFI_STEPPED;
}

static enum vt_cfi_result evaluate(const struct vt_cfi *cfi, const struct vt_cfi_rule *rule,
				   struct machine *m, bool with_cfa, uint64_t *value)
{
	enum vt_cfi_result result;

	switch (rule->how) {
	case VT_CFI_REGISTER:
		if (m->regs->unknown & VT_REG_BIT(rule->reg))
			return VT_CFI_NO_REGISTER;
		*value = m->regs->r[rule->reg] + (uint64_t)rule->offset;
		return VT_CFI_STEPPED;
	case VT_CFI_CFA:
		*value = m->cfa + (uint64_t)rule->offset;
		return VT_CFI_STEPPED;
	case VT_CFI_AT_CFA:
		return read_word(m->src, m->cfa + (uint64_t)rule->offset, value);
	case VT_CFI_EXPR:
		return run_expression(cfi, rule, m, with_cfa, value);
	case VT_CFI_AT_EXPR:
		result = run_expression(cfi, rule, m, with_cfa, value);
		return result == VT_CFI_STEPPED ? read_word(m->src, *value, value) : result;
	default:
		return VT_CFI_BAD_RULE;
	}
}

/*
 * Where the return address has a register of its own, it is the caller's pc, too. It may be signed
 * even where the call frame information does not say so (hand-written code), and no address of a
 * program has any of these bits.
 */
static void return_to(const struct vt_arch_abi *abi, struct vt_regs *caller, uint8_t ra)
{
	caller->r[ra] &= ~caller->pac;
	caller->r[abi->pc] = caller->r[ra];
	caller->unknown &= ~VT_REG_BIT(abi->pc);
}

enum vt_cfi_result vt_cfi_apply(const struct vt_cfi *cfi, const struct vt_cfi_row *row,
				uint64_t bias, struct vt_memsrc *src, struct vt_regs *regs,
				uint64_t *cfa)
{
	const struct vt_arch_abi *abi = cfi->abi;
	struct machine m; /* its stack is a large part, and rarely used: not set to zero */
	uint64_t values[VT_MAX_REGS], found = 0, unknown = regs->unknown;
	enum vt_cfi_result result;

	m.abi = abi;
	m.regs = regs;
	m.src = src;
	m.bias = bias;
	m.cfa = 0;
	result = evaluate(cfi, &row->cfa, &m, false, &m.cfa);
	*cfa = result == VT_CFI_STEPPED ? m.cfa : 0;
	if (row->regs[row->ra].how == VT_CFI_UNDEFINED)
		return VT_CFI_OUTERMOST;
	if (result != VT_CFI_STEPPED)
		return result;
	for (int reg = 0; reg < abi->n_regs; reg++) {
		const struct vt_cfi_rule *rule = &row->regs[reg];

		if (rule->how == VT_CFI_SAME)
			continue;
		unknown |= VT_REG_BIT(reg);
		if (rule->how == VT_CFI_UNDEFINED)
			continue;
		result = evaluate(cfi, rule, &m, true, &values[reg]);
		if (result == VT_CFI_STEPPED)
			found |= VT_REG_BIT(reg);
		else if (reg == row->ra || reg == abi->sp)
			return result;
	}
	unknown &= ~found;
	if (unknown & VT_REG_BIT(row->ra))
		return VT_CFI_NO_REGISTER; /* unchanged, but what it was is not known */
	regs->unknown = unknown;
	for (; found; found &= found - 1)
		regs->r[__builtin_ctzll(found)] = values[__builtin_ctzll(found)];
	return_to(abi, regs, row->ra);
	return VT_CFI_STEPPED;
}
