/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, what to do first, first. doc/advice.md has the same rows; a test compares them. */
#include "advise/internal.h"

/* clang-format off */
const struct vt_advise_rule vt_advise_rules[] = {
	{ VT_ADVICE_STOPPED, vt_advise_stopped, VT_REMEDY_CONTINUE, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_CONTEXT_LOST, vt_advise_context_lost, VT_REMEDY_DEBUG_KERNEL, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_GPU_FAULT, vt_advise_gpu_fault, VT_REMEDY_RESET_GPU, VT_SURE_LIKELY, true },
	{ VT_ADVICE_DEADLOCK, vt_advise_deadlock, VT_REMEDY_ORDER_LOCKS, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_STREAM_DEADLOCK, vt_advise_stream_deadlock, VT_REMEDY_ORDER_STREAMS, VT_SURE_LIKELY, true },
	{ VT_ADVICE_STUCK, vt_advise_stuck, VT_REMEDY_FIND_HOLDER, VT_SURE_LIKELY, true },
	{ VT_ADVICE_THROTTLED, vt_advise_throttled, VT_REMEDY_COOL_GPU, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_LAUNCHER, vt_advise_launcher, VT_REMEDY_CHILDREN, VT_SURE_CERTAIN, false },
	{ VT_ADVICE_GROWTH, vt_advise_growth, VT_REMEDY_STOP_GROWTH, VT_SURE_LIKELY, true },
	{ VT_ADVICE_HOST_LIMIT, vt_advise_host_limit, VT_REMEDY_LESS_HOST_MEMORY, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_SHM_FULL, vt_advise_shm_full, VT_REMEDY_LARGER_SHM, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_ADDRESS_LIMIT, vt_advise_address_limit, VT_REMEDY_NO_ADDRESS_LIMIT, VT_SURE_LIKELY, true },
	{ VT_ADVICE_PINNED, vt_advise_pinned, VT_REMEDY_LESS_PINNED, VT_SURE_LIKELY, false },
	{ VT_ADVICE_TOO_LARGE, vt_advise_too_large, VT_REMEDY_SMALLER_REQUEST, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_LIMITED, vt_advise_limited, VT_REMEDY_RAISE_LIMIT, VT_SURE_LIKELY, true },
	{ VT_ADVICE_OTHERS, vt_advise_others, VT_REMEDY_OTHER_PROCESS, VT_SURE_LIKELY, true },
	{ VT_ADVICE_ENDED_HOLDERS, vt_advise_ended, VT_REMEDY_END_HOLDERS, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_BATCH_TOO_LARGE, vt_advise_batch, VT_REMEDY_SMALLER_BATCH, VT_SURE_LIKELY, true },
	{ VT_ADVICE_KEPT_GRAPHS, vt_advise_notices, VT_REMEDY_DETACH, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_HELD_BY_EXCEPTION, vt_advise_notices, VT_REMEDY_DROP_EXCEPTION, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_GARBAGE, vt_advise_notices, VT_REMEDY_COLLECT_GARBAGE, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_LEFT_PARAMETERS, vt_advise_notices, VT_REMEDY_REBUILD_OPTIMIZER, VT_SURE_CERTAIN, true },
	{ VT_ADVICE_FRAGMENTED, vt_advise_fragmented, VT_REMEDY_EXPANDABLE_SEGMENTS, VT_SURE_LIKELY, true },
	{ VT_ADVICE_ELSEWHERE, vt_advise_elsewhere, VT_REMEDY_ONE_STREAM, VT_SURE_LIKELY, true },
	{ VT_ADVICE_AWAITING_FREE, vt_advise_awaiting, VT_REMEDY_SYNCHRONIZE_STREAM, VT_SURE_LIKELY, true },
	{ VT_ADVICE_PRIVATE_POOLS, vt_advise_private_pools, VT_REMEDY_SHARE_POOL, VT_SURE_LIKELY, false },
	{ VT_ADVICE_LIBRARY, vt_advise_libraries, VT_REMEDY_LIMIT_LIBRARY, VT_SURE_LIKELY, false },
	{ VT_ADVICE_CACHE_IN_PIECES, vt_advise_cache_in_pieces, VT_REMEDY_EXPANDABLE_SEGMENTS, VT_SURE_LIKELY, false },
	{ VT_ADVICE_RAW_ALLOCATIONS, vt_advise_raw, VT_REMEDY_FIND_ALLOCATOR, VT_SURE_LIKELY, false },
	{ VT_ADVICE_STREAM_CACHE, vt_advise_stream_cache, VT_REMEDY_ONE_STREAM, VT_SURE_POSSIBLE, false },
	{ VT_ADVICE_PINNED_CACHE, vt_advise_pinned_cache, VT_REMEDY_REUSE_BUFFERS, VT_SURE_POSSIBLE, false },
	{ VT_ADVICE_DATA_SET, vt_advise_notices, VT_REMEDY_HOST_DATA_SET, VT_SURE_LIKELY, false },
	{ VT_ADVICE_STATE_COPY, vt_advise_notices, VT_REMEDY_HOST_COPY, VT_SURE_LIKELY, false },
	{ VT_ADVICE_EQUAL_MODELS, vt_advise_notices, VT_REMEDY_ONE_MODEL, VT_SURE_POSSIBLE, false },
	{ VT_ADVICE_KEPT_GRADIENTS, vt_advise_notices, VT_REMEDY_ZERO_GRAD, VT_SURE_LIKELY, false },
	{ VT_ADVICE_FROZEN_STATE, vt_advise_notices, VT_REMEDY_REBUILD_OPTIMIZER, VT_SURE_LIKELY, false },
	{ VT_ADVICE_LOST_GRADIENTS, vt_advise_notices, VT_REMEDY_FREEZE, VT_SURE_LIKELY, false },
	{ VT_ADVICE_KEPT_ITEMS, vt_advise_kept_items, VT_REMEDY_DROP_ITEMS, VT_SURE_POSSIBLE, false },
	{ VT_ADVICE_MIG, vt_advise_mig, VT_REMEDY_LARGER_SLICE, VT_SURE_CERTAIN, false },
	{ VT_ADVICE_PAST_OOM, vt_advise_past_oom, VT_REMEDY_CATCH_OOM, VT_SURE_CERTAIN, false },
	{ VT_ADVICE_CACHE_KEPT, vt_advise_cache_kept, VT_REMEDY_EMPTY_CACHE, VT_SURE_POSSIBLE, false },
};
/* clang-format on */

const size_t vt_advise_n_rules = sizeof(vt_advise_rules) / sizeof(vt_advise_rules[0]);
