/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for, in words: its system call with arguments, and verdict rules over its stack. */
#ifndef VT_EXPLAIN_WAIT_H
#define VT_EXPLAIN_WAIT_H

#include "base/arena.h"
#include "base/map.h"
#include "model/model.h"
#include "target/proc.h"
#include "vramtap/mem.h"

/* Sockets of the target by inode, read once and only when somebody waits on one. */
struct vt_wait_sockets {
	bool read;
	struct vt_map by_inode; /* → its description */
	struct vt_arena arena;
};

/* What a target in a pid namespace of its own calls its threads: read again when a number is missing, a few times. */
struct vt_wait_ids {
	int reads;
	bool cut; /* there are more threads than these */
	struct vt_map by_inner; /* → our number */
};

/* What is asked of a target beside its memory: /proc of a live one, and of a core what is in it. Private to wait*.c. */
struct vt_wait_ops;
extern const struct vt_wait_ops vt_wait_live, vt_wait_core;

/* One target while its threads are described. */
struct vt_wait {
	const struct vt_wait_ops *ops; /* NULL: vt_wait_live */
	pid_t pid;               /* for /proc */
	const struct vt_thread_list *list; /* of a core: its threads, whose names may be unknown */
	const struct vt_map *by_inner;     /* of a core: what threads call themselves → their numbers in the list */
	struct vt_memsrc *src;   /* for the owner of a mutex behind a futex, and the like */
	struct vt_arena *arena;  /* for what is said */
	struct vt_wait_sockets sockets; /* private, zeroed */
	struct vt_wait_ids ids;         /* the same */
};

/*
 * Sets thread->syscall, ->waits, ->waits_for, ->verdict and ->idle from info and from thread->stack, ->wchan and ->kernel
 * (already filled). Fields stay NULL where nothing is known.
 */
void vt_wait_describe(struct vt_wait *wait, struct vt_model_thread *thread, const struct vt_thread_info *info);

void vt_wait_deinit(struct vt_wait *wait);

#endif
