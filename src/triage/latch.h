/* SPDX-License-Identifier: Apache-2.0 */
/* A gate: related processes wait at it until one of them opens it. It stays open. */
#ifndef VT_TRIAGE_LATCH_H
#define VT_TRIAGE_LATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_gate {
	uint32_t is_open;   /* a futex */
	uint64_t opened_ns; /* CLOCK_MONOTONIC; valid once it is open */
};

/* n closed gates in memory that later forks share; NULL when out of memory. */
struct vt_gate *vt_gates_create(size_t n);
void vt_gates_destroy(struct vt_gate *gates, size_t n);

void vt_gate_open(struct vt_gate *gate);
bool vt_gate_is_open(const struct vt_gate *gate);

/* False when it was not opened in time. */
bool vt_gate_wait(struct vt_gate *gate, uint64_t deadline_ns);

#endif
