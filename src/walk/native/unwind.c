/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame after the other, from the registers outwards. Each program counter is looked up once:
 * what is found there (a row of call frame information, a signal trampoline, nothing) is kept,
 * since the threads of a pool have equal stacks.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "walk/native/cfi.h"
#include "walk/native/native.h"

/* All threads together; a thread that comes later still gets LEAST_FRAMES. */
#define MAX_FRAMES_TOTAL (4 * VT_NATIVE_MAX_FRAMES)
#define LEAST_FRAMES 512
#define MAX_INFOS 16384
/*
 * Records, instructions and operations of expressions, half a second of work; 160 threads of a
 * PyTorch process need 1,000, files without a table more.
 */
#define MAX_WORK (50 * 1000 * 1000)
/* Steps that do not go up the stack: signal stacks, coroutines. A cycle consists of these too. */
#define MAX_STEPS_DOWN 64
#define HURRIED_WORK 20000 /* of it in a hurry: 0.2 ms */
#define CLONE_BYTES 256    /* more than clone() and clone3() have */

enum unwind_kind { UNWIND_UNKNOWN, UNWIND_ROW, UNWIND_SIGRETURN };

/* What is known about unwinding from one program counter. */
struct unwind_info {
	enum unwind_kind kind;
	struct vt_module *module; /* NULL: no mapped file */
	struct vt_cfi_row row;
};

struct module_cfi {
	bool tried;
	bool found;
	struct vt_cfi cfi;    /* when found */
	struct vt_error *why; /* why not, when the file cannot be read */
};

struct vt_unwinder {
	struct vt_modules *modules;
	struct vt_memsrc *src;
	struct module_cfi *cfi; /* one for each module */
	VT_VEC(struct unwind_info) infos;
	struct vt_map info_by_pc[2]; /* [activation]: program counter → index in infos */
	size_t total_frames;
	uint64_t work_left; /* of all look-ups in call frame information */
	bool hurries;
	uint64_t work_later; /* work_left behind the hurry */
};

struct vt_error *vt_unwinder_create(struct vt_modules *modules, struct vt_memsrc *src,
				    struct vt_unwinder **ret)
{
	struct vt_unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return &vt_enomem;
	unwinder->modules = modules;
	unwinder->src = src;
	unwinder->work_left = MAX_WORK;
	unwinder->cfi = calloc(modules->modules.n ? modules->modules.n : 1, sizeof(*unwinder->cfi));
	if (!unwinder->cfi) {
		free(unwinder);
		return &vt_enomem;
	}
	*ret = unwinder;
	return NULL;
}

void vt_unwinder_destroy(struct vt_unwinder *unwinder)
{
	if (!unwinder)
		return;
	for (size_t i = 0; i < unwinder->modules->modules.n; i++)
		vt_error_destroy(unwinder->cfi[i].why);
	free(unwinder->cfi);
	vt_vec_deinit(&unwinder->infos);
	vt_map_deinit(&unwinder->info_by_pc[false]);
	vt_map_deinit(&unwinder->info_by_pc[true]);
	free(unwinder);
}

void vt_unwinder_hurry(struct vt_unwinder *unwinder, bool hurry)
{
	if (hurry == unwinder->hurries)
		return;
	unwinder->hurries = hurry;
	if (!hurry) {
		unwinder->work_left = unwinder->work_later;
		return;
	}
	unwinder->work_later = unwinder->work_left;
	if (unwinder->work_left > HURRIED_WORK)
		unwinder->work_left = HURRIED_WORK;
}

/* It would have to be opened. */
static bool is_left_out(const struct vt_unwinder *u, const struct vt_module *module)
{
	return u->hurries && module && !module->opened;
}

void vt_native_stack_deinit(struct vt_native_stack *stack)
{
	vt_vec_deinit(&stack->frames);
}

/* Looking a program counter up. */

static struct module_cfi *cfi_of(struct vt_unwinder *u, struct vt_module *module)
{
	struct module_cfi *entry = &u->cfi[module - u->modules->modules.data];

