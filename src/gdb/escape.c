/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/escape.h"

#include <stdbool.h>
#include <string.h>

void vt_gdb_add_escaped(struct vt_str *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool inner_space = c == ' ' && i > 0 && i + 1 < n;

		if (inner_space || (c > ' ' && c < 0x7f && !strchr("\\\"'$#", c)))
			vt_str_addn(out, text + i, 1);
		else
			vt_str_addf(out, "\\%03o", c);
	}
}
