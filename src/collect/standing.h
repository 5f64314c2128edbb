/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process that was quiet at each of several stops did something between them. Two things
 * tell, without another stop:
 *
 * - A thread that waits in the driver has return addresses on its stack that stay there while it is
 *   in that call. They are read all the time: once the call has returned, other calls write over
 *   them.
 * - The kernel counts the processor time of the other threads.
 */
#ifndef VT_COLLECT_STANDING_H
#define VT_COLLECT_STANDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "collect/quiet.h"
#include "target/glance.h"
#include "target/live.h"

struct vt_standing_wait {
	struct vt_quiet_wait wait;
	unsigned int stops; /* that saw it in this wait */
};

struct vt_standing {
	pid_t pid;
	struct vt_memsrc *src;
	struct vt_glances begin;
	VT_VEC(struct vt_standing_wait) waits;
	unsigned int stops; /* that found the process quiet */
	pid_t returned;     /* a thread that came back from its wait; 0 none */
};

/* False: there is no such process, or no memory. src reads it uncached, and outlives this. */
bool vt_standing_init(struct vt_standing *standing, pid_t pid, struct vt_memsrc *src);
void vt_standing_deinit(struct vt_standing *standing);

/* After a stop at which the process was quiet. False: out of memory. */
bool vt_standing_note(struct vt_standing *standing, const struct vt_quiet *quiet);

/* Reads, all the time until then, whether the threads are still in the waits that were noted. */
void vt_standing_watch(struct vt_standing *standing, uint64_t until_ns);

/*
 * After the last stop, session, when the process runs again: a thread that did something. 0: none
 * did.
 */
pid_t vt_standing_mover(struct vt_standing *standing, struct vt_quiet *quiet,
			const struct vt_session *session);

#endif
