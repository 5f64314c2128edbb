/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/outside.c and collect/passes.c: one device's allocator while it is read from outside. */
#ifndef VT_COLLECT_OUTSIDE_H
#define VT_COLLECT_OUTSIDE_H

#include "collect/collect.h"

struct vt_outside_device {
	uint64_t dca;
	int64_t expected; /* blocks, when the report began */
	struct vt_torch_scratch scratch;
	struct vt_torch_walk *walk; /* read, not finished */
	struct vt_torch_device_result result;
	enum vt_consistency consistency;
	bool unproven; /* read while some of the target ran, and nothing proves that it is of one moment */
	unsigned int passes; /* 0: it was stopped */
};

/* Records on the heap. */
struct vt_outside_sink {
	struct vt_torch_sink sink;
	struct vt_block_rec *records;
	size_t n, capacity;
};

void vt_outside_sink_init(struct vt_outside_sink *sink);

/* Reads the device once: device->walk (NULL when the result is final already) and ->result. */
void vt_outside_read(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns);

/* Before the target is stopped: tries to find a moment when the device is not in use, and reads it then. */
void vt_outside_rehearse(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns);

/*
 * Reads the device again and again while it runs, until what was read is certainly of one moment or the deadline has come, and puts
 * the records of the best pass into sink.
 */
void vt_outside_settle(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns,
		       struct vt_outside_sink *sink);

#endif
