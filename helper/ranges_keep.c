/* SPDX-License-Identifier: Apache-2.0 */
/* What a walk of the driver's addresses asks, and what it keeps of the answers. */
#include "vramtap/freestanding.h"

#include "context.h"
#include "ops.h"
#include "ranges.h"

/* ---- questions ---- */

int vt_helper_walk_ask(struct vt_ranges_walk *w, uint64_t at, struct vt_range_rec *rec)
{
	w->answer->probes++;
	return vt_helper_what_is_at(&w->probe, at, rec);
}

int vt_helper_walk_is_over(struct vt_ranges_walk *w)
{
	uint64_t probes = w->answer->probes;

	if (probes >= w->args.max_probes)
		return 1;
	if (probes < w->next_look)
		return 0;
	w->next_look = probes + VT_PROBES_PER_LOOK;
	return vt_sys_now_ns() > w->deadline_ns;
}

/* ---- what was found ---- */

/*
 * A pool is asked as soon as an allocation of it is known: as long as one is alive, the driver
 * keeps the pool, even if the process destroys it meanwhile.
 */
static void note_pool(struct vt_ranges_walk *w, const struct vt_range_rec *rec)
{
	struct vt_ranges_answer *answer = w->answer;
	struct vt_found_pool *found;
	struct vt_range_rec again;

	for (uint32_t i = 0; i < answer->n_pools && i < VT_MAX_FOUND_POOLS; i++)
		if (answer->pools[i].pool.handle == rec->pool)
			return;
	if (!answer->asked_pools || answer->n_pools >= VT_MAX_FOUND_POOLS)
		return;
	if (!vt_helper_what_is_at(&w->probe, rec->start, &again) || again.pool != rec->pool)
		return;
	found = &answer->pools[answer->n_pools];
	found->device = rec->device;
	vt_helper_read_pool(w->probe.shared, rec->pool, &found->pool);
	found->pool.handle = rec->pool;
	__atomic_store_n(&answer->n_pools, answer->n_pools + 1, __ATOMIC_RELEASE);
}

int vt_helper_walk_keep(struct vt_ranges_walk *w, const struct vt_range_rec *rec)
{
	const struct vt_range_rec *last = w->answer->n_ranges ? &w->out[w->answer->n_ranges - 1] :
								NULL;

	/* Two areas can be parts of one allocation. */
	if (last && last->start == rec->start && last->kind == rec->kind)
		return 1;
	if (w->answer->n_ranges >= w->max)
		return 0;
	w->out[w->answer->n_ranges] = *rec;
	__atomic_store_n(&w->answer->n_ranges, w->answer->n_ranges + 1, __ATOMIC_RELEASE);
	if (rec->kind == VT_RANGE_POOL)
		note_pool(w, rec);
	return 1;
}
