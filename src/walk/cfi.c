/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/cfi.h"

#include <dwarf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXPR_STACK 64
/* Expressions may jump backwards. */
#define MAX_EXPR_STEPS 1000

#define BIT(reg) (UINT32_C(1) << (reg))

struct vt_cfi {
	Elf *elf;
	Dwarf_CFI *cfi;
};

struct vt_error *vt_cfi_create(const uint8_t *image, uint64_t size, struct vt_cfi **ret)
{
	struct vt_cfi *cfi = calloc(1, sizeof(*cfi));

	if (!cfi)
		return &vt_enomem;
	elf_version(EV_CURRENT);
	/* libelf does not write to an image that it was given for reading; its prototype merely lacks the const. */
	cfi->elf = elf_memory((char *)(uintptr_t)image, (size_t)size);
	if (!cfi->elf) {
		vt_cfi_destroy(cfi);
		return vt_error_create(VT_ERR_FORMAT, "%s", elf_errmsg(-1));
	}
	cfi->cfi = dwarf_getcfi_elf(cfi->elf);
	if (!cfi->cfi) {
		vt_cfi_destroy(cfi);
		return vt_error_create(VT_ERR_NOTFOUND, "no call frame information");
	}
	*ret = cfi;
	return NULL;
}

void vt_cfi_destroy(struct vt_cfi *cfi)
{
	if (!cfi)
		return;
	if (cfi->cfi)
		dwarf_cfi_end(cfi->cfi);
	if (cfi->elf)
		elf_end(cfi->elf);
	free(cfi);
}

/* Reading a row. */

/*
 * What an unmentioned register means: the psABI's callee-saved ones are unchanged, the caller's stack pointer is the CFA.
 * libdw (0.188) applies the same defaults, except that it takes rax for rbx.
 */
static void rule_undefined(struct vt_cfi_rule *rule, int reg)
{
	static const uint32_t callee_saved = BIT(VT_REG_RBX) | BIT(VT_REG_RBP) | BIT(VT_REG_R12) | BIT(VT_REG_R13) |
					     BIT(VT_REG_R14) | BIT(VT_REG_R15);

	if (reg == VT_REG_RSP)
		rule->how = VT_CFI_CFA;
	else
		rule->how = callee_saved & BIT(reg) ? VT_CFI_SAME : VT_CFI_UNDEFINED;
}

/* libdw presents the plain rules as expressions of up to three operations, in memory of the caller. */
static bool rule_plain(struct vt_cfi_rule *rule, const Dwarf_Op *ops, size_t n)
{
	size_t i = 1;

	if (n == 1 && ops[0].atom == DW_OP_regx && ops[0].number < VT_N_REGS) {
		rule->how = VT_CFI_REGISTER;
		rule->reg = (uint8_t)ops[0].number;
		return true;
	}
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (i < n && ops[i].atom == DW_OP_plus_uconst)
		rule->offset = (int64_t)ops[i++].number;
	rule->how = VT_CFI_AT_CFA;
	if (i < n && ops[i].atom == DW_OP_stack_value) {
		rule->how = VT_CFI_CFA;
		i++;
	}
	return i == n;
}

static bool read_register(Dwarf_Frame *frame, int reg, struct vt_cfi_rule *rule)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	*rule = (struct vt_cfi_rule){ 0 };
	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return false;
	if (n == 0) {
		/* No operations: undefined when ops is set, unchanged when it is NULL. */
		if (ops || reg == VT_REG_RSP)
			rule_undefined(rule, reg);
		else
			rule->how = VT_CFI_SAME;
		return true;
	}
	if (ops == mem)
		return rule_plain(rule, ops, n);
	rule->how = VT_CFI_EXPR;
	rule->ops = ops;
	rule->n_ops = (uint32_t)n;
	return n < UINT32_MAX;
}

static bool read_cfa(Dwarf_Frame *frame, struct vt_cfi_rule *rule)
{
	Dwarf_Op *ops;
	size_t n;

	*rule = (struct vt_cfi_rule){ 0 };
	if (dwarf_frame_cfa(frame, &ops, &n) || n == 0 || n >= UINT32_MAX)
		return false;
	if (n == 1 && ops[0].atom == DW_OP_bregx) {
		/* This one lies in the frame, which is not kept. */
		rule->how = VT_CFI_REGISTER;
		rule->reg = ops[0].number < VT_N_REGS ? (uint8_t)ops[0].number : UINT8_MAX;
		rule->offset = (int64_t)ops[0].number2;
		return rule->reg < VT_N_REGS;
	}
	rule->how = VT_CFI_EXPR;
	rule->ops = ops;
	rule->n_ops = (uint32_t)n;
	return true;
}

