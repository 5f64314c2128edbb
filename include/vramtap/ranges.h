/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of the driver as plain data, which the helper finds and the tool shows. */
#ifndef VRAMTAP_RANGES_H
#define VRAMTAP_RANGES_H

#include <stdint.h>

/* What a range of the driver's address space is. */
enum vt_range_kind {
	VT_RANGE_OTHER,
	VT_RANGE_DEVICE,  /* cuMemAlloc: cudaMalloc */
	VT_RANGE_MAPPED,  /* cuMemMap */
	VT_RANGE_POOL,    /* cuMemAllocAsync */
	VT_RANGE_MANAGED, /* cuMemAllocManaged */
	VT_RANGE_HOST,    /* pinned or registered memory of the host */
	/* variables of loaded modules, or what another process shares by its handle */
	VT_RANGE_DATA,
	VT_RANGE_ARRAY, /* cuArrayCreate: of textures */
	VT_RANGE_GRAPH, /* allocated by a node of a CUDA graph */
	VT_N_RANGE_KINDS
};

/* One allocation; of VT_RANGE_MAPPED one mapping. */
struct vt_range_rec {
	uint64_t start, size;
	/*
	 * The memory that the driver has for it: neighbours can share one mapping, and one memory
	 * can have several mappings. block is its number, 0 unknown; physical 0: not known (of a
	 * pool: the pool's numbers have it).
	 */
	uint64_t mapping, physical, block;
	uint64_t pool; /* CUmemoryPool */
	int32_t device;
	uint8_t kind;       /* enum vt_range_kind */
	uint8_t exportable; /* it was made so that it can be shared with other processes */
	uint8_t pad[2];
};

/* Whether the driver tells which memory is behind a range of this kind. */
static inline int vt_range_has_mapping(uint8_t kind)
{
	return kind == VT_RANGE_DEVICE || kind == VT_RANGE_MAPPED || kind == VT_RANGE_DATA ||
	       kind == VT_RANGE_ARRAY;
}

#endif
