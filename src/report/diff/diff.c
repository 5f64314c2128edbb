/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/ledger.h"
#include "report/diff/diff.h"
#include "report/diff/headlines.h"
#include "report/diff/owners.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "model/account.h"
#include "base/format.h"
#include "model/place.h"

/* Two reports of one process agree on its start time, except for an NTP step of the clock. */
#define SAME_START_S 3.0

/* A file may name any number of devices; they are compared one by one. */
#define MAX_DRIVER_GROUPS 1000

/* The clock of ages may be 10 ms late and ticks every 4 ms; the JSON has milliseconds. */
#define SAME_AGE_S 0.05

enum side { BEFORE, AFTER, SIDES };

struct work {
	struct vt_diff *diff;
	const struct vt_model *models[SIDES];
	struct vt_map sites, traces, groups;
	uint64_t *frame_hashes[SIDES]; /* of each of model.trace_frames */
	/* of each of model.traces: index in diff.traces, or VT_NO_TRACE */
	size_t *traces_of[SIDES];
	bool nomem;
};

const char *vt_diff_part_name(enum vt_diff_part part)
{
	static const char *const names[VT_N_DIFF_PARTS] = {
		[VT_DIFF_ALLOCATED] = "allocated", [VT_DIFF_AWAITING] = "awaiting_free",
		[VT_DIFF_CACHED] = "cached",       [VT_DIFF_OTHER] = "everything_else",
		[VT_DIFF_FREE] = "free",
	};

	return names[part];
}

const char *vt_diff_sites_name(enum vt_diff_sites compared)
{
	static const char *const names[] = {
		[VT_DIFF_SITES_COMPARED] = "compared",
		[VT_DIFF_SITES_NEITHER] = "not-recorded",
		[VT_DIFF_SITES_AFTER] = "recorded-after-only",
		[VT_DIFF_SITES_BEFORE] = "recorded-before-only",
		[VT_DIFF_SITES_INEXACT] = "inexact",
	};

	return names[compared];
}

const char *vt_diff_owners_name(enum vt_diff_owners compared)
{
	static const char *const names[] = {
		[VT_DIFF_OWNERS_COMPARED] = "compared",
		[VT_DIFF_OWNERS_NEITHER] = "not-read",
		[VT_DIFF_OWNERS_AFTER] = "read-after-only",
		[VT_DIFF_OWNERS_BEFORE] = "read-before-only",
		[VT_DIFF_OWNERS_INEXACT] = "inexact",
	};

	return names[compared];
}

__attribute__((format(printf, 5, 6))) static void note(struct work *w, enum vt_diag_level level,
						       enum vt_stage stage, const char *code,
						       const char *format, ...)
{
	struct vt_diag *diag = vt_vec_append(&w->diff->notes);
	va_list args;

	va_start(args, format);

	char *text = vt_arena_vprintf(&w->diff->arena, format, args);

	va_end(args);
	if (!diag || !text) {
		w->diff->notes.n -= diag != NULL;
		w->nomem = true;
		return;
	}
	*diag = (struct vt_diag){ .level = level, .stage = stage, .code = code, .text = text };
}

/* ---- one process or two ---- */

static bool differ(const char *a, const char *b)
{
	return a && b && *a && *b && strcmp(a, b) != 0;
}

static double seconds_of(const struct timespec *t)
{
	return (double)t->tv_sec + (double)t->tv_nsec / 1e9;
}

static const struct vt_model_allocator *find_allocator(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == device)
			return &model->allocators.data[i];
	return NULL;
}

/* A device's allocator and context are created once and never move. */
static bool objects_differ(const struct vt_model *a, const struct vt_model *b)
{
	for (size_t i = 0; i < a->allocators.n; i++) {
		const struct vt_model_allocator *theirs =
			find_allocator(b, a->allocators.data[i].device);
		uint64_t ours = a->allocators.data[i].result.allocator;

		if (theirs && ours && theirs->result.allocator && ours != theirs->result.allocator)
			return true;
	}
	return false;
}

static bool devices_differ(const struct vt_model *a, const struct vt_model *b)
{
	for (size_t i = 0; i < a->devices.n; i++) {
		const struct vt_model_device *ours = &a->devices.data[i],
					     *theirs = vt_model_device(b, ours->ordinal);

		if (theirs && ours->have_uuid && theirs->have_uuid &&
		    memcmp(ours->uuid, theirs->uuid, sizeof(ours->uuid)) != 0)
			return true;
	}
	return false;
}

