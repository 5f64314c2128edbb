/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator read without a stop. A pass is of one moment when the allocator's statistics say that nothing happened
 * meanwhile (walk/torch/walk.c, struct mark); where they cannot say so for certain, when two passes give the same. Else it is tried
 * again, best when the process is busy with something else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/outside.h"

#define PASS_NS (2 * VT_NS_PER_S)
/* A pass is begun when the statistics did not move for so long, or after so long in any case. */
#define QUIET_NS (VT_NS_PER_MS / 5)
#define NOT_QUIET_NS (50 * VT_NS_PER_MS)
#define REHEARSALS 3
#define FEW_BLOCKS 500 /* are read while the target stands still before it could be asked for anything */

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

void vt_outside_rehearse(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns)
{
	if (device->expected <= FEW_BLOCKS)
		return;
	for (int i = 0; i < REHEARSALS && !vt_deadline_passed(deadline_ns); i++) {
		wait_until_quiet(c, device->dca, deadline_ns);
		vt_outside_read(c, device, ordinal, deadline_ns);
		/* What can be said now will not become more certain, or somebody keeps the lock. */
		if (!device->result.why[0] || device->result.lock == VT_LOCK_HELD_BY)
			break;
	}
}

static void make_pass(struct vt_collect *c, struct vt_outside_device *device, int ordinal, struct pass *pass)
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

static bool is_same(const struct pass *a, const struct pass *b)
{
	return a->result.result == b->result.result && a->result.owner_tid == b->result.owner_tid &&
	       a->result.blocks == b->result.blocks && a->result.dropped == b->result.dropped &&
	       !memcmp(&a->result.stats, &b->result.stats, sizeof(a->result.stats)) &&
	       !(a->sink.n && memcmp(a->sink.records, b->sink.records, a->sink.n * sizeof(*a->sink.records)));
}

/* Of two passes that are not exact, which one tells more. */
static bool is_better(const struct pass *a, const struct pass *b)
{
	static const int rank[] = {
		[VT_WALK_COMPLETE] = 3, [VT_WALK_UNSTABLE] = 2, [VT_WALK_TRUNCATED] = 1, [VT_WALK_REFUSED] = 0,
	};

	if (a->result.result != b->result.result)
		return rank[a->result.result] > rank[b->result.result];
	return a->result.dropped <= b->result.dropped;
}

/*
 * Whether it is known what to show; last: the pass before, NULL for the first. What is the same twice in a row does not change, also
 * when it is not in order: then somebody is in the middle of an operation, and stays there.
 */
static bool is_settled(struct vt_outside_device *device, const struct pass *now, const struct pass *last)
{
	if (now->result.certain)
		device->consistency = VT_CONSISTENT_UNCHANGED;
	else if (!last || !is_same(now, last))
		return false;
	else if (now->result.result == VT_WALK_COMPLETE)
		device->consistency = VT_CONSISTENT_REPEATED;
	return true;
}

static bool append(struct vt_outside_sink *sink, const struct pass *pass)
{
	struct vt_block_rec *room = pass->sink.n ? sink->sink.reserve(&sink->sink, pass->sink.n) : NULL;

	if (room)
		memcpy(room, pass->sink.records, pass->sink.n * sizeof(*room));
	return room || !pass->sink.n;
}

/* The passes until it is known what to show; returns the one. */
static struct pass *make_passes(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns,
				struct pass passes[3])
{
	struct pass *best = NULL, *last = NULL;

	for (;;) {
		struct pass *now = passes;
		bool settled;

		while (now == best || now == last)
			now++;
		make_pass(c, device, ordinal, now);
		settled = is_settled(device, now, last);
		if (settled || !best || is_better(now, best))
			best = now;
		last = now;
		/* The second may tell what the first could not, also of a device whose turn comes late. */
		if (settled || (device->passes > 1 && vt_now_ns() >= deadline_ns))
			return best;
		if (now->result.result != VT_WALK_COMPLETE) /* else the next one, at once, may say the same */
			wait_until_quiet(c, device->dca, deadline_ns);
	}
}

void vt_outside_settle(struct vt_collect *c, struct vt_outside_device *device, int ordinal, uint64_t deadline_ns,
		       struct vt_outside_sink *sink)
{
	struct pass passes[3], *best;

	for (size_t i = 0; i < 3; i++)
		vt_outside_sink_init(&passes[i].sink);
	best = make_passes(c, device, ordinal, deadline_ns, passes);
	device->result = best->result;
	if (best->result.result == VT_WALK_COMPLETE && device->consistency == VT_CONSISTENT_NOT) {
		device->result.result = VT_WALK_UNSTABLE;
		snprintf(device->result.why, sizeof(device->result.why), "no two passes gave the same");
	}
	if (!append(sink, best)) {
		device->result.result = VT_WALK_TRUNCATED;
		device->result.blocks = 0;
		snprintf(device->result.why, sizeof(device->result.why), "not enough memory here");
	}
	for (size_t i = 0; i < 3; i++)
		free(passes[i].sink.records);
}
