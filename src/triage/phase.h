/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of each worker: a word of memory that it shares with its parent. A pipe wakes the
 * parent; its bytes carry no information. The end of its document shows that a worker died.
 */
#ifndef VT_TRIAGE_PHASE_H
#define VT_TRIAGE_PHASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vt_phase {
	VT_PHASE_PREPARING, /* nothing was reported yet */
	VT_PHASE_READY,     /* prepared: it waits at the start for the others */
	VT_PHASE_READ,      /* its process runs again: it waits for a processor */
	VT_PHASE_WAITS,     /* it has done what it can: another worker finds out the rest */
	VT_PHASE_ASKS,      /* all is read: it waits for its turn to ask the CUDA debugger */
};

struct vt_phases {
	uint32_t *words; /* enum vt_phase, of n workers; shared with later forks */
	size_t n;
	int wake[2]; /* neither end blocks */
};

/* False, with errno set, when there is no memory or no pipe. */
bool vt_phases_init(struct vt_phases *phases, size_t n);
void vt_phases_deinit(struct vt_phases *phases);

/* For a worker. Never blocks; wakes the parent if the phase is new. */
void vt_phase_say(struct vt_phases *phases, size_t worker, enum vt_phase phase);

/*
 * For the parent, when wake[0] is readable: empties the pipe. The phases that the parent reads
 * afterwards are at least as new as the wake-up; newer ones wake it again.
 */
void vt_phases_woken(struct vt_phases *phases);
/* The worker's last phase; any number if a hostile process took over the worker. */
uint32_t vt_phase_of(const struct vt_phases *phases, size_t worker);

#endif