static const char *why_other(const struct vt_model *a, const struct vt_model *b)
{
	const struct vt_model_process *p = &a->process, *q = &b->process;
	bool uptimes = p->uptime_s > 0 && q->uptime_s > 0;

	if (p->pid != q->pid)
		return "the process ids differ";
	/* a core may lack the environment */
	if (p->rank >= 0 && q->rank >= 0 && p->rank != q->rank)
		return "the ranks differ";
	if (differ(p->exe, q->exe) || differ(p->cmdline, q->cmdline))
		return "the commands differ";
	if (differ(p->container, q->container))
		return "the containers differ";
	if (uptimes && fabs(seconds_of(&a->when) - p->uptime_s -
			    (seconds_of(&b->when) - q->uptime_s)) > SAME_START_S)
		return "they began at different times";
	if (objects_differ(a, b))
		return "their allocators are at different addresses";
	if (devices_differ(a, b))
		return "their GPUs differ";
	return NULL;
}

/* ---- devices ---- */

static void set_part(struct vt_diff_device *d, enum vt_diff_part part, enum side side,
		     uint64_t bytes, uint64_t blocks)
{
	struct vt_model_amount *amount = side == BEFORE ? &d->parts[part].before :
							  &d->parts[part].after;

	*amount = (struct vt_model_amount){ bytes, blocks };
}

static void fill_device(struct work *w, struct vt_diff_device *d)
{
	const struct vt_model_allocator *allocators[SIDES];
	bool known[SIDES][VT_N_DIFF_PARTS] = { { false } };
	bool inexact = false;

	for (enum side side = 0; side < SIDES; side++) {
		const struct vt_model_device *device = vt_model_device(w->models[side], d->ordinal);
		const struct vt_model_allocator *a = allocators[side] =
			find_allocator(w->models[side], d->ordinal);

		/* None before and one after: the process began to use the device. */
		bool exact = a && a->exact;

		inexact |= a && !a->exact;
		known[side][VT_DIFF_ALLOCATED] = known[side][VT_DIFF_AWAITING] =
			known[side][VT_DIFF_CACHED] = exact || !a;
		known[side][VT_DIFF_OTHER] = exact && a->other_known;
		known[side][VT_DIFF_FREE] = device && device->have_memory;
		if (exact) {
			set_part(d, VT_DIFF_ALLOCATED, side, a->allocated_bytes,
				 a->allocated_blocks);
			set_part(d, VT_DIFF_AWAITING, side, a->awaiting_bytes, a->awaiting_blocks);
			set_part(d, VT_DIFF_CACHED, side, a->cached_bytes, a->cached_blocks);
			set_part(d, VT_DIFF_OTHER, side, a->other_bytes, 0);
		}
		if (known[side][VT_DIFF_FREE])
			set_part(d, VT_DIFF_FREE, side, device->free_bytes, 0);
	}
	vt_diff_compare_ledgers(d, w->models[BEFORE], w->models[AFTER]);
	d->exact = !inexact;
	for (int i = 0; i < VT_N_DIFF_PARTS; i++)
		d->known[i] = known[BEFORE][i] && known[AFTER][i];
	if (!allocators[BEFORE] && !allocators[AFTER])
		d->known[VT_DIFF_ALLOCATED] = d->known[VT_DIFF_AWAITING] =
			d->known[VT_DIFF_CACHED] = false;
	if (inexact)
		note(w, VT_DIAG_MISSING, VT_STAGE_TORCH, "inexact",
		     "GPU %d: PyTorch's memory is not compared: its blocks are not exact in %s",
		     d->ordinal,
		     allocators[BEFORE] && !allocators[BEFORE]->exact ?
			     allocators[AFTER] && !allocators[AFTER]->exact ? "either" :
									      "the first" :
			     "the second");
}

static struct vt_diff_device *find_device(struct vt_diff *diff, int ordinal)
{
	for (size_t i = 0; i < diff->devices.n; i++)
		if (diff->devices.data[i].ordinal == ordinal)
			return &diff->devices.data[i];
	return NULL;
}

static void add_device(struct work *w, int ordinal)
{
	struct vt_diff_device *d;

	if (w->nomem || find_device(w->diff, ordinal))
		return;
	d = vt_vec_append(&w->diff->devices);
	if (!d) {
		w->nomem = true;
		return;
	}
	*d = (struct vt_diff_device){ .ordinal = ordinal };
	fill_device(w, d);
}

