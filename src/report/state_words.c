/* SPDX-License-Identifier: Apache-2.0 */
#include "report/state_words.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

struct row {
	const char *code, *words;
};

static const struct row allocator_states[] = {
	[VT_ALLOCATOR_UNKNOWN] = { 0 },
	[VT_ALLOCATOR_NOT_LOADED] = { "not-loaded", "not loaded" },
	[VT_ALLOCATOR_NOT_INITIALISED] = { "not-initialised", "not initialised" },
	[VT_ALLOCATOR_NATIVE] = { "native", "native" },
	[VT_ALLOCATOR_INHERITED] = { "inherited", "inherited" },
	[VT_ALLOCATOR_ASYNC] = { "cuda-malloc-async", "cudaMallocAsync" },
	[VT_ALLOCATOR_PLUGGABLE] = { "pluggable", "pluggable" },
	[VT_ALLOCATOR_REFUSED] = { "refused", "refused" },
};

static const struct row recordings[] = {
	[VT_RECORDING_NONE] = { 0 },
	[VT_RECORDING_UNKNOWN] = { "unknown", "unknown" },
	[VT_RECORDING_ON] = { "on", "on" },
	[VT_RECORDING_OFF] = { "off", "off" },
	[VT_RECORDING_INHERITED] = { "inherited", "inherited" },
	[VT_RECORDING_OTHER_VERSION] = { "other-version", "other version" },
	[VT_RECORDING_UNREADABLE] = { "unreadable", "unreadable" },
};

_Static_assert(N_ELEMENTS(allocator_states) == VT_N_ALLOCATOR_STATES, "each state has words");
_Static_assert(N_ELEMENTS(recordings) == VT_N_RECORDINGS, "each state has words");

const char *vt_allocator_state_code(enum vt_allocator_state state)
{
	return allocator_states[state].code;
}

const char *vt_allocator_state_words(enum vt_allocator_state state)
{
	return allocator_states[state].words;
}

const char *vt_recording_code(enum vt_recording recording)
{
	return recordings[recording].code;
}

const char *vt_recording_words(enum vt_recording recording)
{
	return recordings[recording].words;
}

const char *vt_range_kind_label(unsigned int kind)
{
	static const char *const labels[VT_N_RANGE_KINDS] = {
		[VT_RANGE_OTHER] = "of a kind unknown here",
		[VT_RANGE_DEVICE] = "raw cudaMalloc, unattributed",
		[VT_RANGE_MAPPED] = "raw cuMemMap, unattributed",
		[VT_RANGE_POOL] = "cudaMallocAsync pools",
		[VT_RANGE_MANAGED] = "managed memory",
		[VT_RANGE_HOST] = "pinned host memory",
		[VT_RANGE_DATA] = "data of GPU code",
		[VT_RANGE_ARRAY] = "arrays, textures",
		[VT_RANGE_GRAPH] = "memory of CUDA graphs",
	};

	return labels[kind < VT_N_RANGE_KINDS ? kind : VT_RANGE_OTHER];
}

const char *vt_claimer_label(unsigned int claimer)
{
	return claimer < VT_CLAIMER_LIBPOOLS ? "PyTorch" :
					       vt_libpool_library(claimer - VT_CLAIMER_LIBPOOLS);
}

const char *vt_untraced_words(enum vt_untraced why)
{
	static const char *const words[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] =
			"allocated before recording began, or while it was off",
		[VT_UNTRACED_CHANGED] = "freed or reused during the read",
		[VT_UNTRACED_UNREADABLE] = "recorded, but not readable: see the notes",
		[VT_UNTRACED_SAMPLED] = "left out by the recorder, or allocated before it was on",
		[VT_UNTRACED_NO_STACK] = "recorded without one, for want of room",
		[VT_UNTRACED_UNSEEN] =
			"not allocated through the allocator's functions: see the notes",
	};

	return (unsigned int)why < VT_N_UNTRACED ? words[why] : NULL;
}