	if (entry->tried)
		return entry;
	entry->tried = true;
	entry->why = vt_module_open(u->modules, module);
	entry->found = !entry->why && vt_cfi_init(&entry->cfi, &u->modules->arch->abi,
						  module->image, module->image_size);
	entry->cfi.work_left = &u->work_left;
	return entry;
}

/*
 * What has called another function no longer has its own return address in the register that calls
 * put it into.
 */
static bool is_usable(const struct vt_arch_abi *abi, const struct vt_cfi_row *row, bool activation)
{
	return activation || !abi->link_register || row->ra != abi->ra ||
	       row->regs[abi->ra].how != VT_CFI_SAME;
}

static bool find_row(const struct module_cfi *entry, uint64_t pc, bool activation,
		     struct unwind_info *info)
{
	const struct vt_arch_abi *abi = entry->cfi.abi;
	/*
	 * A call may be the last instruction of its function: what counts is the byte before the
	 * return address.
	 */
	uint64_t at = pc - info->module->bias;

	if (vt_cfi_find(&entry->cfi, activation ? at : at - 1, &info->row))
		return is_usable(abi, &info->row, activation);
	/*
	 * makecontext() puts the start of a function that ends the stack where a return address
	 * would be.
	 */
	return !activation && vt_cfi_find(&entry->cfi, at, &info->row) &&
	       info->row.regs[info->row.ra].how == VT_CFI_UNDEFINED;
}

static void look_up(struct vt_unwinder *u, uint64_t pc, bool activation, struct unwind_info *info)
{
	*info = (struct unwind_info){ .module = vt_modules_find(u->modules,
								activation ? pc : pc - 1) };
	if (!activation && u->modules->arch->is_sigreturn(u->src, pc)) {
		info->kind = UNWIND_SIGRETURN;
	} else if (info->module && !is_left_out(u, info->module)) {
		const struct module_cfi *entry = cfi_of(u, info->module);

		if (entry->found && find_row(entry, pc, activation, info))
			info->kind = UNWIND_ROW;
	}
}

/* What is known about pc, kept or in *room; valid until the next call. */
static const struct unwind_info *info_of(struct vt_unwinder *u, uint64_t pc, bool activation,
					 struct unwind_info *room)
{
	struct vt_map *map = &u->info_by_pc[activation];
	const uint64_t *index = vt_map_get(map, pc);

	if (index)
		return &u->infos.data[*index];
	look_up(u, pc, activation, room);
	if (u->hurries && room->kind == UNWIND_UNKNOWN)
		return room; /* so far */
	if (u->infos.n < MAX_INFOS) {
		struct unwind_info *info = vt_vec_append(&u->infos);

		if (info) {
			*info = *room;
			if (!vt_map_put(map, pc, u->infos.n - 1))
				u->infos.n--;
		}
	}
	return room;
}

/* One step. */

enum step { STEP_OK, STEP_OUTERMOST, STEP_FAILED };

struct walk {
	struct vt_unwinder *u;
	const struct vt_arch *arch;
	struct vt_native_stack *stack;
	struct vt_regs regs; /* of the frame that is being left */
	bool activation;
	uint64_t cfa;    /* of that frame, once known; else 0 */
	bool trampoline; /* that frame is the one that the kernel put under a signal handler */
	/* where the stack pointer went down or stayed */
	struct {
		uint64_t pc, sp;
	} down[MAX_STEPS_DOWN];
	size_t n_down;
};

/* Cut to what fits. */
static void set_why(struct walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void set_why(struct walk *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->stack->why, sizeof(w->stack->why), format, args);
	va_end(args);
}

/* "libfoo.so+0x1234", or the bare address. */
static void describe_pc(const struct vt_module *module, uint64_t pc, char *text, size_t size)
{
	if (!module) {
		snprintf(text, size, "0x%llx, which is in no mapped file", (unsigned long long)pc);
		return;
	}

	const char *slash = strrchr(module->path, '/');

	snprintf(text, size, "%.64s+0x%llx", slash ? slash + 1 : module->path,
		 (unsigned long long)(pc - module->bias));
}

