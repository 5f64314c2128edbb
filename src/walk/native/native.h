/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native frames from a memory source and registers, by call frame information (walk/native/cfi.h),
 * and their names. It collects all program counters first, then reads each module's symbol table
 * once. Source lines and inlined functions come from DWARF, if there is any.
 */
#ifndef VT_WALK_NATIVE_NATIVE_H
#define VT_WALK_NATIVE_NATIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "target/arch/arch.h"
#include "vramtap/mem.h"

#define VT_NATIVE_MAX_FRAMES 65536 /* per thread */

/*
 * A function at an address, from the debug information. Strings live in the symboliser's arena and
 * are hostile.
 */
struct vt_native_source {
	const char *function; /* demangled; NULL unknown */
	const char *file;     /* NULL unknown */
	int line;             /* 0 unknown */
};

struct vt_native_frame {
	uint64_t pc;     /* a return address, except in the innermost and signal frames */
	uint64_t cfa;    /* stack pointer of the caller; 0 unknown */
	bool activation; /* pc is the instruction itself, not a return address */
	bool signal;     /* the trampoline under a signal handler; its caller was interrupted */
	/* symbolised: */
	const struct vt_module *module; /* NULL: no mapped file */
	uint64_t module_offset;         /* address in the file (pc - bias) */
	/* demangled; NULL unknown. Owned by the symboliser's arena; hostile */
	const char *function;
	const char *symbol; /* as in the symbol table, before demangling; NULL unknown */
	uint64_t function_offset;
	bool unseen; /* set by the caller: nobody will see it, so its line is not looked up */
	/* from DWARF, if there is any (vt_native_lines_*): */
	const char *file;                       /* NULL unknown */
	int line;                               /* 0 unknown */
	const struct vt_native_source *inlined; /* functions inlined here, innermost first */
	size_t n_inlined;
};

struct vt_native_stack {
	pid_t tid;
	VT_VEC(struct vt_native_frame) frames; /* innermost first */
	bool truncated;                        /* at VT_NATIVE_MAX_FRAMES */
	bool complete;                         /* reached the thread's outermost frame */
	char why[128]; /* why it ends early, or may lack frames; "" when nothing is missing */
};

void vt_native_stack_deinit(struct vt_native_stack *stack);

struct vt_unwinder; /* opaque: the unwind information of one target */

/* modules and src must outlive it. Opens no file before it is needed. */
struct vt_error *vt_unwinder_create(struct vt_modules *modules, struct vt_memsrc *src,
				    struct vt_unwinder **ret);
void vt_unwinder_destroy(struct vt_unwinder *unwinder);

/*
 * For as long as the process stands still: no file is opened, and no table searched for long. A
 * stack that needs it ends early. Later, without that, it may not.
 */
void vt_unwinder_hurry(struct vt_unwinder *unwinder, bool hurry);

/*
 * Unwinds one thread from its registers. Never fails for bad stacks: stack->why says what ended it.
 * stack must be zeroed.
 */
struct vt_error *vt_unwinder_walk(struct vt_unwinder *unwinder, pid_t tid,
				  const struct vt_regs *regs, struct vt_native_stack *stack);

/* Names every frame of all stacks at once. Strings live in arena. */
struct vt_error *vt_native_symbolise(struct vt_modules *modules, struct vt_native_stack *stacks,
				     size_t n, struct vt_arena *arena);

/*
 * Source lines and inlined functions of all frames whose modules, or their separate debug files,
 * have DWARF. A child process reads it, for at most budget_ns of CPU time and five times that of
 * wall-clock time. The caller can do other work in that time, but must not change stacks and
 * modules. Without DWARF no child starts, and finish() returns at once. Entries in the memo are not
 * read again; new entries go there; entries that another process is reading are waited for.
 */
struct vt_native_lines; /* opaque */
struct vt_lines_memo;   /* walk/native/lines_memo.h */

/* Sharing with other processes that look up the same places. */
struct vt_native_sharing {
	struct vt_lines_memo *memo; /* NULL: none */
	void (*waits)(void *arg);   /* called before a wait for another process; NULL: none */
	void *arg;
};
#define VT_NATIVE_LINES_BUDGET_NS (300 * VT_NS_PER_MS)
struct vt_error *vt_native_lines_start(struct vt_modules *modules, struct vt_native_stack *stacks,
				       size_t n, uint64_t budget_ns,
				       const struct vt_native_sharing *sharing,
				       struct vt_native_lines **ret);
/*
 * Fills the frames. *n_missing: addresses that the child did not reach, because time ran out or it
 * crashed.
 */
struct vt_error *vt_native_lines_finish(struct vt_native_lines *lines, struct vt_arena *arena,
					size_t *n_missing);
/* Whether lines are looked up at all in code of this module (NULL: of none). */
bool vt_native_may_have_lines(const struct vt_module *module);
void vt_native_lines_destroy(struct vt_native_lines *lines);

#endif
