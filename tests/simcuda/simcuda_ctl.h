/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control file of the simulated CUDA device: tests share it with a running target.
 *
 * Start the target with SIMCUDA_CTL=PATH. Whoever comes first creates the file (4096 bytes,
 * zeroed, then the magic). Both sides map it MAP_SHARED; every member is a plain int that may be
 * written at any time. The stand-in looks at it every SIMCUDA_POLL_MS at the latest; a FUTEX_WAKE
 * on the changed int makes it immediate (the simcuda-ctl program does that).
 *
 * Several processes may share one file; they then share the hang and the faults, and the counters
 * add up.
 */
#ifndef SIMCUDA_CTL_H
#define SIMCUDA_CTL_H

#include <stdint.h>

#define SIMCUDA_CTL_MAGIC 0x4c544353 /* "SCTL" */
#define SIMCUDA_CTL_VERSION 1
#define SIMCUDA_CTL_SIZE 4096
#define SIMCUDA_FAULTS 16
#define SIMCUDA_POLL_MS 20

enum simcuda_fault_mode {
	SIMCUDA_FAULT_NONE = 0,
	SIMCUDA_FAULT_ERROR = 1, /* return arg as the error code, do nothing else */
	SIMCUDA_FAULT_DELAY = 2, /* sleep arg milliseconds, then do the work */
	SIMCUDA_FAULT_BLOCK = 3, /* wait until the slot's mode changes, then do the work */
};

struct simcuda_fault {
	char name[44]; /* exact name of the function, such as cudaMalloc or cuMemCreate */
	int32_t mode;  /* enum simcuda_fault_mode; write it last */
	int32_t arg;   /* error code or milliseconds */
	int32_t after; /* let this many calls pass first */
	int32_t count; /* then hit this many calls; 0 is without end */
	int32_t seen;  /* out: calls that looked at this slot */
};

struct simcuda_ctl {
	int32_t magic;
	int32_t version;
	int32_t hang;             /* bit D: device D makes no progress */
	int32_t contexts_created; /* out: contexts that became active, ever */
	int32_t blocked;          /* out: threads that wait now, for a hang, a fault or work */
	int32_t calls;            /* out: entries into the API while armed or traced */
	int32_t armed;            /* not zero: fault slots are in use */
	int32_t reserved;
	struct simcuda_fault fault[SIMCUDA_FAULTS];
	int32_t stream_queries; /* out: questions whether a stream has work */
	int32_t spoiling;       /* out: those of a stream that captured */
	int32_t query_us;       /* how long such a question takes before it looks at the stream */
};

_Static_assert(sizeof(struct simcuda_ctl) <= SIMCUDA_CTL_SIZE, "the control file is one page");

/*
 * Exported by libsimcuda.so for use inside the target (dlsym or ctypes). simcuda_contexts_created
 * counts this process only, whether or not there is a control file.
 */
extern int simcuda_contexts_created;
void simcuda_set_hang(int device_mask);
/* Parse one fault ("cudaMalloc:block:after=3:count=1"); 0, or -1 when it is malformed. */
int simcuda_set_fault(const char *spec);
/* Takes the knobs of the environment, as at the start: for a forked child that has others. */
void simcuda_configure(void);
void simcuda_clear_faults(void);
/* Threads that wait now (shared, where there is a control file). */
int simcuda_blocked(void);

#endif
