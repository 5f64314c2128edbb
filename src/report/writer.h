/* SPDX-License-Identifier: Apache-2.0 */
/* Writers print a finished model. They compute nothing and escape every string that came from the target. */
#ifndef VT_REPORT_WRITER_H
#define VT_REPORT_WRITER_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "report/model.h"

struct vt_writer_options {
	int columns;      /* of the terminal; 0: 100 */
	bool colour;
	bool ascii;       /* no box or block characters: the locale or terminal is not UTF-8 */
	bool all_blocks;  /* --blocks */
	bool all_threads; /* every thread and every frame instead of groups */
};

struct vt_report_writer {
	const char *name;
	/* Fails only with VT_ERR_OS (write error) or VT_ERR_NOMEM. */
	struct vt_error *(*write)(const struct vt_model *model, const struct vt_writer_options *options, FILE *out);
};

extern const struct vt_report_writer vt_writer_text;
extern const struct vt_report_writer vt_writer_json;

#endif
