/* SPDX-License-Identifier: Apache-2.0 */
/* The Xids in the kernel's log, as far back as it goes. */
#ifndef VT_FAULTS_LOG_H
#define VT_FAULTS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "faults/xid.h"

struct vt_fault_log {
	int error;         /* errno: it cannot be read; 0 it was read */
	bool lost;         /* records were lost, or the reading ended before the log did */
	bool begun;        /* there is a record at all, */
	uint64_t begin_us; /* the oldest of this time */
	uint64_t now_us;   /* when it was read, CLOCK_MONOTONIC; */
	uint64_t boot_us;  /* the same moment, CLOCK_BOOTTIME */
	uint64_t drift_us; /* the records' clock differs from that by at most so much */
	size_t records;
	VT_VEC(struct vt_xid) xids; /* the oldest first; of very many the latest */
};

/*
 * Reads /dev/kmsg, which changes nothing for its other readers. log must be zeroed; what was read
 * until the deadline is there.
 */
void vt_fault_log_read(struct vt_fault_log *log, uint64_t deadline_ns);
void vt_fault_log_deinit(struct vt_fault_log *log);

#endif
