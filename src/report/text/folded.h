/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in use by their recorded backtrace, as flame graph tools read it: a line for each
 * backtrace, its frames outermost first with ';' between them, and its bytes. Blocks without a
 * backtrace have lines, too, so that the lines add up to the allocated bytes.
 */
#ifndef VT_REPORT_TEXT_FOLDED_H
#define VT_REPORT_TEXT_FOLDED_H

#include "report/writer.h"

vt_write_fn vt_write_report_folded; /* of a struct vt_model */

#endif
