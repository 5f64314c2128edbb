/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/line.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/width.h"

#define MIN_COLUMNS 40
#define MAX_COLUMNS 160     /* wider lines are hard to follow with the eye … */
#define MAX_ALL_COLUMNS 500 /* … but a request for everything shows full names */
#define DEFAULT_COLUMNS 100
#define MAX_TEXT 4096 /* bytes of one text that are used: no line shows more */

const struct vt_writer_hints vt_hints_command_line = {
	.all_threads = "(--threads=all shows all)",
	.all_blocks = "(--blocks lists all)",
	.all_sites = "(--sites shows all, with every frame)",
	.owners = "(--owners lists every block)",
	.record = "vramtap record PID on",
};

void vt_line_init(struct vt_line *line, FILE *out, const struct vt_writer_options *options)
{
	int columns = options->columns > 0 ? options->columns : DEFAULT_COLUMNS;

	int most = options->threads != VT_THREADS_GROUPS ? MAX_ALL_COLUMNS : MAX_COLUMNS;

	columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns > most ? most : columns;
	*line = (struct vt_line){
		.out = out,
		.columns = columns,
		.colour = options->colour,
		.ascii = options->ascii,
		.hints = options->hints ? options->hints : &vt_hints_command_line,
	};
}

static void write_bytes(struct vt_line *line, const char *text, size_t n)
{
	if (!line->errnum && fwrite(text, 1, n, line->out) != n)
		line->errnum = errno ? errno : EIO;
}

struct vt_error *vt_line_finish(struct vt_line *line)
{
	bool failed = line->buf.failed || line->clean.failed;

	if (!line->errnum && fflush(line->out) != 0)
		line->errnum = errno ? errno : EIO;
	vt_str_deinit(&line->buf);
	vt_str_deinit(&line->clean);
	if (line->errnum)
		return vt_error_create_os(line->errnum, "cannot write the report");
	return failed ? &vt_enomem : NULL;
}

/* ---- escaping ---- */

/* Our own non-ASCII characters have a plain form; those of the target become their bytes. */
static const struct {
	unsigned int code_point;
	const char *ascii;
} plain_forms[] = {
	{ 0x00b5, "u" },   /* micro */
	{ 0x00b7, "-" },   /* middle dot */
	{ 0x00d7, "x" },   /* times */
	{ 0x2013, "-" },   /* en dash */
	{ 0x2026, "..." }, /* ellipsis */
	{ 0x2190, "<-" },  /* arrow */
	{ 0x2504, "_" },   /* dashes */
	{ 0x2581, "1" },   /* eighths of a block */
	{ 0x2582, "2" },   { 0x2583, "3" }, { 0x2584, "4" }, { 0x2585, "5" },
	{ 0x2586, "6" },   { 0x2587, "7" }, { 0x2588, "#" }, /* full block */
	{ 0x2591, "." },                                     /* light shade */
	{ 0x2592, "-" },                                     /* medium shade */
	{ 0x2593, "=" },                                     /* dark shade */
	{ 0x25cb, "o" },                                     /* circle */
	{ 0x25cf, "*" },                                     /* disc */
};

static void add_plain(struct vt_str *out, const char *bytes, size_t len, unsigned int code_point)
{
	for (size_t i = 0; i < sizeof(plain_forms) / sizeof(plain_forms[0]); i++) {
		if (plain_forms[i].code_point == code_point) {
			vt_str_add(out, plain_forms[i].ascii);
			return;
		}
	}
	for (size_t i = 0; i < len; i++)
		vt_str_addf(out, "\\x%02x", (unsigned char)bytes[i]);
}

static bool is_plain(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			return false;
	return true;
}

static void escape_ascii(struct vt_str *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned int c = 0;
		size_t len = vt_utf8_sequence(text + i, n - i, &c);

		if (len > 1)
			add_plain(out, text + i, len, c);
		else
			vt_str_add_escaped(out, text + i, 1);
		i += len ? len : 1;
	}
}

/*
 * Fills line->clean with text in a form that is safe to show. Only the wanted end of a very long
 * text is used; a character that this splits lies far outside the shown part.
 */
static void clean(struct vt_line *line, const char *text, enum vt_cut cut)
{
	size_t n = text ? strlen(text) : 0;

	vt_str_clear(&line->clean);
	if (n > MAX_TEXT) {
		if (cut != VT_CUT_END)
			text += n - MAX_TEXT;
		n = MAX_TEXT;
	}
	if (n == 0)
		return;
	if (is_plain(text, n))
		vt_str_addn(&line->clean, text, n);
	else if (line->ascii)
		escape_ascii(&line->clean, text, n);
	else
		vt_str_add_escaped(&line->clean, text, n);
}

int vt_line_width(struct vt_line *line, const char *text)
{
	clean(line, text, VT_CUT_END);
	return vt_width(vt_str_get(&line->clean), line->clean.n);
}

int vt_line_room(const struct vt_line *line)
{
	return line->want < line->columns ? line->columns - line->want : 0;
}

/* ---- adding ---- */

static const char *const sequences[] = {
	[VT_BOLD] = "\033[1m",   [VT_DIM] = "\033[2m",    [VT_WARN] = "\033[33m",
	[VT_ALARM] = "\033[31m", [VT_SPARE] = "\033[36m",
};

/* Of the 256 colours, those that can be read on black and on white. */
static const unsigned char hues[VT_N_HUES] = { 33,  37,  133, 67, 34,  71,  172, 31,
					       136, 160, 197, 96, 208, 101, 244 };

