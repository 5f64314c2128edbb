/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the helper, which runs inside the target on a thread of its own (a detached
 * pthread with a stack of 512 KiB and all signals blocked). An operation may only call the
 * functions in shared->imports and raw system calls (vramtap/freestanding.h). It holds no lock of
 * the target when it returns, and ends by itself when its deadlines pass.
 *
 * It must not fault: a wild pointer here kills the target. Memory that is not known to be mapped is
 * read with vt_sys_peek() (vramtap/freestanding.h).
 */
#ifndef VT_HELPER_OPS_H
#define VT_HELPER_OPS_H

#include <stdint.h>

#include "vramtap/helper_abi.h"

/*
 * Sets shared->why to both texts together, as far as there is room; what may be shared->why, and
 * more may be NULL.
 */
void vt_helper_say_why(struct vt_helper_shared *shared, const char *what, const char *more);

/*
 * Fills shared->cuda. Returns enum vt_helper_status; on failure shared->why has the reason in a few
 * words.
 */
uint32_t vt_helper_op_cuda(struct vt_helper_shared *shared);

/*
 * Fills shared->pools. Runs last: nothing else needs its calls, and if one never returns, only
 * these numbers are missing.
 */
uint32_t vt_helper_op_cuda_pools(struct vt_helper_shared *shared);

/*
 * Fills shared->ranges, and room with records behind the areas that are there. See helper_abi.h for
 * how it goes on after VT_HELPER_NO_ROOM.
 */
uint32_t vt_helper_op_ranges(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Fills shared->limits. It can wait for as long as another thread waits in the driver: see
 * src/collect/limits.c.
 */
uint32_t vt_helper_op_limits(struct vt_helper_shared *shared);

/*
 * Fills the records of streams in room. Asks the driver: see struct vt_streams_args for when it
 * stops.
 */
uint32_t vt_helper_op_streams(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Fills shared->torch and room (the file area behind the header, VT_HELPER_ROOM_OFFSET bytes after
 * shared) with records. VT_HELPER_NO_ROOM sets shared->room_needed to the bytes of room that would
 * do.
 */
uint32_t vt_helper_op_torch_walk(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Makes PyTorch list its blocks: takes the GIL, calls, releases it. Fills shared->asked and room
 * with records. It can wait for the GIL longer than the tool does, even for ever, but holds nothing
 * while it waits. If the GIL comes too late, it only releases it.
 */
uint32_t vt_helper_op_ask_pytorch(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Gets the contents of PyTorch's flight recorder in the same way. Fills shared->flight, and room
 * with the text. Runs after everything else, because it may call the driver.
 */
uint32_t vt_helper_op_ask_flight(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Gets the memory profiles of JAX's clients in the same way. Fills shared->jax, and room with the
 * profiles.
 */
uint32_t vt_helper_op_ask_jax(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Gets what holds the tensors in the same way. Fills shared->owners, and room with records; only as
 * many as there is room for.
 */
uint32_t vt_helper_op_ask_owners(struct vt_helper_shared *shared, void *room, uint64_t room_size);

/*
 * Gives memory back with the target's own function. Fills shared->relieve. Refuses unless it is
 * sure that nothing waits for ever, and only then calls: the call cannot be called back.
 */
uint32_t vt_helper_op_relieve(struct vt_helper_shared *shared);

/*
 * Makes the target load the recorder, whose bytes are in the room. Waits for the lock of the loader
 * as long as another thread has it, even for ever. The loaded recorder stays, and does nothing by
 * itself.
 */
uint32_t vt_helper_op_load_recorder(struct vt_helper_shared *shared, const void *room,
				    uint64_t room_size);

/* Calls the recorder. Fills shared->recorder.status. */
uint32_t vt_helper_op_call_recorder(struct vt_helper_shared *shared, const void *room,
				    uint64_t room_size);

#endif
