/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between launches.c and the names of kernels. */
#ifndef VT_RECORDER_LAUNCH_NAMES_H
#define VT_RECORDER_LAUNCH_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtap/recorder.h"

#define VT_REC_MAX_NAME 512

struct vt_rec_kernel_name {
	uint32_t epoch; /* vt_rec_names_epoch() before it was asked for */
	uint32_t n;     /* bytes with the terminator; 0: it has none */
	char text[VT_REC_MAX_NAME];
};

/* As for the other parts (internal.h); only vt_rec_name_ask() is called outside. */
bool vt_rec_names_init(void);
void vt_rec_names_deinit(void);
uint32_t vt_rec_names_epoch(void);
/*
 * Whether the driver need not be asked for this handle's name (it was, or there is no place to keep
 * it); *name: as in struct vt_recorder_launch.
 */
bool vt_rec_name_find(uint64_t handle, uint32_t *name);
/* Asks the driver: outside of vt_rec_enter() and vt_rec_leave(), as it may wait for a lock. */
void vt_rec_name_ask(uint64_t handle, const struct vt_recorder_imports *imports,
		     struct vt_rec_kernel_name *name);
uint32_t vt_rec_name_keep(uint64_t handle, const struct vt_rec_kernel_name *asked);
/* Handles may mean other kernels from now on. */
void vt_rec_names_forget(void);

#endif
