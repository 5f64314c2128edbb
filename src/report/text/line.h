/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of a text report at a time. All added text is escaped and measured here, and cut at the
 * right edge: no line is wider than the terminal, and no byte of the target reaches it raw.
 */
#ifndef VT_REPORT_TEXT_LINE_H
#define VT_REPORT_TEXT_LINE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "report/writer.h"

enum vt_style {
	VT_PLAIN,
	VT_BOLD,
	VT_DIM,
	VT_WARN,      /* yellow: look here */
	VT_ALARM,     /* red: something is wrong */
	VT_SPARE,     /* cyan: taken, and could be given back */
	VT_FIRST_HUE, /* the rest only tell things apart */
};
#define VT_N_HUES 15
#define VT_HUE(n) ((enum vt_style)(VT_FIRST_HUE + (n) % VT_N_HUES))

/*
 * Which end of a text that is too long is replaced by an ellipsis. PATH: the start, up to a slash
 * where that is possible.
 */
enum vt_cut { VT_CUT_END, VT_CUT_START, VT_CUT_PATH };

struct vt_line {
	FILE *out;
	int columns;
	bool colour, ascii;
	bool top; /* nothing is written yet: no empty line may come first */
	const struct vt_writer_hints *hints;
	struct vt_str buf;   /* the line so far, with colour sequences */
	struct vt_str clean; /* scratch */
	int width;           /* columns in buf */
	/* column where the next text goes; spaces are written only before text */
	int want;
	int errnum; /* of the first failed write */
};

void vt_line_init(struct vt_line *line, FILE *out, const struct vt_writer_options *options);

/* Flushes; VT_ERR_OS or VT_ERR_NOMEM if anything failed on the way. */
struct vt_error *vt_line_finish(struct vt_line *line);

/* Adds text, up to the right edge. NULL is "". */
void vt_line_add(struct vt_line *line, enum vt_style style, const char *text);
void vt_line_addf(struct vt_line *line, enum vt_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Adds text in a cell of so many columns, left- or right-aligned; a longer text is cut
 * (right-aligned ones at the end).
 */
void vt_line_cell(struct vt_line *line, enum vt_style style, const char *text, int columns,
		  enum vt_cut cut);
void vt_line_right(struct vt_line *line, enum vt_style style, const char *text, int columns);

/*
 * The next text begins at this column; at least one space is left when the line is longer already.
 */
void vt_line_pad(struct vt_line *line, int column);

/*
 * Adds text of any length from the current column, broken at spaces; further lines begin at indent.
 * At most max_lines. Ends the last line.
 */
void vt_line_wrap(struct vt_line *line, enum vt_style style, const char *text, int indent,
		  int max_lines);

void vt_line_end(struct vt_line *line);
void vt_line_blank(struct vt_line *line); /* an empty line */

/*
 * Writes a line of our own text, ASCII and without colour: for millions of lines. Cut at the right
 * edge.
 */
void vt_line_raw(struct vt_line *line, const char *text, size_t n);

/* The columns that text needs after escaping. */
int vt_line_width(struct vt_line *line, const char *text);

/* Columns left. */
int vt_line_room(const struct vt_line *line);

#endif
