/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c10/cuda/CUDAStream.cpp, static variables in an anonymous namespace:
 *
 * 2.0:        cudaStream_t low_priority_streams[GPUS][32], high_priority_streams[GPUS][32];
 *             std::atomic<uint32_t> low_priority_counters[GPUS], high_priority_counters[GPUS]
 * 2.1 on:     cudaStream_t streams[4][GPUS][32];
 *             std::atomic<uint32_t> priority_counters[4][GPUS]
 *
 * GPUS (C10_COMPILE_TIME_MAX_GPUS) is 16 in 2.0 and 120 by 2.7: the symbol's size tells. Low is
 * priority 0 and high -1; in the array index p is priority -p. A counter counts the streams that
 * were asked for, and the 32 are handed out in turn.
 */
#include "walk/torch/streams.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "target/live.h"
#include "walk/native/symtab.h"
#include "walk/torch/abi.h"

enum {
	PER_POOL = 32,      /* kStreamsPerPool */
	MAX_PRIORITIES = 4, /* max_compile_time_stream_priorities */
	MAX_GPUS = 1024,    /* far more than any release is compiled for */
	SAME_NAMES = 2,     /* compilers mangle a static member of it with and without L */
};

#define C10 "_ZN3c104cuda12_GLOBAL__N_1"

/* One array of handles, with its counters. */
static const struct array {
	const char *streams[SAME_NAMES], *counters[SAME_NAMES];
	int priorities; /* that it has */
	int first;      /* priority of the first */
} arrays[] = {
	{ { C10 "7streamsE", C10 "L7streamsE" },
	  { C10 "17priority_countersE", C10 "L17priority_countersE" },
	  MAX_PRIORITIES,
	  0 },
	{ { C10 "20low_priority_streamsE", C10 "L20low_priority_streamsE" },
	  { C10 "21low_priority_countersE", C10 "L21low_priority_countersE" },
	  1,
	  0 },
	{ { C10 "21high_priority_streamsE", C10 "L21high_priority_streamsE" },
	  { C10 "22high_priority_countersE", C10 "L22high_priority_countersE" },
	  1,
	  -1 },
};

enum { N_ARRAYS = sizeof(arrays) / sizeof(arrays[0]) };

/* Where one array is in the process. */
struct found {
	uint64_t streams, counters;
	uint64_t gpus;
};

static const struct vt_native_static *either(const struct vt_native_static *named)
{
	return named[0].addr ? &named[0] : &named[1];
}

/* False: there is none, or it is of another size than it should have. */
static bool measure(const struct array *array, const struct vt_native_static *streams,
		    const struct vt_native_static *counters, struct found *found)
{
	uint64_t rows = streams->size / (PER_POOL * sizeof(uint64_t));

	*found = (struct found){
		.streams = streams->addr,
		.counters = counters->addr,
		.gpus = rows / (uint64_t)array->priorities,
	};
	return streams->addr && counters->addr && found->gpus && found->gpus <= MAX_GPUS &&
	       streams->size ==
		       found->gpus * (uint64_t)array->priorities * PER_POOL * sizeof(uint64_t) &&
	       counters->size == found->gpus * (uint64_t)array->priorities * sizeof(uint32_t);
}

/* How many of the arrays there are. */
static struct vt_error *find(struct vt_modules *modules, struct vt_module *module,
			     struct found found[N_ARRAYS], size_t *n)
{
	struct vt_native_static names[N_ARRAYS][2][SAME_NAMES];

	for (size_t i = 0; i < N_ARRAYS; i++) {
		for (size_t k = 0; k < SAME_NAMES; k++) {
			names[i][0][k].name = arrays[i].streams[k];
			names[i][1][k].name = arrays[i].counters[k];
		}
	}
	VT_TRY(vt_native_statics(modules, module, &names[0][0][0], N_ARRAYS * 2 * SAME_NAMES));
	*n = 0;
	for (size_t i = 0; i < N_ARRAYS; i++) {
		if (measure(&arrays[i], either(names[i][0]), either(names[i][1]), &found[i]))
			++*n;
		else
			found[i].streams = 0;
	}
	return NULL;
}

/* Those of one pool that were handed out. A null handle is of a device that has no pool yet. */
static bool add_pool(struct vt_torch_streams *streams, const uint64_t handles[PER_POOL],
		     uint32_t handed_out, int device, int priority)
{
	for (unsigned int i = 0; i < PER_POOL && i < handed_out; i++) {
		struct vt_torch_stream *stream;

		if (!vt_is_object(handles[i]))
			continue;
		stream = vt_vec_append(&streams->list);
		if (!stream)
			return false;
		*stream = (struct vt_torch_stream){
			.handle = handles[i],
			.device = device,
			.priority = priority,
			.number = i,
		};
	}
	return true;
}

static struct vt_error *read_array(const struct array *array, const struct found *found,
				   struct vt_memsrc *src, struct vt_torch_streams *streams)
{
	size_t rows = (size_t)found->gpus * (size_t)array->priorities;
	VT_FREE uint32_t *counters = calloc(rows, sizeof(*counters));
	int ret;

	if (!counters)
		return &vt_enomem;
	ret = vt_mem_read(src, found->counters, counters, rows * sizeof(*counters));
	if (ret)
		return vt_mem_error(src, ret, "PyTorch's counts of streams");
	for (size_t i = 0; i < rows; i++) {
		uint64_t handles[PER_POOL];

		if (!counters[i])
			continue;
		ret = vt_mem_read(src, found->streams + i * sizeof(handles), handles,
				  sizeof(handles));
		if (ret)
			return vt_mem_error(src, ret, "PyTorch's streams");
		if (!add_pool(streams, handles, counters[i], (int)(i % found->gpus),
			      array->first - (int)(i / found->gpus)))
			return &vt_enomem;
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct vt_torch_stream *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

struct vt_error *vt_torch_streams_read(struct vt_modules *modules, struct vt_module *c10_cuda,
				       struct vt_memsrc *src, struct vt_torch_streams *streams)
{
	struct found found[N_ARRAYS];
	size_t n = 0;

	streams->state = VT_TORCH_STREAMS_UNKNOWN;
	VT_TRY(find(modules, c10_cuda, found, &n));
	if (!n)
		return NULL;
	for (size_t i = 0; i < N_ARRAYS; i++)
		if (found[i].streams)
			VT_TRY(read_array(&arrays[i], &found[i], src, streams));
	if (streams->list.n)
		qsort(streams->list.data, streams->list.n, sizeof(*streams->list.data), compare);
	streams->state = VT_TORCH_STREAMS_FOUND;
	return NULL;
}

void vt_torch_streams_deinit(struct vt_torch_streams *streams)
{
	vt_vec_deinit(&streams->list);
}
