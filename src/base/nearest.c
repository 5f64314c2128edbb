/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

#define MAX_WORD 32

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: rows of the table for the first i letters of a. */
unsigned int vt_word_distance(const char *a, const char *b)
{
	size_t na = strnlen(a, MAX_WORD + 1), nb = strnlen(b, MAX_WORD + 1);
	unsigned int d[MAX_WORD + 1][MAX_WORD + 1];

	if (na > MAX_WORD || nb > MAX_WORD)
		return VT_NEAREST_FAR;
	for (unsigned int i = 0; i <= na; i++)
		d[i][0] = i;
	for (unsigned int j = 0; j <= nb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		for (size_t j = 1; j <= nb; j++) {
			d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
					least(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[na][nb];
}
