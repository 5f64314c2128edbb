/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-memory errors of one process: the recorder's trap is armed, and of each event a report of
 * that moment is made. The thread that ran out of memory waits as long as that is made; what the
 * caller does with the report comes after it goes on.
 */
#ifndef VT_RECORD_OOM_CATCH_H
#define VT_RECORD_OOM_CATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/collect.h"
#include "inject/recorder/trap.h"
#include "model/model.h"
#include "record/target.h"

/* How often vt_catch_look() is to be called. */
#define VT_CATCH_POLL_MS 4
#define VT_CATCH_POLL_NS (VT_CATCH_POLL_MS * VT_NS_PER_MS)

struct vt_catch {
	pid_t pid;
	struct vt_collect_options collect;
	struct vt_trap *trap;
	uint32_t dealt;       /* the last event that is dealt with */
	uint32_t first, last; /* those that the report is about that is being made */
	bool busy;            /* the caller deals with a report: nobody is held meanwhile */
	size_t n_caught;      /* reports that were made, or failed */
};

/*
 * Zeroed but for pid and collect.want. Arms the trap of the recorder that target has found on, in
 * the process pid. vt_catch_end() disarms it, also after an error.
 */
struct vt_error *vt_catch_begin(struct vt_catch *c, const struct vt_record_target *target);
void vt_catch_end(struct vt_catch *c);

/*
 * Whether memory ran out since the last call; if so, *caught is set, and model has the report
 * unless *why says why there is none. model must be initialised, and is the caller's. Fails as
 * vt_trap_raised() does when there is nothing to wait for any more.
 */
struct vt_error *vt_catch_look(struct vt_catch *c, struct vt_model *model, bool *caught,
			       struct vt_error **why);

#endif
