/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the devices of a host's part of a job. */
#ifndef VT_COLLECT_FAULTS_JOB_H
#define VT_COLLECT_FAULTS_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "model/faults.h"
#include "model/usage.h"

struct vt_fault_log;

/* Reads the kernel's log, for reports of many processes at once; NULL: out of memory. */
struct vt_fault_log *vt_fault_log_create(void);
void vt_fault_log_destroy(struct vt_fault_log *log);

/* A process of the job that uses a device. */
struct vt_fault_party {
	pid_t pid;
	uint64_t start_ticks;
};

/*
 * From the kernel's log, which was read once for all of them. Kept are faults that name one of the
 * processes (VT_FAULT_OURS), and those on devices that they use, by NVML's lists. One that names no
 * process is kept on any device that is not in usage, too, if it needs a reset: a device that has
 * fallen off the bus is in no list. faults: zeroed; texts are in the arena.
 */
void vt_collect_faults_of_job(const struct vt_fault_party *parties, size_t n,
			      const struct vt_fault_log *log, const struct vt_model_usage *usage,
			      struct vt_arena *arena, struct vt_model_faults *faults);

#endif
