/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the helper, which runs inside the target on a thread of its own (a detached pthread with a stack of
 * 512 KiB and all signals blocked). An operation may call what shared->imports names and raw system calls (vramtap/freestanding.h),
 * nothing else; it holds no lock of the target when it returns, and ends by itself when its deadlines pass.
 *
 * It must not fault: a wild pointer here kills the target. Memory that is not known to be mapped is read with
 * vt_sys_peek() (vramtap/freestanding.h).
 */
#ifndef VT_HELPER_OPS_H
#define VT_HELPER_OPS_H

#include <stdint.h>

#include "vramtap/helper_abi.h"

/* Sets shared->why to both texts together, as far as there is room; what may be shared->why, more NULL. */
void vt_helper_say_why(struct vt_helper_shared *shared, const char *what, const char *more);

/* Fills shared->cuda. Returns enum vt_helper_status; on failure shared->why says in a few words why. */
uint32_t vt_helper_op_cuda(struct vt_helper_shared *shared);

/*
 * Fills shared->pools. Asked for last: no call of it is needed for anything else, and should one never return, only these
 * numbers are missing.
 */
uint32_t vt_helper_op_cuda_pools(struct vt_helper_shared *shared);

/*
 * Fills shared->torch and room (the file area behind the header, VT_HELPER_ROOM_OFFSET bytes after shared) with records.
 * VT_HELPER_NO_ROOM sets shared->room_needed to the bytes of room that would do.
 */
uint32_t vt_helper_op_torch_walk(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Has PyTorch list its blocks: takes the GIL, calls, gives it back. Fills shared->asked and room with records. It can wait
 * for the GIL longer than the tool does, even for ever, but holds nothing while it waits; a GIL that comes too late it only
 * gives back.
 */
uint32_t vt_helper_op_ask_pytorch(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Has PyTorch tell what its flight recorder has, in the same way. Fills shared->flight, and room with the text. Asked for after all
 * else, for the driver may be asked by it.
 */
uint32_t vt_helper_op_ask_flight(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Has the target load the recorder, whose bytes are in the room. Waits for the lock of the loader as long as somebody else has
 * it, even for ever; what is loaded then stays, and does nothing by itself.
 */
uint32_t vt_helper_op_load_recorder(struct vt_helper_shared *shared, const void *room, uint64_t room_size);

/* Calls the recorder. Fills shared->recorder.status. */
uint32_t vt_helper_op_call_recorder(struct vt_helper_shared *shared, const void *room, uint64_t room_size);

#endif
