/* SPDX-License-Identifier: Apache-2.0 */
/* What watch --grow says of the lines of the ledger that grow. */
#ifndef VT_CMD_GROW_LINES_H
#define VT_CMD_GROW_LINES_H

#include <sys/types.h>

#include "report/diff/growth.h"
#include "report/text/line.h"

/* "raw cudaMalloc, unattributed on GPU 0 +512 MiB" */
void vt_grow_add_line(struct vt_str *text, const struct vt_growth_source *line, int64_t bytes);

/* The largest rise in the last interval; not of all that a pool has, if a part of it rose. */
const struct vt_growth_source *vt_grow_latest_line(const struct vt_growth *lines);

/* A table of what grows, of the n in order, in columns that a label has. */
void vt_grow_print_lines(struct vt_line *line, const struct vt_growth *lines, const size_t *order,
			 size_t n, int label_columns, double seconds);

/*
 * The sentence about the line that grows most; nothing if none does. pid: 0 if the process is
 * recorded, so that its report tells which code allocates.
 */
void vt_grow_add_lines_verdict(struct vt_str *text, const struct vt_growth *lines, size_t n,
			       double seconds, pid_t pid);

#endif
