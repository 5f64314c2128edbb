/* SPDX-License-Identifier: Apache-2.0 */
#include "model/streams.h"

#include <stdlib.h>

#include "base/format.h"
#include "model/awaiting.h"
#include "model/cuda_error.h"
#include "model/model.h"
#include "model/stream_order.h"

void vt_model_streams_deinit(struct vt_model_streams *streams)
{
	vt_vec_deinit(&streams->list);
}

#define NAME(name, text) text,
#define NAMES_OF(function, table)                                                    \
	const char *function(unsigned int code)                                      \
	{                                                                            \
		static const char *const names[] = { table(NAME) };                  \
                                                                                     \
		return code < sizeof(names) / sizeof(names[0]) ? names[code] : NULL; \
	}

NAMES_OF(vt_stream_kind_name, VT_STREAM_KINDS)
NAMES_OF(vt_stream_doing_name, VT_STREAM_DOINGS)
NAMES_OF(vt_stream_state_name, VT_STREAM_STATES)
NAMES_OF(vt_streams_look_name, VT_STREAMS_LOOKS)

static struct vt_model_stream *find(const struct vt_model_streams *streams, int device,
				    uint64_t handle)
{
	for (size_t i = 0; i < streams->list.n; i++) {
		struct vt_model_stream *stream = &streams->list.data[i];

		if (stream->device == device && stream->handle == handle)
			return stream;
	}
	return NULL;
}

const struct vt_model_stream *vt_model_stream(const struct vt_model *model, int device,
					      uint64_t handle)
{
	return find(&model->streams, device, handle);
}

size_t vt_model_streams_count(const struct vt_model *model, enum vt_stream_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < model->streams.list.n; i++)
		n += model->streams.list.data[i].state == state;
	return n;
}

double vt_model_streams_stopped_ms(const struct vt_model *model)
{
	double ms = 0;

	for (size_t i = 0; i < VT_STREAM_LOOKS; i++)
		ms += model->streams.looks[i].stopped_ms;
	return ms;
}

/* ---- what the moments say ---- */

unsigned int vt_model_streams_looks(const struct vt_model_streams *streams)
{
	return streams->looks[VT_STREAM_LATER].look ? VT_STREAM_LOOKS : VT_STREAM_LATER;
}

static unsigned int was(const struct vt_model_stream *stream, enum vt_stream_doing doing)
{
	unsigned int n = 0;

	for (size_t i = 0; i < VT_STREAM_LOOKS; i++)
		n += stream->doing[i] == doing;
	return n;
}

static enum vt_stream_state state_of(const struct vt_model_stream *stream)
{
	if (was(stream, VT_STREAM_DOES_FAILED))
		return VT_STREAM_UNKNOWN_STATE;
	if (was(stream, VT_STREAM_DOES_CAPTURING))
		return VT_STREAM_CAPTURING_STATE;
	if (!was(stream, VT_STREAM_DOES_BUSY))
		return was(stream, VT_STREAM_DOES_IDLE) ? VT_STREAM_IDLE_STATE :
							  VT_STREAM_UNKNOWN_STATE;
	if (was(stream, VT_STREAM_DOES_IDLE) || (stream->ended_known && stream->ended))
		return VT_STREAM_MOVING_STATE;
	return was(stream, VT_STREAM_DOES_BUSY) == 1 ? VT_STREAM_BUSY_ONCE_STATE :
						       VT_STREAM_BUSY_STATE;
}

void vt_model_streams_judge(struct vt_model_streams *streams)
{
	uint64_t first_ns = 0;

	streams->n_asked = 0;
	for (size_t i = 0; i < VT_STREAM_LOOKS; i++) {
		uint64_t when_ns = streams->looks[i].when_ns;

		if (!when_ns)
			continue;
		first_ns = first_ns ? first_ns : when_ns;
		streams->n_asked++;
		streams->apart_ns = when_ns - first_ns;
	}
	for (size_t i = 0; i < streams->list.n; i++)
		streams->list.data[i].state = state_of(&streams->list.data[i]);
}

/* ---- blocks ---- */

/* cudaStreamLegacy is the default stream, too. */
static uint64_t handle_of(uint64_t stream)
{
	return stream == 1 ? 0 : stream;
}

