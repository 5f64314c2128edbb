/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder keeps of launches (vramtap/launches.h), read from outside while it is written,
 * or from a core. Records that do not fit together are left out and counted.
 */
#ifndef VT_WALK_RECORDER_LAUNCHES_H
#define VT_WALK_RECORDER_LAUNCHES_H

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "vramtap/mem.h"
#include "vramtap/recorder.h"

struct vt_recorder_launched {
	struct vt_recorder_launch record;
	uint64_t number;
	enum vt_launch_state state;
	const char *name; /* that the driver told, as it is; hostile; NULL: none */
};

struct vt_recorder_launch_list {
	struct vt_recorder_launch_stream stream;
	/* those that are still kept, by number, from the first that may still run; else the last */
	struct vt_recorder_launched *launches;
	size_t n;
	/* that may still run, of which there is no record any more, or a damaged one */
	uint64_t n_unkept;
};

struct vt_recorder_launches_pass {
	VT_VEC(struct vt_recorder_launch_list) streams;
	uint64_t total; /* launches that were seen */
	uint64_t lost;
	uint32_t n_words; /* changed words through which launches are seen */
	uint32_t n_left;  /* those that could not be changed */
	size_t n_damaged;
	bool unread; /* the tables could not be read, or make no sense */
	struct vt_arena arena;
};

/*
 * pass must be zeroed. head_addr: of a recorder that is on. Fails only when we are out of memory or
 * the target is gone.
 */
struct vt_error *vt_recorder_launches_read(struct vt_memsrc *src, uint64_t head_addr,
					   struct vt_recorder_launches_pass *pass);
/*
 * Only the table of streams, struct vt_recorder_launch_stream[VT_LAUNCH_STREAMS]. False: it cannot
 * be read, or there is none.
 */
bool vt_recorder_launch_streams_read(struct vt_memsrc *src, uint64_t head_addr,
				     struct vt_recorder_launch_stream *streams);
bool vt_recorder_launch_stream_is(const struct vt_recorder_launch_stream *s);
void vt_recorder_launches_deinit(struct vt_recorder_launches_pass *pass);

#endif