static enum step fail_memory(struct walk *w)
{
	set_why(w, "stack memory at 0x%llx cannot be read",
		(unsigned long long)w->u->src->fault_addr);
	return STEP_FAILED;
}

static enum step fail_at(struct walk *w, const struct unwind_info *info, const char *what)
{
	char where[112];

	describe_pc(info->module, w->regs.r[w->arch->abi.pc], where, sizeof(where));
	set_why(w, "%s at %s", what, where);
	return STEP_FAILED;
}

static enum step step_row(struct walk *w, const struct unwind_info *info)
{
	const struct vt_cfi *cfi = &cfi_of(w->u, info->module)->cfi;

	switch (vt_cfi_apply(cfi, &info->row, info->module->bias, w->u->src, &w->regs, &w->cfa)) {
	case VT_CFI_STEPPED:
		w->activation = info->row.signal_frame;
		return STEP_OK;
	case VT_CFI_OUTERMOST:
		return STEP_OUTERMOST;
	case VT_CFI_NO_MEMORY:
		return fail_memory(w);
	case VT_CFI_NO_REGISTER:
		return fail_at(w, info, "a register that unwinding needs is not known");
	case VT_CFI_BAD_RULE:
		break;
	}
	return fail_at(w, info, "the unwind information makes no sense");
}

static enum step step_sigreturn(struct walk *w)
{
	if (!w->arch->leave_signal(w->u->src, &w->regs))
		return fail_memory(w);
	w->regs.unknown = 0;
	w->cfa = w->regs.r[w->arch->abi.sp];
	w->activation = true;
	return STEP_OK;
}

static bool is_code(const struct vt_unwinder *u, uint64_t addr)
{
	const struct vt_map_entry *entry = vt_maps_find(u->modules->maps, addr);

	return entry && entry->flags & VT_MAP_EXEC;
}

/* Whether addr may be a return address: it is in code, right after a call instruction. */
static bool follows_call(struct vt_unwinder *u, uint64_t addr)
{
	return is_code(u, addr) && u->modules->arch->is_after_call(u->src, addr);
}

/* From here on only these registers of the caller are known; whether sp is: see arch.h. */
static void enter_caller(struct walk *w, uint64_t fp, uint64_t pc, uint64_t above)
{
	const struct vt_arch_abi *abi = &w->arch->abi;

	w->regs.r[abi->fp] = fp;
	w->regs.r[abi->pc] = pc;
	w->regs.r[abi->sp] = above;
	w->regs.unknown = ~(VT_REG_BIT(abi->fp) | VT_REG_BIT(abi->pc));
	if (w->arch->record_ends_frame)
		w->regs.unknown &= ~VT_REG_BIT(abi->sp);
	w->cfa = w->arch->record_ends_frame ? above : 0;
}

/*
 * The caller by a frame record: the caller's frame pointer at `record`, the return address behind
 * it. Where the record does not end the frame, the stack pointer is at least what is above it.
 */
static bool step_record(struct walk *w, uint64_t record)
{
	uint64_t saved[2];

	if (record & 7 || record < w->regs.r[w->arch->abi.sp] ||
	    vt_mem_read(w->u->src, record, saved, sizeof(saved)))
		return false;
	saved[1] &= ~w->regs.pac;
	if (!follows_call(w->u, saved[1]))
		return false;
	enter_caller(w, saved[0], saved[1], record + sizeof(saved));
	return true;
}

/* Where nothing has run since the call: the return address, and the caller's stack pointer. */
static bool at_entry(struct walk *w, uint64_t *caller, uint64_t *sp)
{
	const struct vt_arch_abi *abi = &w->arch->abi;

	*sp = w->regs.r[abi->sp];
	if (abi->link_register) {
		*caller = w->regs.r[abi->ra] & ~w->regs.pac;
		return !(w->regs.unknown & VT_REG_BIT(abi->ra));
	}
	if (vt_mem_read_u64(w->u->src, *sp, caller))
		return false;
	*sp += sizeof(*caller);
	return true;
}

