/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to collect/outside*.c and collect/passes.c: one device's allocator while it is read from
 * outside.
 */
#ifndef VT_COLLECT_OUTSIDE_H
#define VT_COLLECT_OUTSIDE_H

#include "collect/collect.h"

#define VT_OUTSIDE_MAX_BLOCKS 2000000
#define VT_OUTSIDE_CHUNK (4u << 20)

/* Allocations and frees so far. */
struct vt_outside_count {
	uint64_t n;
	uint64_t when_ns; /* 0 unknown */
};

struct vt_outside_device {
	uint64_t dca;
	int64_t expected;                   /* blocks, when the report began */
	struct vt_outside_count operations; /* then */
	struct vt_torch_scratch scratch;
	struct vt_torch_walk *walk; /* read, not finished */
	struct vt_torch_device_result result;
	enum vt_consistency consistency;
	/* read while some of the target ran, and nothing proves that it is one moment */
	bool unproven;
	unsigned int passes; /* 0: it was stopped */
};

struct vt_collect_outside {
	struct vt_outside_device devices[VT_TORCH_MAX_DEVICES];
	int n;
	void *chunk; /* of VT_OUTSIDE_CHUNK, NULL none */
	bool read;
	bool unchanged; /* since the blocks were listed inside */
	uint64_t ns;    /* what was done before finish() */
};

/* Records on the heap. */
struct vt_outside_sink {
	struct vt_torch_sink sink;
	struct vt_block_rec *records;
	size_t n, capacity;
};

void vt_outside_sink_init(struct vt_outside_sink *sink);

/* ---- collect/outside_read.c ---- */

/* -1: they cannot be counted. */
int64_t vt_outside_count(struct vt_collect *c, struct vt_memsrc *src, uint64_t dca);

/* Counts its operations. */
struct vt_outside_count vt_outside_operations(const struct vt_collect *c, uint64_t dca);

/*
 * Memory with present pages, NULL if there is none. A child process (for source lines) does not
 * inherit it: otherwise each page would be copied at the next write.
 */
void *vt_outside_map_pages(size_t size);

/* Scratch for so many blocks and some more, its pages present. False: out of memory. */
bool vt_outside_make_scratch(struct vt_outside_device *device, int64_t n_blocks);

/* Reads the device once: device->walk (NULL if the result is final already) and ->result. */
void vt_outside_read(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
		     uint64_t deadline_ns);

/* ---- collect/outside_again.c: blocks that were listed inside before ---- */

/* They were listed under the lock: what is listed later can only be newer. */
bool vt_outside_may_list_again(const struct vt_collect *c);

/* Whether any allocator has allocated, freed, reserved or released anything since. */
bool vt_outside_has_changed(const struct vt_collect *c);

/* Some device was read while part of the process ran, and nothing proves that it is one moment. */
bool vt_outside_is_unproven(const struct vt_collect *c);

/* Each list, which is finished, is complete; no thread was in the middle of a change. */
bool vt_outside_is_exact(const struct vt_collect *c);

/* The blocks that were listed inside leave the model. */
void vt_outside_forget_inside(struct vt_model *model);

/* ---- collect/passes.c ---- */

/* Before the stop: tries to find a moment when the device is not in use, and reads it then. */
void vt_outside_rehearse(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
			 uint64_t deadline_ns);

/*
 * Reads the device again and again while it runs, until the result certainly shows one moment or
 * the deadline has passed, and puts the records of the best pass into sink.
 */
void vt_outside_settle(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
		       uint64_t deadline_ns, struct vt_outside_sink *sink);

#endif
