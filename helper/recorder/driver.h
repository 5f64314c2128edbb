/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the two ways to see the driver's calls (cupti.c, got.c) and the code that
 * keeps the allocations (driver_calls.c, driver_table.c).
 */
#ifndef VT_RECORDER_DRIVER_H
#define VT_RECORDER_DRIVER_H

#include "internal.h"
#include "vramtap/recorder_calls.h"

/* ---- driver_table.c: the live allocations ---- */

/*
 * Call init and deinit only while no call is followed, and the others only between vt_rec_enter()
 * and vt_rec_leave().
 */
bool vt_rec_driver_table_init(void);
void vt_rec_driver_table_deinit(void);
/* The serial of the last record: a call that frees must not remove later ones. */
uint32_t vt_rec_driver_serial(void);
/* A new allocation; an older one at the same address is gone. Fills in serial and check. */
void vt_rec_driver_put(const struct vt_recorder_driver_block *block);
/* The allocation at addr was freed, by a call that began when `before` was the last serial. */
void vt_rec_driver_remove(uint64_t addr, uint32_t before);
/* All mappings within these addresses. */
void vt_rec_driver_remove_range(uint64_t addr, uint64_t size, uint32_t before);
/* All allocations of a device; -1: of all devices. */
void vt_rec_driver_remove_device(int device, uint32_t before);

/* The device of the memory behind a handle of cuMemCreate(); -1: the handle is unknown. */
void vt_rec_handle_put(uint64_t handle, int device);
void vt_rec_handle_remove(uint64_t handle);
/*
 * The handle is mapped. Only the first mapping counts as memory of the device; later ones are the
 * same memory at another address, of device -1.
 */
int vt_rec_handle_map(uint64_t handle);

/* ---- driver_calls.c ---- */

/*
 * A call returned. args: its arguments, a word each, as far as the table in driver_calls.c names
 * them; an int is in the low half of its word. before: vt_rec_driver_serial() when the call began.
 * regs: of the caller of the function, or of the code that called us.
 */
void vt_rec_driver_call(enum vt_recorder_call which, const uint64_t *args, int result,
			uint32_t before, const struct vt_rec_regs *regs);
/* CUPTI's number for a function of the driver; 0: none. */
uint32_t vt_rec_driver_cbid(enum vt_recorder_call call);

/* ---- launches.c ---- */

/* What the entry of a call keeps until it returns. */
struct vt_rec_launch {
	uint64_t where;  /* 0: nothing is to be done then; VT_REC_LAUNCH_LATER */
	uint64_t number; /* of the launch; of the last one before a wait */
};

/*
 * Around a call of one of VT_RECORDER_LAUNCHES(). args: the first six; more: the others, as words
 * on the caller's stack.
 */
void vt_rec_launch_begins(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			  struct vt_rec_launch *launch);
void vt_rec_launch_ended(enum vt_recorder_call which, int result,
			 const struct vt_rec_launch *launch);
/*
 * The thread had no context when it launched on its default stream: the runtime gives it one with
 * the first call. Which stream that is can be told when the call has returned: then this is called
 * instead of vt_rec_launch_ended(), with the same arguments as at the beginning.
 */
#define VT_REC_LAUNCH_LATER 2
void vt_rec_launch_late(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			int result);
/* Whether the function has more than six arguments. */
bool vt_rec_launch_has_more(enum vt_recorder_call which);

/* ---- cupti.c, got.c ---- */

/* 0, or the CUptiResult of the failure. */
int vt_rec_cupti_in(const struct vt_recorder_cupti *cupti);
void vt_rec_cupti_out(void);
/* launches: the functions that launch, else those that allocate. How many words were changed. */
uint32_t vt_rec_got_in(const struct vt_recorder_got *got, uint64_t n, bool launches,
		       uint64_t dl_iterate_phdr);
/* Both. */
void vt_rec_got_out(uint64_t dl_iterate_phdr);

#endif