static void leave_entry(struct walk *w, uint64_t caller, uint64_t sp)
{
	w->regs.r[w->arch->abi.pc] = caller;
	w->regs.r[w->arch->abi.sp] = w->cfa = sp;
}

/* A call through a bad pointer. */
static bool step_bad_call(struct walk *w)
{
	uint64_t sp, caller;

	if (is_code(w->u, w->regs.r[w->arch->abi.pc]) || !at_entry(w, &caller, &sp) ||
	    !follows_call(w->u, caller))
		return false;
	leave_entry(w, caller, sp);
	return true;
}

/*
 * Behind the system call in clone() and clone3(), glibc has no unwind information, because there
 * the stack is the caller's or a new one. A new thread sees 0, and has no caller. For the other
 * one, which may wait there as vfork() does, the return address is still where the call put it.
 */
static bool is_in_clone(const struct walk *w)
{
	const struct vt_arch *arch = w->arch;

	return (w->regs.syscall_nr == arch->clone || w->regs.syscall_nr == arch->clone3) &&
	       arch->is_after_syscall(w->u->src, w->regs.r[arch->abi.pc]);
}

static bool is_new_thread(const struct walk *w)
{
	unsigned int result = w->arch->syscall_result;

	return !(w->regs.unknown & VT_REG_BIT(result)) && w->regs.r[result] == 0;
}

/* Only behind a call of what runs now. */
static bool step_clone(struct walk *w)
{
	uint64_t sp, pc = w->regs.r[w->arch->abi.pc], caller, callee;

	if (!at_entry(w, &caller, &sp) || !is_code(w->u, caller - 1))
		return false;
	callee = w->arch->called_before(w->u->src, caller);
	if (!callee || callee > pc || pc - callee > CLONE_BYTES)
		return false;
	leave_entry(w, caller, sp);
	return true;
}

/*
 * Code without unwind information: generated at run time, hand-written, or in a file that cannot be
 * opened.
 */
static enum step step_without_row(struct walk *w, const struct unwind_info *info)
{
	const struct vt_arch_abi *abi = &w->arch->abi;
	const struct vt_error *why = info->module && !is_left_out(w->u, info->module) ?
					     cfi_of(w->u, info->module)->why :
					     NULL;
	uint64_t fp = w->regs.r[abi->fp];
	char where[112];

	bool in_clone = w->activation && is_in_clone(w);

	if (is_left_out(w->u, info->module))
		return fail_at(w, info, "a file that was not opened so far is needed");

	if (in_clone && is_new_thread(w))
		return STEP_OUTERMOST;
	if ((w->activation && step_bad_call(w)) || (in_clone && step_clone(w))) {
		w->activation = false;
		return STEP_OK;
	}
	describe_pc(info->module, w->regs.r[abi->pc], where, sizeof(where));
	/* The psABI and AAPCS64: a frame pointer of zero marks the outermost frame. */
	if (!(w->regs.unknown & VT_REG_BIT(abi->fp)) && (fp == 0 || step_record(w, fp))) {
		if (!w->stack->why[0])
			set_why(w, "no unwind information at %s: callers may be missing after it",
				where);
		w->activation = false;
		return fp == 0 ? STEP_OUTERMOST : STEP_OK;
	}
	if (why)
		set_why(w, "no unwind information at %s: %s", where, why->message);
	else
		set_why(w, "no unwind information at %s", where);
	return STEP_FAILED;
}

static enum step step(struct walk *w)
{
	struct unwind_info room;
	const struct unwind_info *info =
		info_of(w->u, w->regs.r[w->arch->abi.pc], w->activation, &room);

