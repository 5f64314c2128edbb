/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backtraces that PyTorch recorded for its blocks: read once the blocks are known, without a
 * stop.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "collect/traces.h"
#include "walk/torch/abi.h"
#include "walk/torch/history.h"

#define READ_NS (2 * VT_NS_PER_S)

struct vt_collect_history {
	struct vt_torch_history history;
	struct vt_python *python; /* owns the names of functions and files; NULL none */
	struct vt_trace_in_set *traces;
	uint32_t *of_block, *of_segment;
};

/* PyTorch counts its allocations; if the count has not changed, the blocks are the listed ones. */
static size_t find_counters(const struct vt_collect *c,
			    struct vt_history_counter counters[VT_TORCH_MAX_DEVICES])
{
	size_t n = 0;

	for (size_t i = 0; i < c->model->allocators.n && n < VT_TORCH_MAX_DEVICES; i++) {
		const struct vt_torch_device_result *r = &c->model->allocators.data[i].result;

		if (!r->have_stats)
			return 0;
		counters[n++] = (struct vt_history_counter){
			.addr = r->allocator + c->torch.layout.stats +
				offsetof(struct vt_torch_stat, allocated),
			.value = r->stats.allocation.allocated,
		};
	}
	return n;
}

static struct vt_error *read_history(struct vt_collect *c, struct vt_collect_history *h)
{
	struct vt_history_counter counters[VT_TORCH_MAX_DEVICES];

	h->python = vt_collect_python(c);
	if (c->target.live)
		vt_live_drop_cache(c->target.live);

	struct vt_history_target target = {
		.src = c->target.mem,
		.names_src = c->target.cached,
		.vtable = vt_torch_history_vtable(&c->target.modules),
		.maps = &c->target.maps,
		.python = h->python,
		.layout = &c->torch.layout,
		.blocks = c->model->blocks,
		.n_blocks = c->model->n_blocks,
		.segments = c->options->segment_traces,
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
		vt_model_diag(model, VT_DIAG_NOTE, VT_STAGE_TORCH, "history-not-read",
			      "backtraces that PyTorch may have recorded are not shown: %s",
			      c->torch.row ? "releases before 2.1 keep them in another form" :
					     "no block shows where they are in this release");
	if (!vt_torch_history_any(model->blocks, model->n_blocks) &&
	    (!c->options->segment_traces || c->torch.layout.block.context == VT_TORCH_NO_FIELD))
		return;

	struct vt_collect_history *h = calloc(1, sizeof(*h));
	struct vt_error *err = h ? read_history(c, h) : &vt_enomem;

	c->history = h;
	if (!err)
		return;
	vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_TORCH,
			      "the backtraces that PyTorch recorded are missing", err);
	vt_collect_history_deinit(c);
}

void vt_collect_history_deinit(struct vt_collect *c)
{
	struct vt_collect_history *h = c->history;

	if (!h)
		return;
	vt_torch_history_deinit(&h->history);
	free(h->traces);
	free(h->of_block);
	free(h->of_segment);
	free(h);
	c->history = NULL;
}

/* ---- for the model ---- */

static bool copy_traces(struct vt_collect_history *h)
{
	const struct vt_torch_history *history = &h->history;

	h->traces = malloc((history->traces.n + 1) * sizeof(*h->traces));
	for (size_t i = 0; h->traces && i < history->traces.n; i++) {
		const struct vt_history_trace *trace = &history->traces.data[i];

		h->traces[i] = (struct vt_trace_in_set){
			.frames = trace->frames,
			.n_python = trace->n_python,
			.n_native = trace->n_native,
		};
	}
	return h->traces;
}

