/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PyTorch allocator built by hand in a buffer, byte for byte as g++ lays it out in several
 * releases, with a memory source that knows exactly what is mapped. Tests damage it and look what
 * the walk makes of that.
 */
#ifndef VT_TESTS_TORCH_IMAGE_H
#define VT_TESTS_TORCH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/maps.h"
#include "vramtap/mem.h"
#include "vramtap/torch.h"

enum image_release {
	IMAGE_2_0,
	IMAGE_2_2,
	IMAGE_2_6,
	IMAGE_2_10,
	IMAGE_2_11,
	IMAGE_2_14,
	IMAGE_2_15,
	IMAGE_FUTURE, /* not a release: a guess at what one may do to us */
	IMAGE_RELEASES
};

#define IMAGE_DEVICES 4
#define IMAGE_POOLS 64

enum image_backend { IMAGE_NATIVE, IMAGE_ASYNC, IMAGE_PLUGGABLE };

struct image_block {
	uint64_t object;
	struct vt_block_rec rec; /* what the walk must say */
	int pool;
};

struct image_pool {
	int device;
	uint64_t addr;         /* of the BlockPool */
	uint64_t private_pool; /* 0 for the default ones */
	uint64_t id_first, id_second;
};

struct image {
	struct vt_memsrc src;
	uint8_t *base; /* the heap of the pretended target; its addresses are real */
	size_t size, used;
	uint64_t no_entries; /* what empty hash tables point to */
	uint64_t control;    /* of all shared pointers */
	/* the release's; a test can have another one before it adds blocks */
	struct vt_torch_block_layout block;
	uint64_t code; /* an address of code: the comparison function of the sets */
	struct vt_maps maps;
	enum image_release release;
	int n_devices;
	uint64_t allocator;
	uint64_t dcas[IMAGE_DEVICES];
	/* 2 * device: large; 2 * device + 1: small; then private ones, in pairs */
	struct image_pool pools[IMAGE_POOLS];
	int n_pools;
	struct image_block *blocks;
	size_t n_blocks, max_blocks;
	uint64_t n_expected_segments[IMAGE_DEVICES];
	struct vt_torch_waits waits[IMAGE_DEVICES]; /* expected; filled at the end */
	uint64_t deques[IMAGE_DEVICES];             /* of the first of them */
	uint64_t reads;                             /* calls of the source */
	/* called after each read; to change the target under the walk's eyes */
	void (*after_read)(struct image *image);
};

/* direct: the source hands out pointers. max_blocks: room for so many. */
void image_init(struct image *image, enum image_release release, int n_devices, size_t max_blocks,
		bool direct);
void image_deinit(struct image *image);
void image_set_direct(struct image *image, bool direct);

/* The true layout. */
void image_layout(const struct image *image, struct vt_torch_layout *layout);

/* A pair of private pools; returns the index of the large one, the small one follows. */
int image_add_private(struct image *image, int device, uint64_t first, uint64_t second);

struct image_spec {
	uint64_t size;
	uint64_t requested;
	uint8_t state; /* enum vt_block_state */
};

/* One segment at a device address, tiled by n blocks. */
void image_add_segment(struct image *image, int pool, uint64_t addr, uint64_t stream,
		       bool expandable, const struct image_spec *specs, size_t n);

/* n_blocks in reproducible segments of all kinds on all devices. */
void image_fill(struct image *image, uint64_t seed, size_t n_blocks, int n_private);

/* Builds tables, sets and statistics out of what was added. Once, at the end. */
void image_finish(struct image *image);

/* Replaces the class of the allocator object. */
void image_set_backend(struct image *image, enum image_backend backend);

/* Offsets for tests that damage things. */
uint64_t image_block_field(const struct image *image, size_t block, uint16_t offset);
void image_poke64(struct image *image, uint64_t addr, uint64_t value);
uint64_t image_peek64(const struct image *image, uint64_t addr);

#endif
