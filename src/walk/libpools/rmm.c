/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMM's pools: rmm::mr::pool_memory_resource, as RAPIDS, CuPy and PyTorch programs use it. Each is
 * read until two looks in a row see the same while no thread has its lock.
 */
#include "base/clock.h"
#include "walk/libpools/internal.h"
#include "walk/libpools/rmm.h"

#define LOOKS 32
#define PAUSE_NS 50000

struct looks {
	struct vt_libpool now, last; /* last: of the look before, or of the last one that fitted */
	bool has_last;
};

static void take_last(struct looks *l)
{
	vt_libpool_deinit(&l->last);
	l->last = l->now;
	l->now = (struct vt_libpool){ 0 };
	l->has_last = true;
}

static void drop_now(struct looks *l)
{
	vt_libpool_deinit(&l->now);
	l->now = (struct vt_libpool){ 0 };
}

/*
 * last is the pool then. Of one that changes all the time its numbers are known, or at least what
 * it has.
 */
static enum vt_rmm_outcome read_steady(const struct vt_libpools_target *target, uint64_t map,
				       struct looks *l)
{
	bool in_a_row = target->stands_still;

	for (int i = 0; i < LOOKS; i++) {
		enum vt_rmm_outcome outcome = vt_rmm_read(target->mem, map, &l->now);
		bool fits = outcome == VT_RMM_READ || outcome == VT_RMM_LOCKED;
		bool same = fits && (target->stands_still ||
				     (in_a_row && vt_libpool_is_same(&l->now, &l->last)));

		if (outcome == VT_RMM_NO_MEMORY)
			return outcome;
		if (fits || (outcome == VT_RMM_PART && !l->has_last))
			take_last(l);
		else
			drop_now(l);
		if (outcome == VT_RMM_READ && same)
			return VT_RMM_READ;
		if (target->stands_still || vt_now_ns() >= target->deadline_ns)
			break;
		in_a_row = fits;
		if (i)
			vt_sleep_ns(PAUSE_NS);
	}
	return l->has_last ? VT_RMM_LOCKED : VT_RMM_NOT_ONE;
}

/* One that has nothing, as all before their first allocation, tells nothing. */
static bool is_worth_telling(const struct vt_libpool *pool)
{
	return pool->rec.held_bytes;
}

/* Nothing changes in a process that stands still. */
static bool is_damaged(const struct vt_libpools_target *target, const struct vt_libpool *pool)
{
	return target->stands_still && !(pool->rec.known & VT_LIBPOOL_USED);
}

static struct vt_error *add(const struct vt_libpools_target *target, uint64_t map,
			    struct vt_libpools *pools)
{
	struct looks l = { 0 };
	enum vt_rmm_outcome outcome = read_steady(target, map, &l);
	struct vt_libpool *into = NULL;

	if (outcome == VT_RMM_LOCKED) {
		l.last.rec.state = is_damaged(target, &l.last) ? VT_LIBPOOL_COUNTERS :
								 VT_LIBPOOL_CHANGING;
		l.last.chunks.n = 0;
	}
	if (l.has_last && is_worth_telling(&l.last)) {
		into = vt_vec_append(&pools->pools);
		if (into) {
			*into = l.last;
			l.last = (struct vt_libpool){ 0 };
		} else {
			outcome = VT_RMM_NO_MEMORY;
		}
	}
	vt_libpool_deinit(&l.now);
	vt_libpool_deinit(&l.last);
	if (outcome == VT_RMM_NOT_ONE)
		return vt_error_create(VT_ERR_FORMAT,
				       "a pool of RMM's changed at each look, or is damaged");
	return outcome == VT_RMM_NO_MEMORY ? &vt_enomem : NULL;
}

static struct vt_error *find(const struct vt_libpools_target *target, struct vt_libpools *pools)
{
	struct vt_rmm_found found = { 0 };
	struct vt_error *why = vt_rmm_find(target, &found);

	for (size_t i = 0; i < found.maps.n; i++) {
		bool late = i && vt_now_ns() >= target->deadline_ns;
		struct vt_error *err =
			late ? vt_error_create(VT_ERR_TIMEOUT,
					       "RMM's pools were not all read in time") :
			       add(target, found.maps.data[i], pools);

		if (why)
			vt_error_destroy(err);
		else
			why = err;
		if (late)
			break;
	}
	vt_rmm_found_deinit(&found);
	return why;
}

const struct vt_libpool_walker vt_libpool_rmm = { .is_in = vt_rmm_is_in, .find = find };
