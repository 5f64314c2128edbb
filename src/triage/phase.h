/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far each worker is: a word of memory that it shares with its parent, which a pipe wakes. What
 * goes through the pipe says nothing; a worker that dies is noticed by the end of its document.
 */
#ifndef VT_TRIAGE_PHASE_H
#define VT_TRIAGE_PHASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vt_phase {
	VT_PHASE_PREPARING, /* nothing was said yet */
	VT_PHASE_READY,     /* all is prepared: it waits at the start for the others */
	VT_PHASE_READ,      /* its process runs again: it waits for a processor */
	VT_PHASE_WAITS,     /* it has done what it can: another worker is about to find out the rest */
};

struct vt_phases {
	uint32_t *words; /* enum vt_phase, of n workers; shared with later forks */
	size_t n;
	int wake[2];     /* neither end blocks */
};

/* False, with errno set, when there is no memory or no pipe. */
bool vt_phases_init(struct vt_phases *phases, size_t n);
void vt_phases_deinit(struct vt_phases *phases);

/* For a worker. Never waits; a parent that was not told of it before is woken. */
void vt_phase_say(struct vt_phases *phases, size_t worker, enum vt_phase phase);

/*
 * For the parent, when wake[0] can be read: takes out what woke it. The phases that it sees afterwards
 * are at least as new, and it is woken again for those that are newer.
 */
void vt_phases_woken(struct vt_phases *phases);
/* What the worker has said last; any number, if it is not itself any more. */
uint32_t vt_phase_of(const struct vt_phases *phases, size_t worker);

#endif
