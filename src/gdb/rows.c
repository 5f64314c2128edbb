/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/rows.h"

#include <stdbool.h>
#include <string.h>

#include "gdb/escape.h"

#define ROWS 8       /* in a command, as gdbcmds/vramtap.gdb.in has it */
#define MAX_ROW 1024 /* bytes */
#define BEGIN "0x"
#define MAX_INDENT 8
#define OWN 4  /* digits that a row has for itself; those before them rows share */
#define LAST 2 /* digits after them: those of an aligned address are all alike */

/* A variable must not get another value while a command that is not written yet has its letter. */
_Static_assert(ROWS < VT_GDB_TAILS, "a command may have as many tails as rows");

struct row {
	const char *shared, *own, *tail, *end;
};

/*
 * The line at the beginning of the text, without the spaces before it, and with those of the next:
 * lines of more than one indentation are rows in a row. printf would end a tail at a NUL.
 */
static bool parse_row(const char *text, const char *end, struct row *ret)
{
	size_t max = (size_t)(end - text) < MAX_ROW ? (size_t)(end - text) : MAX_ROW;
	const char *newline = memchr(text, '\n', max), *digits = text + strlen(BEGIN);

	if (!newline || memchr(text, '\0', (size_t)(newline - text)) ||
	    strncmp(text, BEGIN, strlen(BEGIN)) != 0)
		return false;

	size_t n = strspn(digits, "0123456789abcdef");

	if (n <= OWN + LAST)
		return false;

	size_t indent = strspn(newline + 1, " ");

	*ret = (struct row){ digits, digits + n - OWN - LAST, digits + n - LAST,
			     newline + 1 + (indent < MAX_INDENT ? indent : MAX_INDENT) };
	return true;
}

static bool same(const char *a, size_t n_a, const char *b, size_t n_b)
{
	return n_a == n_b && !memcmp(a, b, n_a);
}

const char *vt_gdb_rows_end(const char *text, const char *end)
{
	struct row first, row;
	const char *whole = text, *at = text;

	if (!parse_row(text, end, &first))
		return text;
	for (size_t n = 1; at < end && parse_row(at, end, &row); n++) {
		if (!same(row.shared, (size_t)(row.own - row.shared), first.shared,
			  (size_t)(first.own - first.shared)))
			break;
		at = row.end;
		whole = n % ROWS ? whole : at;
	}
	return whole;
}

/* The letter of a tail; one that is new takes the place of the one that was used longest ago. */
static char letter_of(struct vt_gdb_rows *rows, struct vt_str *out, const struct row *row)
{
	size_t n = (size_t)(row->end - row->tail);
	struct vt_gdb_tail *oldest = &rows->tails[0], *tail = oldest;

	for (; tail < rows->tails + VT_GDB_TAILS; tail++) {
		if (tail->text && same(tail->text, tail->n, row->tail, n))
			break;
		oldest = tail->used < oldest->used ? tail : oldest;
	}
	if (tail == rows->tails + VT_GDB_TAILS) {
		tail = oldest;
		*tail = (struct vt_gdb_tail){ row->tail, n, 0 };
		vt_str_addf(out, "set $_vt_row_%c = \"", 'a' + (int)(tail - rows->tails));
		vt_gdb_add_escaped(out, row->tail, n);
		vt_str_add(out, "\"\n");
	}
	tail->used = ++rows->n;
	return (char)('a' + (tail - rows->tails));
}

/* What a command has of a row. */
struct word {
	const char *own;
	char letter;
};

static bool of_one_letter(const struct word words[ROWS])
{
	for (int i = 1; i < ROWS; i++)
		if (words[i].letter != words[0].letter)
			return false;
	return true;
}

/*
 * "_vramtap r 7f26 a000 c a400 d ...": what addresses begin with, and of each row its digits and
 * letter; or "_vramtap s 7f26 c a000 a400 ..." with one letter for all.
 */
static void add_command(struct vt_str *out, const char *shared, size_t n,
			const struct word words[ROWS])
{
	char text[ROWS * (OWN + 3)], *at = text;
	bool one = of_one_letter(words);

	vt_str_add(out, one ? "_vramtap s " : "_vramtap r ");
	vt_str_addn(out, shared, n);
	if (one) {
		*at++ = ' ';
		*at++ = words[0].letter;
	}
	for (int i = 0; i < ROWS; i++) {
		*at++ = ' ';
		at = mempcpy(at, words[i].own, OWN);
		if (!one) {
			*at++ = ' ';
			*at++ = words[i].letter;
		}
	}
	vt_str_addn(out, text, (size_t)(at - text));
	vt_str_add(out, "\n");
}

void vt_gdb_add_rows(struct vt_gdb_rows *rows, struct vt_str *out, const char *text,
		     const char *end)
{
	while (text < end) {
		struct word words[ROWS] = { 0 };
		struct row row = { 0 };

		for (int i = 0; i < ROWS && parse_row(text, end, &row); i++) {
			words[i] = (struct word){ row.own, letter_of(rows, out, &row) };
			text = row.end;
		}
		add_command(out, row.shared, (size_t)(row.own - row.shared), words);
	}
}

void vt_gdb_end_rows(const struct vt_gdb_rows *rows, struct vt_str *out)
{
	for (int i = 0; i < VT_GDB_TAILS && rows->tails[i].text; i++)
		vt_str_addf(out, "set $_vt_row_%c = (void)0\n", 'a' + i);
}
