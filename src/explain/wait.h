/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread waits for: from its system call and arguments, and from the verdict rules over its
 * stack.
 */
#ifndef VT_EXPLAIN_WAIT_H
#define VT_EXPLAIN_WAIT_H

#include "base/arena.h"
#include "base/map.h"
#include "model/model.h"
#include "target/proc.h"
#include "vramtap/mem.h"
#include "vramtap/recorder.h"

/* Sockets of the target by inode. Read once, and only when a thread waits on a socket. */
struct vt_wait_sockets {
	bool read;
	struct vt_map by_inode; /* → the socket's description */
	struct vt_arena arena;
};

/*
 * The tids that a target in its own pid namespace uses. They are read again when one is missing, a
 * few times at most.
 */
struct vt_wait_ids {
	int reads;
	bool cut;               /* there are more threads than these */
	struct vt_map by_inner; /* → the tid in our namespace */
};

/*
 * The threads that the recorder's trap keeps for vramtap watch, by the trap's own record: a thread
 * that is kept wakes up every 2 ms (VT_RECORDER_WAIT_NS), and may be seen to run.
 */
struct vt_wait_kept {
	bool known; /* the trap was read; else frames and the kernel's word decide */
	bool ours;  /* tids are ours; else the target's, until they are translated */
	size_t n;
	pid_t tids[VT_RECORDER_MAX_OOMS];
};

/*
 * How to learn more than the target's memory tells: from /proc for a live process, from its notes
 * for a core. Private to wait*.c.
 */
struct vt_wait_ops;
extern const struct vt_wait_ops vt_wait_live, vt_wait_core;

/* The state for describing the threads of one target. */
struct vt_wait {
	const struct vt_wait_ops *ops;     /* NULL: vt_wait_live */
	const struct vt_arch *arch;        /* of the target; NULL: the native one */
	pid_t pid;                         /* for /proc */
	const struct vt_thread_list *list; /* of a core: its threads; names may be unknown */
	const struct vt_map *by_inner;     /* of a core: tid in the target → tid in the list */
	struct vt_memsrc *src;             /* to read the owner of a futex's mutex, for example */
	struct vt_arena *arena;            /* for the texts */
	struct vt_wait_kept kept;
	struct vt_wait_sockets sockets; /* private, zeroed */
	struct vt_wait_ids ids;         /* private, zeroed */
};

/*
 * Sets thread->syscall, ->waits, ->waits_for, ->verdict and ->idle. It uses info, and
 * thread->stack, ->wchan and ->kernel, which the caller has filled. Unknown fields stay NULL.
 */
void vt_wait_describe(struct vt_wait *wait, struct vt_model_thread *thread,
		      const struct vt_thread_info *info);

void vt_wait_deinit(struct vt_wait *wait);

#endif
