/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap watch: what its two modes share. */
#ifndef VT_CMD_WATCH_H
#define VT_CMD_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/collect.h"
#include "cmd/options_record.h"
#include "base/vec.h"
#include "cmd/output.h"
#include "record/watchers.h"

struct vt_watch_options {
	pid_t pid;          /* for vt_watch_oom() and vt_watch_grow() */
	VT_VEC(pid_t) pids; /* that were given */
	pid_t children_of;  /* 0: none */
	bool many;          /* others are watched, too, or for something else */
	int output_lock;    /* many: of what is printed */
	bool on_oom, grow;
	uint32_t count;                    /* --on-oom: ends after so many events; 0: no limit */
	struct vt_watchers_shared *shared; /* many; else NULL */
	bool no_owners;                    /* --grow: do not look for who holds the blocks */
	bool read_only;                    /* --grow: run no code in the process */
	uint64_t timeout_ns;               /* 0: none */
	uint64_t every_ns;                 /* --grow: time between two reports */
	const char *then; /* the file for the reports; NULL none, "-" standard output */
	const char *html; /* the file for the pages; NULL none */
	const char *exec; /* --on-oom: a command for the shell, NULL none */
	struct vt_record_options record; /* --on-oom: used where recording is off */
	struct vt_collect_options collect;
	struct vt_output output;
};

/*
 * watch_oom.c, watch_grow.c: watch until the time is over, the process ends, or the user ends it.
 * Return the exit code.
 */
int vt_watch_oom(struct vt_watch_options *options);
int vt_watch_grow(struct vt_watch_options *options);

/*
 * From this call on, the first SIGINT, SIGTERM, SIGHUP or SIGQUIT only makes vt_watch_ended() true
 * and ends a sleep. The second one ends this program at once: the target stays well, but what was
 * switched on in it stays on.
 */
void vt_watch_catch_signals(void);
bool vt_watch_ended(void);

#endif
