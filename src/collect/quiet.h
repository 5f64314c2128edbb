/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether no thread of a process that stands still is inside the CUDA driver, other than in a wait
 * that is known to keep no lock of it. Only then is the driver asked what it must not be asked
 * while another thread is in the middle of something (collect/streams.c).
 *
 * Most threads are nowhere near the driver, which is seen without unwinding: neither their program
 * counter nor any word of the used part of their stack lies in the driver's code. The others are
 * unwound.
 */
#ifndef VT_COLLECT_QUIET_H
#define VT_COLLECT_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "collect/target.h"
#include "target/session.h"

/* Where a thread was in the driver. */
struct vt_quiet_seen {
	pid_t tid;
	uint64_t pc, cfa; /* of the frame by which it came in */
	uint64_t frames; /* hash of what the driver has on the stack, but for the innermost calls */
	uint64_t since_ns;
	unsigned int times; /* in so many stops in a row */
	unsigned int stop;  /* the last one */
};

/* What was found out of one process, and stays true. */
struct vt_quiet_memory {
	struct vt_map places; /* program counters in the driver, and what they mean */
	VT_VEC(struct vt_quiet_seen) seen;
	unsigned int stop; /* how many there were */
};

void vt_quiet_memory_deinit(struct vt_quiet_memory *memory);

/*
 * Of a thread that waits in the driver: return addresses on its stack, by ascending address, the
 * first of them that of the driver's function. All lie in VT_QUIET_SPAN bytes.
 */
enum { VT_QUIET_WORDS = 8, VT_QUIET_SPAN = 2048 };
struct vt_quiet_wait {
	pid_t tid;
	unsigned int n;
	struct {
		uint64_t at, value;
	} words[VT_QUIET_WORDS];
};

struct vt_quiet; /* opaque */

/*
 * t and memory must outlive it, and t's modules must not be read again meanwhile.
 * VT_ERR_NOTFOUND: no driver.
 */
struct vt_error *vt_quiet_create(struct vt_target *t, struct vt_quiet_memory *memory,
				 struct vt_quiet **ret);
void vt_quiet_destroy(struct vt_quiet *quiet);

/* Before the process is stopped: what need not be done while it stands. False: out of memory. */
bool vt_quiet_prepare(struct vt_quiet *quiet);

/*
 * While it stands: false if a thread is in the driver, or that is not known, or not found out by
 * then.
 */
bool vt_quiet_judge(struct vt_quiet *quiet, const struct vt_session *session, uint64_t until_ns);

/*
 * After a judgement that was false: the thread that works in the driver; 0: time was up, or it
 * cannot be told what a thread does there.
 */
pid_t vt_quiet_culprit(const struct vt_quiet *quiet);

/* By the last judgement, as far as it went; borrowed until the next one. */
const struct vt_quiet_wait *vt_quiet_waits(const struct vt_quiet *quiet, size_t *n);

/*
 * When the process runs again, after a judgement: whether NCCL began this thread. Such a one polls
 * as long as an operation is underway, also one that will never end.
 */
bool vt_quiet_is_nccls(struct vt_quiet *quiet, const struct vt_session *session, pid_t tid);

/*
 * When it runs again, after a judgement that was false: finds out what was not known. The next one,
 * of the next stop, is faster by this.
 */
void vt_quiet_learn(struct vt_quiet *quiet, const struct vt_session *session);

#endif