/* For each block: the trace of it, or of the segment that it begins. */
static uint32_t *number_traces(const uint32_t *trace_of, const uint8_t *fate_of, size_t n)
{
	static const enum vt_untraced why[VT_HISTORY_N_FATES] = {
		[VT_HISTORY_NONE] = VT_UNTRACED_NOT_RECORDED,
		[VT_HISTORY_CHANGED] = VT_UNTRACED_CHANGED,
		[VT_HISTORY_FOREIGN] = VT_UNTRACED_UNREADABLE,
		[VT_HISTORY_INVALID] = VT_UNTRACED_UNREADABLE,
		[VT_HISTORY_SKIPPED] = VT_UNTRACED_UNREADABLE,
	};

	uint32_t *numbers = malloc((n + 1) * sizeof(*numbers));

	for (size_t i = 0; numbers && i < n; i++) {
		enum vt_history_fate fate = (enum vt_history_fate)fate_of[i];

		numbers[i] = fate == VT_HISTORY_READ ? trace_of[i] : VT_UNTRACED(why[fate]);
	}
	return numbers;
}

/* Where no block has a context, nothing is recorded of blocks. */
static bool find_blocks(struct vt_collect_history *h, size_t n)
{
	const struct vt_torch_history *history = &h->history;

	if (history->n[VT_HISTORY_NONE] < n)
		h->of_block = number_traces(history->trace_of, history->fate_of, n);
	if (history->segment_fate_of)
		h->of_segment =
			number_traces(history->segment_trace_of, history->segment_fate_of, n);
	return (h->of_block || history->n[VT_HISTORY_NONE] == n) &&
	       (h->of_segment || !history->segment_fate_of);
}

static void say_what_is_missing(struct vt_collect *c, const struct vt_torch_history *history)
{
	size_t invalid = history->n[VT_HISTORY_INVALID], foreign = history->n[VT_HISTORY_FOREIGN];
	struct vt_model *model = c->model;

	if (history->refused)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_TORCH, "history-refused",
			"the backtraces that PyTorch recorded are not shown: their layout is that of no known release (%s); nothing was guessed",
			history->why);
	else if (invalid)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_TORCH, "history-damaged",
			"the recorded backtraces of %zu blocks are inconsistent and are not shown (%s)",
			invalid, history->why);
	if (foreign)
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "history-foreign",
			      "the recorded backtraces of %zu blocks are not shown: %s", foreign,
			      history->why);
	if (history->n[VT_HISTORY_SKIPPED])
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "history-incomplete",
			      "the recorded backtraces of %zu blocks were not read: %s",
			      history->n[VT_HISTORY_SKIPPED], history->why);
	if (history->n[VT_HISTORY_CHANGED])
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_TORCH, "history-changed",
			"%zu blocks were freed or reused before their recorded backtraces could be read",
			history->n[VT_HISTORY_CHANGED]);
}

/* Of segments only a snapshot has backtraces: it is what lacks them. */
static void say_segments_missing(struct vt_collect *c, const struct vt_torch_history *history)
{
	const size_t *n = history->n_segments;
	size_t missing = n[VT_HISTORY_INVALID] + n[VT_HISTORY_FOREIGN] + n[VT_HISTORY_SKIPPED];

	if (missing)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "segment-history-missing",
			"the snapshot lacks the recorded backtraces of %zu segments: %zu inconsistent, %zu of another type, %zu not read (%s)",
			missing, n[VT_HISTORY_INVALID], n[VT_HISTORY_FOREIGN],
			n[VT_HISTORY_SKIPPED], history->why);
	if (n[VT_HISTORY_CHANGED])
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "segment-history-changed",
			      "%zu segments changed before their recorded backtraces could be read",
			      n[VT_HISTORY_CHANGED]);
}

bool vt_collect_history_traces(struct vt_collect *c, struct vt_trace_set *set)
{
	struct vt_collect_history *h = c->history;

	if (!h)
		return true;
	say_what_is_missing(c, &h->history);
	say_segments_missing(c, &h->history);
	if (!copy_traces(h) || !find_blocks(h, c->model->n_blocks))
		return false;
	*set = (struct vt_trace_set){
		.python = h->history.python.data,
		.n_python = h->history.python.n,
		.native = h->history.native.data,
		.n_native = h->history.native.n,
		.traces = h->traces,
		.n_traces = h->history.traces.n,
		.of_block = h->of_block,
		.of_segment = h->of_segment,
	};
	return true;
}
