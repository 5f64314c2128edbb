/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks as a browser reads them fast: columns instead of objects, a quarter of the size. All else
 * is as in doc/report.schema.json. data.js reads both forms.
 */
#ifndef VT_REPORT_HTML_PACKED_H
#define VT_REPORT_HTML_PACKED_H

#include "report/json/report.h"

/*
 * A segment has "packed", an object of arrays with one element a block, by address, without a hole:
 *   bytes        sizes
 *   states       a string, one letter a block: the first of the state's name
 *   requested    bytes, 0 unknown; NULL: of no block
 *   backtraces   index in "recorded"."backtraces"; -1 - n: none, for reason n of the report's
 *                "packed"."no_backtrace"; NULL: nothing is recorded
 *   owners       index in the report's "packed"."owners", -1 none
 *   ages         milliseconds since the block was allocated, -1 unknown; NULL: of no block
 *   tids         of the thread that allocated it, 0 unknown; NULL as ages
 */
extern const struct vt_json_blocks vt_html_packed_blocks;

#endif
