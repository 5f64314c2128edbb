/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap run --on-oom: what is done when memory runs out in a process that it records. */
#ifndef VT_RECORD_RUN_OOM_H
#define VT_RECORD_RUN_OOM_H

#include <stdbool.h>

#include "base/str.h"
#include "record/oom_catch.h"

struct vt_run_oom {
	const char *pattern;           /* of the files; NULL: errors are not caught */
	const unsigned int *processes; /* how many were recorded, shared with vramtap run */
	struct vt_catch caught;
	char who[128]; /* "python3 (4711)", escaped */
	bool ended;    /* nothing is caught any more */
	/* What is to be said, and when: not amid what the program prints of its exception. */
	struct vt_str pending;
	uint64_t say_ns;
};

/* target is open, and its recorder on. */
struct vt_error *vt_run_oom_begin(struct vt_run_oom *oom, const struct vt_record_target *target);
void vt_run_oom_end(struct vt_run_oom *oom);

/* Saves the report of an error that has come, and says so. Every VT_CATCH_POLL_NS. */
void vt_run_oom_look(struct vt_run_oom *oom);

#endif
