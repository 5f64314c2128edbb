/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/collect: what the readers of faults of one process and of a job share. */
#ifndef VT_COLLECT_FAULTS_H
#define VT_COLLECT_FAULTS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "faults/log.h"
#include "model/faults.h"

#define VT_FAULTS_READ_NS (50 * VT_NS_PER_MS)

/* When a process began, by the log's clock. */
struct vt_fault_begin {
	uint64_t from_us;   /* not before */
	uint64_t surely_us; /* what is later was while it ran; else it may have been before */
	uint64_t after_us;  /* the same, whoever's it is: no fault of before it has its pid */
};
struct vt_fault_begin vt_faults_begin(uint64_t start_ticks, const struct vt_fault_log *log);

/* Where they go; texts are in the arena. */
struct vt_fault_list {
	struct vt_arena *arena;
	struct vt_model_faults *faults;
};

/* from_us: the log is wanted from there on. */
void vt_faults_say_state(struct vt_fault_list *list, const struct vt_fault_log *log,
			 uint64_t from_us);

/* device: CUDA's number of it; -1 unknown. */
void vt_faults_add(struct vt_fault_list *list, const struct vt_xid *xid, enum vt_fault_owner owner,
		   int device);

#endif
