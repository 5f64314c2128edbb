/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backtraces that PyTorch itself recorded of its live blocks, if the job switched that on
 * (torch.cuda.memory._record_memory_history()). Each Block of PyTorch 2.1 and later has a
 * shared_ptr to a c10::GatheredContext. This is a torch::CapturedTraceback with the code objects
 * and instruction offsets of the Python frames, and with return addresses. (1.13 and 2.0 have a
 * list of History objects instead; it is not read.)
 *
 * Nothing here stops the target. If it runs, what was read of a block counts only if the block
 * verifiably had the same context throughout; see the top of walk/torch/history.c.
 */
#ifndef VT_WALK_TORCH_HISTORY_H
#define VT_WALK_TORCH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "target/maps.h"
#include "vramtap/mem.h"
#include "vramtap/torch.h"
#include "walk/python/places.h"

/* What became of the backtrace of a block. */
enum vt_history_fate {
	VT_HISTORY_NONE, /* PyTorch recorded none */
	VT_HISTORY_READ,
	VT_HISTORY_CHANGED, /* the block was freed or reused while it was read */
	VT_HISTORY_FOREIGN, /* recorded by something other than torch::CapturedTraceback */
	VT_HISTORY_INVALID, /* inconsistent */
	VT_HISTORY_SKIPPED, /* not read: no time or room left, or its Python is unreadable */
	VT_HISTORY_N_FATES
};

/* Blocks that were allocated at the same place, through the same calls, share a trace. */
struct vt_history_trace {
	/* as recorded: n_python pairs (code, lasti), n_native return addresses */
	const uint64_t *words;
	/* n_python indices in python, then n_native in native; each innermost first */
	uint32_t *frames;
	uint32_t n_python, n_native;
	bool invalid;
};

struct vt_torch_history {
	VT_VEC(struct vt_python_place) python; /* unique */
	VT_VEC(uint64_t) native;               /* return addresses; unique */
	VT_VEC(struct vt_history_trace) traces;
	uint32_t *trace_of; /* for each block: index in traces, if its fate is VT_HISTORY_READ */
	uint8_t *fate_of;   /* for each block */
	/* the same of the segments that blocks begin, where these were asked for: else NULL */
	uint32_t *segment_trace_of;
	uint8_t *segment_fate_of;
	size_t n[VT_HISTORY_N_FATES]; /* blocks by fate */
	size_t n_segments[VT_HISTORY_N_FATES];
	/* too many invalid: the layout is wrong, all count as invalid */
	bool refused, segments_refused;
	char why[128]; /* about the first invalid or foreign one, or the early end; or "" */
	struct vt_arena arena;
};

/* The number of allocations that a device's allocator had made when its blocks were listed. */
struct vt_history_counter {
	uint64_t addr;
	int64_t value;
};

struct vt_history_target {
	struct vt_memsrc *src;       /* not cached when it is not coherent */
	struct vt_memsrc *names_src; /* the same target, for Python names; may be cached */
	uint64_t vtable;             /* vt_torch_history_vtable(); 0 unknown */
	const struct vt_maps *maps;
	struct vt_python *python; /* found, nothing captured; NULL none. It will own the names */
	const struct vt_torch_layout *layout;
	const struct vt_block_rec *blocks;
	size_t n_blocks;
	bool segments;                             /* those of segments, too */
	const struct vt_history_counter *counters; /* of all devices; n_counters 0: unknown */
	size_t n_counters;
	uint64_t deadline_ns;
};

/* Whether any of the blocks has a recorded context. If not, there is nothing to read. */
bool vt_torch_history_any(const struct vt_block_rec *blocks, size_t n);

/* The vtable that identifies a torch::CapturedTraceback; 0: no PyTorch library tells it. */
uint64_t vt_torch_history_vtable(struct vt_modules *modules);

/* history must be zeroed. Fails only when the target is gone or we are out of memory. */
struct vt_error *vt_torch_history_read(const struct vt_history_target *target,
				       struct vt_torch_history *history);
void vt_torch_history_deinit(struct vt_torch_history *history);

#endif
