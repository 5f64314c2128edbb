/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap run. The driver loads the recorder when it is initialised (CUDA_INJECTION64_PATH) and calls InitializeInjection(), before
 * anything is allocated. That function, the gate, tells the tool of it and does what it is told until it may go on: everything on
 * the thread that initialises the driver, since whatever another thread wants of the driver may have to wait for that.
 *
 * They talk over a socket of packets with an abstract name. When the tool is gone the kernel says so at once, and a tool that
 * stands still is waited for no longer than VT_GATE_PATIENCE_MS for each word, VT_GATE_TOTAL_MS in all.
 */
#ifndef VRAMTAP_GATE_H
#define VRAMTAP_GATE_H

#include "vramtap/recorder.h"

#define VT_GATE_VARIABLE "VRAMTAP_GATE" /* the socket's name, without the zero in front of it */
#define VT_GATE_INJECTION "CUDA_INJECTION64_PATH"
#define VT_GATE_MAGIC UINT32_C(0x45544147) /* "GATE" */
#define VT_GATE_ABI 1
#define VT_GATE_PATIENCE_MS 10000 /* more than looking at a process takes on a machine that is busy */
#define VT_GATE_TOTAL_MS 20000
#define VT_GATE_MAX_GOT VT_RECORDER_MAX_HOOKS

enum vt_gate_op {
	/* below: enum vt_recorder_op, of which config is the argument */
	VT_GATE_FORGET = 0x100, /* removes both variables from the environment, so that programs that are started do not come here */
	VT_GATE_GO,             /* the last word; without an answer */
};

/* The gate's first word. */
struct vt_gate_hello {
	uint32_t magic, abi;
};

/* The tool's: as much of it as there are entries in got. */
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
