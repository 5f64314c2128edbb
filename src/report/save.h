/* SPDX-License-Identifier: Apache-2.0 */
/* Saves a document in a file. */
#ifndef VT_REPORT_SAVE_H
#define VT_REPORT_SAVE_H

#include "base/error.h"
#include "report/writer.h"

/*
 * Writes a file beside path and renames it: a reader never sees half a report. Only a regular file
 * is replaced in this way; vramtap writes directly to a device, a pipe or a link (a rename over
 * /dev/null would put a file in its place). A new file is for its owner alone (0600, less what
 * umask takes), or, with .for_others, for all. Links, pipes and devices of others in a directory
 * like /tmp are refused.
 */
struct vt_error *vt_save(vt_write_fn *write, const void *what,
			 const struct vt_writer_options *options, const char *path);

/* The same, but a file that is there is left alone: fails with errnum EEXIST. */
struct vt_error *vt_save_new(vt_write_fn *write, const void *what,
			     const struct vt_writer_options *options, const char *path);

#endif
