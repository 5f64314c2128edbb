/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What vramtap and its asker (src/usage/asker/) say to each other, over one socket. vramtap sends
 * requests, the asker answers each with records of one size: a VT_USAGE_STATE, then the devices,
 * each with its processes behind it, and a VT_USAGE_END. Behind that comes the devices' health, if
 * it was asked for: the answer need not wait for it. The asker may hang or die after any of
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
	uint32_t want_health;
	char wanted[VT_USAGE_MAX_WANTED][32];
};

enum vt_usage_record_kind {
	VT_USAGE_STATE = 1,
	VT_USAGE_DEVICE,
	VT_USAGE_PROCESS,
	VT_USAGE_END,
	/* of each whole device, behind the END of an answer to a request that wants it */
	VT_USAGE_HEALTH,
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

/* What a device says of itself; known has a bit for each that it does. */
#define VT_HEALTH_ECC_NOW 1u        /* ecc_now: uncorrected errors since the last reset */
#define VT_HEALTH_ECC_EVER 2u       /* ecc_ever: in the life of the device */
#define VT_HEALTH_REMAPPED 4u       /* rows_remapped for them, remap_pending, remap_failed */
#define VT_HEALTH_RETIRED 8u        /* retire_pending */
#define VT_HEALTH_SLOW 16u          /* slow */
#define VT_HEALTH_TEMPERATURE 32u   /* celsius */
#define VT_HEALTH_POWER 64u         /* milliwatt */
#define VT_HEALTH_POWER_LIMIT 128u  /* milliwatt_limit */
#define VT_HEALTH_CLOCK 256u        /* sm_mhz */
#define VT_HEALTH_CLOCK_LIMIT 512u  /* sm_mhz_limit */
#define VT_HEALTH_UTILISATION 1024u /* busy_percent, memory_busy_percent */
#define VT_HEALTH_ALL 2047u

/*
 * Of slow (nvmlClocksEventReasons): HW_SLOWDOWN, which is set with each of the other two, and by
 * other brakes alone; HW_THERMAL_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN. Then limits are asked for, too.
 */
#define VT_SLOW_THERMAL 0x40u
#define VT_SLOW_POWER_BRAKE 0x80u
#define VT_SLOW_BY_HARDWARE (0x8u | VT_SLOW_THERMAL | VT_SLOW_POWER_BRAKE)

struct vt_usage_health {
	uint32_t known;
	uint32_t rows_remapped;
	uint32_t remap_pending, remap_failed, retire_pending; /* 0 or 1 */
	uint32_t celsius;
	uint32_t milliwatt, milliwatt_limit;
	uint32_t sm_mhz, sm_mhz_limit;
	uint32_t busy_percent, memory_busy_percent; /* of the last moment, NVML's 1/6 to 1 s */
	uint64_t ecc_now, ecc_ever;
	uint64_t slow; /* why its clocks are low: nvmlClocksEventReason... */
};

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
	struct vt_usage_health health;
};

#endif
