/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/line.h"

/* Lines of a damaged table may run anywhere; what is not a line number becomes 0. */
static int as_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (int)line : 0;
}

/*
 * Pairs (bytes of code, signed lines): from the first pair whose code lies behind lasti, none
 * counts.
 */
static int line_lnotab(const uint8_t *table, size_t size, int first, int32_t lasti)
{
	int64_t line = first, addr = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		addr += table[i];
		if (addr > lasti)
			break;
		line += (int8_t)table[i + 1];
	}
	return as_line(line);
}

/*
 * Pairs (bytes of code, signed lines); each has the line of its own range of code, -128 if the
 * range has none.
 */
static int line_pep626(const uint8_t *table, size_t size, int first, int32_t lasti)
{
	int64_t line = first, end = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != -128)
			line += delta;
		if (end > lasti)
			return delta == -128 ? 0 : as_line(line);
	}
	return 0;
}

/*
 * PEP 657 (3.11, Objects/locations.md): entries of variable length, each begins with a byte that
 * has bit 7 set: 4 bits of code and 3 bits of length in code units less 1. The following bytes have
 * bit 7 clear; numbers in them are six bits a byte, the lowest first, bit 6 says that more follow;
 * signed ones have the sign in bit 0.
 */
enum {
	ENTRY_START = 0x80,
	ENTRY_ONE_LINE0 = 10, /* columns follow as two bytes; the line moves by 0, 1 or 2 */
	ENTRY_ONE_LINE2 = 12,
	ENTRY_NO_COLUMNS = 13,
	ENTRY_LONG = 14,
	ENTRY_NO_LINE = 15,
	CODE_UNIT = 2,
};

static int64_t read_signed(const uint8_t *p, const uint8_t *end)
{
	uint64_t value = 0;

	/* A line delta is an int: 6 bytes. More is damage and is cut off. */
	for (unsigned int shift = 0; p < end && shift < 36; shift += 6) {
		uint8_t byte = *p++;

		value |= (uint64_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40))
			break;
	}
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static int64_t line_delta(unsigned int code, const uint8_t *p, const uint8_t *end)
{
	if (code == ENTRY_NO_COLUMNS || code == ENTRY_LONG)
		return read_signed(p, end);
	if (code >= ENTRY_ONE_LINE0 && code <= ENTRY_ONE_LINE2)
		return code - ENTRY_ONE_LINE0;
	return 0;
}

static int line_pep657(const uint8_t *table, size_t size, int first, int32_t lasti)
{
	const uint8_t *p = table, *end = table + size;
	int64_t line = first, code_end = 0;

	while (p < end && *p & ENTRY_START) {
		unsigned int code = *p >> 3 & 15;

		code_end += ((*p & 7) + 1) * CODE_UNIT;
		line += line_delta(code, p + 1, end);
		if (code_end > lasti)
			return code == ENTRY_NO_LINE ? 0 : as_line(line);
		do {
			p++;
		} while (p < end && !(*p & ENTRY_START));
	}
	return 0;
}

int vt_python_line(enum vt_python_line_table kind, const uint8_t *table, size_t size, int first,
		   int32_t lasti)
{
	static int (*const decoders[])(const uint8_t *, size_t, int, int32_t) = {
		[VT_PY_LINES_LNOTAB] = line_lnotab,
		[VT_PY_LINES_PEP626] = line_pep626,
		[VT_PY_LINES_PEP657] = line_pep657,
	};

	return lasti < 0 ? as_line(first) : decoders[kind](table, size, first, lasti);
}