bool vt_cfi_find(struct vt_cfi *cfi, uint64_t vaddr, struct vt_cfi_row *row)
{
	Dwarf_Frame *frame;
	bool ok;

	if (dwarf_cfi_addrframe(cfi->cfi, vaddr, &frame))
		return false;
	ok = dwarf_frame_info(frame, NULL, NULL, &row->signal_frame) == VT_REG_RIP && read_cfa(frame, &row->cfa);
	for (int reg = 0; ok && reg < VT_N_REGS; reg++)
		ok = read_register(frame, reg, &row->regs[reg]);
	free(frame);
	/* A call always pushes the return address: "unchanged" would be its own caller for ever. */
	return ok && row->regs[VT_REG_RIP].how != VT_CFI_SAME;
}

/* Expressions. */

struct machine {
	const struct vt_regs *regs;
	struct vt_memsrc *src;
	uint64_t bias;
	uint64_t cfa;
	uint64_t stack[MAX_EXPR_STACK];
	size_t n;
	bool is_value; /* the result is the value, not where it is */
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

static void push_register(struct machine *m, uint64_t reg, uint64_t offset)
{
	if (reg >= VT_N_REGS)
		m->bad = VT_CFI_BAD_RULE;
	else if (m->regs->unknown & BIT(reg))
		m->bad = VT_CFI_NO_REGISTER;
	else
		push(m, m->regs->r[reg] + offset);
}

static void deref(struct machine *m, uint64_t size)
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

/* The entry at depth n moves to the top, or is copied there. */
static void pick(struct machine *m, uint64_t n)
{
	if (n >= m->n)
		m->bad = VT_CFI_BAD_RULE;
	else
		push(m, m->stack[m->n - 1 - n]);
}

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

/* Arithmetic is modulo 2^64, division and comparison are signed, except DW_OP_mod (DWARF 5, section 2.5.1.4). */
static void binary(struct machine *m, uint8_t atom)
{
	uint64_t b = pop(m), a = pop(m);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (atom) {
	case DW_OP_and: push(m, a & b); break;
	case DW_OP_or: push(m, a | b); break;
	case DW_OP_xor: push(m, a ^ b); break;
	case DW_OP_plus: push(m, a + b); break;
	case DW_OP_minus: push(m, a - b); break;
	case DW_OP_mul: push(m, a * b); break;
	case DW_OP_shl: push(m, b < 64 ? a << b : 0); break;
	case DW_OP_shr: push(m, b < 64 ? a >> b : 0); break;
	case DW_OP_shra: push(m, (uint64_t)(sa >> (b < 64 ? b : 63))); break;
	case DW_OP_eq: push(m, a == b); break;
	case DW_OP_ne: push(m, a != b); break;
	case DW_OP_ge: push(m, sa >= sb); break;
	case DW_OP_gt: push(m, sa > sb); break;
	case DW_OP_le: push(m, sa <= sb); break;
	case DW_OP_lt: push(m, sa < sb); break;
	case DW_OP_mod:
		if (b == 0)
			m->bad = VT_CFI_BAD_RULE;
		else
			push(m, a % b);
		break;
	case DW_OP_div:
		if (b == 0)
			m->bad = VT_CFI_BAD_RULE;
		else
			push(m, sb == -1 ? -a : (uint64_t)(sa / sb));
		break;
	default: m->bad = VT_CFI_BAD_RULE; break;
	}
}

static void operation(struct machine *m, const Dwarf_Op *op)
{
	uint64_t a;

	switch (op->atom) {
	case DW_OP_lit0 ... DW_OP_lit31: push(m, op->atom - DW_OP_lit0); break;
	case DW_OP_const1u: case DW_OP_const1s: case DW_OP_const2u: case DW_OP_const2s:
	case DW_OP_const4u: case DW_OP_const4s: case DW_OP_const8u: case DW_OP_const8s:
	case DW_OP_constu: case DW_OP_consts: push(m, op->number); break;
	case DW_OP_addr: push(m, op->number + m->bias); break;
	case DW_OP_breg0 ... DW_OP_breg31: push_register(m, op->atom - DW_OP_breg0, op->number); break;
	case DW_OP_bregx: push_register(m, op->number, op->number2); break;
	case DW_OP_call_frame_cfa: push(m, m->cfa); break;
	case DW_OP_plus_uconst: push(m, pop(m) + op->number); break;
	case DW_OP_deref: deref(m, 8); break;
	case DW_OP_deref_size: deref(m, op->number); break;
	case DW_OP_dup: pick(m, 0); break;
	case DW_OP_over: pick(m, 1); break;
	case DW_OP_pick: pick(m, op->number); break;
	case DW_OP_drop: pop(m); break;
	case DW_OP_swap: rotate(m, 2); break;
	case DW_OP_rot: rotate(m, 3); break;
	case DW_OP_abs:
		a = pop(m);
		push(m, (int64_t)a < 0 ? -a : a);
		break;
	case DW_OP_neg: push(m, -pop(m)); break;
	case DW_OP_not: push(m, ~pop(m)); break;
	case DW_OP_stack_value: m->is_value = true; break;
	case DW_OP_nop: break;
	default: binary(m, op->atom); break;
	}
}

/* The index of the operation that a jump leads to, by its offset in bytes; n for the end of the expression. */
static size_t jump_target(const Dwarf_Op *ops, size_t n, size_t from)
{
	uint64_t offset = ops[from].offset + 3 + (uint64_t)(int64_t)(int16_t)ops[from].number;

	for (size_t i = 0; i < n; i++)
		if (ops[i].offset == offset)
			return i;
	return n;
}

static void run(struct machine *m, const Dwarf_Op *ops, size_t n)
{
	size_t steps = 0;

	for (size_t i = 0; i < n && m->bad == VT_CFI_STEPPED;) {
		uint8_t atom = ops[i].atom;

		if (++steps > MAX_EXPR_STEPS)
			m->bad = VT_CFI_BAD_RULE;
		else if (atom == DW_OP_skip || (atom == DW_OP_bra && pop(m) != 0))
			i = jump_target(ops, n, i);
		else if (atom == DW_OP_bra)
			i++;
		else
			operation(m, &ops[i++]);
	}
	if (m->n == 0 && m->bad == VT_CFI_STEPPED)
		m->bad = VT_CFI_BAD_RULE;
}

static enum vt_cfi_result read_word(struct vt_memsrc *src, uint64_t addr, uint64_t *value)
{
	return vt_mem_read_u64(src, addr, value) ? VT_CFI_NO_MEMORY : VT_CFI_STEPPED;
}

static enum vt_cfi_result evaluate(const struct vt_cfi_rule *rule, struct machine *m, uint64_t *value)
{
	switch (rule->how) {
	case VT_CFI_REGISTER:
		if (m->regs->unknown & BIT(rule->reg))
			return VT_CFI_NO_REGISTER;
		*value = m->regs->r[rule->reg] + (uint64_t)rule->offset;
		return VT_CFI_STEPPED;
	case VT_CFI_CFA:
		*value = m->cfa + (uint64_t)rule->offset;
		return VT_CFI_STEPPED;
	case VT_CFI_AT_CFA:
		return read_word(m->src, m->cfa + (uint64_t)rule->offset, value);
	case VT_CFI_EXPR:
		m->n = 0;
		m->is_value = false;
		m->bad = VT_CFI_STEPPED;
		run(m, rule->ops, rule->n_ops);
		if (m->bad != VT_CFI_STEPPED)
			return m->bad;
		*value = m->stack[m->n - 1];
		return VT_CFI_STEPPED;
	}
	return VT_CFI_BAD_RULE;
}

static enum vt_cfi_result register_value(const struct vt_cfi_rule *rule, struct machine *m, uint64_t *value)
{
	enum vt_cfi_result result = evaluate(rule, m, value);

