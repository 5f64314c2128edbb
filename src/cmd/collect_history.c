/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backtraces that PyTorch recorded of its blocks: read as soon as the blocks are known, without stopping anything, and
 * named when there is time for it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/collect.h"
#include "walk/merge.h"
#include "walk/torch_abi.h"
#include "walk/torch_history.h"

#define READ_NS (2 * VT_NS_PER_S)
#define LINES_NS (100 * VT_NS_PER_MS)

struct vt_collect_history {
	struct vt_torch_history history;
	struct vt_python python; /* owns the names of functions and files */
	bool have_python;
	struct vt_native_stack native; /* all native places, as if they were a stack */
	struct vt_recorded_places places;
};

/* PyTorch counts what it ever allocated; when the count has not moved, the blocks are those that were listed. */
static size_t find_counters(const struct vt_collect *c, struct vt_history_counter counters[VT_TORCH_MAX_DEVICES])
{
	size_t n = 0;

	for (size_t i = 0; i < c->model->allocators.n && n < VT_TORCH_MAX_DEVICES; i++) {
		const struct vt_torch_device_result *r = &c->model->allocators.data[i].result;

		if (!r->have_stats)
			return 0;
		counters[n++] = (struct vt_history_counter){
			.addr = r->allocator + c->torch.layout.stats + offsetof(struct vt_torch_stat, allocated),
			.value = r->stats.allocation.allocated,
		};
	}
	return n;
}

static void find_python(struct vt_collect *c, struct vt_collect_history *h)
{
	struct vt_error *err = c->origin->find_python(c, &h->python);

	/* That Python cannot be read is said with the threads. */
	h->have_python = !err;
	vt_error_destroy(err);
}

static struct vt_error *read_history(struct vt_collect *c, struct vt_collect_history *h)
{
	struct vt_history_counter counters[VT_TORCH_MAX_DEVICES];

	find_python(c, h);
	if (c->live)
		vt_live_drop_cache(c->live);

	struct vt_history_target target = {
		.src = c->mem,
		.names_src = c->cached,
		.vtable = vt_torch_history_vtable(&c->modules),
		.maps = &c->maps,
		.python = h->have_python ? &h->python : NULL,
		.layout = &c->torch.layout,
		.blocks = c->model->blocks,
		.n_blocks = c->model->n_blocks,
		.counters = counters,
		.n_counters = find_counters(c, counters),
		.deadline_ns = vt_now_ns() + READ_NS,
	};

	return vt_torch_history_read(&target, &h->history);
}

void vt_collect_history_read(struct vt_collect *c)
{
	struct vt_model *model = c->model;

	if (c->history || !model->n_blocks)
		return;
	if (c->torch.layout.block.context == VT_TORCH_NO_FIELD)
		vt_model_diag(model, VT_DIAG_NOTE, "torch", "history-not-read",
			      "should PyTorch have recorded backtraces, they are not shown: %s", c->torch.row ?
			      "this release keeps them in another form, as all before 2.1" :
			      "no block shows where this release keeps them");
	if (!vt_torch_history_any(model->blocks, model->n_blocks))
		return;

	struct vt_collect_history *h = calloc(1, sizeof(*h));
	struct vt_error *err = h ? read_history(c, h) : &vt_enomem;

	c->history = h;
	if (!err)
		return;
	vt_collect_diag_error(c, VT_DIAG_MISSING, "torch", "the backtraces that PyTorch recorded are missing", err);
	vt_collect_history_deinit(c);
}

void vt_collect_history_deinit(struct vt_collect *c)
{
	struct vt_collect_history *h = c->history;

	if (!h)
		return;
	vt_torch_history_deinit(&h->history);
	vt_python_deinit(&h->python);
	vt_native_stack_deinit(&h->native);
	free(h);
	c->history = NULL;
}

/* ---- names ---- */

static bool make_native(struct vt_collect_history *h)
{
	for (size_t i = 0; i < h->history.native.n; i++) {
		struct vt_native_frame *frame = vt_vec_append(&h->native.frames);

		if (!frame)
			return false;
		*frame = (struct vt_native_frame){ .pc = h->history.native.data[i] };
	}
	return true;
}

/* Source lines are what is done without when something is wrong with them. */
static void find_lines(struct vt_collect *c, struct vt_collect_history *h)
{
	struct vt_native_lines *lines = NULL;
	size_t missing;
	struct vt_error *err = vt_native_lines_start(&c->modules, &h->native, 1, LINES_NS, &lines);

	if (!err && lines)
		err = vt_native_lines_finish(lines, &c->model->arena, &missing);
	vt_native_lines_destroy(lines);
	vt_error_destroy(err);
}

