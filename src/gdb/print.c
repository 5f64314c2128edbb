/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/print.h"

#include <stdbool.h>
#include <string.h>

#include "gdb/escape.h"
#include "gdb/rows.h"

#define CHUNK 512  /* of text in one command */
#define LONG 4096  /* from here on less to read is worth it: gdb takes 7 ms for as much */
#define PART 32768 /* printf has it on gdb's stack */
#define FILE_OBJECT "gdb.vramtap_text"

/* The last newline in the first max bytes of the text; NULL when there is none. */
static const char *last_newline(const char *text, const char *end, size_t max)
{
	return memrchr(text, '\n', (size_t)(end - text) < max ? (size_t)(end - text) : max);
}

/*
 * The text up to and including the last newline in its first CHUNK bytes, or its whole first line.
 */
static const char *end_of_chunk(const char *text, const char *end)
{
	const char *last = last_newline(text, end, CHUNK);

	last = last ? last : memchr(text, '\n', (size_t)(end - text));
	return last ? last + 1 : end;
}

/* What printf can have between its quotes. It does not know octal numbers. */
static bool is_plain(const char *text, const char *end)
{
	unsigned int code_point;

	while (text < end) {
		unsigned char c = (unsigned char)*text;
		size_t n = c < 0x80 ? 1 : vt_utf8_sequence(text, (size_t)(end - text), &code_point);

		if (!n || (c < ' ' && c != '\n') || c == 0x7f || c == '$' || c == '#')
			return false;
		text += n;
	}
	return true;
}

/*
 * Half the time of echo, which takes a microsecond for each character. (The rest is that gdb reads
 * a file with two system calls a byte.)
 */
static void add_printf(struct vt_str *out, const char *text, const char *end)
{
	vt_str_add(out, "printf \"");
	for (size_t n; text < end; text += n) {
		n = strcspn(text, "\n\\\"%");
		n = n < (size_t)(end - text) ? n : (size_t)(end - text);
		vt_str_addn(out, text, n);
		if (text + n == end)
			break;
		vt_str_add(out, text[n] == '\n' ? "\\n" :
				text[n] == '%'  ? "%%" :
				text[n] == '"'  ? "\\\"" :
						  "\\\\");
		n++;
	}
	vt_str_add(out, "\"\n");
}

static void add_echo(struct vt_str *out, const char *text, const char *end)
{
	for (const char *next; text < end; text = next) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));

		next = newline ? newline + 1 : end;
		vt_str_add(out, "echo ");
		vt_gdb_add_escaped(out, text, (size_t)((newline ? newline : end) - text));
		vt_str_add(out, newline ? "\\n\n" : "\n");
	}
}

static void add_lines(struct vt_str *out, const char *text, const char *end)
{
	for (const char *next; text < end; text = next) {
		next = end_of_chunk(text, end);
		if (is_plain(text, next))
			add_printf(out, text, next);
		else
			add_echo(out, text, next);
	}
}

void vt_gdb_add_text(struct vt_str *out, const char *text, size_t n)
{
	struct vt_gdb_rows rows = { 0 };
	const char *const end = text + n;

	for (const char *at = text; n >= LONG && at < end;) {
		at += strspn(at, " ");

		const char *rows_end = vt_gdb_rows_end(at, end);

		if (rows_end > at) {
			add_lines(out, text, at);
			vt_gdb_add_rows(&rows, out, at, rows_end);
			text = at = rows_end;
		} else {
			const char *newline = memchr(at, '\n', (size_t)(end - at));

			at = newline ? newline + 1 : end;
		}
	}
	add_lines(out, text, end);
	vt_gdb_end_rows(&rows, out);
}

/* printf ends a text at a NUL. */
bool vt_gdb_serves_python(const char *text, size_t n)
{
	return n >= LONG && !memchr(text, '\0', n);
}

void vt_gdb_add_open(struct vt_str *out, const char *path)
{
	vt_str_addf(out, "python " FILE_OBJECT " = open(\"%s\", \"rb\")\n", path);
}

/* Lines are not divided, unless one is too long. */
static const char *end_of_part(const char *text, const char *end)
{
	const char *last = last_newline(text, end, PART);

	return last ? last + 1 : end - text > PART ? text + PART : end;
}

/*
 * Python gives a variable the bytes as they are; what prints is a command of gdb's. So the pager
 * ends the answer, and whatever the user had it in, as it ends any: gdb.write() would make
 * a Python exception of it. gdb prints a variable's array by itself; any other one it would put
 * into the process first.
 */
void vt_gdb_add_text_of_file(struct vt_str *out, const char *text, size_t n)
{
	for (const char *end = text + n, *next; text < end; text = next) {
		next = end_of_part(text, end);
		/* The type without a look at the symbols, where the process may have a "char". */
		vt_str_addf(out,
			    "python gdb.set_convenience_variable("
			    "\"_vt_text\", gdb.Value(" FILE_OBJECT ".read(%zu), "
			    "gdb.Value(\"x\").type.target().array(%zu)))\n"
			    "printf \"%%s\", $_vt_text\n",
			    (size_t)(next - text), (size_t)(next - text) - 1);
	}
	vt_str_add(out, "python gdb.set_convenience_variable(\"_vt_text\", None); del " FILE_OBJECT
			"\n");
}
