/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the description of a wait: the code, and the two forms of the detail for people (struct
 * vt_waits).
 */
#include <stdarg.h>
#include <string.h>

#include "explain/wait_internal.h"

void wait_for(struct wait_context *c, enum vt_waits_code code, const char *call)
{
	c->waits.code = code;
	c->waits.call = call;
}

void wait_add(struct wait_context *c, const char *text)
{
	vt_str_add(&c->detail, text);
	vt_str_add(&c->shared, text);
}

void wait_add_own(struct wait_context *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vt_str_vaddf(&c->detail, format, args);
	va_end(args);
	vt_str_add(&c->shared, "…");
}

/*
 * Replaces addresses and numbers of more than two digits with dots. Short numbers stay: they count
 * something.
 */
void wait_add_name(struct wait_context *c, const char *text)
{
	vt_str_add(&c->detail, text);
	while (*text) {
		bool address = text[0] == '0' && text[1] == 'x';
		size_t digits = address ? 2 + strspn(text + 2, "0123456789abcdef") :
					  strspn(text, "0123456789");

		if (digits > 2)
			vt_str_add(&c->shared, "…");
		else
			vt_str_addn(&c->shared, text, digits ? digits : 1);
		text += digits ? digits : 1;
	}
}
