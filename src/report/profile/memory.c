/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/memory.h"

#include <inttypes.h>

#include "report/profile/building.h"
#include "report/profile/formats.h"

/* ---- stacks ---- */

/* Why there is no backtrace. Without any recording there is nothing to say, if there are owners. */
static uint32_t untraced(struct vt_building *b, size_t block, const struct vt_model_owner *owner)
{
	static const char *const words[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] = "[older than the recording]",
		[VT_UNTRACED_CHANGED] = "[no backtrace: changed while it was read]",
		[VT_UNTRACED_UNREADABLE] = "[no backtrace: not readable]",
		[VT_UNTRACED_SAMPLED] = "[no backtrace: no sample, or older than the recording]",
		[VT_UNTRACED_NO_STACK] = "[no backtrace: recorded without one]",
		[VT_UNTRACED_UNSEEN] =
			"[no backtrace: not allocated through the allocator's functions]",
	};
	const char *word = NULL;

	if (b->model->block_traces)
		word = words[UINT32_MAX - b->model->block_traces[block]];
	else if (!owner)
		word = "[no backtrace: nothing is recorded]";
	return word ? vt_profile_call(b->profile, VT_PROFILE_ROOT,
				      vt_profile_word(b->profile, word)) :
		      VT_PROFILE_ROOT;
}

static uint32_t stack_of(struct vt_building *b, size_t block, const struct vt_model_owner *owner)
{
	const struct vt_model *model = b->model;
	uint32_t at;

	if (model->block_traces && !VT_IS_UNTRACED(model->block_traces[block]))
		return vt_building_trace(b, model->block_traces[block]);
	at = untraced(b, block, owner);
	return owner ? vt_owner_path(b->profile, at, owner, false) : at;
}

/* ---- PyTorch's blocks ---- */

static void add_pool(struct vt_profile *profile, const struct vt_block_rec *block,
		     uint32_t labels[VT_N_LABELS])
{
	if (!(block->flags & VT_BLOCK_PRIVATE_POOL))
		return;
	labels[VT_LABEL_POOL] = block->pool ? vt_profile_textf(profile, "%" PRIu32 ":%" PRIu32,
							       (uint32_t)(block->pool >> 32),
							       (uint32_t)block->pool) :
					      vt_profile_text(profile, "unknown");
}

static void add_thread(struct vt_profile *profile, const struct vt_model_record *record,
		       uint32_t labels[VT_N_LABELS])
{
	if (!record || !record->tid)
		return;
	labels[VT_LABEL_THREAD] =
		record->thread && *record->thread ?
			vt_profile_textf(profile, "%s (%d)", record->thread, record->tid) :
			vt_profile_textf(profile, "%d", record->tid);
}

static void add_block(struct vt_building *b, const struct vt_building_device *device, size_t i)
{
	const struct vt_block_rec *block = &b->model->blocks[i];
	const struct vt_model_owner *owner =
		b->model->owners.state == VT_OWNERS_READ ? vt_model_owner(b->model, i) : NULL;
	struct vt_profile_sample sample = {
		.group = device->group,
		.size = block->size,
		.count = 1,
		.bytes = block->size,
	};

	sample.node = stack_of(b, i, owner);
	sample.labels[VT_LABEL_LIBRARY] = vt_profile_text(b->profile, "pytorch");
	sample.labels[VT_LABEL_DEVICE] = device->label;
	sample.labels[VT_LABEL_STATE] =
		vt_profile_text(b->profile, vt_block_state_name(block->state));
	sample.labels[VT_LABEL_STREAM] =
		block->stream ? vt_profile_textf(b->profile, "0x%" PRIx64, block->stream) :
				vt_profile_text(b->profile, "default");
	add_pool(b->profile, block, sample.labels);
	add_thread(b->profile, vt_model_block_record(b->model, i), sample.labels);
	if (owner)
		vt_owner_labels(b->profile, owner, sample.labels);
	vt_profile_add(b->profile, &sample);
}

/*
 * Blocks that were not read are one stack, which says so: a flame graph without it would look
 * whole. It weighs what PyTorch itself counted, or next to nothing.
 */
