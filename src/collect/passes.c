/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads PyTorch's allocator without a stop. A pass shows one moment if the allocator's statistics
 * show that nothing happened during it (walk/torch/walk.c, struct mark); if they are not
 * conclusive, if two passes agree. Otherwise it is tried again, best when the process is busy with
 * something else.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/outside.h"

#define PASS_NS (2 * VT_NS_PER_S)
/*
 * A pass begins when the statistics have not changed for this long, or after this long in any case.
 */
#define QUIET_NS (VT_NS_PER_MS / 5)
#define NOT_QUIET_NS (50 * VT_NS_PER_MS)
#define REHEARSALS 3
#define BLOCK_NS 200 /* to read one; measured: 100 to 270 */
/*
 * So many operations are to be expected during a pass: then it would succeed once in fifty times,
 * if they came at random.
 */
#define HOPELESS 4
#define LOOK_NS (5 * VT_NS_PER_MS) /* for the next operation, at most */
/* are read while the target stands still before it could be asked for anything */
#define FEW_BLOCKS 500

struct pass {
	struct vt_torch_device_result result;
	struct vt_outside_sink sink;
};

static void wait_until_quiet(struct vt_collect *c, uint64_t dca, uint64_t deadline_ns)
{
	struct vt_memsrc *src = c->target.mem;
	uint64_t end = vt_now_ns() + NOT_QUIET_NS;
	uint8_t before[2 * sizeof(struct vt_torch_stat)] = { 0 }, now[sizeof(before)];

	for (bool first = true; vt_now_ns() < end && vt_now_ns() < deadline_ns; first = false) {
		if (vt_mem_read(src, dca + c->torch.layout.stats, now, sizeof(now)))
			return;
		if (!first && !memcmp(before, now, sizeof(now)))
			return;
		memcpy(before, now, sizeof(now));
		vt_sleep_ns(QUIET_NS);
	}
}

/* One device, read until the result is certain, or time runs out. */
struct reading {
	struct vt_collect *c;
	struct vt_outside_device *device;
	int ordinal;
	uint64_t deadline_ns;
	unsigned int at_least, at_most; /* tries; at_least: even if the time is over */
	/*
	 * Each try waits for a quiet moment. Otherwise the one after a consistent read comes at
	 * once, and may agree.
	 */
	bool always_quiet;
	bool (*try)(struct reading *r);      /* true: it is certain, or will not become more so */
	struct pass passes[3], *best, *last; /* of settling */
};

static void read_until_certain(struct reading *r)
{
	bool wait = r->always_quiet;

	for (unsigned int i = 0; i < r->at_most; i++) {
		if (i >= r->at_least && vt_deadline_passed(r->deadline_ns))
			return;
		if (wait)
			wait_until_quiet(r->c, r->device->dca, r->deadline_ns);
		if (r->try(r))
			return;
		wait = r->always_quiet || r->device->result.result != VT_WALK_COMPLETE;
	}
}

/* ---- before the stop ---- */

/*
 * Whether the allocator is too busy for a pass, now as since the report began. (One that was busy
 * and rests now is not: that is when a training step waits for the GPU.)
 */
static bool is_hopeless(const struct reading *r)
{
	const struct vt_outside_count *first = &r->device->operations;
	uint64_t pass_ns = (uint64_t)r->device->expected * BLOCK_NS;
	struct vt_outside_count now = vt_outside_operations(r->c, r->device->dca);

	if (!first->when_ns || now.when_ns <= first->when_ns || now.n <= first->n)
		return false;

	uint64_t each_ns = (now.when_ns - first->when_ns) / (now.n - first->n);

	if (each_ns > pass_ns / HOPELESS)
		return false;
	/* There is no operation for so long in one of fifty cases. */
	vt_sleep_ns(each_ns < LOOK_NS / HOPELESS ? HOPELESS * each_ns + QUIET_NS : LOOK_NS);
	return vt_outside_operations(r->c, r->device->dca).n != now.n;
}

/* The current result will not become more certain, a thread keeps the lock, or it is in vain. */
static bool rehearse_once(struct reading *r)
{
	if (is_hopeless(r))
		return true;
	vt_outside_read(r->c, r->device, r->ordinal, r->deadline_ns);
	return !r->device->result.why[0] || r->device->result.lock == VT_LOCK_HELD_BY;
}

