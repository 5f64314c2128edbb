/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person can do about what a report found: part of the model (model/model.h). The room
 * advise/ fills it in; it has codes and figures, and the words are in report/advice_words.c.
 */
#ifndef VT_MODEL_ADVICE_H
#define VT_MODEL_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

/*
 * X(NAME, "name"): a rule, and its name in JSON, which never changes. advise/rules.c shows how each
 * is recognised; doc/advice.md explains it.
 */
/* clang-format off */
#define VT_ADVICE_RULES(X)                                                               \
	X(OTHER, "other") /* another version wrote a rule that is unknown here */        \
	X(STOPPED, "stopped") \
	X(CONTEXT_LOST, "context-lost") \
	X(GPU_FAULT, "gpu-fault") \
	X(DEADLOCK, "deadlock") \
	X(STREAM_DEADLOCK, "stream-deadlock") \
	X(STUCK, "stuck") \
	X(THROTTLED, "throttled") \
	X(LAUNCHER, "launcher") \
	X(GROWTH, "growth") \
	X(HOST_LIMIT, "host-limit") \
	X(SHM_FULL, "shm-full") \
	X(ADDRESS_LIMIT, "address-limit") \
	X(PINNED, "pinned") \
	X(TOO_LARGE, "too-large") \
	X(LIMITED, "limited") \
	X(OTHERS, "others") \
	X(ENDED_HOLDERS, "ended-holders") \
	X(BATCH_TOO_LARGE, "batch-too-large") \
	X(KEPT_GRAPHS, "kept-graphs") \
	X(HELD_BY_EXCEPTION, "held-by-exception") \
	X(GARBAGE, "garbage") \
	X(LEFT_PARAMETERS, "left-parameters") \
	X(FRAGMENTED, "fragmented") \
	X(ELSEWHERE, "elsewhere") \
	X(AWAITING_FREE, "awaiting-free") \
	X(PRIVATE_POOLS, "private-pools") \
	X(LIBRARY, "library") \
	X(CACHE_IN_PIECES, "cache-in-pieces") \
	X(RAW_ALLOCATIONS, "raw-allocations") \
	X(STREAM_CACHE, "stream-cache") \
	X(PINNED_CACHE, "pinned-cache") \
	X(DATA_SET, "data-set") \
	X(STATE_COPY, "state-copy") \
	X(EQUAL_MODELS, "equal-models") \
	X(KEPT_GRADIENTS, "kept-gradients") \
	X(FROZEN_STATE, "frozen-state") \
	X(LOST_GRADIENTS, "lost-gradients") \
	X(KEPT_ITEMS, "kept-items") \
	X(MIG, "mig") \
	X(PAST_OOM, "past-oom") \
	X(CACHE_KEPT, "cache-kept")
/* clang-format on */

/* What to do. The same form. */
/* clang-format off */
#define VT_ADVICE_REMEDIES(X)                                                            \
	X(NONE, "none")                                                                  \
	X(CONTINUE, "continue") \
	X(DEBUG_KERNEL, "debug-kernel") \
	X(RESTART, "restart") \
	X(RESET_GPU, "reset-gpu") \
	X(REBOOT, "reboot") \
	X(COOL_GPU, "cool-gpu") \
	X(ORDER_LOCKS, "order-locks") \
	X(ORDER_STREAMS, "order-streams") \
	X(FIND_HOLDER, "find-holder") \
	X(FIND_RANK, "find-rank") \
	X(FIND_KERNEL, "find-kernel") \
	X(CHILDREN, "children") \
	X(STOP_GROWTH, "stop-growth") \
	X(LESS_HOST_MEMORY, "less-host-memory") \
	X(LARGER_SHM, "larger-shm") \
	X(NO_ADDRESS_LIMIT, "no-address-limit") \
	X(LESS_PINNED, "less-pinned") \
	X(SMALLER_REQUEST, "smaller-request") \
	X(RAISE_LIMIT, "raise-limit") \
	X(OTHER_PROCESS, "other-process") \
	X(END_HOLDERS, "end-holders") \
	X(EXPANDABLE_SEGMENTS, "expandable-segments") \
	X(MAX_SPLIT_SIZE, "max-split-size") \
	X(LIFETIMES, "lifetimes") \
	X(SHARE_POOL, "share-pool") \
	X(SYNCHRONIZE_STREAM, "synchronize-stream") \
	X(LIMIT_LIBRARY, "limit-library") \
	X(SMALLER_BATCH, "smaller-batch") \
	X(DETACH, "detach") \
	X(DROP_EXCEPTION, "drop-exception") \
	X(COLLECT_GARBAGE, "collect-garbage") \
	X(REBUILD_OPTIMIZER, "rebuild-optimizer") \
	X(FIND_ALLOCATOR, "find-allocator") \
	X(ONE_STREAM, "one-stream") \
	X(REUSE_BUFFERS, "reuse-buffers") \
	X(HOST_DATA_SET, "host-data-set") \
	X(HOST_COPY, "host-copy") \
	X(ONE_MODEL, "one-model") \
	X(ZERO_GRAD, "zero-grad") \
	X(FREEZE, "freeze") \
	X(DROP_ITEMS, "drop-items") \
	X(LARGER_SLICE, "larger-slice") \
	X(CATCH_OOM, "catch-oom") \
	X(EMPTY_CACHE, "empty-cache")
