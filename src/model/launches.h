/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams were given, as vramtap's recorder saw it. Part of the model. A launch is known to
 * have ended, or may still run; which of several that may run is the one that does is not known.
 */
#ifndef VT_MODEL_LAUNCHES_H
#define VT_MODEL_LAUNCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"

/* X(NAME, "name"): the code, and its name in JSON, which never changes. */
#define VT_LAUNCHED_KINDS(X)            \
	X(KERNEL, "kernel")             \
	X(GRAPH, "graph")               \
	X(HOST, "host-function")        \
	X(WAIT_VALUE, "wait-for-value") \
	X(WAIT_EVENT, "wait-for-event") \
	X(RECORD_EVENT, "record-event") \
	X(WRITE_VALUE, "write-value")

#define VT_LAUNCHED_CODE(name, text) VT_LAUNCHED_##name,
enum vt_launched_kind { VT_LAUNCHED_KINDS(VT_LAUNCHED_CODE) VT_N_LAUNCHED_KINDS };
#undef VT_LAUNCHED_CODE

/* Likewise: what is known of it. */
#define VT_LAUNCH_FATES(X)                                               \
	X(MAY_RUN, "may-run")                                            \
	X(CALLED, "in-call") /* the call has not returned: it may run */ \
	X(ENDED, "ended")                                                \
	X(FAILED, "failed")     /* the call returned an error */         \
	X(CAPTURED, "captured") /* into a graph, not executed */

#define VT_LAUNCH_FATE_CODE(name, text) VT_LAUNCH_FATE_##name,
enum vt_launch_fate { VT_LAUNCH_FATES(VT_LAUNCH_FATE_CODE) VT_N_LAUNCH_FATES };
#undef VT_LAUNCH_FATE_CODE

/* Likewise: what the value at an address must be; the order is enum vt_launch_compare's. */
#define VT_VALUE_COMPARES(X)                           \
	X(GEQ, "geq") /* there - value >= 0, signed */ \
	X(EQ, "eq")                                    \
	X(AND, "and") /* there & value != 0 */         \
	X(NOR, "nor") /* ~(there | value) != 0 */

#define VT_VALUE_CODE(name, text) VT_VALUE_##name,
enum vt_value_compare { VT_VALUE_COMPARES(VT_VALUE_CODE) VT_N_VALUE_COMPARES };
#undef VT_VALUE_CODE

struct vt_model_launch {
	uint64_t number; /* in its stream, from 1 */
	enum vt_launched_kind kind;
	enum vt_launch_fate fate;
	uint64_t age_ns;
	const char *name;  /* demangled; hostile; NULL unknown */
	bool by_address;   /* what is an address in host code, which may give it a name */
	uint64_t what;     /* handle, address; of a wait: the address waited for */
	uint64_t value;    /* of a wait for a value, and of a write of one */
	unsigned int bits; /* of the value: 32 or 64 */
	enum vt_value_compare compare; /* of the wait */
	bool there_known;              /* what is at the address now */
	bool there_shared;             /* other processes may have that memory, too */
	uint64_t there;
	uint32_t grid[3], block[3], shared_bytes;
	pid_t tid;
	const char *thread; /* "" unknown */
	uint32_t trace;     /* as in struct vt_model_driver_block */
};

struct vt_model_launch_stream {
	int device;         /* -1 unknown */
	uint64_t handle;    /* 0: the default stream */
	pid_t tid;          /* of a thread's own default stream; 0 */
	uint64_t total;     /* launches */
	uint64_t ended;     /* all up to this number have ended */
	uint64_t may_run;   /* launches that may still run */
	uint64_t not_kept;  /* of those, without a record */
	uint64_t oldest_ns; /* age of the first kept one that may run */
	struct vt_model_launch
		*launches; /* in the arena; those kept since, else the last; by number */
	size_t n;
	/*
	 * Of a deadlock between streams (model/stream_deadlock.h): the wait that it stands at, NULL
	 * none; the stream that it waits for; and what would end the wait there, behind that
	 * stream's own wait.
	 */
	const struct vt_model_launch *stuck, *ends_it;
	size_t waits_for;
};

struct vt_model_launches {
	bool known; /* launches are recorded */
	bool whole; /* no record was damaged, and each pointer that was found could be changed */
	uint64_t total, lost;
	uint32_t n_words; /* changed words through which they are seen */
	VT_VEC(struct vt_model_launch_stream) streams; /* the one that waits longest first */
};

/* It is not known to have ended. */
static inline bool vt_launch_is_open(const struct vt_model_launch *launch)
{
	return launch->fate == VT_LAUNCH_FATE_MAY_RUN || launch->fate == VT_LAUNCH_FATE_CALLED;
}

/* A record of an event, and a value that is written, run nothing that could last. */
static inline bool vt_launch_may_run(const struct vt_model_launch *launch)
{
	return launch->kind != VT_LAUNCHED_RECORD_EVENT &&
	       launch->kind != VT_LAUNCHED_WRITE_VALUE && vt_launch_is_open(launch);
}

#endif