static void add_sequence(struct vt_line *line, enum vt_style style)
{
	if (style < VT_FIRST_HUE)
		vt_str_add(&line->buf, sequences[style]);
	else
		vt_str_addf(&line->buf, "\033[38;5;%dm", hues[(style - VT_FIRST_HUE) % VT_N_HUES]);
}

/* Text that is clean already and fits. */
static void put(struct vt_line *line, enum vt_style style, const char *text, size_t n)
{
	static const char spaces[] = "                ";
	bool coloured = line->colour && style != VT_PLAIN;

	if (n == 0)
		return;
	while (line->width < line->want) {
		int step = line->want - line->width;

		step = step < (int)sizeof(spaces) - 1 ? step : (int)sizeof(spaces) - 1;
		vt_str_addn(&line->buf, spaces, (size_t)step);
		line->width += step;
	}
	if (coloured)
		add_sequence(line, style);
	vt_str_addn(&line->buf, text, n);
	if (coloured)
		vt_str_add(&line->buf, "\033[0m");
	line->width += vt_width(text, n);
	line->want = line->width;
}

/* The rest of the n bytes after the first, incomplete part of a path is removed. */
static size_t from_slash(const char *text, size_t n)
{
	const char *slash = memchr(text, '/', n);

	return slash ? n - (size_t)(slash - text) : n;
}

/* line->clean, cut to max columns. */
static void put_cut(struct vt_line *line, enum vt_style style, int max, enum vt_cut cut)
{
	const char *text = vt_str_get(&line->clean);
	const char *ellipsis = line->ascii ? "..." : "…";
	int ellipsis_width = line->ascii ? 3 : 1;
	size_t n = line->clean.n;

	if (max > vt_line_room(line))
		max = vt_line_room(line);
	if (vt_width(text, n) <= max && vt_width_prefix(text, n, max) == n) {
		put(line, style, text, n);
		return;
	}
	if (max < ellipsis_width)
		return;

	VT_FREE char *copy = NULL;
	size_t keep;
	int len;

	if (cut != VT_CUT_END) {
		keep = vt_width_suffix(text, n, max - ellipsis_width);
		if (cut == VT_CUT_PATH)
			keep = from_slash(text + n - keep, keep);
		len = asprintf(&copy, "%s%.*s", ellipsis, (int)keep, text + n - keep);
	} else {
		keep = vt_width_prefix(text, n, max - ellipsis_width);
		len = asprintf(&copy, "%.*s%s", (int)keep, text, ellipsis);
	}
	if (len < 0) {
		copy = NULL;
		line->buf.failed = true;
		return;
	}
	put(line, style, copy, (size_t)len);
}

void vt_line_add(struct vt_line *line, enum vt_style style, const char *text)
{
	clean(line, text, VT_CUT_END);
	put_cut(line, style, line->columns, VT_CUT_END);
}

void vt_line_addf(struct vt_line *line, enum vt_style style, const char *format, ...)
{
	VT_FREE char *text = NULL;
	va_list args;

	va_start(args, format);
	int n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		line->buf.failed = true;
		return;
	}
	vt_line_add(line, style, text);
}

void vt_line_cell(struct vt_line *line, enum vt_style style, const char *text, int columns,
		  enum vt_cut cut)
{
	int start = line->want;

	clean(line, text, cut);
	put_cut(line, style, columns, cut);
	line->want = start + columns;
}

void vt_line_right(struct vt_line *line, enum vt_style style, const char *text, int columns)
{
	int start = line->want;

	clean(line, text, VT_CUT_END);

	int width = vt_width(vt_str_get(&line->clean), line->clean.n);

	if (width < columns)
		line->want += columns - width;
	put_cut(line, style, columns, VT_CUT_END);
	line->want = start + columns;
}

void vt_line_pad(struct vt_line *line, int column)
{
	line->want = column > line->want ? column : line->want + (line->want > 0);
}

void vt_line_end(struct vt_line *line)
{
	vt_str_add(&line->buf, "\n");
	write_bytes(line, vt_str_get(&line->buf), line->buf.n);
	vt_str_clear(&line->buf);
	line->width = 0;
	line->want = 0;
	line->top = false;
}

void vt_line_blank(struct vt_line *line)
{
	if (!line->top)
		vt_line_end(line);
}

void vt_line_wrap(struct vt_line *line, enum vt_style style, const char *text, int indent,
		  int max_lines)
{
	clean(line, text, VT_CUT_END);

	struct vt_str whole = line->clean; /* vt_line_add() below needs the scratch string */
	const char *rest = vt_str_get(&whole);
	size_t n = whole.n;

	line->clean = (struct vt_str){ .failed = whole.failed };
	if (indent > line->columns / 2)
		indent = line->columns / 2;
	for (int i = 1; n > 0; i++) {
		size_t fits = vt_width_prefix(rest, n, vt_line_room(line)), end = fits;

		if (fits == n) {
			put(line, style, rest, n);
			break;
		}
		if (i == max_lines) {
			vt_line_add(line, style, rest);
			break;
		}
		while (end > 0 && rest[end] != ' ')
			end--;
		if (end == 0) /* one long word */
			end = fits;
		put(line, style, rest, end);
		rest += end;
		n -= end;
		while (n > 0 && *rest == ' ') {
			rest++;
			n--;
		}
		if (n > 0) {
			vt_line_end(line);
			line->want = indent;
		}
	}
	vt_line_end(line);
	vt_str_deinit(&whole);
}

void vt_line_raw(struct vt_line *line, const char *text, size_t n)
{
	bool cut = n > (size_t)line->columns;

	write_bytes(line, text, cut ? (size_t)line->columns - 3 : n);
	if (cut)
		write_bytes(line, "...", 3);
	write_bytes(line, "\n", 1);
}
