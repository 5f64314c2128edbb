/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of each device which process uses, as the kernel driver counts it: NVML's answer, asked
 * for by a process of our own, because NVML can hang in the driver and a static program cannot load
 * it. Never in the target. What it says is checked here; strings are hostile.
 */
#ifndef VT_USAGE_USAGE_H
#define VT_USAGE_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "vramtap/usage.h"

/* A process on a device. */
struct vt_usage_process {
	pid_t pid;       /* as the asker's pid namespace sees it, which is ours */
	uint32_t device; /* index in the reading */
	uint32_t gi, ci; /* of a MIG instance; VT_USAGE_NONE */
	uint32_t kinds;  /* VT_USAGE_COMPUTE, _GRAPHICS, _MPS */
	bool bytes_known;
	uint64_t bytes;
};

struct vt_usage_device {
	char uuid[80], pci[32], name[96];
	uint32_t parent; /* of a MIG instance: the index of its device; VT_USAGE_NONE */
	uint32_t minor;  /* N of /dev/nvidiaN; VT_USAGE_NONE */
	uint32_t gi, ci;
	bool mig_mode; /* divided into instances: processes are theirs */
	bool memory_known, reserved_known, processes_known;
	int memory_error, processes_error; /* nvmlReturn_t */
	/* total is that of CUDA: without what is reserved, if that is known */
	uint64_t total_bytes, used_bytes, reserved_bytes;
};

enum vt_usage_outcome {
	VT_USAGE_COMPLETE,
	VT_USAGE_LATE,     /* the deadline passed: what came before is here */
	VT_USAGE_ENDED,    /* the asker ended before it had answered */
	VT_USAGE_NONSENSE, /* it said what cannot be: nothing of it is here */
	VT_USAGE_NOT_ASKED /* it could not be started */
};

/* One answer. */
struct vt_usage_reading {
	enum vt_usage_outcome outcome;
	enum vt_usage_state state;
	int error;                 /* nvmlReturn_t */
	const char *what;          /* ours: what was nonsense, NULL */
	uint64_t begin_ns, end_ns; /* when NVML was asked, CLOCK_MONOTONIC */
	char driver[96];           /* its version; "" unknown */
	VT_VEC(struct vt_usage_device) devices;
	VT_VEC(struct vt_usage_process) processes;
};

void vt_usage_reading_deinit(struct vt_usage_reading *reading);

/*
 * Takes one record of an answer. False: no more is wanted; the answer is at its end, or nonsense
 * (outcome says which). Until then outcome is LATE.
 */
bool vt_usage_reading_add(struct vt_usage_reading *reading, const struct vt_usage_record *record,
			  uint32_t number);

/* ---- the asker ---- */

struct vt_usage;

/*
 * Starts it, and asks for the first time. minors: bit N is set for /dev/nvidiaN; 0: all devices.
 * health: their health, too, which it finds out after the first answer. NULL when it cannot be
 * started.
 */
struct vt_usage *vt_usage_start(uint64_t minors, bool health);

/*
 * Of the device with this UUID, once the second answer was taken; NULL: it is not known. Valid
 * until vt_usage_stop().
 */
const struct vt_usage_health *vt_usage_health(const struct vt_usage *usage, const char *uuid);

/* Whether there is what starts it: a container of one static file has no C library. */
bool vt_usage_has_loader(void);

/* Asks again; each request has an answer of its own, in this order. */
void vt_usage_ask(struct vt_usage *usage);

/*
 * The next answer. reading must be zeroed; if it comes back LATE, the next call may go on with it.
 * After any other that is not COMPLETE there is nothing more.
 */
void vt_usage_take(struct vt_usage *usage, uint64_t deadline_ns, struct vt_usage_reading *reading);

/* In a child after fork(): it cannot speak with the asker. NULL is fine. */
void vt_usage_forget(struct vt_usage *usage);

/* Ends it at once, even if it hangs. NULL is fine. */
void vt_usage_stop(struct vt_usage *usage);

#endif
