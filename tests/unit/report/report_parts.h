/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every single part of a report after the other (report/text/parts.h), so that what holds for each
 * writer is tested of them, too.
 */
#ifndef VT_TESTS_REPORT_PARTS_H
#define VT_TESTS_REPORT_PARTS_H

#include "report/writer.h"

vt_write_fn report_write_parts; /* of a struct vt_model */

/* What gdb's commands give. */
extern const struct vt_writer_hints report_other_hints;

#endif
