/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks were allocated, and who owns them. */
#include "report/snapshot/internal.h"
#include "report/snapshot/snapshot.h"

/* ---- frames ---- */

static const char *name_of(const struct vt_model_frame *frame)
{
	if (frame->name)
		return frame->name;
	return frame->function ? frame->function : "??";
}

/* As PyTorch does it: native code without a source file is told by its place in its library. */
static void put_place(struct vt_pickle *pickle, const struct vt_model_frame *frame)
{
	const char *file = frame->file ? frame->file : frame->module;
	bool in_module = frame->kind == VT_FRAME_NATIVE && !frame->file && frame->module;

	vt_pickle_name(pickle, "filename");
	vt_pickle_name(pickle, file ? file : "??");
	vt_pickle_name(pickle, "line");
	if (in_module)
		vt_pickle_uint(pickle, frame->module_offset);
	else
		vt_pickle_int(pickle, frame->line);
}

static void put_frame(struct vt_snapshot *s, uint32_t index)
{
	const struct vt_model_frame *frame = &s->model->trace_frames[index];

	if (s->frames[index]) {
		vt_pickle_again(s->pickle, s->frames[index] - 1);
		return;
	}
	vt_pickle_dict(s->pickle);
	vt_pickle_name(s->pickle, "name");
	vt_pickle_name(s->pickle, name_of(frame));
	put_place(s->pickle, frame);
	vt_pickle_end_dict(s->pickle);
	s->frames[index] = vt_pickle_keep(s->pickle) + 1;
}

static void put_trace(struct vt_snapshot *s, const struct vt_model_trace *trace, uint32_t *kept)
{
	struct vt_pickle_list list = { 0 };

	if (*kept) {
		vt_pickle_again(s->pickle, *kept - 1);
		return;
	}
	vt_pickle_list(s->pickle);
	*kept = vt_pickle_keep(s->pickle) + 1;
	for (size_t i = 0; i < trace->n_frames; i++) {
		if (trace->frames[i] >= s->n_frames)
			continue;
		vt_pickle_item(s->pickle, &list);
		put_frame(s, trace->frames[i]);
	}
	vt_pickle_end_list(s->pickle, &list);
}

/* ---- owners ---- */

static void put_made_frame(struct vt_pickle *pickle, const char *name)
{
	vt_pickle_dict(pickle);
	vt_pickle_name(pickle, "name");
	vt_pickle_name(pickle, name);
	vt_pickle_name(pickle, "filename");
	vt_pickle_name(pickle, VT_SNAPSHOT_FILE);
	vt_pickle_name(pickle, "line");
	vt_pickle_int(pickle, 0);
	vt_pickle_end_dict(pickle);
}

static void put_category_frame(struct vt_snapshot *s, enum vt_category category)
{
	uint32_t *kept = &s->categories[category];

	if (*kept) {
		vt_pickle_again(s->pickle, *kept - 1);
		return;
	}
	put_made_frame(s->pickle, vt_category_code(category));
	*kept = vt_pickle_keep(s->pickle) + 1;
}

static const struct vt_model_owner *known_owner(const struct vt_snapshot *s, size_t block)
{
	const struct vt_model_owner *owner = vt_model_owner(s->model, block);

	return owner && owner->category != VT_CATEGORY_UNKNOWN ? owner : NULL;
}

/* The category is the outer frame: flame graphs begin with it. */
static void put_made_frames(struct vt_snapshot *s, size_t block)
{
	const struct vt_model_owner *owner = known_owner(s, block);
	struct vt_pickle_list list = { 0 };

	vt_pickle_list(s->pickle);
	if (owner && *owner->name) {
		vt_pickle_item(s->pickle, &list);
		put_made_frame(s->pickle, owner->name);
	}
	if (owner) {
		vt_pickle_item(s->pickle, &list);
		put_category_frame(s, (enum vt_category)owner->category);
	}
	vt_pickle_end_list(s->pickle, &list);
}

void vt_snapshot_frames(struct vt_snapshot *s, size_t block)
{
	const struct vt_model_trace *trace = vt_model_block_trace(s->model, block);

	if (trace && trace->n_frames)
		put_trace(s, trace, &s->traces[s->model->block_traces[block]]);
	else
		put_made_frames(s, block);
}

void vt_snapshot_segment_frames(struct vt_snapshot *s, size_t block)
{
	const struct vt_model_trace *trace = vt_model_segment_trace(s->model, block);
	size_t n = s->model->traces.n, number;

	if (!trace) {
		vt_pickle_list(s->pickle);
		return;
	}
	number = s->model->segment_traces[block];
	put_trace(s, trace, number < n ? &s->traces[number] : &s->segment_only[number - n]);
}

static void put_fact(struct vt_pickle *pickle, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	vt_pickle_name(pickle, key);
	vt_pickle_name(pickle, text);
}

void vt_snapshot_owner(struct vt_snapshot *s, size_t block)
{
	const struct vt_model_owner *owner = known_owner(s, block);

	if (!owner)
		return;
	vt_pickle_name(s->pickle, "user_metadata");
	vt_pickle_dict(s->pickle);
	put_fact(s->pickle, "owner", owner->name);
	put_fact(s->pickle, "category", vt_category_code((enum vt_category)owner->category));
	put_fact(s->pickle, "dtype", owner->dtype);
	put_fact(s->pickle, "shape", owner->shape);
	vt_pickle_name(s->pickle, "certain");
	vt_pickle_bool(s->pickle, owner->certain);
	vt_pickle_end_dict(s->pickle);
}
