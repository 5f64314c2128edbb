/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of PyTorch's allocator share: the library's own snapshot as c10_driver writes it,
 * a walk from outside, and the comparison of the two, block for block and number for number. What
 * is wrong with the test itself ends the program.
 */
#ifndef TORCH_COMPARE_H
#define TORCH_COMPARE_H

#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "walk/torch/torch.h"

struct truth_block {
	struct vt_block_rec rec;
	uint64_t segment;
	bool large, expandable;
	/* 2.0 does not say whose a segment is; where the driver does not know it either */
	bool pool_unknown;
};

struct truth {
	VT_VEC(struct truth_block) blocks; /* by device and address */
	struct vt_torch_stats stats[VT_TORCH_MAX_DEVICES];
	uint64_t segments[VT_TORCH_MAX_DEVICES];
};

struct record_sink {
	struct vt_torch_sink base;
	VT_VEC(struct vt_block_rec) recs;
};

/* How many differences were found so far; the first few are printed. */
extern int differences;

void differ(const char *what, int device, uint64_t addr, uint64_t ours, uint64_t theirs);
void die(const char *what) __attribute__((noreturn));
/* Ends the program if err is not NULL. */
void check(struct vt_error *err);

void truth_read(struct truth *truth, const char *path);
void truth_deinit(struct truth *truth);

/*
 * Walks one device of an allocator from outside; *sink is made, and its records are the caller's to
 * free.
 */
struct vt_torch_device_result walk_outside(struct vt_memsrc *src,
					   const struct vt_torch_found *found, uint64_t dca,
					   int device, struct record_sink *sink);

/* Our records of one device with PyTorch's; *at is the next of those. */
void compare_device(const struct vt_torch_device_result *result, const struct vt_block_rec *recs,
		    const struct truth *truth, size_t *at);

#endif
