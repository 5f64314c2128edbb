/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line on standard error that names the current stage. It appears only on a terminal, and only
 * when the stage takes long.
 */
#ifndef VT_BASE_PROGRESS_H
#define VT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Off unless standard error is a terminal and the user did not ask for quiet. */
void vt_progress_enable(bool enable);

/* Names the stage that begins now: "waiting for a safe thread". Static text. */
void vt_progress(const char *stage);

/* Removes the line. */
void vt_progress_end(void);

/*
 * Writes to standard error unless that would block (a terminal after Ctrl-S, a pipe that is not
 * read): threads of the target may be stopped at this time. Async-signal-safe.
 */
void vt_say_at_once(const char *text, size_t n);

#endif
