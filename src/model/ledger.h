/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of each device's memory: every allocation of the process that the driver knows of,
 * whichever library made it. Its unit is the range, the allocation of the driver. An allocator
 * claims ranges, and its blocks subdivide what it claimed: so no byte counts twice.
 * collect/ledger.c fills in what was found, vt_account_ledger() the rest.
 */
#ifndef VT_MODEL_LEDGER_H
#define VT_MODEL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "vramtap/libpools.h"
#include "vramtap/ranges.h"
#include "vramtap/torch.h"

struct vt_model;

/* Allocators that subdivide ranges of the driver. Those of libpools are behind PyTorch's. */
enum vt_claimer {
	VT_CLAIMER_PYTORCH,
	VT_CLAIMER_LIBPOOLS,
	VT_N_CLAIMERS = VT_CLAIMER_LIBPOOLS + VT_N_LIBPOOL_KINDS
};

struct vt_model_range {
	struct vt_range_rec rec;
	/* filled by account: */
	/*
	 * Of the device's memory. Memory behind several ranges counts at one of them; that of pools
	 * and graphs, by the driver's own totals, at none.
	 */
	uint64_t counted_bytes;
	uint64_t claimed_bytes; /* the part of it that an allocator claims; a range has one */
	uint8_t claimer;        /* enum vt_claimer, if claimed_bytes is not 0 */
	size_t recorded;        /* index in model.driver_blocks; VT_NOT_RECORDED */
};

#define VT_NOT_RECORDED SIZE_MAX

/* A memory pool of the driver: the default one, the current one, or known by an allocation. */
struct vt_model_ledger_pool {
	int device;
	uint64_t handle; /* CUmemoryPool */
	bool known;      /* the driver told its totals */
	uint64_t reserved_bytes, used_bytes;
};

struct vt_model_line {
	uint64_t bytes; /* of the device's memory */
	uint64_t ranges;
	uint64_t
		asked; /* sizes of the ranges, without what the driver rounded up; of pools: used */
	uint64_t largest; /* range */
};

/*
 * Local memory of kernels: the driver has a stack for each thread that can be resident, and gives
 * none of it back.
 */
struct vt_model_local_memory {
	bool known;
	uint64_t stack_bytes;              /* of a thread: the context's limit */
	uint64_t multiprocessors, threads; /* that can be resident on each */
	uint64_t bytes;                    /* filled by account */
};

/* Of a device on which the process has an active context. */
struct vt_model_ledger_device {
	int device;
	bool graph_known;
	uint64_t graph_used_bytes, graph_reserved_bytes;
	bool moved; /* the device's used memory was another one after the ranges were found */
	/*
	 * PyTorch's counter of what it has reserved here, read just before the ranges were asked
	 * for; torch_moved: it was another one after that.
	 */
	bool torch_known, torch_moved;
	struct vt_torch_stat torch_reserved;
	/* filled by account: */
	struct vt_model_line claimed[VT_N_CLAIMERS];
	struct vt_model_line kinds[VT_N_RANGE_KINDS]; /* what nobody claims */
	struct vt_model_line shareable;               /* of VT_RANGE_MAPPED: made to be shared */
	struct vt_model_line recorded;                /* of VT_RANGE_DEVICE: the recorder saw it */
	/* PyTorch has no memory here, or all its blocks are known, at the moment of the ranges */
	bool claims_known;
	/* In the claimer's books: no range of the driver is there. */
	uint64_t unmapped_bytes[VT_N_CLAIMERS];
	uint64_t found_bytes; /* all that counts */
	/* Used memory that is in none of them: contexts, code, other processes. */
	bool rest_known;
	uint64_t rest_bytes;
	/* Of the rest, this process's: what the kernel driver counts for it and no range has. */
	bool own_rest_known;
	uint64_t own_rest_bytes;
	struct vt_model_local_memory local; /* a part of the rest */
};

struct vt_model_ledger {
	bool known; /* the driver was asked */
	bool whole; /* all candidates were asked for: no range is missing */
	/* The driver answers only some questions: arrays and memory of graphs cannot be told. */
	bool by_attributes;
	int fault;        /* its error then (CUresult); 0 none, or unknown */
	bool pools_asked; /* the question could not spoil a capture */
	/* Shared pages were asked for at such distances: smaller allocations can be missing. */
	uint64_t step_bytes;
	uint64_t probes; /* questions of addresses */
	double inside_ms, total_ms;
	VT_VEC(struct vt_model_range) ranges; /* by address (account) */
	VT_VEC(struct vt_model_ledger_pool) pools;
	VT_VEC(struct vt_model_ledger_device) devices;
	size_t dropped; /* ranges that made no sense (account) */
};

static inline void vt_model_ledger_deinit(struct vt_model_ledger *ledger)
{
	vt_vec_deinit(&ledger->ranges);
	vt_vec_deinit(&ledger->pools);
	vt_vec_deinit(&ledger->devices);
}

/* NULL: nothing is known. */
const struct vt_model_ledger_device *vt_model_ledger_device(const struct vt_model *model,
							    int device);

/* "device", "mapped", "pool", ...; an enum vt_range_kind, as vt_json_in_word() passes it */
const char *vt_range_kind_name(unsigned int kind);

/* "pytorch", "xla", "cupy", ...; an enum vt_claimer */
const char *vt_claimer_name(unsigned int claimer);

/* Whether it is memory of a device for sure: not of the host, nor moving between the two. */
bool vt_range_is_of_device(uint8_t kind);

#endif
