/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_HTML_WORDS_H
#define VT_REPORT_HTML_WORDS_H

#include <stdio.h>

#include "base/error.h"

/*
 * Writes a JSON object: for each kind of code ("category", "unowned", "unowned array", "owners",
 * "bound", "range", "untraced", "library") what the reports say for it. For vt.words() of data.js.
 */
struct vt_error *vt_html_write_words(FILE *out);

#endif
