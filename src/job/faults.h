/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the devices that a job uses, and what the devices say of their own health: each once,
 * whatever number of processes it concerns.
 */
#ifndef VT_JOB_FAULTS_H
#define VT_JOB_FAULTS_H

enum vt_job_fault_kind {
	VT_JOB_XID,           /* in the kernel's log: those of one code and owner on a host */
	VT_JOB_MEMORY_ERRORS, /* of a device: its memory is damaged */
	VT_JOB_ROWS_PENDING,  /* damaged memory waits for a reset, and is not used any more */
	VT_JOB_THROTTLED,     /* the hardware holds its clocks down */
	VT_N_JOB_FAULTS
};

/* "xid", "memory-errors", "rows-pending", "throttled" */
const char *vt_job_fault_name(enum vt_job_fault_kind kind);

#endif