	if (result == VT_CFI_STEPPED && rule->how == VT_CFI_EXPR && !m->is_value)
		result = read_word(m->src, *value, value);
	return result;
}

enum vt_cfi_result vt_cfi_apply(const struct vt_cfi_row *row, uint64_t bias, struct vt_memsrc *src,
				struct vt_regs *regs, uint64_t *cfa)
{
	struct machine m = { .regs = regs, .src = src, .bias = bias };
	struct vt_regs caller = *regs;
	enum vt_cfi_result result = evaluate(&row->cfa, &m, &m.cfa);

	*cfa = result == VT_CFI_STEPPED ? m.cfa : 0;
	if (row->regs[VT_REG_RIP].how == VT_CFI_UNDEFINED)
		return VT_CFI_OUTERMOST;
	if (result != VT_CFI_STEPPED)
		return result;
	for (int reg = 0; reg < VT_N_REGS; reg++) {
		const struct vt_cfi_rule *rule = &row->regs[reg];

		if (rule->how == VT_CFI_SAME)
			continue;
		caller.unknown |= BIT(reg);
		if (rule->how == VT_CFI_UNDEFINED)
			continue;
		result = register_value(rule, &m, &caller.r[reg]);
		if (result == VT_CFI_STEPPED)
			caller.unknown &= ~BIT(reg);
		else if (reg == VT_REG_RIP || reg == VT_REG_RSP)
			return result;
	}
	*regs = caller;
	return VT_CFI_STEPPED;
}
