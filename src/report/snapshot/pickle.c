/* SPDX-License-Identifier: Apache-2.0 */
#include "report/snapshot/pickle.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"

/* Lib/pickletools.py of CPython has them all. */
enum opcode {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_BININT = 'J',  /* 4 bytes, signed */
	OP_BININT1 = 'K', /* 1 byte, unsigned */
	OP_BININT2 = 'M', /* 2 bytes, unsigned */
	OP_BINUNICODE = 'X',
	OP_EMPTY_LIST = ']',
	OP_APPENDS = 'e',
	OP_EMPTY_DICT = '}',
	OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
	OP_SETITEMS = 'u',
	OP_PROTO = 0x80,
	OP_TUPLE2 = 0x86,
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_LONG1 = 0x8a, /* 1 byte for the length, two's complement */
	OP_SHORT_BINUNICODE = 0x8c,
	OP_MEMOIZE = 0x94,
};
#define PROTOCOL 4

/*
 * Items between a MARK and its APPENDS, as CPython writes them. Readers have them on their stack,
 * and memory_viz passes them to one call.
 */
#define BATCH 1000

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static void flush(struct vt_pickle *pickle)
{
	if (!pickle->errnum && pickle->n > 0 &&
	    fwrite(pickle->buf, 1, pickle->n, pickle->out) != pickle->n)
		pickle->errnum = errno ? errno : EIO;
	pickle->n = 0;
}

static void put(struct vt_pickle *pickle, const void *bytes, size_t n)
{
	const unsigned char *from = bytes;

	while (n > 0) {
		size_t room = VT_PICKLE_BUFFER - pickle->n, step = n < room ? n : room;

		memcpy(pickle->buf + pickle->n, from, step);
		pickle->n += step;
		from += step;
		n -= step;
		if (pickle->n == VT_PICKLE_BUFFER)
			flush(pickle);
	}
}

static void put_op(struct vt_pickle *pickle, enum opcode op)
{
	unsigned char byte = (unsigned char)op;

	put(pickle, &byte, 1);
}

/* An opcode and the n low bytes of value, the lowest first. */
static void put_op_number(struct vt_pickle *pickle, enum opcode op, uint64_t value, size_t n)
{
	uint64_t little = htole64(value);

	put_op(pickle, op);
	put(pickle, &little, n);
}

void vt_pickle_init(struct vt_pickle *pickle, FILE *out)
{
	memset(pickle, 0, offsetof(struct vt_pickle, buf));
	pickle->out = out;
	put_op_number(pickle, OP_PROTO, PROTOCOL, 1);
}

void vt_pickle_deinit(struct vt_pickle *pickle)
{
	vt_map_deinit(&pickle->texts);
}

void vt_pickle_no_memory(struct vt_pickle *pickle)
{
	pickle->errnum = ENOMEM;
}

struct vt_error *vt_pickle_finish(struct vt_pickle *pickle)
{
	put_op(pickle, OP_STOP);
	flush(pickle);
	if (!pickle->errnum && fflush(pickle->out) != 0)
		pickle->errnum = errno ? errno : EIO;
	if (pickle->errnum == ENOMEM)
		return &vt_enomem;
	return pickle->errnum ? vt_error_create_os(pickle->errnum, "cannot write the snapshot") :
				NULL;
}

/* ---- numbers ---- */