static int compare_devices(const void *a, const void *b)
{
	return ((const struct vt_diff_device *)a)->ordinal -
	       ((const struct vt_diff_device *)b)->ordinal;
}

static void compare_all_devices(struct work *w)
{
	for (enum side side = 0; side < SIDES; side++) {
		for (size_t i = 0; i < w->models[side]->allocators.n; i++)
			add_device(w, w->models[side]->allocators.data[i].device);
		for (size_t i = 0; i < w->models[side]->devices.n; i++)
			if (w->models[side]->devices.data[i].have_memory)
				add_device(w, w->models[side]->devices.data[i].ordinal);
	}
	if (w->diff->devices.n > 1)
		qsort(w->diff->devices.data, w->diff->devices.n, sizeof(*w->diff->devices.data),
		      compare_devices);
}

/* ---- sites ---- */

static void add_amount(struct vt_diff_amount *to, enum side side, uint64_t bytes, uint64_t blocks)
{
	struct vt_model_amount *amount = side == BEFORE ? &to->before : &to->after;

	amount->bytes += bytes;
	amount->blocks += blocks;
}

static bool hash_frames(struct work *w, enum side side)
{
	const struct vt_model *model = w->models[side];
	uint64_t *hashes = malloc((model->n_trace_frames + 1) * sizeof(*hashes));

	w->frame_hashes[side] = hashes;
	for (size_t i = 0; hashes && i < model->n_trace_frames; i++)
		hashes[i] = vt_place_hash(&model->trace_frames[i]);
	return hashes;
}

/* Sites of one hash are probed for one after the other. */
static struct vt_diff_site *site_of(struct work *w, const struct vt_model_frame *title)
{
	struct vt_diff *diff = w->diff;
	struct vt_diff_site *added;
	uint64_t hash = vt_place_hash(title);
	const uint64_t *known;

	for (; (known = vt_map_get(&w->sites, hash)) != NULL; hash++)
		if (vt_place_equal(diff->sites.data[*known].title, title))
			return &diff->sites.data[*known];
	added = vt_vec_append(&diff->sites);
	if (!added || !vt_map_put(&w->sites, hash, diff->sites.n - 1)) {
		w->nomem = true;
		return NULL;
	}
	*added = (struct vt_diff_site){ .title = title,
					.ages = VT_NO_AGES,
					.first_trace = VT_NO_TRACE };
	return added;
}

static bool same_trace(const struct vt_diff_trace *a, const struct vt_model *model,
		       const struct vt_model_trace *b)
{
	if (a->trace->n_frames != b->n_frames || a->trace->source != b->source)
		return false;
	for (size_t i = 0; i < b->n_frames; i++)
		if (!vt_place_equal(&a->model->trace_frames[a->trace->frames[i]],
				    &model->trace_frames[b->frames[i]]))
			return false;
	return true;
}