/* clang-format on */

/* The commands or settings that a report ends with. The same form. */
/* clang-format off */
#define VT_ADVICE_NEXTS(X)                                                               \
	X(NONE, "none")                                                                  \
	X(REMEDY, "remedy") /* of an advice: its code is in remedy */                    \
	X(RECORD, "record") \
	X(ALLOW_RESUME, "allow-resume") \
	X(TRIAGE, "triage") \
	X(KERNELS, "kernels") \
	X(LOOK_AGAIN, "look-again") \
	X(GROW, "grow")
/* clang-format on */

#define VT_ADVICE_CODE(name, text) VT_ADVICE_##name,
enum vt_advice_rule { VT_ADVICE_RULES(VT_ADVICE_CODE) VT_N_ADVICE_RULES };
#undef VT_ADVICE_CODE
#define VT_ADVICE_CODE(name, text) VT_REMEDY_##name,
enum vt_advice_remedy { VT_ADVICE_REMEDIES(VT_ADVICE_CODE) VT_N_ADVICE_REMEDIES };
#undef VT_ADVICE_CODE
#define VT_ADVICE_CODE(name, text) VT_NEXT_##name,
enum vt_advice_next { VT_ADVICE_NEXTS(VT_ADVICE_CODE) VT_N_ADVICE_NEXTS };
#undef VT_ADVICE_CODE

enum vt_certainty {
	VT_SURE_POSSIBLE, /* the figures fit, and fit something harmless, too */
	VT_SURE_LIKELY,
	VT_SURE_CERTAIN, /* read, or computed from what was read */
	VT_N_CERTAINTIES
};

/* A figure: "holes_bytes". Its unit is the end of its name: _bytes, _seconds, _percent; a count. */
struct vt_advice_value {
	const char *name; /* ours; of a file: in the arena */
	const char *text; /* NULL: it is a number; else hostile */
	uint64_t number;
};

#define VT_ADVICE_MAX_VALUES 16

/* Strings are in the model's arena, or ours. */
struct vt_model_advice {
	enum vt_advice_rule rule;
	enum vt_certainty certainty;
	bool alarm; /* something is wrong */
	int device; /* ordinal; -1: of none, or of all */
	struct vt_advice_value values[VT_ADVICE_MAX_VALUES];
	size_t n_values;
	enum vt_advice_remedy remedy;
	const char *setting; /* with its value: "expandable_segments:True"; NULL none */
	const char *command; /* for a shell, as it is; NULL none */
};

struct vt_model_next {
	enum vt_advice_next code;
	enum vt_advice_remedy remedy; /* of REMEDY */
	const char *setting, *command;
};

struct vt_model_advices {
	VT_VEC(struct vt_model_advice) items; /* what to do first, first */
	VT_VEC(struct vt_model_next) next;
};

/* NULL: it has none of that name. */
const struct vt_advice_value *vt_model_advice_value(const struct vt_model_advice *advice,
						    const char *name, size_t n);

const char *vt_advice_rule_name(unsigned int rule);
const char *vt_advice_remedy_name(unsigned int remedy);
const char *vt_advice_next_name(unsigned int next);
const char *vt_certainty_name(unsigned int certainty); /* "possible", "likely", "certain" */

#endif
