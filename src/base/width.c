/* SPDX-License-Identifier: Apache-2.0 */
#include "base/width.h"

#include <stdbool.h>
#include <stdint.h>
#include <limits.h>

#include "base/str.h"

struct range {
	unsigned int first, last;
};

/*
 * Unicode's properties (UAX #11, East Asian Width W and F, and the pictographs that most terminals
 * show wide), rounded to whole blocks upwards: text that is taken for wider than it is may be cut
 * early, but never runs over the edge.
 */
/* clang-format off */
static const struct range wide[] = {
	{ 0x1100, 0x115f },	/* Hangul Jamo, leading consonants */
	{ 0x231a, 0x231b },	/* watch, hourglass */
	{ 0x2329, 0x232a },	/* angle brackets */
	{ 0x23e9, 0x23f3 },	/* media symbols */
	{ 0x25fd, 0x25fe },	/* small squares */
	{ 0x2600, 0x27bf },	/* symbols, dingbats */
	{ 0x2b1b, 0x2b1c },	/* large squares */
	{ 0x2b50, 0x2b55 },	/* stars, circles */
	{ 0x2e80, 0x303e },	/* CJK radicals, punctuation */
	{ 0x3041, 0xa4cf },	/* Kana, CJK, Yi */
	{ 0xa960, 0xa97f },	/* Hangul Jamo extended A */
	{ 0xac00, 0xd7a3 },	/* Hangul */
	{ 0xf900, 0xfaff },	/* CJK compatibility */
	{ 0xfe10, 0xfe19 },	/* vertical forms */
	{ 0xfe30, 0xfe6f },	/* CJK compatibility forms, small forms */
	{ 0xff01, 0xff60 },	/* full-width forms */
	{ 0xffe0, 0xffe6 },
	{ 0x16fe0, 0x18dff },	/* Tangut, Khitan */
	{ 0x1aff0, 0x1b2ff },	/* Kana supplements, Nushu */
	{ 0x1d300, 0x1d37f },	/* Tai Xuan Jing, counting rods: wide since Unicode 16 */
	{ 0x1f000, 0x1faff },	/* tiles, cards, pictographs */
	{ 0x20000, 0x3fffd },	/* CJK extensions */
};
/* clang-format on */

/* Marks that every terminal puts on the character before. Other marks are counted as one column. */
/* clang-format off */
static const struct range combining[] = {
	{ 0x0300, 0x036f },
	{ 0x1ab0, 0x1ace },
	{ 0x1dc0, 0x1dff },
	{ 0x20d0, 0x20f0 },
	{ 0xfe00, 0xfe0f },	/* variation selectors */
	{ 0xfe20, 0xfe2f },
	{ 0xe0100, 0xe01ef },
};
/* clang-format on */

static bool in_ranges(const struct range *ranges, size_t n, unsigned int c)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (c > ranges[middle].last)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && c >= ranges[low].first;
}

int vt_width_char(unsigned int c)
{
	if (c < 0x300)
		return 1;
	if (in_ranges(combining, sizeof(combining) / sizeof(combining[0]), c))
		return 0;
	return in_ranges(wide, sizeof(wide) / sizeof(wide[0]), c) ? 2 : 1;
}

/* The character at text; a byte that is no UTF-8 is taken for one column. */
static size_t next_char(const char *text, size_t n, int *width)
{
	unsigned int c = ' ';
	size_t len = vt_utf8_sequence(text, n, &c);

	*width = vt_width_char(c);
	return len ? len : 1;
}

int vt_width(const char *text, size_t n)
{
	int total = 0, width;

	for (size_t i = 0; i < n && total < INT_MAX - 2; total += width)
		i += next_char(text + i, n - i, &width);
	return total;
}

/*
 * A pile of combining marks takes no columns, but it does take screen space and bytes. At most this
 * many bytes per column pass: a character of four bytes and a few marks fit.
 */
static size_t byte_limit(int max)
{
	return 16 * (size_t)max + 16;
}

size_t vt_width_prefix(const char *text, size_t n, int max)
{
	size_t i = 0;
	int total = 0;

	while (i < n) {
		int width;
		size_t len = next_char(text + i, n - i, &width);

		if (total + width > max || i + len > byte_limit(max))
			break;
		total += width;
		i += len;
	}
	return i;
}

size_t vt_width_suffix(const char *text, size_t n, int max)
{
	size_t start = n;
	int total = 0;

	while (start > 0) {
		size_t i = start - 1;
		int width;

		while (i > 0 && start - i < 4 && ((unsigned char)text[i] & 0xc0) == 0x80)
			i--;
		if (next_char(text + i, start - i, &width) != start - i) {
			i = start - 1; /* no whole character ends here */
			width = 1;
		}
		if (total + width > max || n - i > byte_limit(max))
			break;
		total += width;
		start = i;
	}
	return n - start;
}
