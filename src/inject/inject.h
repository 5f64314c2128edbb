/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the helper into a live process and talks to it. The promise: the target survives whatever
 * happens to us, at any instant. See doc/internals/inject.md.
 */
#ifndef VT_INJECT_INJECT_H
#define VT_INJECT_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/proc.h"
#include "vramtap/helper_abi.h"

struct vt_inject_options {
	uint64_t budget_ns; /* for the search, and for each stage until the helper waits */
	/* a target stopped by SIGSTOP may be continued for the injection, and is stopped again */
	bool allow_resume;
	pid_t only_tid; /* if not 0: no thread but this one may be borrowed */
	/* the recorder is to be loaded: a seccomp filter must allow that, too */
	bool loads;
	uint64_t stack_bytes; /* of the helper's thread; 0: what its own calls need */
};

struct vt_inject_timing {
	pid_t borrowed_tid; /* 0: none was borrowed */
	/* from the stop until the thread was back on its way, measured inside */
	uint64_t borrowed_ns;
	uint64_t total_ns;
};

struct vt_helper; /* opaque: a session with the helper */

/*
 * One vramtap at a time injects into a process: takes the target's lock, waiting until the
 * deadline. VT_ERR_BUSY names the process that holds it. The lock belongs to the descriptor in
 * *ret_fd (close it to release the lock; the kernel does if we die).
 */
struct vt_error *vt_inject_lock(pid_t pid, uint64_t deadline_ns, int *ret_fd);

/*
 * Starts the helper in the target and returns a session with it. Every failure is an error and
 * leaves the target as it was: VT_ERR_UNSUPPORTED (static, 32-bit, musl, seccomp filter, shadow
 * stack, ...), VT_ERR_TIMEOUT (no safe thread, a stage did not answer), VT_ERR_PERMISSION,
 * VT_ERR_BUSY (another tracer), VT_ERR_GONE.
 */
struct vt_error *vt_helper_create(const struct vt_proc *proc, struct vt_modules *modules,
				  struct vt_live *live, const struct vt_inject_options *options,
				  struct vt_inject_timing *timing, struct vt_helper **ret);

/*
 * Tells the helper's thread to end, waits shortly for it, unmaps. Never leaves the target waiting.
 * NULL is fine.
 */
void vt_helper_destroy(struct vt_helper *helper);

/* The helper's own thread, as it is numbered here; 0: it is not known, or has ended. */
pid_t vt_helper_tid(const struct vt_helper *helper);

/*
 * The mapped file. Valid until the next vt_helper_call() or _grow(). Contents written by the target
 * are hostile.
 */
struct vt_helper_shared *vt_helper_shared(struct vt_helper *helper);

/* Of the mapped file, in bytes: what the file itself says of it is the target's to change. */
uint64_t vt_helper_size(const struct vt_helper *helper);

/*
 * n records of size bytes, offset bytes after the begin of the room; NULL: that is not all in the
 * file. Valid and hostile like the mapped file.
 */
const void *vt_helper_room(struct vt_helper *helper, uint64_t offset, uint64_t n, size_t size);

/*
 * One request (args already written to the shared file); waits for its answer until the deadline.
 * When the answer needs more room, the file grows and the request is repeated. The helper ends by
 * itself when none of these functions was called for 5 s.
 */
struct vt_error *vt_helper_call(struct vt_helper *helper, enum vt_helper_op op,
				uint64_t deadline_ns);

/* Goes on waiting for the answer to a request whose deadline has passed. */
struct vt_error *vt_helper_await(struct vt_helper *helper, uint64_t deadline_ns);

/* Makes the file at least size bytes and maps it anew. */
struct vt_error *vt_helper_grow(struct vt_helper *helper, uint64_t size);

/*
 * Copies or hands over the block records of the last torch walk: *blocks points into a private
 * read-only mapping of the file (so a hostile helper cannot change it under us: the pages are
 * copied) which release() unmaps.
 */
struct vt_error *vt_helper_take_blocks(struct vt_helper *helper, struct vt_block_rec **blocks,
				       size_t *n,
				       void (**release)(struct vt_block_rec *blocks, size_t n));

/* The same for PyTorch's own answer. */
struct vt_error *vt_helper_take_told(struct vt_helper *helper, struct vt_block_rec **blocks,
				     size_t *n,
				     void (**release)(struct vt_block_rec *blocks, size_t n));

#endif
