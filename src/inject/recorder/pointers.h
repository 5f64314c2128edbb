/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of libraries that hold the address of a function that launches. cuBLAS, cuDNN, NCCL and
 * Triton ask the loader or the driver for the driver's functions and keep the pointers in their
 * data.
 */
#ifndef VT_INJECT_RECORDER_POINTERS_H
#define VT_INJECT_RECORDER_POINTERS_H

#include "inject/recorder/got.h"

/*
 * Appends to got, which has *n of room entries, those of the functions VT_RECORDER_LAUNCHES() that
 * are not among them already. Returns how many more there were than room.
 */
size_t vt_recorder_pointers_find(struct vt_modules *modules, struct vt_memsrc *src,
				 struct vt_recorder_got *got, size_t room, size_t *n);

#endif