static uint64_t hash_trace(const struct work *w, enum side side, const struct vt_model_trace *t,
			   size_t site)
{
	uint64_t hash = site;

	for (size_t i = 0; i < t->n_frames; i++)
		hash = (hash ^ w->frame_hashes[side][t->frames[i]]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash;
}

static struct vt_diff_trace *trace_of(struct work *w, enum side side,
				      const struct vt_model_trace *t, size_t site)
{
	struct vt_diff *diff = w->diff;
	uint64_t hash = hash_trace(w, side, t, site);
	struct vt_diff_trace *added;
	const uint64_t *known;

	for (; (known = vt_map_get(&w->traces, hash)) != NULL; hash++) {
		added = &diff->traces.data[*known];
		if (added->site == site && same_trace(added, w->models[side], t)) {
			added->model = w->models[side];
			added->trace = t;
			return added;
		}
	}
	added = vt_vec_append(&diff->traces);
	if (!added || !vt_map_put(&w->traces, hash, diff->traces.n - 1)) {
		w->nomem = true;
		return NULL;
	}
	*added = (struct vt_diff_trace){ .model = w->models[side], .trace = t, .site = site };
	return added;
}

static void add_sites(struct work *w, enum side side)
{
	const struct vt_model *model = w->models[side];

	for (size_t i = 0; i < model->sites.n && !w->nomem; i++) {
		const struct vt_model_site *from = &model->sites.data[i];
		struct vt_diff_site *site = site_of(w, from->title);
		size_t number;

		if (!site)
			return;
		number = (size_t)(site - w->diff->sites.data);
		if (side == AFTER) {
			site->title = from->title;
			vt_add_ages(&site->ages, &from->ages);
		}
		add_amount(&site->amount, side, from->bytes, from->blocks);
		for (size_t t = from->first_trace; t != VT_NO_TRACE;
		     t = model->traces.data[t].next_in_site) {
			const struct vt_model_trace *trace = &model->traces.data[t];
			struct vt_diff_trace *added = trace_of(w, side, trace, number);

			if (!added)
				return;
			add_amount(&added->amount, side, trace->bytes, trace->blocks);
			w->traces_of[side][t] = (size_t)(added - w->diff->traces.data);
		}
	}
}

#define COMPARE(x, y)                              \
	do {                                       \
		if ((x) != (y))                    \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* The largest growth first; unchanged ones by size. */
static int compare_amounts(const struct vt_diff_amount *a, const struct vt_diff_amount *b)
{
	COMPARE(vt_diff_bytes(b), vt_diff_bytes(a));
	COMPARE(vt_diff_blocks(b), vt_diff_blocks(a));
	COMPARE(b->after.bytes, a->after.bytes);
	return 0;
}

static int compare_sites(const void *a, const void *b)
{
	const struct vt_diff_site *x = a, *y = b;
	int order = compare_amounts(&x->amount, &y->amount);

	if (order)
		return order;
	COMPARE(x->first_trace, y->first_trace);
	return 0;
}

/*
 * Indices of traces, the smallest growth first: each goes before those that are already in its
 * site.
 */
static int compare_traces(const void *pa, const void *pb, void *data)
{
	const struct vt_diff *diff = data;
	size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
	int order = compare_amounts(&diff->traces.data[b].amount, &diff->traces.data[a].amount);

	if (order)
		return order;
	COMPARE(b, a);
	return 0;
}

static void sort_sites(struct work *w)
{
	struct vt_diff *diff = w->diff;
	VT_FREE size_t *order = malloc((diff->traces.n + 1) * sizeof(*order));

	if (!order) {
		w->nomem = true;
		return;
	}
	for (size_t i = 0; i < diff->traces.n; i++)
		order[i] = i;
	if (diff->traces.n > 1)
		qsort_r(order, diff->traces.n, sizeof(*order), compare_traces, diff);
	for (size_t i = 0; i < diff->traces.n; i++) {
		struct vt_diff_trace *t = &diff->traces.data[order[i]];
		struct vt_diff_site *site = &diff->sites.data[t->site];

		t->next_in_site = site->first_trace;
		site->first_trace = order[i];
		site->n_traces++;
	}
	if (diff->sites.n > 1)
		qsort(diff->sites.data, diff->sites.n, sizeof(*diff->sites.data), compare_sites);
}

static bool is_recorded(const struct vt_model *model)
{
	return model->block_traces != NULL;
}

static enum vt_diff_sites judge_sites(const struct work *w)
{
	bool before = is_recorded(w->models[BEFORE]), after = is_recorded(w->models[AFTER]);

	if (!before && !after)
		return VT_DIFF_SITES_NEITHER;
	if (!before || !after)
		return after ? VT_DIFF_SITES_AFTER : VT_DIFF_SITES_BEFORE;
	/* An allocator that is exact in neither counts in no total. */
	for (size_t i = 0; i < w->diff->devices.n; i++) {
		const struct vt_model_allocator *a =
			find_allocator(w->models[BEFORE], w->diff->devices.data[i].ordinal);
		const struct vt_model_allocator *b =
			find_allocator(w->models[AFTER], w->diff->devices.data[i].ordinal);

		if ((a && b && a->exact != b->exact) || (!a && b && !b->exact) ||
		    (!b && a && !a->exact))
			return VT_DIFF_SITES_INEXACT;
	}
	return VT_DIFF_SITES_COMPARED;
}

/* When recording began, in seconds as of time(); 0 unknown. */
static double recorder_start(const struct vt_model *model)
{
	const struct vt_model_recorder *r = &model->recorder;

	return r->on_ns && !r->since_last ?
		       seconds_of(&model->when) - (double)r->on_ns / (double)VT_NS_PER_S :
		       0;
}

/* While recording goes on, memory that is older than the recording can only shrink. */
static bool was_interrupted(const struct work *w)
{
	const struct vt_diff_amount *unrecorded = &w->diff->untraced[VT_UNTRACED_NOT_RECORDED];
	double before = recorder_start(w->models[BEFORE]), after = recorder_start(w->models[AFTER]);

	if (w->diff->why_other || w->diff->seconds < 0)
		return false;
	return unrecorded->after.blocks > unrecorded->before.blocks ||
	       (before > 0 && after > before + SAME_START_S);
}

/* Blocks that replace blocks older than the recording look like growth. */
static void say_replaced(struct work *w)
{
	const struct vt_diff_amount *unrecorded = &w->diff->untraced[VT_UNTRACED_NOT_RECORDED];
	int64_t most = w->diff->sites.n ? vt_diff_bytes(&w->diff->sites.data[0].amount) : 0,
		less = -vt_diff_bytes(unrecorded);
	char size[VT_NUM_MAX];

	if (!w->diff->why_other && w->diff->seconds >= 0 && most > 0 && less > most / 8)
		note(w, VT_DIAG_NOTE, VT_STAGE_TORCH, "older-replaced",
		     "%s that were older than the recording, or not recorded, are gone: so much of what places seem to have got may only "
		     "have taken the place of that",
		     vt_format_size(size, (uint64_t)less));
}

static void say_samples(struct work *w)
{
	uint64_t before = w->models[BEFORE]->recorder.sample_now_bytes,
		 after = w->models[AFTER]->recorder.sample_now_bytes;

	if (before != after)
		note(w, VT_DIAG_MISSING, VT_STAGE_RECORDER, "other-samples",
		     "the recorder sampled small blocks, and different ones in each report: places of small blocks cannot be compared");
	else if (after)
		note(w, VT_DIAG_NOTE, VT_STAGE_RECORDER, "samples",
		     "the recorder samples small blocks: totals of places count recorded blocks only");
}

static void say_what_is_not_compared(struct work *w)
{
	struct vt_diff *diff = w->diff;

	switch (diff->sites_compared) {
	case VT_DIFF_SITES_NEITHER:
		note(w, VT_DIAG_NOTE, VT_STAGE_TORCH, "not-recorded",
		     "it is not known which places allocated more: neither report has backtraces; torch.cuda.memory._record_memory_history() or vramtap record PID on records them");
		break;
	case VT_DIFF_SITES_AFTER:
	case VT_DIFF_SITES_BEFORE:
		note(w, VT_DIAG_MISSING, VT_STAGE_TORCH, "recorded-in-one",
		     "it is not known which places allocated more: only the %s report has backtraces",
		     diff->sites_compared == VT_DIFF_SITES_AFTER ? "second" : "first");
		break;
	case VT_DIFF_SITES_INEXACT:
		note(w, VT_DIAG_MISSING, VT_STAGE_TORCH, "inexact-sites",
		     "places are not compared: an allocator's blocks are exact in one report only");
		break;
	case VT_DIFF_SITES_COMPARED:
		say_samples(w);
		say_replaced(w);
		if (was_interrupted(w))
			note(w, VT_DIAG_NOTE, VT_STAGE_TORCH, "recording-interrupted",
			     "recording was off for a while between the two reports, or restarted: more blocks have no backtrace, and places may seem to have freed memory that they still hold");
		break;
	}
}

static void say_owners(struct work *w)
{
	const struct vt_diff *diff = w->diff;
	const struct vt_model_owners *before = &diff->before->owners, *after = &diff->after->owners;
	const struct vt_diff_amount *unknown = &diff->categories[VT_CATEGORY_UNKNOWN];

	if (diff->owners_compared == VT_DIFF_OWNERS_AFTER ||
	    diff->owners_compared == VT_DIFF_OWNERS_BEFORE)
		note(w, VT_DIAG_NOTE, VT_STAGE_OWNERS, "owners-in-one",
		     "it is not known which variables hold more: only the %s report has the owners of blocks",
		     diff->owners_compared == VT_DIFF_OWNERS_AFTER ? "second" : "first");
	if (diff->owners_compared != VT_DIFF_OWNERS_COMPARED)
		return;
	if (before->asked != after->asked)
		note(w, VT_DIAG_NOTE, VT_STAGE_OWNERS, "owners-asked-in-one",
		     "the process was asked for the owners of the %s report, those of the other were read: a variable that seems to hold more may have had another name",
		     after->asked ? "second" : "first");
	else if (!before->asked && (!before->whole || !after->whole))
		note(w, VT_DIAG_NOTE, VT_STAGE_OWNERS, "owners-not-whole",
		     "not all objects were read for %s report: variables may hold more than it says, and what seems to have changed may be what was not read",
		     before->whole ? "the second" :
		     after->whole  ? "the first" :
				     "either");
	if ((before->ran && unknown->before.bytes) || (after->ran && unknown->after.bytes))
		note(w, VT_DIAG_NOTE, VT_STAGE_OWNERS, "owners-ran",
		     "the process ran while owners were read: blocks that came or went in these moments have none");
}

static void compare_all_sites(struct work *w)
{
	struct vt_diff *diff = w->diff;

	diff->sites_compared = judge_sites(w);
	for (enum side side = 0; side < SIDES && !w->nomem; side++) {
		size_t n = w->models[side]->traces.n;

		w->traces_of[side] = malloc((n + 1) * sizeof(*w->traces_of[side]));
		if (!w->traces_of[side] || !hash_frames(w, side)) {
			w->nomem = true;
			return;
		}
		/* VT_NO_TRACE */
		memset(w->traces_of[side], 0xff, (n + 1) * sizeof(*w->traces_of[side]));
		if (diff->sites_compared != VT_DIFF_SITES_INEXACT)
			add_sites(w, side);
	}
	for (size_t i = 0; i < VT_N_UNTRACED && diff->sites_compared == VT_DIFF_SITES_COMPARED; i++)
		diff->untraced[i] = (struct vt_diff_amount){ w->models[BEFORE]->untraced[i],
							     w->models[AFTER]->untraced[i] };
}

/* ---- groups ---- */

static struct vt_diff_group *group_of(struct work *w, const struct vt_model_group *g)
{
	struct vt_diff *diff = w->diff;
	uint64_t hash = (g->stream ^ (uint64_t)g->device << 56) * UINT64_C(0x9e3779b97f4a7c15) ^
			g->size * UINT64_C(0xc2b2ae3d27d4eb4f);
	struct vt_diff_group *group;
	const uint64_t *known;

	for (; (known = vt_map_get(&w->groups, hash)) != NULL; hash++) {
		group = &diff->groups.data[*known];
		if (group->device == g->device && group->stream == g->stream &&
		    group->size == g->size)
			return group;
	}
	group = vt_vec_append(&diff->groups);
	if (!group || !vt_map_put(&w->groups, hash, diff->groups.n - 1)) {
		w->nomem = true;
		return NULL;
	}
	*group =
		(struct vt_diff_group){ .device = g->device, .stream = g->stream, .size = g->size };
	return group;
}

static int compare_groups(const void *a, const void *b)
{
	const struct vt_diff_group *x = a, *y = b;
	int order = compare_amounts(&x->amount, &y->amount);

	if (order)
		return order;
	COMPARE(x->device, y->device);
	COMPARE(x->stream, y->stream);
	COMPARE(x->size, y->size);
	return 0;
}

static void compare_all_groups(struct work *w)
{
	struct vt_diff *diff = w->diff;

	for (enum side side = 0; side < SIDES; side++) {
		for (size_t i = 0; i < w->models[side]->groups.n && !w->nomem; i++) {
			const struct vt_model_group *from = &w->models[side]->groups.data[i];
			const struct vt_diff_device *device = find_device(diff, from->device);
			struct vt_diff_group *group;

			if (from->state != VT_BLOCK_ALLOCATED || !device || !device->exact)
				continue;
			group = group_of(w, from);
			if (group)
				add_amount(&group->amount, side, from->bytes, from->blocks);
		}
	}
	if (diff->groups.n > 1)
		qsort(diff->groups.data, diff->groups.n, sizeof(*diff->groups.data),
		      compare_groups);
}

/* ---- the driver's ---- */

static bool same_driver(const struct vt_model_driver_group *a,
			const struct vt_model_driver_group *b)
{
	return a->device == b->device && a->kind == b->kind &&
	       !differ(a->library ? a->library : "?", b->library ? b->library : "?");
}

static int compare_driver(const void *a, const void *b)
{
	return compare_amounts(&((const struct vt_diff_driver *)a)->amount,
			       &((const struct vt_diff_driver *)b)->amount);
}

/* There are only a few libraries, and one group for each. */
static void compare_all_driver(struct work *w)
{
	struct vt_diff *diff = w->diff;

	if (!w->models[BEFORE]->recorder.driver || !w->models[AFTER]->recorder.driver)
		return;
	for (enum side side = 0; side < SIDES; side++) {
		for (size_t i = 0; i < w->models[side]->driver_groups.n; i++) {
			const struct vt_model_driver_group *group =
				&w->models[side]->driver_groups.data[i];
			struct vt_diff_driver *d = NULL;

			for (size_t k = 0; k < diff->driver.n && !d; k++)
				if (same_driver(diff->driver.data[k].group, group))
					d = &diff->driver.data[k];
			if (!d && diff->driver.n == MAX_DRIVER_GROUPS)
				continue;
			if (!d) {
				d = vt_vec_append(&diff->driver);
				if (!d) {
					w->nomem = true;
					return;
				}
				*d = (struct vt_diff_driver){ 0 };
			}
			d->group = group;
			add_amount(&d->amount, side, group->bytes, group->blocks);
		}
	}
	if (diff->driver.n > 1)
		qsort(diff->driver.data, diff->driver.n, sizeof(*diff->driver.data),
		      compare_driver);
}

/* ---- blocks that are in both ---- */

/* Index in diff.traces; blocks without one differ by reason. */
static size_t trace_of_block(const struct work *w, enum side side, size_t block)
{
	const struct vt_model *model = w->models[side];
	uint32_t trace = is_recorded(model) ? model->block_traces[block] :
					      VT_UNTRACED(VT_UNTRACED_NOT_RECORDED);

	return VT_IS_UNTRACED(trace) ? VT_NO_TRACE - 1 - (UINT32_MAX - trace) :
				       w->traces_of[side][trace];
}

enum kept { NEWER, CERTAIN, POSSIBLE };

/*
 * Whether the block at an address is still the same block: it is if it existed when the first
 * report was made. vramtap's recorder sees every new block, so a block without a record is older
 * than the recording.
 */
static enum kept is_kept(const struct work *w, size_t block)
{
	const struct vt_model *after = w->models[AFTER];
	const struct vt_model_record *record = vt_model_block_record(after, block);
	const struct vt_model_recorder *r = &after->recorder;
	double start = recorder_start(after);

	if (w->diff->seconds < 0 || r->since_last)
		return POSSIBLE;
	if (record)
		return (double)record->age_ns / (double)VT_NS_PER_S >
				       w->diff->seconds - SAME_AGE_S ?
			       CERTAIN :
			       NEWER;
	if (start > 0 && start < seconds_of(&w->models[BEFORE]->when) && !r->sample_now_bytes &&
	    after->block_traces &&
	    after->block_traces[block] == VT_UNTRACED(VT_UNTRACED_NOT_RECORDED))
		return CERTAIN;
	return POSSIBLE;
}

static void keep_block(struct work *w, size_t block, size_t trace)
{
	struct vt_diff *diff = w->diff;
	uint64_t size = w->models[AFTER]->blocks[block].size;
	enum kept kept = is_kept(w, block);

	if (kept == NEWER)
		return;
	diff->kept_certain &= kept == CERTAIN;
	diff->kept.bytes += size;
	diff->kept.blocks++;
	if (trace >= diff->traces.n)
		return;
	diff->kept_traced++;
	diff->traces.data[trace].kept.bytes += size;
	diff->traces.data[trace].kept.blocks++;
	diff->sites.data[diff->traces.data[trace].site].kept.bytes += size;
	diff->sites.data[diff->traces.data[trace].site].kept.blocks++;
}

/* A place has no name if its code object was freed after it was recorded. */
static bool has_lost_names(const struct vt_model *model, const struct vt_model_trace *t)
{
	for (size_t i = 0; i < t->n_frames; i++) {
		const char *function = model->trace_frames[t->frames[i]].function;

		if (function && !strncmp(function, VT_FREED_CODE, sizeof(VT_FREED_CODE) - 1))
			return true;
	}
	return false;
}

/*
 * Whether blocks with one address and size but different backtraces may still be one block: the
 * second report has no backtrace for it any more (recording was off in between), or one from
 * another source, or one without names.
 */
static void note_unsure(struct work *w, size_t was, size_t is)
{
	const struct vt_model *before = w->models[BEFORE], *after = w->models[AFTER];
	size_t trace = trace_of_block(w, BEFORE, was);
	uint32_t now = is_recorded(after) ? after->block_traces[is] :
					    VT_UNTRACED(VT_UNTRACED_NOT_RECORDED);

	if (trace >= w->diff->traces.n || is_kept(w, is) == NEWER)
		return;
	if (VT_IS_UNTRACED(now) ||
	    after->traces.data[now].source !=
		    before->traces.data[before->block_traces[was]].source ||
	    has_lost_names(after, &after->traces.data[now]))
		w->diff->sites.data[w->diff->traces.data[trace].site].unsure++;
}

/* Blocks in use of devices that are exact, by address. */
static bool index_blocks(struct work *w, struct vt_map *by_address)
{
	const struct vt_model *model = w->models[BEFORE];

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		for (size_t b = a->first_block; a->exact && b < a->first_block + a->n_blocks; b++)
			if (model->blocks[b].state == VT_BLOCK_ALLOCATED &&
			    !vt_map_put(by_address, model->blocks[b].addr, b))
				return false;
	}
	return true;
}

static void find_kept(struct work *w, const struct vt_map *by_address)
{
	const struct vt_model *before = w->models[BEFORE], *after = w->models[AFTER];

	for (size_t i = 0; i < after->allocators.n; i++) {
		const struct vt_model_allocator *a = &after->allocators.data[i];

		for (size_t b = a->first_block; a->exact && b < a->first_block + a->n_blocks; b++) {
			const struct vt_block_rec *block = &after->blocks[b], *was;
			const uint64_t *found = block->state == VT_BLOCK_ALLOCATED ?
							vt_map_get(by_address, block->addr) :
							NULL;

			if (!found)
				continue;
			was = &before->blocks[*found];
			if (was->size != block->size || was->device != block->device ||
			    was->requested != block->requested)
				continue;
			if (trace_of_block(w, BEFORE, *found) == trace_of_block(w, AFTER, b))
				keep_block(w, b, trace_of_block(w, AFTER, b));
			else
				note_unsure(w, *found, b);
		}
	}
}

static void compare_all_blocks(struct work *w)
{
	struct vt_map by_address = { 0 };

	if (w->diff->why_other || w->diff->sites_compared == VT_DIFF_SITES_INEXACT ||
	    !w->models[BEFORE]->blocks || !w->models[AFTER]->blocks)
		return;
	w->diff->kept_certain = true;
	if (index_blocks(w, &by_address))
		find_kept(w, &by_address);
	else
		w->nomem = true;
	w->diff->kept_known = true;
	vt_map_deinit(&by_address);
}

static void judge(struct vt_diff *diff)
{
	bool known = false;

	for (size_t i = 0; i < diff->devices.n; i++)
		for (int p = 0; p < VT_N_DIFF_PARTS; p++)
			known |= diff->devices.data[i].known[p];
	diff->completeness = known ? VT_COMPLETE : VT_NOTHING;
	for (size_t i = 0; i < diff->notes.n && known; i++)
		if (diff->notes.data[i].level == VT_DIAG_MISSING)
			diff->completeness = VT_PARTIAL;
}

struct vt_error *vt_diff_create(struct vt_diff *diff, const struct vt_model *before,
				const struct vt_model *after)
{
	struct work w = { .diff = diff, .models = { before, after } };

	*diff = (struct vt_diff){
		.before = before,
		.after = after,
		.why_other = why_other(before, after),
		.seconds = seconds_of(&after->when) - seconds_of(&before->when),
	};
	compare_all_devices(&w);
	if (!w.nomem)
		compare_all_sites(&w);
	if (!w.nomem)
		compare_all_groups(&w);
	if (!w.nomem)
		compare_all_driver(&w);
	if (!w.nomem)
		compare_all_blocks(&w);
	if (!w.nomem)
		w.nomem = !vt_diff_compare_owners(diff);
	if (!w.nomem)
		sort_sites(&w);
	if (!w.nomem) {
		say_what_is_not_compared(&w);
		say_owners(&w);
		w.nomem = !vt_diff_make_headlines(diff);
		judge(diff);
	}
	for (enum side side = 0; side < SIDES; side++) {
		free(w.frame_hashes[side]);
		free(w.traces_of[side]);
	}
	vt_map_deinit(&w.sites);
	vt_map_deinit(&w.traces);
	vt_map_deinit(&w.groups);
	if (!w.nomem)
		return NULL;
	vt_diff_deinit(diff);
	return &vt_enomem;
}

void vt_diff_deinit(struct vt_diff *diff)
{
	vt_vec_deinit(&diff->devices);
	vt_vec_deinit(&diff->sites);
	vt_vec_deinit(&diff->traces);
	vt_vec_deinit(&diff->groups);
	vt_vec_deinit(&diff->driver);
	vt_vec_deinit(&diff->owners);
	vt_keepers_deinit(&diff->keepers[0]);
	vt_keepers_deinit(&diff->keepers[1]);
	vt_vec_deinit(&diff->headlines);
	vt_vec_deinit(&diff->notes);
	vt_arena_deinit(&diff->arena);
}