void vt_pickle_bool(struct vt_pickle *pickle, bool value)
{
	put_op(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

/* The fewest bytes of two's complement that keep the sign. */
static void put_long(struct vt_pickle *pickle, uint64_t value, uint8_t sign)
{
	uint64_t little = htole64(value);
	unsigned char bytes[1 + sizeof(little) + 1];
	unsigned char n = sizeof(little) + 1;

	memcpy(bytes + 1, &little, sizeof(little));
	bytes[n] = sign;
	while (n > 1 && bytes[n] == sign && (bytes[n - 1] ^ sign) < 0x80)
		n--;
	bytes[0] = n;
	put_op(pickle, OP_LONG1);
	put(pickle, bytes, 1 + (size_t)n);
}

void vt_pickle_uint(struct vt_pickle *pickle, uint64_t value)
{
	if (value <= UINT8_MAX)
		put_op_number(pickle, OP_BININT1, value, 1);
	else if (value <= UINT16_MAX)
		put_op_number(pickle, OP_BININT2, value, 2);
	else if (value <= INT32_MAX)
		put_op_number(pickle, OP_BININT, value, 4);
	else
		put_long(pickle, value, 0);
}

void vt_pickle_int(struct vt_pickle *pickle, int64_t value)
{
	if (value >= 0)
		vt_pickle_uint(pickle, (uint64_t)value);
	else if (value >= INT32_MIN)
		put_op_number(pickle, OP_BININT, (uint64_t)value, 4);
	else
		put_long(pickle, (uint64_t)value, 0xff);
}

/* ---- texts ---- */

static void put_text(struct vt_pickle *pickle, const char *text, size_t n)
{
	if (n <= UINT8_MAX)
		put_op_number(pickle, OP_SHORT_BINUNICODE, n, 1);
	else
		put_op_number(pickle, OP_BINUNICODE, n, 4);
	put(pickle, text, n);
}

/* The bytes of text that are UTF-8. */
static size_t valid_bytes(const char *text, size_t n)
{
	unsigned int c;
	size_t i = 0;

	while (i < n) {
		size_t len = (unsigned char)text[i] < 0x80 ? 1 :
							     vt_utf8_sequence(text + i, n - i, &c);

		if (!len)
			break;
		i += len;
	}
	return i;
}

static void put_repaired(struct vt_pickle *pickle, const char *text, size_t n)
{
	struct vt_str repaired = { 0 };

	while (n > 0) {
		size_t valid = valid_bytes(text, n);

		vt_str_addn(&repaired, text, valid);
		if (valid < n) {
			vt_str_add(&repaired, REPLACEMENT);
			valid++;
		}
		text += valid;
		n -= valid;
	}
	if (repaired.failed || repaired.n > UINT32_MAX)
		vt_pickle_no_memory(pickle);
	else
		put_text(pickle, repaired.data, repaired.n);
	vt_str_deinit(&repaired);
}

void vt_pickle_text(struct vt_pickle *pickle, const char *text)
{
	size_t n = strlen(text);

	if (n <= UINT32_MAX && valid_bytes(text, n) == n)
		put_text(pickle, text, n);
	else
		put_repaired(pickle, text, n);
}

void vt_pickle_name(struct vt_pickle *pickle, const char *text)
{
	uint64_t key = (uint64_t)(uintptr_t)text, *known = vt_map_get(&pickle->texts, key);

	if (known) {
		vt_pickle_again(pickle, (uint32_t)*known);
		return;
	}
	vt_pickle_text(pickle, text);
	if (!vt_map_put(&pickle->texts, key, vt_pickle_keep(pickle)))
		vt_pickle_no_memory(pickle);
}

/* ---- containers ---- */

void vt_pickle_pair(struct vt_pickle *pickle)
{
	put_op(pickle, OP_TUPLE2);
}

void vt_pickle_dict(struct vt_pickle *pickle)
{
	put_op(pickle, OP_EMPTY_DICT);
	put_op(pickle, OP_MARK);
}

void vt_pickle_end_dict(struct vt_pickle *pickle)
{
	put_op(pickle, OP_SETITEMS);
}

void vt_pickle_list(struct vt_pickle *pickle)
{
	put_op(pickle, OP_EMPTY_LIST);
}

void vt_pickle_item(struct vt_pickle *pickle, struct vt_pickle_list *list)
{
	if (list->n && list->n % BATCH == 0)
		put_op(pickle, OP_APPENDS);
	if (list->n % BATCH == 0)
		put_op(pickle, OP_MARK);
	list->n++;
}

void vt_pickle_end_list(struct vt_pickle *pickle, const struct vt_pickle_list *list)
{
	if (list->n)
		put_op(pickle, OP_APPENDS);
}

uint32_t vt_pickle_keep(struct vt_pickle *pickle)
{
	put_op(pickle, OP_MEMOIZE);
	return pickle->n_kept++;
}

void vt_pickle_again(struct vt_pickle *pickle, uint32_t kept)
{
	if (kept <= UINT8_MAX)
		put_op_number(pickle, OP_BINGET, kept, 1);
	else
		put_op_number(pickle, OP_LONG_BINGET, kept, 4);
}
