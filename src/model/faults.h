/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the devices that the process uses, as the driver logged them while it ran: part of the
 * model (model/model.h). Filled by collect/faults.c.
 */
#ifndef VT_MODEL_FAULTS_H
#define VT_MODEL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/vec.h"
#include "model/xid.h"

struct vt_model;

/* What became of reading the log. */
enum vt_faults_state {
	VT_FAULTS_NOT, /* not read; or another version wrote a state that is unknown here */
	VT_FAULTS_READ,
	VT_FAULTS_CUT,     /* it does not go back to the start of the process, or has gaps */
	VT_FAULTS_REFUSED, /* it may not be read, or there is none; why says which */
	VT_N_FAULTS_STATES
};

/* Whose work met the fault. */
enum vt_fault_owner {
	VT_FAULT_UNKNOWN, /* its number is one of a pid namespace that we do not see */
	VT_FAULT_OURS,    /* the process of the report */
	VT_FAULT_OTHERS,
	VT_FAULT_NOBODYS, /* the log names no process */
	VT_N_FAULT_OWNERS
};

/* Faults of one code, device and process. Texts are hostile; "" none. */
struct vt_model_xid {
	uint32_t code;
	enum vt_fault_owner owner;
	pid_t pid; /* as the log has it: in the machine's first pid namespace; 0 none */
	const char *name;
	const char *pci;  /* "0000:1B:00", ours */
	int device;       /* CUDA's ordinal in the process; -1 unknown */
	const char *text; /* of the last one */
	uint64_t n;
	struct timespec first, last; /* CLOCK_REALTIME, as well as the log's clock tells it */
};

struct vt_model_faults {
	enum vt_faults_state state;
	const char *why;                  /* REFUSED: why, in words; else "" */
	double ms;                        /* what it added to the report */
	VT_VEC(struct vt_model_xid) xids; /* the oldest first */
};

const char *vt_faults_state_name(unsigned int state); /* "not-read", "read", "cut", "refused" */
const char *vt_fault_owner_name(unsigned int owner);  /* "unknown", "ours", "others", "nobodys" */

void vt_model_faults_deinit(struct vt_model_faults *faults);

enum vt_context_lost {
	VT_CONTEXT_NOT_LOST, /* as far as is known */
	VT_CONTEXT_LIKELY_LOST,
	VT_CONTEXT_LOST,
	VT_N_CONTEXTS_LOST
};

/*
 * Whether the process has lost a CUDA context: the driver logged a fault of it that costs that, or
 * refuses what it answers to all healthy ones. xid: the fault that did it, as far as is known, or
 * NULL.
 */
enum vt_context_lost vt_model_context_lost(const struct vt_model *model,
					   const struct vt_model_xid **xid);

/* Certainly or likely. */
bool vt_model_has_lost_context(const struct vt_model *model);

/* "certain", "likely"; NULL: not lost. */
const char *vt_context_lost_name(unsigned int lost);

/* Whether it was on the device at this address: "0000:1B:00", NVML's is "00000000:1B:00.0". */
bool vt_xid_is_on(const struct vt_model_xid *xid, const char *pci);

/*
 * Whether the device needs more than a new process: a fault that is no single program's, and whose
 * remedy is a reset or more. All processes on it are concerned.
 */
bool vt_xid_is_of_device(uint32_t code);

#endif
