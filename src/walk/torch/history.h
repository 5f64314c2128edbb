/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backtraces that PyTorch itself recorded of its live blocks, when the job had switched that on
 * (torch.cuda.memory._record_memory_history()): each Block of PyTorch 2.1 and later has a shared_ptr to a c10::GatheredContext,
 * which is a torch::CapturedTraceback with the code objects and instruction offsets of the Python frames, and with return
 * addresses. (The list of History objects that 1.13 and 2.0 have instead is not read.)
 *
 * Nothing here stops the target. Where it runs, what was read of a block counts only if the block is found to have had that
 * very context all the while; see the top of walk/torch/history.c.
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
	VT_HISTORY_NONE,    /* PyTorch recorded none */
	VT_HISTORY_READ,
	VT_HISTORY_CHANGED, /* the block was freed, or handed out again, while it was read */
	VT_HISTORY_FOREIGN, /* recorded by something else than torch::CapturedTraceback */
	VT_HISTORY_INVALID, /* it does not hold together */
	VT_HISTORY_SKIPPED, /* not read: no time or room for more, or its Python frames cannot be read */
	VT_HISTORY_N_FATES
};

/* Blocks that were allocated from the same place, by the same way, have the same trace. */
struct vt_history_trace {
	const uint64_t *words; /* as recorded: n_python pairs (code, lasti), n_native return addresses */
	uint32_t *frames;      /* n_python indices in python, then n_native in native; each innermost first */
	uint32_t n_python, n_native;
	bool invalid;
};

struct vt_torch_history {
	VT_VEC(struct vt_python_place) python; /* each is there once */
	VT_VEC(uint64_t) native; /* return addresses; each is there once */
	VT_VEC(struct vt_history_trace) traces;
	uint32_t *trace_of; /* for each block: index in traces, if its fate is VT_HISTORY_READ */
	uint8_t *fate_of;   /* for each block */
	size_t n[VT_HISTORY_N_FATES]; /* blocks by fate */
	bool refused;       /* so many were invalid that the layout cannot be right: they count as invalid, all of them */
	char why[128];      /* of the first that was invalid or foreign, or what ended it early; "" nothing */
	struct vt_arena arena;
};

/* How many allocations a device's allocator had ever made when its blocks were listed. */
struct vt_history_counter {
	uint64_t addr;
	int64_t value;
};

struct vt_history_target {
	struct vt_memsrc *src;       /* not cached when it is not coherent */
	struct vt_memsrc *names_src; /* for Python's names, may be cached; the same target */
	uint64_t vtable; /* vt_torch_history_vtable(); 0: not known */
	const struct vt_maps *maps;
	struct vt_python *python; /* found, nothing captured; NULL: there is none. Afterwards it owns the names */
	const struct vt_torch_layout *layout;
	const struct vt_block_rec *blocks;
	size_t n_blocks;
	const struct vt_history_counter *counters; /* of all devices; fewer (0): they are not known */
	size_t n_counters;
	uint64_t deadline_ns;
};

/* Whether any of the blocks has a recorded context; else there is no need to go on. */
bool vt_torch_history_any(const struct vt_block_rec *blocks, size_t n);

/* Where a torch::CapturedTraceback can be known by; 0: no library of PyTorch says. */
uint64_t vt_torch_history_vtable(struct vt_modules *modules);

/* history must be zeroed. Fails only when the target is gone or memory here is short. */
struct vt_error *vt_torch_history_read(const struct vt_history_target *target, struct vt_torch_history *history);
void vt_torch_history_deinit(struct vt_torch_history *history);

#endif
