/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands that can read a core instead of a live process. */
#ifndef VT_CMD_OPTIONS_CORE_H
#define VT_CMD_OPTIONS_CORE_H

#include <argp.h>
#include <stdbool.h>

#include "collect/collect.h"

/* An argp child of a command: its input is a struct vt_subject. */
extern const struct argp vt_core_argp;

/*
 * Sets the origin after all options are parsed. Conflicting options end with a usage error. False
 * when the options name neither a process nor a core.
 */
bool vt_choose_origin(struct argp_state *state, struct vt_subject *subject, bool have_pid);

#endif