static void add_unread(struct vt_building *b, int device, int64_t bytes, const char *why)
{
	const struct vt_building_device *in = vt_building_device(b, device);
	struct vt_profile_sample sample = { .group = in->group, .count = 1 };
	struct vt_profile_frame frame = {
		.name = vt_profile_textf(b->profile, "[not here%s: PyTorch's blocks: %s]",
					 bytes > 0 ? "" : ", nor how much", why),
	};

	sample.bytes = bytes > 0 ? (uint64_t)bytes : 1;
	sample.node =
		vt_profile_call(b->profile, VT_PROFILE_ROOT, vt_profile_frame(b->profile, &frame));
	sample.labels[VT_LABEL_LIBRARY] = vt_profile_text(b->profile, "pytorch");
	sample.labels[VT_LABEL_DEVICE] = in->label;
	vt_profile_add(b->profile, &sample);
	b->has_torch = true;
}

static void add_blocks(struct vt_building *b, const struct vt_model_allocator *a)
{
	const struct vt_torch_device_result *r = &a->result;
	struct vt_building_device device;

	if (!a->exact) {
		bool counted = r->have_stats && r->result != VT_WALK_REFUSED;

		add_unread(b, a->device, counted ? r->stats.allocated_bytes.current : 0,
			   *r->why ? r->why : vt_walk_result_name(r->result));
	}
	if (!a->exact || !a->allocated_blocks)
		return;
	b->has_torch = true;
	device = *vt_building_device(b, a->device);
	for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++)
		if (b->model->blocks[i].state == VT_BLOCK_ALLOCATED)
			add_block(b, &device, i);
}

/* Where there are backtraces, the owners are another view. */
static void add_owners(struct vt_building *b, const struct vt_model_allocator *a)
{
	struct vt_profile_sample sample = { .count = 1 };

	if (!a->exact || !a->allocated_blocks)
		return;
	sample.group = vt_profile_group(
		b->profile, vt_profile_textf(b->profile, "GPU %d: by owner", a->device), true);
	for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++) {
		const struct vt_model_owner *owner = vt_model_owner(b->model, i);

		if (!owner)
			continue;
		sample.node = vt_owner_path(b->profile, VT_PROFILE_ROOT, owner, false);
		sample.bytes = b->model->blocks[i].size;
		vt_profile_add(b->profile, &sample);
	}
}

/* ---- the whole ---- */

static void name_it(struct vt_profile *profile, const struct vt_model *model)
{
	const struct vt_model_process *process = &model->process;
	struct vt_str name = { 0 };

	vt_str_addf(&name, "GPU memory in use: %s (%d)",
		    process->name && *process->name ? process->name : "process", process->pid);
	if (process->rank >= 0)
		vt_str_addf(&name, ", rank %d", process->rank);
	if (model->completeness != VT_COMPLETE)
		vt_str_add(&name, " (partial)");
	profile->name = vt_profile_text(profile, vt_str_get(&name));
	profile->program = vt_profile_text(profile, process->name);
	profile->tool = vt_profile_textf(profile, "vramtap %s", model->tool_version);
	profile->when = model->when;
	profile->failed |= name.failed;
	vt_str_deinit(&name);
}

void vt_profile_of_memory(struct vt_profile *profile, const struct vt_model *model)
{
	struct vt_building b;

	name_it(profile, model);
	vt_building_init(&b, profile, model);
	for (size_t i = 0; i < model->allocators.n && !profile->failed; i++)
		add_blocks(&b, &model->allocators.data[i]);
	if (model->torch_state == VT_ALLOCATOR_REFUSED && !model->allocators.n)
		add_unread(&b, -1, 0, "the layout of its allocator is not understood");
	if (!profile->failed) {
		vt_building_others(&b);
		for (size_t i = 0; i < model->allocators.n; i++)
			if (model->block_traces && model->owners.state == VT_OWNERS_READ)
				add_owners(&b, &model->allocators.data[i]);
		vt_building_comments(&b);
	}
	vt_building_deinit(&b);
}

static struct vt_error *write_as(vt_write_fn *format, const struct vt_model *model,
				 const struct vt_writer_options *options, FILE *out)
{
	struct vt_profile profile;
	struct vt_error *err;

	vt_profile_init(&profile, VT_PROFILE_BYTES);
	vt_profile_of_memory(&profile, model);
	err = format(&profile, options, out);
	vt_profile_deinit(&profile);
	return err;
}

struct vt_error *vt_write_report_pprof(const void *what, const struct vt_writer_options *options,
				       FILE *out)
{
	return write_as(vt_write_profile_pprof, what, options, out);
}

struct vt_error *vt_write_report_speedscope(const void *what,
					    const struct vt_writer_options *options, FILE *out)
{
	return write_as(vt_write_profile_speedscope, what, options, out);
}

struct vt_error *vt_write_report_folded(const void *what, const struct vt_writer_options *options,
					FILE *out)
{
	return write_as(vt_write_profile_folded, what, options, out);
}
