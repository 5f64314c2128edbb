/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowing a thread: one stop, one write to its stack, one PTRACE_SETREGSET. Then the thread
 * enters the stub and returns without us. Until that call nothing has changed that the target can
 * observe; after it nothing is left to undo.
 */
#ifndef VT_INJECT_BORROW_H
#define VT_INJECT_BORROW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/choose.h"
#include "inject/seccomp.h"
#include "inject/stub/stub.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/proc.h"

struct vt_borrow_plan {
	const struct vt_proc *proc;
	struct vt_live *live;
	const struct vt_maps *maps;
	uint64_t stub;   /* address of the stub */
	bool write_stub; /* not written from outside: write it during the stop */
	struct vt_stub_control control;
	uint64_t xstate;         /* vt_xstate_describe() */
	enum vt_seccomp_use use; /* for which calls the filters are checked */
};

enum vt_borrow_result {
	VT_BORROWED,       /* the stub is on its way */
	VT_BORROW_ANOTHER, /* this thread does not qualify (now); it is unchanged */
	VT_BORROW_STOPPED, /* it is stopped by job control; it was left so */
};

struct vt_borrow_record {
	uint64_t stop_ns; /* when it was seen stopped */
	uint64_t block;   /* address of its struct vt_stub_block */
};

/*
 * Tries one thread. An error means that other threads would fail too (VT_ERR_PERMISSION,
 * VT_ERR_UNSUPPORTED, VT_ERR_GONE); this thread is unchanged then. *result and *record are set only
 * on success.
 */
struct vt_error *vt_borrow(const struct vt_borrow_plan *plan, const struct vt_candidate *candidate,
			   enum vt_borrow_result *result, struct vt_borrow_record *record);

#endif
