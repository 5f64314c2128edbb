/* SPDX-License-Identifier: Apache-2.0 */
/* A document into a file. */
#ifndef VT_REPORT_SAVE_H
#define VT_REPORT_SAVE_H

#include "base/error.h"
#include "report/writer.h"

/*
 * Writes to a file beside and renames it: a reader never sees half a report. Only a regular file is replaced so; a device, a
 * pipe or a link is written to as it is (renaming over /dev/null would put a file in its place).
 */
struct vt_error *vt_save(vt_write_fn *write, const void *what, const struct vt_writer_options *options, const char *path);

#endif
