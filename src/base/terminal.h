/* SPDX-License-Identifier: Apache-2.0 */
/* What the terminal can do. */
#ifndef VT_BASE_TERMINAL_H
#define VT_BASE_TERMINAL_H

#include <stdbool.h>

/* Whether TERM says that it knows no escape sequences: a log, Emacs' shell. */
bool vt_terminal_is_dumb(void);

#endif
