/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool's end of the gate, for a process that initialises the driver and waits for instructions.
 * See vramtap/gate.h.
 */
#ifndef VT_INJECT_RECORDER_GATE_H
#define VT_INJECT_RECORDER_GATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "vramtap/gate.h"

struct vt_gate {
	int file; /* the recorder, as a file in memory that only this process has open */
	int listener;
	char path[40]; /* of the file, for CUDA_INJECTION64_PATH */
	char name[64]; /* of the socket, for VRAMTAP_GATE */
};

struct vt_error *vt_gate_init(struct vt_gate *gate);
void vt_gate_deinit(struct vt_gate *gate);

/*
 * Accepts a process when the listener can be read: its pid and a connection to it. VT_ERR_NOTFOUND:
 * there was none.
 */
struct vt_error *vt_gate_accept(struct vt_gate *gate, pid_t *pid, int *ret_fd);

/* One request, which the waiting thread serves. got: as in vt_recorder_call(). */
struct vt_error *vt_gate_call(int fd, uint32_t op, const struct vt_recorder_config *config,
			      uint64_t deadline_ns, uint32_t *status);

/* Lets the process go on. */
void vt_gate_go(int fd);

#endif
