/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses how much of each device, by the kernel driver's own count: part of the model
 * (model/model.h). Filled by collect/usage.c.
 */
#ifndef VT_MODEL_USAGE_H
#define VT_MODEL_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "vramtap/usage.h"

/* What became of the question. */
enum vt_counted {
	VT_COUNTED_NOT, /* not asked; or another version wrote a state that is unknown here */
	VT_COUNTED_READ,
	VT_COUNTED_NO_NVML, /* this machine has no libnvidia-ml.so.1 that can be loaded */
	VT_COUNTED_LATE,    /* NVML did not answer in time, and was ended */
	VT_COUNTED_REFUSED, /* it failed, or its answer makes no sense; why says which */
	VT_N_COUNTED
};

/* What is known of a process that holds memory. */
enum vt_counted_life {
	VT_LIFE_THERE,
	VT_LIFE_ZOMBIE,  /* it has ended; something else keeps its memory */
	VT_LIFE_GONE,    /* there is no such process any more, but its memory stays */
	VT_LIFE_UNKNOWN, /* its number is one of another pid namespace */
	VT_N_LIVES
};

struct vt_model_counted {
	pid_t pid;
	pid_t ns_pid; /* its number in a pid namespace of its own (a container's); 0 none */
	uint32_t gpu; /* index in usage.gpus */
	enum vt_counted_life life;
	bool ours; /* the process that the report is of */
	bool bytes_known;
	uint64_t bytes;
	bool graphics, mps; /* it draws; it is a client of MPS */
	int rank;           /* -1 unknown */
	/* "" unknown or none */
	const char *name, *command, *user, *container, *pod;
};

/* A device, or an instance of a device that MIG divides. */
struct vt_model_gpu {
	const char *uuid, *pci, *name; /* "" unknown */
	int ordinal;                   /* CUDA's number in the process; -1 unknown */
	int parent;                    /* of a MIG instance: index of its device; -1 */
	bool divided;                  /* by MIG: the memory of processes is in its instances */
	bool memory_known;
	/* total as CUDA has it, without what is reserved for the driver, if that is known */
	uint64_t total_bytes, used_bytes;
	bool reserved_known;
	uint64_t reserved_bytes;
	bool processes_known;
	size_t first, n; /* in usage.processes; the largest first */
	bool ours_known; /* whether the process of the report is on it (is_ours), with how much */
	bool is_ours;
	uint64_t ours_bytes;
	/* used by no process that is listed: others', managed memory, the driver's own */
	bool rest_known;
	int64_t rest_bytes;            /* below 0: the two counts do not agree */
	uint64_t changed_bytes;        /* used, between two readings */
	bool compared;                 /* there were two readings */
	struct vt_usage_health health; /* of a whole device; known is 0: not asked, or no answer */
};

struct vt_model_usage {
	enum vt_counted state;
	const char *why;   /* not READ: why, in words; "" */
	bool whole;        /* all processes of the machine are visible from here */
	bool foreign;      /* the pids are those of another pid namespace */
	double ms;         /* what it added to the report */
	uint64_t begin_ns; /* when NVML was asked, CLOCK_MONOTONIC; not in files */
	VT_VEC(struct vt_model_gpu) gpus;
	VT_VEC(struct vt_model_counted) processes;
};

const char *vt_counted_name(unsigned int state);     /* "not-asked", "read", "no-nvml", ... */
const char *vt_counted_life_name(unsigned int life); /* "there", "zombie", "gone", "unknown" */

void vt_model_usage_deinit(struct vt_model_usage *usage);

/* By CUDA's number in the process; NULL: none is known by it. */
const struct vt_model_gpu *vt_model_gpu(const struct vt_model_usage *usage, int ordinal);

/*
 * Whether the process uses this device (an index), or an instance of it, as far as NVML tells;
 * ordinal: CUDA's number of what it uses, -1 unknown.
 */
bool vt_model_gpu_is_used(const struct vt_model_usage *usage, size_t gpu, int *ordinal);

/*
 * What holds the clocks of a device down, one bit of health.slow each: "hw-thermal"; NULL: there is
 * no bit of this number.
 */
#define VT_N_SLOW 9
const char *vt_slow_name(unsigned int bit);

/* Its memory: an uncorrected error since the last reset, or one that cannot be mended. */
bool vt_health_is_bad(const struct vt_usage_health *health);
/* The hardware itself holds its clocks down: a fault of cooling or of the power supply. */
bool vt_health_is_throttled(const struct vt_usage_health *health);
const char *vt_health_why_slow(const struct vt_usage_health *health); /* in words, if it is */

/* Fills first, n, ours, rest of each device from processes and sorts those. */
void vt_model_usage_account(struct vt_model_usage *usage);

#endif
