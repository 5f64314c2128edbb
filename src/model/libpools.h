/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools of libraries other than PyTorch, of one report. collect/libpools.c fills them in. */
#ifndef VT_MODEL_LIBPOOLS_H
#define VT_MODEL_LIBPOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "vramtap/libpools.h"

struct vt_model_libpool {
	struct vt_libpool_rec rec;
	struct vt_libpool_region *regions; /* owned */
	size_t n_regions;
	struct vt_libpool_chunk *chunks; /* owned; their notes are in the model's arena */
	size_t n_chunks;
	/* filled by account: */
	int device; /* ordinal, by its regions where the library does not tell; -1 not known */
	/* there are no used ones where blocks are not known */
	uint64_t used_chunks, free_chunks;
	uint64_t largest_free; /* 0: none, or chunks are not known */
	/* of its regions, in ranges of the device that are the library's; by the ledger */
	uint64_t claimed_bytes;
	/* of its regions, what is another pool's, managed or the host's; by the ledger */
	uint64_t elsewhere_bytes;
};

struct vt_model_libpools {
	VT_VEC(struct vt_model_libpool) pools;
	double total_ms;
};

/* All pools of one library on one device, or of the host. */
enum vt_libpools_which {
	VT_LIBPOOLS_ALL,     /* of a device */
	VT_LIBPOOLS_CLAIMED, /* those that have memory of it: managed memory is not the device's */
	VT_LIBPOOLS_HOST,
};

struct vt_libpool_sum {
	size_t pools;
	uint64_t held, used, peak, limit;
	uint64_t claimed; /* of held, what the ledger found */
	uint64_t used_chunks, free_chunks, largest_free;
	bool held_known, used_known, chunks_known, peak_known, limit_known;
	bool blocks_known; /* used_chunks is the number of blocks; else their number is not known */
	bool changing;     /* the numbers are of different moments */
};

struct vt_model;
struct vt_libpool_sum vt_libpool_sum(const struct vt_model *model, int device, unsigned int kind,
				     enum vt_libpools_which which);
/*
 * Whether what is in use can be taken from the library's line of the ledger: it is of the moment of
 * the driver's list, and all that the library has was found there.
 */
bool vt_libpool_sum_is_whole(const struct vt_libpool_sum *sum, uint64_t line_bytes);

/* The region with this address in it, of those that account left; NULL: none has. */
const struct vt_libpool_region *vt_model_region_at(const struct vt_libpool_region *regions,
						   size_t n, uint64_t addr);

void vt_model_libpools_deinit(struct vt_model_libpools *libpools);

/* "xla", "cupy", "rmm": of files */
const char *vt_libpool_kind_name(unsigned int kind);
/* "XLA", "CuPy", "RMM": of texts */
const char *vt_libpool_library(unsigned int kind);
/* "exact", "counters", "changing" */
const char *vt_libpool_state_name(unsigned int state);

#endif
