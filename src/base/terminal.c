/* SPDX-License-Identifier: Apache-2.0 */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>

bool vt_terminal_is_dumb(void)
{
	const char *term = getenv("TERM");

	return term && !strcmp(term, "dumb");
}