void vt_outside_rehearse(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
			 uint64_t deadline_ns)
{
	struct reading r = {
		.c = c,
		.device = device,
		.ordinal = ordinal,
		.deadline_ns = deadline_ns,
		.at_most = REHEARSALS,
		.always_quiet = true,
		.try = rehearse_once,
	};

	if (device->expected > FEW_BLOCKS)
		read_until_certain(&r);
}

/* ---- without a stop ---- */

static void make_pass(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
		      struct pass *pass)
{
	vt_outside_read(c, device, ordinal, vt_now_ns() + PASS_NS);
	pass->sink.n = 0;
	if (device->walk)
		vt_torch_walk_finish(device->walk, &pass->sink.sink);
	device->walk = NULL;
	device->passes++;
	pass->result = device->result;
	pass->sink.n = pass->result.blocks;
}

static bool is_same_pass(const struct pass *a, const struct pass *b)
{
	return a->result.result == b->result.result && a->result.owner_tid == b->result.owner_tid &&
	       a->result.blocks == b->result.blocks && a->result.dropped == b->result.dropped &&
	       !memcmp(&a->result.stats, &b->result.stats, sizeof(a->result.stats)) &&
	       !(a->sink.n &&
		 memcmp(a->sink.records, b->sink.records, a->sink.n * sizeof(*a->sink.records)));
}

/* The better of two passes that are not exact. */
static bool is_better(const struct pass *a, const struct pass *b)
{
	static const int rank[] = {
		[VT_WALK_COMPLETE] = 3,
		[VT_WALK_UNSTABLE] = 2,
		[VT_WALK_TRUNCATED] = 1,
		[VT_WALK_REFUSED] = 0,
	};

	if (a->result.result != b->result.result)
		return rank[a->result.result] > rank[b->result.result];
	return a->result.dropped <= b->result.dropped;
}

/*
 * Whether the result is known; last: the previous pass, NULL for the first. A result that repeats
 * does not change, even if it is inconsistent: then a thread is in the middle of an operation, and
 * stays there.
 */
static bool is_settled(struct vt_outside_device *device, const struct pass *now,
		       const struct pass *last)
{
	if (now->result.certain)
		device->consistency = VT_CONSISTENT_UNCHANGED;
	else if (!last || !is_same_pass(now, last))
		return false;
	else if (now->result.result == VT_WALK_COMPLETE)
		device->consistency = VT_CONSISTENT_REPEATED;
	return true;
}

static bool append(struct vt_outside_sink *sink, const struct pass *pass)
{
	struct vt_block_rec *room = pass->sink.n ? sink->sink.reserve(&sink->sink, pass->sink.n) :
						   NULL;

	if (room)
		memcpy(room, pass->sink.records, pass->sink.n * sizeof(*room));
	return room || !pass->sink.n;
}

static bool settle_once(struct reading *r)
{
	struct pass *now = r->passes;
	bool settled;

	while (now == r->best || now == r->last)
		now++;
	make_pass(r->c, r->device, r->ordinal, now);
	settled = is_settled(r->device, now, r->last);
	if (settled || !r->best || is_better(now, r->best))
		r->best = now;
	r->last = now;
	return settled;
}

void vt_outside_settle(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
		       uint64_t deadline_ns, struct vt_outside_sink *sink)
{
	/*
	 * The second may succeed where the first did not, even for a device whose turn comes late.
	 */
	struct reading r = {
		.c = c,
		.device = device,
		.ordinal = ordinal,
		.deadline_ns = deadline_ns,
		.at_least = 2,
		.at_most = UINT_MAX,
		.try = settle_once,
	};
	const struct pass *best;

	for (size_t i = 0; i < 3; i++)
		vt_outside_sink_init(&r.passes[i].sink);
	read_until_certain(&r);
	best = r.best;
	device->result = best->result;
	if (best->result.result == VT_WALK_COMPLETE && device->consistency == VT_CONSISTENT_NOT) {
		device->result.result = VT_WALK_UNSTABLE;
		snprintf(device->result.why, sizeof(device->result.why), "no two passes agree");
	}
	if (!append(sink, best)) {
		device->result.result = VT_WALK_TRUNCATED;
		device->result.blocks = 0;
		snprintf(device->result.why, sizeof(device->result.why), "not enough memory here");
	}
	for (size_t i = 0; i < 3; i++)
		free(r.passes[i].sink.records);
}