static bool add_group(struct vt_model_streams *streams, const struct vt_model_group *group)
{
	uint64_t handle = handle_of(group->stream);
	struct vt_model_stream *stream = find(streams, group->device, handle);

	if (!stream) {
		stream = vt_vec_append(&streams->list);
		if (!stream)
			return false;
		*stream = (struct vt_model_stream){
			.device = group->device,
			.handle = handle,
			.kind = handle ? VT_STREAM_IS_EXTERNAL : VT_STREAM_IS_DEFAULT,
		};
	}
	if (group->state == VT_BLOCK_ALLOCATED) {
		stream->bytes += group->bytes;
		stream->blocks += group->blocks;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct vt_model_stream *x = a, *y = b;

	return vt_stream_order((struct vt_stream_place){ x->device, (unsigned int)x->kind,
							 x->priority, x->number, x->handle },
			       (struct vt_stream_place){ y->device, (unsigned int)y->kind,
							 y->priority, y->number, y->handle });
}

/* ---- NCCL ---- */

/* ncclDevKernel_..., before 2.19 ncclKernel_...; ncclSymkDevKernel_... of symmetric memory. */
static bool is_nccl(const struct vt_model_launch *launch)
{
	return vt_glob("nccl*Kernel*", launch->name);
}

/* One without a name leaves it open; one of another name tells. */
static void look_at_kernels(struct vt_model_stream *stream,
			    const struct vt_model_launch_stream *launches)
{
	size_t n = 0, nccl = 0, nameless = 0;

	for (size_t i = 0; i < launches->n; i++) {
		const struct vt_model_launch *launch = &launches->launches[i];

		if (launch->kind != VT_LAUNCHED_KERNEL || launch->fate == VT_LAUNCH_FATE_FAILED)
			continue;
		n++;
		nameless += !launch->name;
		nccl += launch->name && is_nccl(launch);
	}
	stream->nccl_known = n && (!nameless || nccl + nameless < n);
	stream->nccl = stream->nccl_known && nccl == n;
}

/*
 * The driver's own functions launch on streams of any device: of those the device is not known, but
 * a handle is an address.
 */
struct vt_model_stream *vt_model_streams_of(const struct vt_model_streams *streams, int device,
					    uint64_t handle)
{
	if (device >= 0 || handle <= 2)
		return find(streams, device, handle);
	for (size_t i = 0; i < streams->list.n; i++)
		if (streams->list.data[i].handle == handle)
			return &streams->list.data[i];
	return NULL;
}

static void find_nccl(struct vt_model *model)
{
	for (size_t i = 0; i < model->launches.streams.n; i++) {
		const struct vt_model_launch_stream *from = &model->launches.streams.data[i];
		struct vt_model_stream *stream =
			from->tid ?
				NULL :
				vt_model_streams_of(&model->streams, from->device, from->handle);

		if (stream)
			look_at_kernels(stream, from);
	}
}

bool vt_model_streams_account(struct vt_model *model)
{
	struct vt_model_streams *streams = &model->streams;
	bool ok = true;

	if (!streams->wanted)
		return true;
	for (size_t i = 0; i < model->groups.n; i++)
		ok = add_group(streams, &model->groups.data[i]) && ok;
	ok = vt_model_streams_add_waits(model) && ok;
	vt_model_streams_judge(streams);
	find_nccl(model);
	if (streams->list.n)
		qsort(streams->list.data, streams->list.n, sizeof(*streams->list.data), compare);
	return ok;
}

/* ---- what follows ---- */

static bool is_busy(const struct vt_model_stream *stream)
{
	return stream->state == VT_STREAM_BUSY_STATE || stream->state == VT_STREAM_BUSY_ONCE_STATE;
}

static size_t count_busy(const struct vt_model *model, const struct vt_model_stream **first)
{
	const struct vt_model_streams *streams = &model->streams;
	size_t n = 0;

	for (size_t i = 0; i < streams->list.n; i++) {
		if (!is_busy(&streams->list.data[i]))
			continue;
		if (!n++)
			*first = &streams->list.data[i];
	}
	return n;
}

const struct vt_model_stream *vt_model_busy_stream(const struct vt_model *model)
{
	const struct vt_model_stream *stream = NULL;

	return count_busy(model, &stream) == 1 ? stream : NULL;
}

bool vt_model_streams_are_busy(const struct vt_model_streams *streams)
{
	for (size_t i = 0; i < streams->list.n; i++)
		if (is_busy(&streams->list.data[i]))
			return true;
	return false;
}

bool vt_model_streams_have_ended(const struct vt_model_streams *streams)
{
	bool any = false;

	for (size_t i = 0; i < streams->list.n; i++) {
		const struct vt_model_stream *stream = &streams->list.data[i];

		if (!was(stream, VT_STREAM_DOES_BUSY))
			continue;
		if (stream->doing[VT_STREAM_LATER] != VT_STREAM_DOES_IDLE)
			return false;
		any = true;
	}
	return any;
}

static bool was_idle_twice(const struct vt_model_stream *stream)
{
	return stream->doing[0] == VT_STREAM_DOES_IDLE && stream->doing[1] == VT_STREAM_DOES_IDLE;
}

bool vt_model_streams_are_idle(const struct vt_model *model, int device)
{
	const struct vt_model_streams *streams = &model->streams;
	bool any = false;

	if (!streams->wanted || streams->pool_unknown)
		return false;
	for (size_t i = 0; i < streams->list.n; i++) {
		const struct vt_model_stream *stream = &streams->list.data[i];

		if (stream->device != device)
			continue;
		if (!was_idle_twice(stream))
			return false;
		any = true;
	}
	return any;
}

void vt_stream_say(struct vt_str *text, const struct vt_model_stream *stream)
{
	if (stream->kind == VT_STREAM_IS_DEFAULT)
		vt_str_add(text, "the default stream");
	else if (stream->kind == VT_STREAM_IS_POOL)
		vt_str_addf(text, "PyTorch stream %u%s%s", stream->number,
			    stream->priority ? " of high priority" : "",
			    stream->nccl ? ", NCCL's," : "");
	else
		vt_str_add(text, "another stream");
	vt_str_addf(text, " of GPU %d", stream->device);
}

void vt_streams_say(struct vt_str *text, const struct vt_model *model)
{
	const struct vt_model_stream *first = NULL;
	size_t n = count_busy(model, &first);
	char number[VT_NUM_MAX];

	if (n == 1)
		vt_stream_say(text, first);
	else if (n)
		vt_str_addf(text, "%s streams", vt_format_count(number, n));
	if (n)
		vt_str_addf(text, " ha%s unfinished work", n == 1 ? "s" : "ve");
}

int vt_model_streams_fault(const struct vt_model *model)
{
	const struct vt_model_streams *streams = &model->streams;

	for (size_t i = 0; i < streams->list.n; i++)
		if (vt_cuda_error_stays(streams->list.data[i].error))
			return streams->list.data[i].error;
	return 0;
}
