/* SPDX-License-Identifier: Apache-2.0 */
/* Every single part of a report after the other (report/text/parts.h), so that what holds for each writer is tested of them, too. */
#ifndef VT_TESTS_REPORT_PARTS_H
#define VT_TESTS_REPORT_PARTS_H

#include "report/writer.h"

extern const struct vt_report_writer report_parts_writer;

/* What gdb's commands give. */
extern const struct vt_writer_hints report_other_hints;

#endif
