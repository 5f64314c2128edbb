/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of discovery share. walk/torch/find.c finds the object, walk/torch/devices.c the
 * devices' allocators in it. walk/torch/samples.c reads some of their blocks, walk/torch/blocks.c
 * finds the fields of these blocks, and walk/torch/table.c compares with known releases.
 */
#ifndef VT_WALK_TORCH_FINDER_H
#define VT_WALK_TORCH_FINDER_H

#include "walk/torch/abi.h"
#include "walk/torch/find.h"

#define VT_TORCH_OBJECT_MAX 0x8000 /* NativeCachingAllocator has 22.7 kB in 2.6 to 2.15 */
#define VT_TORCH_SAMPLES_MAX 128
#define VT_TORCH_SAMPLE_BYTES 256
#define VT_TORCH_BLOCK_MIN 112 /* the needed bytes of a Block, in the smallest release (2.0) */
#define VT_TORCH_TABLES_MAX 24
#define VT_TORCH_PRIVATE_MAX 16

enum vt_torch_sample_table {
	VT_SAMPLE_ACTIVE,
	VT_SAMPLE_CACHED,
	VT_SAMPLE_UNMAPPED,
	VT_SAMPLE_TABLES
};

struct vt_torch_sample {
	uint64_t addr;
	uint64_t pool; /* the BlockPool with the set that it was in; 0 unknown: active blocks */
	int device;
	enum vt_torch_sample_table table;
	uint8_t bytes[VT_TORCH_SAMPLE_BYTES]; /* after the Block: zeros or another object */
};

struct vt_torch_finder {
	const struct vt_maps *maps;
	struct vt_memsrc *src;
	struct vt_torch_found *found;
	uint64_t allocator;
	uint8_t object[VT_TORCH_OBJECT_MAX];
	size_t object_len;
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	size_t n_dcas;
	struct vt_torch_layout layout;
	uint8_t how[VT_TORCH_N_FIELDS];
	uint16_t tables[VT_TORCH_TABLES_MAX]; /* of hash tables after active_blocks, in all dcas */
	size_t n_tables;
	struct {
		uint64_t addr; /* of the BlockPool */
		int device;
	} private_pools[VT_TORCH_PRIVATE_MAX]; /* some of them */
	size_t n_private_pools;
	struct vt_torch_sample samples[VT_TORCH_SAMPLES_MAX];
	size_t n_samples;
	bool has_blocks; /* a table's count is not 0, whether or not it could be read */
};

/* ---- walk/torch/finder.c; with vt_torch_read_some() of find.h ---- */

bool vt_torch_is_readable(const struct vt_torch_finder *f, uint64_t addr);

/* ---- walk/torch/devices.c ---- */

/*
 * Finds the vector of device allocators in f->object, and everything in f->layout except block.
 * Sets why when a candidate looks like it but is rejected.
 */
bool vt_torch_find_devices(struct vt_torch_finder *f, const char **why);

/*
 * Finds graph_pools and private_large. A separate step, because private pools do not always exist.
 */
void vt_torch_find_graph_pools(struct vt_torch_finder *f);

/* The place of cuda_events, once that of graph_pools is known. */
void vt_torch_place_events(struct vt_torch_finder *f);

/*
 * Whether a hash table of the object has elements: it has no other hash tables than those of
 * handed-out blocks.
 */
bool vt_torch_object_has_elements(const struct vt_torch_finder *f);

/* ---- walk/torch/samples.c ---- */

void vt_torch_take_samples(struct vt_torch_finder *f);

/*
 * When the target runs, some samples may be in the middle of a change. With a wrong layout nearly
 * all fail.
 */
static inline bool vt_torch_tolerable(size_t bad, size_t n)
{
	return bad * 10 <= n;
}

/* A cudaStream_t is NULL, cudaStreamLegacy (1), cudaStreamPerThread (2) or a driver object. */
static inline bool vt_torch_is_stream(uint64_t stream)
{
	return stream <= 2 || vt_is_object(stream);
}

/* Whether the sample can be in the pool at addr. */
bool vt_torch_is_pool_of(const struct vt_torch_finder *f, const struct vt_torch_sample *sample,
			 uint64_t addr);

/* Whether the samples are plausible Blocks of this layout. */
bool vt_torch_samples_fit(const struct vt_torch_finder *f,
			  const struct vt_torch_block_layout *block);

/* ---- walk/torch/blocks.c ---- */

/*
 * Finds the fields of a Block by their contents in the samples (at least one): fills
 * f->layout.block and f->how. Returns NULL, or the field that could not be found.
 */
const char *vt_torch_find_fields(struct vt_torch_finder *f);

#endif
