/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is there, but in pieces. What a setting would have given is computed from the blocks
 * of this moment: from where they lie now, not from how they came to lie so.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "advise/internal.h"
#include "advise/simulate.h"

#define MIB (UINT64_C(1) << 20)

static void add_pinning(struct vt_model_advice *advice, const struct vt_simulated *s)
{
	vt_advise_number(advice, "pinning_blocks", s->pinning_blocks);
	vt_advise_number(advice, "pinning_bytes", s->pinning_bytes);
}

/* PyTorch 2.0 does not start with it: "Unrecognized CachingAllocator option". */
static bool knows_expandable(const struct vt_model *model)
{
	const char *version = model->versions.torch;
	unsigned long major, minor = 0;
	char *end;

	if (!version || *version < '0' || *version > '9')
		return false;
	major = strtoul(version, &end, 10);
	if (*end == '.')
		minor = strtoul(end + 1, NULL, 10);
	return major > 2 || (major == 2 && minor >= 1);
}

/* The first that is sure to have helped. */
static void add_remedy(struct vt_advise *a, struct vt_model_advice *advice,
		       const struct vt_simulated *s)
{
	if (s->pages_suffice && knows_expandable(a->model)) {
		vt_advise_number(advice, "joined_bytes", s->joined_bytes);
		vt_advise_setting(a, advice, "expandable_segments:True");
		return;
	}
	if (!s->split_mb) {
		vt_advise_remedy(advice, VT_REMEDY_LIFETIMES);
		return;
	}
	vt_advise_number(advice, "split_size_bytes", s->split_mb * MIB);
	vt_advise_number(advice, "unsplit_bytes", s->unsplit_bytes);
	vt_advise_number(advice, "unsplit_segments", s->unsplit_segments);
	vt_advise_remedy(advice, VT_REMEDY_MAX_SPLIT_SIZE);
	vt_advise_setting(a, advice, "max_split_size_mb:%" PRIu64, s->split_mb);
}

/* The request that failed, and the holes that could not serve it: model/oom.c found them. */
void vt_advise_fragmented(struct vt_advise *a)
{
	const struct vt_model_caught *c = &a->model->caught;
	const struct vt_model_allocator *allocator;
	struct vt_model_advice *advice;
	struct vt_simulated s;

	if (!c->oom || c->verdict != VT_OOM_FRAGMENTED)
		return;
	allocator = vt_advise_allocator(a->model, c->oom->device);
	if (!allocator)
		return;
	vt_advise_simulate(a->model, allocator, c->needed_bytes, c->oom->free_bytes, &s);
	advice = vt_advise_add(a, c->oom->device);
	vt_advise_number(advice, "needed_bytes", c->needed_bytes);
	vt_advise_number(advice, "holes_bytes", c->holes.bytes);
	vt_advise_number(advice, "holes", c->holes.blocks);
	vt_advise_number(advice, "largest_hole_bytes", c->largest_hole);
	vt_advise_number(advice, "free_bytes", c->oom->free_bytes);
	add_pinning(advice, &s);
	add_remedy(a, advice, &s);
}

/* A block is large enough, but not for this request. */
void vt_advise_elsewhere(struct vt_advise *a)
{
	const struct vt_model_caught *c = &a->model->caught;
	const struct vt_model_allocator *allocator;
	struct vt_model_advice *advice;
	struct vt_simulated s;
	char stream[32];

	if (!c->oom || c->verdict != VT_OOM_ELSEWHERE)
		return;
	allocator = vt_advise_allocator(a->model, c->oom->device);
	if (!allocator)
		return;
	vt_advise_simulate(a->model, allocator, c->needed_bytes, c->oom->free_bytes, &s);
	advice = vt_advise_add(a, c->oom->device);
	vt_advise_number(advice, "needed_bytes", c->needed_bytes);
	vt_advise_number(advice, "free_bytes", c->oom->free_bytes);
	if (c->largest_hole < c->needed_bytes) {
		vt_advise_number(advice, "private_cached_bytes", allocator->private_cached_bytes);
		vt_advise_remedy(advice, VT_REMEDY_SHARE_POOL);
		return;
	}
	snprintf(stream, sizeof(stream), "0x%" PRIx64, c->largest_hole_stream);
	vt_advise_number(advice, "largest_hole_bytes", c->largest_hole);
	vt_advise_text(a, advice, "stream", c->largest_hole_stream ? stream : "default");
	if (s.pages_suffice && knows_expandable(a->model)) {
		vt_advise_number(advice, "joined_bytes", s.joined_bytes);
		vt_advise_remedy(advice, VT_REMEDY_EXPANDABLE_SEGMENTS);
		vt_advise_setting(a, advice, "expandable_segments:True");
	}
}

/* PyTorch had to give back its cache and ask again, and the device is full; or an error was met. */
static bool is_short(const struct vt_model *model, const struct vt_model_allocator *allocator,
		     const struct vt_simulated *s)
{
	const struct vt_torch_stats *stats = &allocator->result.stats;

	if (stats->num_ooms > 0)
		return s->hole_bytes >= allocator->reserved_bytes / 2 &&
		       s->largest_hole <= s->hole_bytes / 2;
	return stats->num_alloc_retries > 0 && vt_advise_is_full(model, allocator->device) &&
	       s->largest_hole <= s->hole_bytes / 8;
}

/* Without a request that is known: what is cached lies between blocks in use. */
void vt_advise_cache_in_pieces(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *allocator = &model->allocators.data[i];
		const struct vt_model_device *d = vt_model_device(model, allocator->device);
		const struct vt_torch_stats *stats = &allocator->result.stats;
		struct vt_model_advice *advice;
		struct vt_simulated s;

		if (!allocator->exact || !allocator->result.have_stats || !d || !d->have_memory ||
		    (model->caught.oom && model->caught.oom->device == d->ordinal))
			continue;
		vt_advise_simulate(model, allocator, 0, 0, &s);
		if (s.hole_bytes < d->total_bytes / 10 || !is_short(model, allocator, &s))
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "holes_bytes", s.hole_bytes);
		vt_advise_number(advice, "holes", s.holes);
		vt_advise_number(advice, "largest_hole_bytes", s.largest_hole);
		if (stats->num_alloc_retries > 0)
			vt_advise_number(advice, "retries", (uint64_t)stats->num_alloc_retries);
		if (stats->num_ooms > 0)
			vt_advise_number(advice, "errors", (uint64_t)stats->num_ooms);
		add_pinning(advice, &s);
		if (s.joined_bytes >= s.hole_bytes / 2 && !s.expandable &&
		    knows_expandable(model)) {
			vt_advise_number(advice, "joined_bytes", s.joined_bytes);
			vt_advise_setting(a, advice, "expandable_segments:True");
		} else {
			vt_advise_remedy(advice, VT_REMEDY_LIFETIMES);
		}
	}
}