/* All places in Python, as if one thread were in them one after the other. */
static bool find_places(struct vt_collect *c, struct vt_collect_history *h)
{
	struct vt_python_thread all = { 0 };
	bool ok = vt_vec_reserve(&all.frames, h->history.python.n);

	for (size_t i = 0; ok && i < h->history.python.n; i++) {
		const struct vt_history_python *place = &h->history.python.data[i];

		all.frames.data[all.frames.n++] = (struct vt_python_frame){
			.function = place->function, .file = place->file, .line = place->line,
		};
	}
	ok = ok && vt_recorded_places_init(&h->places, &all, &h->native, &c->model->arena);
	vt_vec_deinit(&all.frames);
	return ok;
}

static bool add_trace(struct vt_collect *c, struct vt_collect_history *h, const struct vt_history_trace *from)
{
	struct vt_model_trace *trace = vt_vec_append(&c->model->traces);

	if (!trace)
		return false;
	*trace = (struct vt_model_trace){ .source = VT_TRACE_PYTORCH };
	return vt_merge_recorded(&h->places, from->frames, from->n_python, from->frames + from->n_python, from->n_native, trace,
				 &c->model->arena);
}

#define NO_NUMBER UINT32_MAX

/* The traces that blocks have, and which block has which. */
static bool add_traces(struct vt_collect *c, struct vt_collect_history *h)
{
	static const enum vt_untraced why[VT_HISTORY_N_FATES] = {
		[VT_HISTORY_NONE] = VT_UNTRACED_NOT_RECORDED,  [VT_HISTORY_CHANGED] = VT_UNTRACED_CHANGED,
		[VT_HISTORY_FOREIGN] = VT_UNTRACED_UNREADABLE, [VT_HISTORY_INVALID] = VT_UNTRACED_UNREADABLE,
		[VT_HISTORY_SKIPPED] = VT_UNTRACED_UNREADABLE,
	};
	struct vt_model *model = c->model;
	uint32_t *of_block = vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*of_block));
	VT_FREE uint32_t *numbers = malloc((h->history.traces.n + 1) * sizeof(*numbers));

	if (!of_block || !numbers)
		return false;
	memset(numbers, 0xff, (h->history.traces.n + 1) * sizeof(*numbers)); /* NO_NUMBER */
	for (size_t i = 0; i < model->n_blocks; i++) {
		enum vt_history_fate fate = (enum vt_history_fate)h->history.fate_of[i];
		uint32_t trace = h->history.trace_of[i];

		if (fate != VT_HISTORY_READ) {
			of_block[i] = VT_UNTRACED(why[fate]);
			continue;
		}
		if (numbers[trace] == NO_NUMBER) {
			if (!add_trace(c, h, &h->history.traces.data[trace]))
				return false;
			numbers[trace] = (uint32_t)model->traces.n - 1;
		}
		of_block[i] = numbers[trace];
	}
	model->trace_frames = h->places.frames;
	model->n_trace_frames = h->places.n;
	model->block_traces = of_block;
	return true;
}

static void say_what_is_missing(struct vt_collect *c, const struct vt_torch_history *history)
{
	size_t invalid = history->n[VT_HISTORY_INVALID], foreign = history->n[VT_HISTORY_FOREIGN];
	struct vt_model *model = c->model;

	if (history->refused)
		vt_model_diag(model, VT_DIAG_MISSING, "torch", "history-refused",
			      "the backtraces that PyTorch recorded are not shown: they are not laid out as in the releases "
			      "that are known (%s); nothing was guessed", history->why);
	else if (invalid)
		vt_model_diag(model, VT_DIAG_MISSING, "torch", "history-damaged",
			      "the recorded backtraces of %zu blocks do not hold together and are not shown (%s)", invalid,
			      history->why);
	if (foreign)
		vt_model_diag(model, VT_DIAG_MISSING, "torch", "history-foreign",
			      "the recorded backtraces of %zu blocks are not shown: %s", foreign, history->why);
	if (history->n[VT_HISTORY_SKIPPED])
		vt_model_diag(model, VT_DIAG_MISSING, "torch", "history-incomplete",
			      "the recorded backtraces of %zu blocks were not read: %s", history->n[VT_HISTORY_SKIPPED],
			      history->why);
	if (history->n[VT_HISTORY_CHANGED])
		vt_model_diag(model, VT_DIAG_NOTE, "torch", "history-changed",
			      "%zu blocks were freed, or handed out again, before their recorded backtraces could be read",
			      history->n[VT_HISTORY_CHANGED]);
}

static void say_no_memory(struct vt_collect *c)
{
	vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "nomem",
		      "recorded backtraces are missing: not enough memory here");
}

void vt_collect_history_finish(struct vt_collect *c)
{
	struct vt_collect_history *h = c->history;
	struct vt_error *err;

	if (!h)
		return;
	say_what_is_missing(c, &h->history);
	if (!make_native(h)) {
		say_no_memory(c);
		return;
	}
	err = vt_native_symbolise(&c->modules, &h->native, 1, &c->model->arena);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, "torch", "names of native frames in recorded backtraces are missing",
				      err);
	find_lines(c, h);
	if (!find_places(c, h) || !add_traces(c, h)) {
		c->model->traces.n = 0;
		say_no_memory(c);
	}
}
