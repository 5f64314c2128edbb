/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded backtraces into the model, from all recorders: every place is named once, places in
 * Python and native ones are put in order, and each block gets the recorder's trace, or otherwise
 * PyTorch's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"
#include "collect/traces.h"
#include "explain/merge.h"

#define LINES_NS (100 * VT_NS_PER_MS)
#define NO_NUMBER UINT32_MAX

struct source {
	struct vt_trace_set set;
	uint32_t first_python; /* in the places of all sources */
	uint32_t *native_at;   /* of each native place: its index among those of all sources */
	/* of each trace: its index in the model, NO_NUMBER until it is used */
	uint32_t *numbers;
};

struct vt_collect_traces {
	struct source sources[VT_N_TRACE_SOURCES];
	struct vt_native_stack native; /* all native places, as if they were a stack */
	struct vt_recorded_places places;
	bool out_of_memory;
};

static struct vt_collect_traces *traces_of(struct vt_collect *c)
{
	if (!c->traces)
		c->traces = calloc(1, sizeof(*c->traces));
	return c->traces;
}

void vt_collect_traces_deinit(struct vt_collect *c)
{
	struct vt_collect_traces *t = c->traces;

	if (!t)
		return;
	for (size_t i = 0; i < VT_N_TRACE_SOURCES; i++) {
		free(t->sources[i].native_at);
		free(t->sources[i].numbers);
	}
	vt_native_stack_deinit(&t->native);
	free(t);
	c->traces = NULL;
}

/* ---- places ---- */

static bool add_native(struct vt_collect_traces *t, struct source *s, struct vt_map *index_of)
{
	s->native_at = malloc((s->set.n_native + 1) * sizeof(*s->native_at));
	if (!s->native_at)
		return false;
	for (size_t i = 0; i < s->set.n_native; i++) {
		uint64_t pc = s->set.native[i];
		const uint64_t *known = vt_map_get(index_of, pc);

		if (!known) {
			struct vt_native_frame *frame = vt_vec_append(&t->native.frames);

			if (!frame || !vt_map_put(index_of, pc, t->native.frames.n - 1))
				return false;
			*frame = (struct vt_native_frame){ .pc = pc };
			known = vt_map_get(index_of, pc);
		}
		s->native_at[i] = (uint32_t)*known;
	}
	return true;
}

static bool make_native(struct vt_collect_traces *t)
{
	struct vt_map index_of = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < VT_N_TRACE_SOURCES; i++)
		ok = add_native(t, &t->sources[i], &index_of);
	vt_map_deinit(&index_of);
	return ok;
}

/* Source lines are omitted if something is wrong with them. */
static void find_lines(struct vt_collect *c, struct vt_native_stack *native)
{
	struct vt_native_lines *lines = NULL;
	size_t missing;
	struct vt_error *err =
		vt_native_lines_start(&c->target.modules, native, 1, LINES_NS, NULL, &lines);

	if (!err && lines)
		err = vt_native_lines_finish(lines, &c->model->arena, &missing);
	vt_native_lines_destroy(lines);
	vt_error_destroy(err);
}

/* All places in Python, as if one thread were in them one after the other. */
static bool find_places(struct vt_collect *c, struct vt_collect_traces *t)
{
	struct vt_python_thread all = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < VT_N_TRACE_SOURCES; i++) {
		const struct vt_trace_set *set = &t->sources[i].set;

		t->sources[i].first_python = (uint32_t)all.frames.n;
		ok = vt_vec_reserve(&all.frames, all.frames.n + set->n_python);
		for (size_t k = 0; ok && k < set->n_python; k++)
			all.frames.data[all.frames.n++] = (struct vt_python_frame){
				.function = set->python[k].function,
				.name = set->python[k].name,
				.file = set->python[k].file,
				.line = set->python[k].line,
			};
	}
	ok = ok && vt_recorded_places_init(&t->places, &all, &t->native, &c->model->arena);
	vt_vec_deinit(&all.frames);
	return ok;
}

/* ---- traces ---- */

static bool make_numbers(struct source *s)
{
	s->numbers = malloc((s->set.n_traces + 1) * sizeof(*s->numbers));
	if (s->numbers)
		/* NO_NUMBER */
		memset(s->numbers, 0xff, (s->set.n_traces + 1) * sizeof(*s->numbers));
	return s->numbers;
}

static bool add_trace(struct vt_collect *c, enum vt_trace_source source,
		      const struct vt_trace_in_set *from)
{
	struct vt_collect_traces *t = c->traces;
	const struct source *s = &t->sources[source];
	struct vt_model_trace *trace = vt_vec_append(&c->model->traces);
	VT_FREE uint32_t *frames =
		malloc(((size_t)from->n_python + from->n_native + 1) * sizeof(*frames));

	if (!trace || !frames)
		return false;
	for (uint32_t i = 0; i < from->n_python; i++)
		frames[i] = s->first_python + from->frames[i];
	for (uint32_t i = from->n_python; i < from->n_python + from->n_native; i++)
		frames[i] = s->native_at[from->frames[i]];
	*trace = (struct vt_model_trace){
		.source = source,
		.python_cut = from->python_cut,
		.native_cut = from->native_cut,
		.native_guess = from->native_guess,
	};
	return vt_merge_recorded(&t->places, frames, from->n_python, frames + from->n_python,
				 from->n_native, trace, &c->model->arena);
}

