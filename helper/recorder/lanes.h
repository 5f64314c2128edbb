/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between lanes.c and state.c, which switches on and off. */
#ifndef VT_RECORDER_LANES_H
#define VT_RECORDER_LANES_H

#include "internal.h"

#define VT_REC_PAGE 4096
#define VT_REC_LANES (VT_REC_PAGE / 64)

/* Threads share a lane when their ids are equal modulo VT_REC_LANES; each lane is a cache line. */
struct vt_rec_lane {
	uint64_t inside; /* how many times threads have entered and not left; but for the owner */
	uint64_t random;
	uint32_t owner;             /* the thread that has the lane to itself, 0 none */
	uint32_t memos_asked;       /* of the owner: memory for memos was asked for */
	struct vt_rec_memos *memos; /* of the owner */
	uint64_t pad[4];
};

/* Whole pages of memory without a file: this part of .bss. Zeros in a child. */
struct vt_rec_wiped {
	uint32_t on;
	uint32_t ours;       /* this process has made the mappings */
	uint32_t controlled; /* a control call is running */
	char pad[VT_REC_PAGE - 12];
	struct vt_rec_lane lanes[VT_REC_LANES];
};
extern struct vt_rec_wiped vt_rec_wiped __attribute__((visibility("hidden")));

/* What the tool says about the C library: imports.pthread_tid, if that is right. */
void vt_rec_learn_tid(uint64_t offset);
/* The value of vt_rec_is_inherited(). */
void vt_rec_set_inherited(bool is);
/*
 * After `on` was cleared: waits until no thread is between vt_rec_enter() and vt_rec_leave(), or
 * within a visit. False: a thread still is, after a second.
 */
bool vt_rec_wait_till_empty(void);

#endif
