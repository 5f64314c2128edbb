/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's records, read from outside (vramtap/recorder.h): from a live process while it
 * runs, without running code in it, or from a core. Everything is hostile: counts are bounded,
 * records are checked, and tables that change during the read are read again.
 *
 * The recorder does not record frees. So a record belongs to a block only if no other block can
 * have been at its address since. The tables are therefore read before and after the blocks are
 * listed; walk/recorder/join.h has the rule.
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
	VT_RECORDER_INHERITED, /* fork() copied it: on in the parent, records nothing here */
	VT_RECORDER_FOREIGN,   /* from another version of vramtap: only its hooks are known */
	VT_RECORDER_DAMAGED,   /* its contents are not plausible */
};

/* Copies the head at addr (0: none). Fails when it is unreadable. */
struct vt_error *vt_recorder_head_read(struct vt_memsrc *src, uint64_t addr,
				       struct vt_recorder_head *head,
				       enum vt_recorder_found *found);

/* Whether both heads are from the same recording, without a switch-off in between. */
bool vt_recorder_is_same_time(const struct vt_recorder_head *a, const struct vt_recorder_head *b);

/*
 * Bytes of tables that are read, all of PyTorch's together. The recorder gives them seven eighths
 * of its memory.
 */
#define VT_RECORDER_MAX_TABLES (UINT64_C(2) << 30)

/* The records of PyTorch's blocks. */
struct vt_recorder_pass {
	VT_VEC(struct vt_recorder_block) blocks; /* all consistent; in no order */
	size_t n_damaged; /* slots that stay inconsistent, however often they are read */
	/*
	 * Shards that could not be read, that kept changing, or that the recorder itself does not
	 * trust.
	 */
	unsigned int n_unread;
	uint64_t evicted;     /* records dropped for lack of room */
	uint64_t allocations; /* that the shards have seen */
	uint64_t sample;      /* the largest sample interval of any shard; 0: no sampling */
};

/* pass must be zeroed. Fails only when we are out of memory or the target is gone. */
struct vt_error *vt_recorder_pass_read(struct vt_memsrc *src, uint64_t head_addr,
				       struct vt_recorder_pass *pass);
void vt_recorder_pass_deinit(struct vt_recorder_pass *pass);

/* The live allocations of the driver. */
struct vt_recorder_driver_pass {
	VT_VEC(struct vt_recorder_driver_block) blocks; /* all consistent; in no order */
	size_t n_damaged;
	bool unread; /* the table could not be read */
	bool moving; /* the table kept changing: blocks may be missing, or freed by now */
};

/* pass must be zeroed. Fails like vt_recorder_pass_read(). */
struct vt_error *vt_recorder_driver_read(struct vt_memsrc *src, uint64_t head_addr,
					 struct vt_recorder_driver_pass *pass);
void vt_recorder_driver_deinit(struct vt_recorder_driver_pass *pass);

/*
 * Gets the out-of-memory errors that the recorder keeps, the oldest first. Returns their number.
 * Skips one that is being written.
 */
size_t vt_recorder_ooms(const struct vt_recorder_head *head,
			struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS]);

/*
 * The threads that the trap keeps for a watcher at this moment, by the tids that they have in their
 * own pid namespace. Sets n only if it returns true; false: it is not known.
 */
bool vt_recorder_kept(struct vt_memsrc *src, uint64_t head_addr, pid_t tids[VT_RECORDER_MAX_OOMS],
		      size_t *n);

/* Ticks at the newest record of PyTorch's, as the shards tell; they do not come round. */
uint64_t vt_recorder_newest(const struct vt_recorder_head *head);

/* The same, once a record of these ticks was met, too, which may be newer. */
uint64_t vt_recorder_newer(uint64_t newest, uint32_t ticks);

/*
 * The time of a record's ticks, by the clock of vt_now_ns(). Right for records of the last 208
 * days.
 */
uint64_t vt_recorder_time_ns(const struct vt_recorder_head *head, uint32_t ticks, uint64_t now_ns);

#endif
