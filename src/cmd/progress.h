/* SPDX-License-Identifier: Apache-2.0 */
/* One line on standard error that says what takes so long; only on a terminal, and only when it does take long. */
#ifndef VT_CMD_PROGRESS_H
#define VT_CMD_PROGRESS_H

#include <stdbool.h>

/* Off unless standard error is a terminal and the user did not ask for quiet. */
void vt_progress_enable(bool enable);

/* The stage that begins now: "waiting for a safe thread". Static text. */
void vt_progress(const char *stage);

/* Removes the line. */
void vt_progress_end(void);

#endif
