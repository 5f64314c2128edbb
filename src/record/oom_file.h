/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that the report of an out-of-memory error is saved in. Its name comes from a pattern,
 * and a file that exists is never overwritten: it may be of an earlier error, which is gone.
 */
#ifndef VT_RECORD_OOM_FILE_H
#define VT_RECORD_OOM_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "report/writer.h"

/* In the current directory, or in the one that a pattern names. */
#define VT_OOM_FILE_PATTERN "vramtap-oom-%h-%p-%t.json"

/*
 * %h is the host, %p the process, %t the time (UTC), %% a percent sign. False: there is a percent
 * sign with something else.
 */
bool vt_oom_pattern_is_valid(const char *pattern);
/* Processes that use the same pattern get names of their own. */
bool vt_oom_pattern_has_pid(const char *pattern);

/* Nothing is known that would prevent writing there. Said before anything waits. */
struct vt_error *vt_oom_pattern_check(const char *pattern);

struct vt_oom_file {
	const char *pattern;
	pid_t pid;
	bool add_pid;   /* unless the pattern has it */
	bool with_text; /* also as text, beside it */
	struct vt_writer_options text;
};

/* Where a report is. */
struct vt_oom_saved {
	char *json, *text; /* text: NULL there is none */
	/* why it is in the directory for temporary files; NULL it is not */
	struct vt_error *instead;
};
void vt_oom_saved_deinit(struct vt_oom_saved *saved);

/* Of a struct vt_model. Where it cannot be written, the directory for temporary files is tried. */
struct vt_error *vt_oom_save(const struct vt_oom_file *file, const struct vt_model *model,
			     struct vt_oom_saved *saved);

#endif
