/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: totals, checks, and the diagnostics when it could not be read. */
#include "model/account.h"

static void refuse(struct vt_model_pinned *p, const char *why)
{
	p->result = VT_WALK_REFUSED;
	p->why = why;
}

/* What the totals rely on: blocks are in order, do not overlap, and have a known state. */
static const char *check_block(const struct vt_pinned_block *b, uint64_t *end)
{
	if (b->state > VT_BLOCK_CACHED)
		return "a block has no known state";
	if (b->addr < *end)
		return "two blocks overlap";
	if (b->size == 0 || __builtin_add_overflow(b->addr, b->size, end))
		return "a block has an impossible size";
	return NULL;
}

static void add_pinned(struct vt_model_amount *amount, const struct vt_pinned_block *b)
{
	amount->bytes += b->size; /* no overflow: they do not overlap */
	amount->blocks++;
}

/* All totals or none. */
static bool sum_up(struct vt_model_pinned *p)
{
	struct vt_model_pinned sums = *p;
	uint64_t end = 0;

	for (size_t i = 0; i < p->n_blocks; i++) {
		const struct vt_pinned_block *b = &p->blocks[i];
		const char *why = check_block(b, &end);

		if (why) {
			refuse(p, why);
			return false;
		}
		add_pinned(&sums.total, b);
		add_pinned(&sums.states[b->state], b);
		if (b->private_pool)
			add_pinned(&sums.private_pools, b);
		if (b->state == VT_BLOCK_CACHED && b->size > sums.largest_cached)
			sums.largest_cached = b->size;
	}
	*p = sums;
	return true;
}

static void diagnose(struct vt_model *model, const struct vt_model_pinned *p)
{
	switch (p->result) {
	case VT_WALK_UNSTABLE:
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_PINNED, "pinned-unstable",
			      "pinned host memory: %s, so %s%s", p->why,
			      p->sum_known ? "how much of it is in use is not known" :
					     "there are no totals",
			      vt_try_again(model));
		break;
	case VT_WALK_TRUNCATED:
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_PINNED, "pinned-truncated",
			      "pinned host memory is not listed: reading it stopped early (%s)",
			      p->why);
		break;
	default:
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_PINNED, "pinned-refused",
			"pinned host memory is not listed: its allocator failed a check (%s); nothing was guessed",
			p->why);
	}
}

void vt_account_pinned(struct vt_model *model)
{
	struct vt_model_pinned *p = &model->pinned;
	bool has_blocks = p->result == VT_WALK_COMPLETE || p->result == VT_WALK_UNSTABLE;

	if (!p->state || !p->object)
		return;
	if (has_blocks && sum_up(p)) {
		p->exact = p->result == VT_WALK_COMPLETE;
		p->sum_known = p->exact || p->same_blocks;
	}
	if (!p->exact)
		diagnose(model, p);
	if (p->result == VT_WALK_REFUSED || p->result == VT_WALK_TRUNCATED)
		p->n_blocks = 0;
}
