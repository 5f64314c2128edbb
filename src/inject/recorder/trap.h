/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap for out-of-memory errors (struct vt_recorder_trap of recorder.h), from the watcher's
 * side. Nothing here stops the target or runs code in it; the functions only read and write words
 * of the recorder. If we die, at any time, the next thread that runs out of memory waits for us for
 * half a second, once.
 */
#ifndef VT_INJECT_RECORDER_TRAP_H
#define VT_INJECT_RECORDER_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "vramtap/recorder.h"

struct vt_trap; /* opaque */

/* The trap of the recorder at this address. VT_ERR_UNSUPPORTED: the recorder is another version. */
struct vt_error *vt_trap_create(pid_t pid, uint64_t recorder, struct vt_trap **ret);
/* Stops the signs of life. Does not disarm. NULL is fine. */
void vt_trap_destroy(struct vt_trap *trap);

/*
 * From now on a thread that runs out of memory waits for vt_trap_let_go(), at most patience_ms; a
 * thread of ours gives signs of life. Earlier events are not ours: *seq is the number of the last
 * of them. VT_ERR_BUSY: another vramtap watches.
 */
struct vt_error *vt_trap_arm(struct vt_trap *trap, uint32_t patience_ms, uint32_t *seq);

/* How long from now on; 0: nobody looks. That the target is gone is found out soon. */
void vt_trap_set_patience(struct vt_trap *trap, uint32_t patience_ms);
/* Lets waiting threads go on. Does nothing when we did not arm the trap, or the target is gone. */
void vt_trap_disarm(struct vt_trap *trap);

/*
 * The number of the last event. VT_ERR_GONE: the process has ended, or runs another program now.
 * VT_ERR_INTERRUPTED: the trap is no longer armed because recording was switched off; never before
 * vt_trap_arm(), nor while there is a new event.
 */
struct vt_error *vt_trap_raised(struct vt_trap *trap, uint32_t *seq);
/* VT_ERR_NOTFOUND: so many events came after it that it is no longer kept. */
struct vt_error *vt_trap_event(struct vt_trap *trap, uint32_t seq, struct vt_recorder_oom *event);

/*
 * The message of the exception that the thread of an event waits in, hostile, NUL-terminated and
 * cut off at size; "" when there is none, or the thread went on.
 */
void vt_trap_message(struct vt_trap *trap, const struct vt_recorder_oom *event, char *text,
		     size_t size);

/*
 * Everything needed was read: lets the threads of the events up to this one go on. They do so at
 * the deadline at the latest.
 */
struct vt_error *vt_trap_let_go(struct vt_trap *trap, uint32_t seq);
void vt_trap_let_go_by(struct vt_trap *trap, uint32_t seq, uint64_t deadline_ns);

#endif
