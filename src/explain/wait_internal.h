/* SPDX-License-Identifier: Apache-2.0 */
/* Private to wait*.c: the pieces that describe one kind of wait. */
#ifndef VT_EXPLAIN_WAIT_INTERNAL_H
#define VT_EXPLAIN_WAIT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/str.h"
#include "model/model.h"
#include "target/proc.h"
#include "vramtap/mem.h"
#include "explain/verdicts.h"
#include "explain/wait.h"

struct wait_context;

#define WAIT_UNKNOWN_THREAD (-1)
#define WAIT_NAME_MAX 32

/*
 * What the target's memory does not tell. Those that may be NULL ask the kernel: a core has none.
 */
struct vt_wait_ops {
	const char *absent; /* the words for a thread for which thread_of() returns 0 */
	/*
	 * Translates a tid of the target's pid namespace into ours. 0 when the process has no such
	 * thread, or WAIT_UNKNOWN_THREAD.
	 */
	pid_t (*thread_of)(const struct wait_context *c, pid_t tid);
	/* The thread's name, "" unknown. */
	void (*name_of)(const struct wait_context *c, pid_t tid, char name[WAIT_NAME_MAX]);
	/*
	 * Whether the described thread still waits where it did when its lock was read. NULL: it
	 * does.
	 */
	bool (*still_waits)(const struct wait_context *c);
	/*
	 * What a descriptor is, in the form of the link in /proc/PID/fd. Returns the length, 0
	 * unknown. NULL: unknown.
	 */
	size_t (*link_of)(const struct wait_context *c, int fd, char *target, size_t size);
	/*
	 * The descriptors that an epoll instance watches: their number, and up to max of them in
	 * fds. False, or NULL: unknown.
	 */
	bool (*epoll_fds)(const struct wait_context *c, int epfd, int *fds, size_t max, size_t *n);
	/* The time on the clock that the target's wait uses. NULL: unknown. */
	bool (*now)(clockid_t clock, struct timespec *now);
};

/* Everything needed to describe one wait. */
struct wait_context {
	const struct vt_wait_ops *ops;
	const struct vt_wait *wait;
	const struct vt_model_thread *thread;
	const struct vt_thread_info *info;
	pid_t pid;
	struct vt_memsrc *src;
	struct vt_wait_sockets *sockets;
	struct vt_wait_ids *ids;
	enum vt_kept kept;
	struct vt_waits waits; /* code and call; NONE when nothing is known */
	struct vt_str detail, shared;
	pid_t waits_for; /* the thread that holds what this one waits for; 0 none */
	uint64_t futex;  /* 0 none */
};

/*
 * The futex system call: a lock with its owner, a condition, a semaphore, the end of a thread, ...
 */
void wait_futex(struct wait_context *c);

/*
 * One descriptor with its number: "descriptor 7, a pipe", "descriptor 3, /dev/nvidiactl". Bounded;
 * the path is hostile.
 */
void wait_add_fd(struct wait_context *c, int fd);

/* Several descriptors: the kinds of the first few, each named once. */
void wait_add_fds(struct wait_context *c, const int *fds, size_t n);

/*
 * A socket of the target: "a TCP connection from 10.0.0.1:29500 to 10.0.0.2:41234", or only "a
 * socket".
 */
const char *wait_socket(struct vt_wait_sockets *sockets, pid_t tid, uint64_t inode);

/*
 * Sets what the thread waits for. call lives as long as the model; NULL none. The functions below
 * add the detail.
 */
void wait_for(struct wait_context *c, enum vt_waits_code code, const char *call);

/* Adds text to the detail, also to the part that processes doing the same share. */
void wait_add(struct wait_context *c, const char *text);

/* Adds a name from the target, or a number. Long numbers in it do not go into the shared part. */
void wait_add_name(struct wait_context *c, const char *text);

/* Adds what is specific to this process: a tid, an address. */
void wait_add_own(struct wait_context *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Whether any of the inner frames has a name that contains text. */
bool wait_in_function(const struct vt_model_thread *thread, const char *text);

/* Functions of vt_wait_live that are defined in other files. */
size_t wait_live_link_of(const struct wait_context *c, int fd, char *target, size_t size);
bool wait_live_epoll_fds(const struct wait_context *c, int epfd, int *fds, size_t max, size_t *n);

#endif