/* The index of a source's trace in the model, which gets it at the first call. */
static uint32_t number_trace(struct vt_collect *c, enum vt_trace_source source, uint32_t trace)
{
	struct source *s = &c->traces->sources[source];

	if (s->numbers[trace] == NO_NUMBER) {
		if (!add_trace(c, source, &s->set.traces[trace])) {
			c->traces->out_of_memory = true;
			return VT_UNTRACED(VT_UNTRACED_UNREADABLE);
		}
		s->numbers[trace] = (uint32_t)c->model->traces.n - 1;
	}
	return s->numbers[trace];
}

static void number_other(void *arg, uint32_t *trace)
{
	if (!VT_IS_UNTRACED(*trace))
		*trace = number_trace(arg, VT_TRACE_RECORDER, *trace);
}

static uint32_t trace_in(const struct vt_trace_set *set, size_t block)
{
	return set->of_block ? set->of_block[block] : VT_UNTRACED(VT_UNTRACED_NOT_RECORDED);
}

/* The recorder's trace, unless it has no backtrace and PyTorch has one. */
static uint32_t choose(struct vt_collect *c, size_t block)
{
	const struct source *s = c->traces->sources;
	uint32_t ours = trace_in(&s[VT_TRACE_RECORDER].set, block),
		 theirs = trace_in(&s[VT_TRACE_PYTORCH].set, block);

	if (!VT_IS_UNTRACED(ours))
		return number_trace(c, VT_TRACE_RECORDER, ours);
	if (!VT_IS_UNTRACED(theirs))
		return number_trace(c, VT_TRACE_PYTORCH, theirs);
	return ours == VT_UNTRACED(VT_UNTRACED_NOT_RECORDED) ? theirs : ours;
}

static bool same_place(const struct vt_python_place *a, const struct vt_python_place *b)
{
	return a->line == b->line && vt_same_text(a->function, b->function) &&
	       vt_same_text(a->file, b->file);
}

/*
 * Of one block. A code object that is gone cannot be compared; PyTorch keeps those that it
 * recorded.
 */
static bool same_python(const struct vt_trace_set *a, const struct vt_trace_in_set *x,
			const struct vt_trace_set *b, const struct vt_trace_in_set *y)
{
	uint32_t n = x->n_python < y->n_python ? x->n_python : y->n_python;

	if (x->n_python != y->n_python && !x->python_cut && !y->python_cut)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct vt_python_place *p = &a->python[x->frames[i]],
					     *q = &b->python[y->frames[i]];

		if (p->valid && q->valid && !same_place(p, q))
			return false;
	}
	return true;
}

/* If both recorded a block, they must agree about it. */
static void compare_sources(struct vt_collect *c)
{
	const struct vt_trace_set *ours = &c->traces->sources[VT_TRACE_RECORDER].set;
	const struct vt_trace_set *theirs = &c->traces->sources[VT_TRACE_PYTORCH].set;
	struct vt_model_recorder *recorder = &c->model->recorder;

	for (size_t i = 0; recorder->python && i < c->model->n_blocks; i++) {
		uint32_t a = trace_in(ours, i), b = trace_in(theirs, i);

		if (VT_IS_UNTRACED(a) || VT_IS_UNTRACED(b))
			continue;
		recorder->compared++;
		recorder->differing +=
			!same_python(ours, &ours->traces[a], theirs, &theirs->traces[b]);
	}
	if (recorder->differing)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "sources-differ",
			"PyTorch and vramtap both recorded %zu blocks; %zu of them have other Python frames in PyTorch's history; vramtap's are shown",
			recorder->compared, recorder->differing);
}

/*
 * Puts the frames of n traces behind each other, in their order, as far as they are not in number
 * yet: it has the new index of each, or NO_NUMBER.
 */
static size_t number_used(const struct vt_model_trace *traces, size_t n, size_t n_frames,
			  uint32_t *numbers, uint8_t *used, size_t next)
{
	memset(used, 0, n_frames);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < traces[i].n_frames; k++)
			used[traces[i].frames[k]] = true;
	for (size_t i = 0; i < n_frames; i++)
		if (used[i] && numbers[i] == NO_NUMBER)
			numbers[i] = (uint32_t)next++;
	return next;
}

static bool renumber(struct vt_model_trace *traces, size_t n, const uint32_t *numbers,
		     struct vt_arena *arena)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t *frames =
			vt_arena_alloc(arena, (traces[i].n_frames + 1) * sizeof(*frames));

		if (!frames)
			return false;
		for (size_t k = 0; k < traces[i].n_frames; k++)
			frames[k] = numbers[traces[i].frames[k]];
		traces[i].frames = frames;
	}
	return true;
}

