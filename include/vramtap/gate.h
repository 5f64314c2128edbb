/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of vramtap run. When the driver is initialised, it loads the recorder
 * (CUDA_INJECTION64_PATH) and calls InitializeInjection(), before anything is allocated. That
 * function, the gate, tells the tool about it and serves its requests until it may go on. All of
 * this runs on the thread that initialises the driver, since any other thread that calls the driver
 * may have to wait for that initialisation.
 *
 * Gate and tool use a packet socket with an abstract name. When the tool is gone, the kernel
 * reports it at once. For a tool that is stopped, the gate waits at most VT_GATE_PATIENCE_MS for
 * each word and VT_GATE_TOTAL_MS in all.
 */
#ifndef VRAMTAP_GATE_H
#define VRAMTAP_GATE_H

#include "vramtap/recorder.h"

#define VT_GATE_VARIABLE "VRAMTAP_GATE" /* the socket's name, without the zero in front of it */
#define VT_GATE_INJECTION "CUDA_INJECTION64_PATH"
#define VT_GATE_MAGIC UINT32_C(0x45544147) /* "GATE" */
#define VT_GATE_ABI 1
#define VT_GATE_PATIENCE_MS 10000 /* more than reading a process takes on a busy machine */
#define VT_GATE_TOTAL_MS 20000
#define VT_GATE_MAX_GOT VT_RECORDER_MAX_HOOKS

enum vt_gate_op {
	/* below: enum vt_recorder_op with config as its argument */
	VT_GATE_FORGET = 0x100, /* removes both variables from the environment, for its children */
	VT_GATE_GO,             /* the last word; without an answer */
};

/* The gate's first word. */
struct vt_gate_hello {
	uint32_t magic, abi;
};

/* The tool's word; its length depends on the number of entries in got. */
struct vt_gate_request {
	uint32_t op;
	uint32_t pad;
	struct vt_recorder_config config;
	struct vt_recorder_got got[VT_GATE_MAX_GOT]; /* config.n_got of them */
};

struct vt_gate_answer {
	uint32_t status; /* enum vt_recorder_status */
};

#endif
