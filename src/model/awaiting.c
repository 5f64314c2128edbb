/* SPDX-License-Identifier: Apache-2.0 */
#include "model/awaiting.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/stream_order.h"
#include "model/streams.h"

#define NAME(name, text) text,

const char *vt_torch_waits_name(unsigned int code)
{
	static const char *const names[] = { VT_TORCH_WAITS(NAME) };

	return code < VT_N_TORCH_WAITS ? names[code] : names[VT_TORCH_WAITS_UNREAD];
}

/* ---- what the walk said ---- */

static bool is_same(const struct vt_torch_wait *a, const struct vt_torch_wait *b)
{
	return a->device == b->device && a->kind == b->kind && a->handle == b->handle &&
	       a->priority == b->priority && a->number == b->number;
}

static bool is_possible(const struct vt_model_allocator *a, size_t i)
{
	const struct vt_torch_wait *list = a->result.waits.list, *wait = &list[i];

	for (size_t k = 0; k < i; k++)
		if (is_same(&list[k], wait))
			return false;
	return wait->device >= 0 && wait->device < VT_TORCH_MAX_DEVICES &&
	       wait->kind <= VT_TORCH_STREAM_OTHER &&
	       (wait->kind == VT_TORCH_STREAM_OTHER) == (wait->handle != 0) && wait->blocks &&
	       wait->blocks <= a->awaiting_blocks && wait->bytes <= a->awaiting_bytes;
}

/* A block that waits has at least one event, or none yet. */
static bool are_possible(const struct vt_model_allocator *a)
{
	const struct vt_torch_waits *waits = &a->result.waits;
	uint64_t blocks = waits->eventless_blocks, bytes = waits->eventless_bytes;

	if (waits->n > VT_TORCH_MAX_WAITS || blocks > a->awaiting_blocks ||
	    bytes > a->awaiting_bytes)
		return false;
	for (size_t i = 0; i < waits->n; i++) {
		if (!is_possible(a, i))
			return false;
		blocks += waits->list[i].blocks;
		bytes += waits->list[i].bytes;
	}
	return blocks >= a->awaiting_blocks && bytes >= a->awaiting_bytes;
}

static void forget(struct vt_torch_waits *waits, unsigned int state)
{
	memset(waits, 0, sizeof(*waits));
	waits->state = state;
}

/* The largest first; PyTorch's hash table has them in no order. */
static int compare(const void *a, const void *b)
{
	const struct vt_torch_wait *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return vt_stream_order((struct vt_stream_place){ x->device, (unsigned int)x->kind,
							 x->priority, x->number, x->handle },
			       (struct vt_stream_place){ y->device, (unsigned int)y->kind,
							 y->priority, y->number, y->handle });
}

void vt_account_waits(struct vt_model_allocator *a)
{
	struct vt_torch_waits *waits = &a->result.waits;

	if (a->exact && !a->awaiting_blocks)
		forget(waits, VT_TORCH_WAITS_KNOWN);
	else if (waits->state != VT_TORCH_WAITS_KNOWN)
		forget(waits,
		       waits->state < VT_N_TORCH_WAITS ? waits->state : VT_TORCH_WAITS_UNREAD);
	else if (!a->exact)
		forget(waits, VT_TORCH_WAITS_UNREAD);
	else if (!are_possible(a))
		forget(waits, VT_TORCH_WAITS_MISMATCH);
	else
		qsort(waits->list, waits->n, sizeof(*waits->list), compare);
}

/* ---- streams ---- */

static bool is_stream(const struct vt_model_stream *s, const struct vt_torch_wait *wait)
{
	if (s->device != wait->device)
		return false;
	switch (wait->kind) {
	case VT_TORCH_STREAM_POOL:
		return s->kind == VT_STREAM_IS_POOL && s->priority == wait->priority &&
		       s->number == wait->number;
	case VT_TORCH_STREAM_OTHER:
		return s->handle == wait->handle;
	default:
		return s->kind == VT_STREAM_IS_DEFAULT;
	}
}

static struct vt_model_stream *find(const struct vt_model_streams *streams,
				    const struct vt_torch_wait *wait)
{
	for (size_t i = 0; i < streams->list.n; i++)
		if (is_stream(&streams->list.data[i], wait))
			return &streams->list.data[i];
	return NULL;
}

const struct vt_model_stream *vt_torch_wait_stream(const struct vt_model *model,
						   const struct vt_torch_wait *wait)
{
	return find(&model->streams, wait);
}

/* A pool's stream whose handle was not found is none that could be listed: the allocator has it. */
static bool add_wait(struct vt_model_streams *streams, const struct vt_torch_wait *wait)
{
	struct vt_model_stream *stream = find(streams, wait);

	if (!stream) {
		if (wait->kind == VT_TORCH_STREAM_POOL)
			return true;
		stream = vt_vec_append(&streams->list);
		if (!stream)
			return false;
		*stream = (struct vt_model_stream){
			.device = wait->device,
			.handle = wait->handle,
			.kind = wait->handle ? VT_STREAM_IS_EXTERNAL : VT_STREAM_IS_DEFAULT,
		};
	}
	stream->awaiting_blocks += wait->blocks;
	stream->awaiting_bytes += wait->bytes;
	return true;
}

bool vt_model_streams_add_waits(struct vt_model *model)
{
	struct vt_model_streams *streams = &model->streams;
	bool ok = true;

	streams->waits_known = true;
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_torch_waits *waits = &model->allocators.data[i].result.waits;

		streams->waits_known &= waits->state == VT_TORCH_WAITS_KNOWN;
		for (size_t k = 0; k < waits->n; k++)
			ok = add_wait(streams, &waits->list[k]) && ok;
	}
	return ok;
}

void vt_torch_wait_say(struct vt_str *text, const struct vt_torch_wait *wait, int device)
{
	if (wait->kind == VT_TORCH_STREAM_POOL && wait->priority)
		vt_str_addf(text, "stream %d, priority %d", wait->number, wait->priority);
	else if (wait->kind == VT_TORCH_STREAM_POOL)
		vt_str_addf(text, "PyTorch stream %d", wait->number);
	else
		vt_str_add(text, wait->kind == VT_TORCH_STREAM_DEFAULT ? "the default stream" :
									 "another stream");
	if (wait->device != device)
		vt_str_addf(text, " of GPU %d", wait->device);
}
