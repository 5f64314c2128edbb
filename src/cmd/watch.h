/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap watch: what its two ways have in common. */
#ifndef VT_CMD_WATCH_H
#define VT_CMD_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/collect.h"
#include "cmd/options_record.h"
#include "cmd/output.h"

struct vt_watch_options {
	pid_t pid;
	bool on_oom, grow;   /* one of them */
	uint64_t timeout_ns; /* 0: none */
	uint64_t every_ns;   /* --grow: between two reports */
	const char *then;    /* the file for the report or the reports, NULL none, "-" standard output */
	const char *exec;    /* --on-oom: a command for the shell, NULL none */
	struct vt_record_options record; /* --on-oom: where it is off */
	struct vt_collect_options collect;
	struct vt_output output;
};

/* watch_oom.c, watch_grow.c: until the time is over, the process ends, or the user wants to end it. Return the exit code. */
int vt_watch_oom(struct vt_watch_options *options);
int vt_watch_grow(struct vt_watch_options *options);

/*
 * From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT are only remembered: vt_watch_ended() is true afterwards, and sleeping ends.
 * The second one ends this program at once, which leaves the target well, but not what was switched on for it.
 */
void vt_watch_catch_signals(void);
bool vt_watch_ended(void);

#endif
