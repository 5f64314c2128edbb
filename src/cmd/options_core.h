/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands that can look at a core in place of a live process. */
#ifndef VT_CMD_OPTIONS_CORE_H
#define VT_CMD_OPTIONS_CORE_H

#include <argp.h>
#include <stdbool.h>

#include "collect/collect.h"

/* An argp child of a command: its input is a struct vt_subject. */
extern const struct argp vt_core_argp;

/*
 * After the options: sets the origin. Options that do not go together end with a usage error; false when neither a process
 * nor a core was named.
 */
bool vt_choose_origin(struct argp_state *state, struct vt_subject *subject, bool have_pid);

#endif
