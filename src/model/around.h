/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is around the process: part of the model (model/model.h). collect/around.c fills it in, of
 * live processes.
 */
#ifndef VT_MODEL_AROUND_H
#define VT_MODEL_AROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VT_AROUND_MAX_CHILDREN 16

struct vt_model_around {
	pid_t parent; /* 0 unknown, or none that is visible */
	/*
	 * Of a process that does not use CUDA: its descendants that do, without theirs (workers of
	 * a rank); n_children may be more than are listed.
	 */
	pid_t children[VT_AROUND_MAX_CHILDREN];
	size_t n_children;
	/* The least limit of its cgroup and those above, and what of that is not just cache. */
	bool memory_known;
	uint64_t memory_limit_bytes, memory_used_bytes;
	uint64_t machine_bytes; /* of the host; 0 unknown */
	/* RLIMIT_AS (ulimit -v) and what counts against it. */
	bool address_limited;
	uint64_t address_limit_bytes, address_used_bytes;
};

#endif
