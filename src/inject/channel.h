/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel from the moment when the borrowed thread is sent off until the helper waits for
 * requests: first the control page (read and written through the target's memory), then the memory
 * file.
 */
#ifndef VT_INJECT_CHANNEL_H
#define VT_INJECT_CHANNEL_H

#include <stdint.h>

#include "base/error.h"
#include "inject/borrow.h"
#include "inject/image.h"
#include "target/live.h"
#include "vramtap/helper_abi.h"

struct vt_channel {
	struct vt_live *live;
	const struct vt_helper_image *image;
	const struct vt_stub_control *control; /* as it was sent */
	uint64_t block;                        /* address of the block */
	uint64_t file_size;                    /* of the session's part, to begin with */
	pid_t pid;
};

struct vt_channel_result {
	int fd; /* the memory file */
	struct vt_helper_shared *shared;
	uint64_t offset; /* of the session in the file; file_size bytes are mapped at shared */
	uint64_t end_ns; /* when the borrowed thread was about to leave the stub */
};

/* The number that a thread of the process has here, by its own; 0: there is none. */
pid_t vt_channel_find_thread(pid_t pid, int tid);

/* The helper waits for requests when this returns NULL. Each stage has budget_ns. */
struct vt_error *vt_channel_open(const struct vt_channel *channel, uint64_t budget_ns,
				 struct vt_channel_result *result);

#endif
