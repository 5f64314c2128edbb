/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver was asked for by others than PyTorch's allocator, by library; ages. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "model/account.h"

void vt_add_age(struct vt_model_ages *ages, uint64_t age_ns)
{
	struct vt_model_ages one = { .oldest_ns = age_ns, .newest_ns = age_ns };

	vt_add_ages(ages, &one);
}

void vt_add_ages(struct vt_model_ages *ages, const struct vt_model_ages *more)
{
	if (more->oldest_ns == VT_NO_AGE)
		return;
	if (ages->oldest_ns == VT_NO_AGE || more->oldest_ns > ages->oldest_ns)
		ages->oldest_ns = more->oldest_ns;
	if (ages->newest_ns == VT_NO_AGE || more->newest_ns < ages->newest_ns)
		ages->newest_ns = more->newest_ns;
}

/* Libraries that every call of the driver goes through: their caller is the answer. */
static bool is_driver(const char *module)
{
	static const char *const names[] = { "libcuda.so",       "libcudart",
					     "libcupti",         "libvramtap-recorder",
					     "vramtap-recorder", "memfd:vramtap-recorder" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(module, names[i], strlen(names[i])))
			return true;
	return false;
}

static const struct vt_model_frame *frame_of(const struct vt_model *model,
					     const struct vt_model_trace *trace, size_t i)
{
	return trace->frames[i] < model->n_trace_frames ? &model->trace_frames[trace->frames[i]] :
							  NULL;
}

/*
 * The frame that called the driver, which has libraries of its own between the recorder's callback
 * and its entry. n_frames: none. They are few: further out such a library is one that called the
 * program.
 */
static size_t caller_of_driver(const struct vt_model *model, const struct vt_model_trace *trace)
{
	static const size_t most_between = 4;
	size_t caller = 0;

	for (size_t i = 0; i < trace->n_frames && i < caller + most_between; i++) {
		const struct vt_model_frame *f = frame_of(model, trace, i);

		if (f && f->kind == VT_FRAME_NATIVE && f->module && is_driver(f->module))
			caller = i + 1;
	}
	return caller;
}

const char *vt_driver_library(const struct vt_model *model, const struct vt_model_trace *trace)
{
	for (size_t i = caller_of_driver(model, trace); i < trace->n_frames; i++) {
		const struct vt_model_frame *f = frame_of(model, trace, i);

		if (f && f->kind == VT_FRAME_NATIVE && f->module)
			return f->module;
	}
	return NULL;
}

/* What names the place; if that would be the driver itself, its caller. */
static const struct vt_model_frame *title_of(const struct vt_model *model,
					     const struct vt_model_trace *trace)
{
	size_t caller = trace ? caller_of_driver(model, trace) : 0;

	if (!trace || caller >= trace->n_frames)
		return NULL;
	return frame_of(model, trace,
			trace->title < caller || trace->title >= trace->n_frames ? caller :
										   trace->title);
}

static bool same_group(const struct vt_model_driver_group *a, const struct vt_model_driver_group *b)
{
	return a->kind == b->kind && a->device == b->device && vt_same_text(a->library, b->library);
}

/* There are as many groups as libraries: a handful. */
static bool add_block(struct vt_model *model, const struct vt_model_driver_block *b)
{
	const struct vt_model_trace *trace =
		b->trace < model->traces.n ? &model->traces.data[b->trace] : NULL;
	struct vt_model_driver_group key = {
		.kind = b->kind,
		.on_device = b->on_device,
		.device = b->on_device ? b->device : -1,
		.library = trace ? vt_driver_library(model, trace) : NULL,
		.ages = VT_NO_AGES,
	};
	struct vt_model_driver_group *group = NULL;

	for (size_t i = 0; i < model->driver_groups.n && !group; i++)
		if (same_group(&model->driver_groups.data[i], &key))
			group = &model->driver_groups.data[i];
	if (!group) {
		group = vt_vec_append(&model->driver_groups);
		if (!group)
			return false;
		*group = key;
	}
	if (__builtin_add_overflow(group->bytes, b->size, &group->bytes))
		group->bytes = UINT64_MAX;
	group->blocks++;
	if (b->size > group->largest) {
		group->largest = b->size;
		group->title = title_of(model, trace);
	}
	vt_add_age(&group->ages, b->record.age_ns);
	return true;
}

/* Memory of a device first, the largest first. */
static int compare_groups(const void *pa, const void *pb)
{
	const struct vt_model_driver_group *a = pa, *b = pb;

	if (a->on_device != b->on_device)
		return a->on_device ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return strcmp(a->library ? a->library : "", b->library ? b->library : "");
}

bool vt_account_recorder(struct vt_model *model)
{
	bool ok = true;

	for (size_t i = 0; ok && i < model->driver_blocks.n; i++)
		ok = model->driver_blocks.data[i].of_pytorch ||
		     add_block(model, &model->driver_blocks.data[i]);
	if (!ok)
		model->driver_groups.n = 0; /* half of them would be wrong numbers */
	else if (model->driver_groups.n > 1)
		qsort(model->driver_groups.data, model->driver_groups.n,
		      sizeof(*model->driver_groups.data), compare_groups);
	return ok;
}
