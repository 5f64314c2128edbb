/* SPDX-License-Identifier: Apache-2.0 */
/* A latch: related processes wait at it until one of them opens it. It stays open. */
#ifndef VT_TRIAGE_LATCH_H
#define VT_TRIAGE_LATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_latch {
	uint32_t is_open;   /* a futex */
	uint64_t opened_ns; /* CLOCK_MONOTONIC; valid once it is open */
};

/* n closed latches in memory that later forks share; NULL when out of memory. */
struct vt_latch *vt_latches_create(size_t n);
void vt_latches_destroy(struct vt_latch *latches, size_t n);

void vt_latch_open(struct vt_latch *latch);
bool vt_latch_is_open(const struct vt_latch *latch);

/* False when it was not opened in time. */
bool vt_latch_wait(struct vt_latch *latch, uint64_t deadline_ns);

#endif