/* Frames that only segments have go behind all others, which stay in order. */
static bool part_frames(struct vt_model *model, size_t n)
{
	VT_FREE uint32_t *numbers = malloc((n + 1) * sizeof(*numbers));
	VT_FREE uint8_t *used = malloc(n + 1);
	struct vt_model_frame *frames = vt_arena_alloc(&model->arena, (n + 1) * sizeof(*frames));
	size_t next;

	if (!numbers || !used || !frames)
		return false;
	memset(numbers, 0xff, (n + 1) * sizeof(*numbers)); /* NO_NUMBER */
	model->n_trace_frames =
		number_used(model->traces.data, model->traces.n, n, numbers, used, 0);
	next = number_used(model->segment_only.data, model->segment_only.n, n, numbers, used,
			   model->n_trace_frames);
	model->n_segment_frames = next;
	for (size_t i = 0; i < n; i++)
		if (numbers[i] != NO_NUMBER)
			frames[numbers[i]] = model->trace_frames[i];
	model->trace_frames = frames;
	return renumber(model->traces.data, model->traces.n, numbers, &model->arena) &&
	       renumber(model->segment_only.data, model->segment_only.n, numbers, &model->arena);
}

/* Traces behind the first n are of segments alone. */
static bool part_traces(struct vt_model *model, size_t n)
{
	size_t n_only = model->traces.n - n;

	if (n_only && !vt_vec_reserve(&model->segment_only, n_only))
		return false;
	for (size_t i = 0; i < n_only; i++)
		model->segment_only.data[model->segment_only.n++] = model->traces.data[n + i];
	model->traces.n = n;
	return true;
}

/* Only PyTorch records how segments came about. All other traces are in the model by now. */
static bool add_segments(struct vt_collect *c)
{
	const struct vt_trace_set *set = &c->traces->sources[VT_TRACE_PYTORCH].set;
	struct vt_model *model = c->model;
	uint32_t *numbers = vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*numbers));
	size_t n = model->traces.n;

	if (!numbers)
		return false;
	for (size_t i = 0; i < model->n_blocks; i++)
		numbers[i] = VT_IS_UNTRACED(set->of_segment[i]) ?
				     set->of_segment[i] :
				     number_trace(c, VT_TRACE_PYTORCH, set->of_segment[i]);
	model->segment_traces = numbers;
	return part_traces(model, n);
}

static bool add_traces(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	uint32_t *of_block =
		vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*of_block));
	const struct source *s = c->traces->sources;

	if (!of_block)
		return false;
	for (size_t i = 0; i < VT_N_TRACE_SOURCES; i++)
		if (!make_numbers(&c->traces->sources[i]))
			return false;
	for (size_t i = 0; i < model->n_blocks; i++)
		of_block[i] = choose(c, i);
	vt_collect_recorded_others(c, number_other, c);
	compare_sources(c);
	model->trace_frames = c->traces->places.frames;
	model->n_trace_frames = c->traces->places.n;
	if (s[VT_TRACE_PYTORCH].set.of_block || s[VT_TRACE_RECORDER].set.of_block)
		model->block_traces = of_block;
	if (s[VT_TRACE_PYTORCH].set.of_segment && !add_segments(c))
		return false;
	return !c->traces->out_of_memory && part_frames(model, c->traces->places.n);
}

static void forget_traces(struct vt_collect *c)
{
	c->model->traces.n = 0;
	c->model->block_traces = NULL;
	c->model->segment_traces = NULL;
	c->model->segment_only.n = 0;
	c->model->driver_blocks.n = 0;
	c->model->ooms.n = 0;
	vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "nomem",
		      "recorded backtraces are missing: not enough memory here");
}

static bool name_all(struct vt_collect *c, struct vt_collect_traces *t)
{
	struct vt_error *err;

	if (!make_native(t))
		return false;
	err = vt_native_symbolise(&c->target.modules, &t->native, 1, &c->model->arena);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_TORCH,
				      "names of native frames in recorded backtraces are missing",
				      err);
	find_lines(c, &t->native);
	return find_places(c, t) && add_traces(c);
}

void vt_collect_traces_finish(struct vt_collect *c)
{
	struct vt_collect_traces *t;

	if (!c->history && !c->recorded)
		return;
	t = traces_of(c);
	if (!t || !vt_collect_history_traces(c, &t->sources[VT_TRACE_PYTORCH].set) ||
	    !vt_collect_recorded_traces(c, &t->sources[VT_TRACE_RECORDER].set)) {
		forget_traces(c);
		return;
	}
	if (!t->sources[VT_TRACE_PYTORCH].set.of_block &&
	    !t->sources[VT_TRACE_PYTORCH].set.of_segment &&
	    !t->sources[VT_TRACE_RECORDER].set.of_block)
		return;
	if (!name_all(c, t))
		forget_traces(c);
}