	w->cfa = 0;
	w->trampoline = info->kind == UNWIND_SIGRETURN ||
			(info->kind == UNWIND_ROW && info->row.signal_frame);
	if (info->kind == UNWIND_ROW)
		return step_row(w, info);
	/* By a frame record its lower limit may be known, which is enough for the next record. */
	if (w->regs.unknown & VT_REG_BIT(w->arch->abi.sp) &&
	    (w->arch->record_ends_frame || info->kind == UNWIND_SIGRETURN))
		return fail_at(w, info, "the stack pointer is not known");
	return info->kind == UNWIND_SIGRETURN ? step_sigreturn(w) : step_without_row(w, info);
}

/* No call is in front of it: it may be the first code of its page. */
static bool is_trampoline(struct vt_unwinder *u, uint64_t pc)
{
	return is_code(u, pc) && u->modules->arch->is_sigreturn(u->src, pc);
}

/* After a step: whether the caller that it found can be one. */
static enum step check_caller(struct walk *w, uint64_t callee_sp)
{
	uint64_t pc = w->regs.r[w->arch->abi.pc], sp = w->regs.r[w->arch->abi.sp];

	/* An interrupted one may have been called through a null pointer. */
	if (pc == 0 && !w->activation)
		return STEP_OUTERMOST;
	if (!w->activation && !is_code(w->u, pc - 1) && !is_trampoline(w->u, pc)) {
		set_why(w, "the return address 0x%llx is not code", (unsigned long long)pc);
		return STEP_FAILED;
	}
	if (sp > callee_sp)
		return STEP_OK;
	for (size_t i = 0; i < w->n_down; i++) {
		if (w->down[i].pc == pc && w->down[i].sp == sp) {
			set_why(w, "the stack goes in circles");
			return STEP_FAILED;
		}
	}
	if (w->n_down == MAX_STEPS_DOWN) {
		set_why(w, "the stack goes back and forth");
		return STEP_FAILED;
	}
	w->down[w->n_down].pc = pc;
	w->down[w->n_down++].sp = sp;
	return STEP_OK;
}

static size_t frame_limit(const struct vt_unwinder *u)
{
	size_t left = u->total_frames < MAX_FRAMES_TOTAL ? MAX_FRAMES_TOTAL - u->total_frames : 0;

	if (left < LEAST_FRAMES)
		return LEAST_FRAMES;
	return left < VT_NATIVE_MAX_FRAMES ? left : VT_NATIVE_MAX_FRAMES;
}

static struct vt_error *walk_frames(struct walk *w)
{
	struct vt_native_stack *stack = w->stack;
	size_t limit = frame_limit(w->u);

	while (stack->frames.n < limit) {
		struct vt_native_frame *frame = vt_vec_append(&stack->frames);
		uint64_t sp = w->regs.r[w->arch->abi.sp];

		if (!frame)
			return &vt_enomem;
		*frame = (struct vt_native_frame){ .pc = w->regs.r[w->arch->abi.pc],
						   .activation = w->activation };

		enum step result = step(w);

		frame->cfa = w->cfa;
		frame->signal = w->trampoline;
		if (result == STEP_OK)
			result = check_caller(w, sp);
		stack->complete = result == STEP_OUTERMOST;
		if (result != STEP_OK)
			return NULL;
	}
	stack->truncated = true;
	set_why(w, "the stack has more than %zu frames", limit);
	return NULL;
}

struct vt_error *vt_unwinder_walk(struct vt_unwinder *unwinder, pid_t tid,
				  const struct vt_regs *regs, struct vt_native_stack *stack)
{
	struct walk w = { .u = unwinder,
			  .arch = unwinder->modules->arch,
			  .stack = stack,
			  .regs = *regs,
			  .activation = true };
	struct vt_error *err;

	stack->tid = tid;
	if (regs->unknown & VT_REG_BIT(w.arch->abi.pc)) {
		set_why(&w, "its registers are not known");
		return NULL;
	}
	err = walk_frames(&w);
	unwinder->total_frames += stack->frames.n;
	return err;
}
