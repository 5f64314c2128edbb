/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_HTML_SAVED_PACKED_H
#define VT_REPORT_HTML_SAVED_PACKED_H

#include <jansson.h>

#include "report/writer.h"

/* Of a json_t: a document that was saved. */
vt_write_fn vt_html_write_saved;

#endif
