/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of libraries that hold the address of a function that launches. cuBLAS, cuDNN, NCCL and
 * Triton ask the loader or the driver for the driver's functions and keep the pointers in their
 * data.
 */
#ifndef VT_INJECT_RECORDER_POINTERS_H
#define VT_INJECT_RECORDER_POINTERS_H

#include "inject/recorder/got.h"

/* What was left out. */
struct vt_recorder_pointers_left {
	size_t no_room;  /* words beyond those in got */
	uint64_t unread; /* bytes of libraries' data that were too many to be searched */
};

/*
 * Appends to got, which has *n of room entries, those of the functions VT_RECORDER_LAUNCHES() that
 * are not among them already.
 */
void vt_recorder_pointers_find(struct vt_modules *modules, struct vt_memsrc *src,
			       struct vt_recorder_got *got, size_t room, size_t *n,
			       struct vt_recorder_pointers_left *left);

#endif
