/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What vramtap and its asker (src/usage/asker/) say to each other, over one socket. vramtap sends
 * requests, the asker answers each with records of one size: a VT_USAGE_STATE, then the devices,
 * each with its processes behind it, and a VT_USAGE_END. The asker may hang or die after any of
 * them.
 */
#ifndef VRAMTAP_USAGE_H
#define VRAMTAP_USAGE_H

#include <stdint.h>

#define VT_USAGE_SOCKET 3 /* the asker's descriptor of the socket; 4 is its own image */

#define VT_USAGE_MAGIC 0x31555456u /* "VTU1" */
#define VT_USAGE_MAX_DEVICES 128   /* with MIG's: 16 devices of 7 instances */
#define VT_USAGE_MAX_PROCESSES 4096
#define VT_USAGE_MAX_WANTED 64
#define VT_USAGE_NONE UINT32_MAX

/* Which devices, by PCI address; none: all. A device that sleeps would be woken up. */
struct vt_usage_request {
	uint32_t magic;
	uint32_t number; /* of the request; the records repeat it */
	uint32_t n_wanted;
	uint32_t unused;
	char wanted[VT_USAGE_MAX_WANTED][32];
};

enum vt_usage_record_kind {
	VT_USAGE_STATE = 1,
	VT_USAGE_DEVICE,
	VT_USAGE_PROCESS,
	VT_USAGE_END,
	VT_N_USAGE_RECORDS
};

/* How the question to NVML went as a whole. */
enum vt_usage_state {
	VT_USAGE_ANSWERED,
	VT_USAGE_NO_LIBRARY, /* no libnvidia-ml.so.1 in the loader's path */
	VT_USAGE_OLD,        /* it lacks a function that is needed */
	VT_USAGE_FAILED,     /* nvmlInit() or the list of devices: error says why */
	VT_N_USAGE_STATES
};

/* flags of a device */
#define VT_USAGE_HAS_MEMORY 1u    /* total_bytes, used_bytes */
#define VT_USAGE_HAS_RESERVED 2u  /* used_bytes is without it; else perhaps with it */
#define VT_USAGE_HAS_PROCESSES 4u /* the processes that follow are all that NVML showed */
#define VT_USAGE_IS_MIG 8u        /* an instance; parent is its device */
#define VT_USAGE_MIG_MODE 16u     /* a device that is divided into instances */
/* flags of a process */
#define VT_USAGE_HAS_BYTES 1u
#define VT_USAGE_COMPUTE 2u
#define VT_USAGE_GRAPHICS 4u
#define VT_USAGE_MPS 8u

struct vt_usage_record {
	uint32_t kind;   /* enum vt_usage_record_kind */
	uint32_t number; /* of the request */
	uint32_t state;  /* STATE: enum vt_usage_state */
	int32_t error;   /* an nvmlReturn_t, 0 none; of a device: of its memory */
	uint32_t flags;
	uint32_t device; /* of a process, and of a device: its index, from 0 */
	uint32_t parent; /* of a MIG instance: the index of its device; else NONE */
	uint32_t minor;  /* N of /dev/nvidiaN; NONE unknown */
	uint32_t pid;
	uint32_t gi, ci;         /* MIG's GPU and compute instance; NONE */
	int32_t processes_error; /* an nvmlReturn_t */
	uint64_t total_bytes;    /* with what is reserved */
	uint64_t used_bytes;     /* of all processes */
	uint64_t reserved_bytes; /* by the driver and the firmware */
	uint64_t bytes;          /* of a process */
	char uuid[80];           /* "GPU-...", "MIG-..."; "" unknown */
	char pci[32];            /* "00000000:1B:00.0" */
	uint64_t at_ns;          /* STATE, END: when, CLOCK_MONOTONIC */
	char name[96];           /* of a device; STATE: the version of the driver */
};

#endif
