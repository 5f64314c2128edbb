/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's records, read from outside (vramtap/recorder.h): of a live process while it goes on, with no code run in it, or of a
 * core. Everything is hostile: counts are bounded, records are checked, tables that change under the reading are read again.
 *
 * Frees are not recorded, so a record is about a block only if no other block can have been at its address since: the tables are
 * read before and after the blocks are listed, and walk/recorder/join.h has the rule.
 */
#ifndef VT_WALK_RECORDER_RECORDER_H
#define VT_WALK_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "vramtap/mem.h"
#include "vramtap/recorder.h"

enum vt_recorder_found {
	VT_RECORDER_NOT_THERE, /* not loaded */
	VT_RECORDER_IS_OFF,    /* loaded, idle */
	VT_RECORDER_IS_ON,
	VT_RECORDER_INHERITED, /* the copy that fork() made: it is on in the parent, here nothing is recorded */
	VT_RECORDER_FOREIGN,   /* of another version of vramtap: only its hooks are known */
	VT_RECORDER_DAMAGED,   /* what is there makes no sense */
};

/* A copy of the head at addr (0: none). Fails when it cannot be read. */
struct vt_error *vt_recorder_head_read(struct vt_memsrc *src, uint64_t addr, struct vt_recorder_head *head,
				       enum vt_recorder_found *found);

/* Whether both are of one time that it was on. */
bool vt_recorder_is_same_time(const struct vt_recorder_head *a, const struct vt_recorder_head *b);

/* The records of PyTorch's blocks. */
struct vt_recorder_pass {
	VT_VEC(struct vt_recorder_block) blocks; /* each holds together; in no order */
	size_t n_damaged;     /* slots that do not hold together, however often they are read */
	unsigned int n_unread; /* shards that could not be read, that changed all the while, or that the recorder itself does not trust */
	uint64_t evicted;     /* records given up for want of room */
	uint64_t allocations; /* that the shards have seen */
	uint64_t sample;      /* the most that any shard takes samples by; 0: each has every allocation */
};

/* pass must be zeroed. Fails only when memory here is short or the target is gone. */
struct vt_error *vt_recorder_pass_read(struct vt_memsrc *src, uint64_t head_addr, struct vt_recorder_pass *pass);
void vt_recorder_pass_deinit(struct vt_recorder_pass *pass);

static inline uint64_t vt_recorder_block_size(const struct vt_recorder_block *b)
{
	return b->size_check & ((UINT64_C(1) << VT_RECORDER_SIZE_BITS) - 1);
}

/* The live allocations of the driver. */
struct vt_recorder_driver_pass {
	VT_VEC(struct vt_recorder_driver_block) blocks; /* each holds together; in no order */
	size_t n_damaged;
	bool unread; /* could not be read */
	bool moving; /* it changed all the while: some may be missing, or freed by now */
};

/* pass must be zeroed. Fails as the other. */
struct vt_error *vt_recorder_driver_read(struct vt_memsrc *src, uint64_t head_addr, struct vt_recorder_driver_pass *pass);
void vt_recorder_driver_deinit(struct vt_recorder_driver_pass *pass);

/*
 * The out-of-memory errors that the recorder keeps, the oldest first; returns how many. One that is being written is left out.
 */
size_t vt_recorder_ooms(const struct vt_recorder_head *head, struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS]);

/* When something was, by the clock of vt_now_ns(); ticks as in a record. Right for records of the last 208 days. */
uint64_t vt_recorder_time_ns(const struct vt_recorder_head *head, uint32_t ticks, uint64_t now_ns);

#endif
