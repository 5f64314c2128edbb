/* SPDX-License-Identifier: Apache-2.0 */
/* Further looks at a process after its report: --once and --again of report and stacks. */
#ifndef VT_CMD_AGAIN_H
#define VT_CMD_AGAIN_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/output.h"
#include "collect/again.h"

struct vt_again_choice {
	bool once;
	unsigned int looks;   /* the first one included; 0: not given */
	uint64_t interval_ns; /* 0: not given */
};

/* An argp child of a command: its input is a struct vt_again_choice. */
extern const struct argp vt_again_argp;

/* The group of its options, between a command's own and those for output. */
#define VT_AGAIN_GROUP 8

/* --again is given: that and core (an option's name, NULL: not given) exclude each other. */
void vt_again_refuse(const struct argp_state *state, const struct vt_again_choice *choice,
		     const char *core);

/*
 * Whether there are further looks: they were asked for, or a person waits at a terminal for text,
 * who has the first look by then. A script that did not ask for them waits for nothing.
 */
bool vt_again_wanted(const struct vt_again_choice *choice, bool text);

/* Whether the text of the first look is written before the next one. */
bool vt_again_text_first(bool text);

/*
 * Looks at n processes again (an element may be NULL), as often as was chosen, and ends all of
 * them. The user may end it before: what there is counts.
 */
void vt_again_run(struct vt_again **again, size_t n, const struct vt_again_choice *choice);

#endif
