/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/join.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"

/*
 * CLOCK_MONOTONIC_COARSE lags by up to a tick of the kernel, 10 ms at CONFIG_HZ=100; and the time
 * in a record is truncated to its unit.
 */
#define LATE_NS (10 * VT_NS_PER_MS + VT_RECORDER_TICK_NS)

#define NO_RECORD UINT32_MAX

struct join {
	const struct vt_recorder_moment *moment;
	const struct vt_block_rec *blocks;
	struct vt_recorder_joined *joined;
	struct vt_map index_of; /* address → index in blocks */
	bool *was_there;        /* of each block: the pass before has its record, too */
};

static bool is_in_use(const struct vt_block_rec *b)
{
	return b->state == VT_BLOCK_ALLOCATED || b->state == VT_BLOCK_AWAITING_FREE;
}

static bool join_init(struct join *j, size_t n)
{
	struct vt_recorder_joined *joined = j->joined;

	joined->record_of = malloc((n + 1) * sizeof(*joined->record_of));
	joined->fate_of = calloc(n + 1, sizeof(*joined->fate_of));
	j->was_there = calloc(n + 1, sizeof(*j->was_there));
	if (n >= NO_RECORD || !joined->record_of || !joined->fate_of || !j->was_there)
		return false;
	for (size_t i = 0; i < n; i++) {
		joined->record_of[i] = NO_RECORD;
		if (is_in_use(&j->blocks[i]) && !vt_map_put(&j->index_of, j->blocks[i].addr, i))
			return false;
	}
	return true;
}

static bool is_same_record(const struct vt_recorder_block *a, const struct vt_recorder_block *b)
{
	return a->serial == b->serial && a->size == b->size && a->time == b->time &&
	       a->stack == b->stack && a->tid == b->tid;
}

/*
 * A record that the recorder moved during the read can be read twice; two different records of one
 * address are not trusted.
 */
static void match_records(struct join *j)
{
	const struct vt_recorder_pass *after = j->moment->after;

	for (size_t i = 0; i < after->blocks.n && i < NO_RECORD; i++) {
		const uint64_t *block = vt_map_get(&j->index_of, after->blocks.data[i].addr);

		if (!block)
			continue;

		uint32_t *record = &j->joined->record_of[*block];

		if (*record == NO_RECORD)
			*record = (uint32_t)i;
		else if (!is_same_record(&after->blocks.data[*record], &after->blocks.data[i]))
			j->joined->fate_of[*block] = VT_RECORD_TWICE;
	}
}

/*
 * If only the earlier pass knows an address, the recorder dropped the record, or the address was
 * reused unrecorded.
 */
static void compare_before(struct join *j)
{
	const struct vt_recorder_pass *before = j->moment->before;

	for (size_t i = 0; before && i < before->blocks.n; i++) {
		const struct vt_recorder_block *b = &before->blocks.data[i];
		const uint64_t *block = vt_map_get(&j->index_of, b->addr);

		if (!block)
			continue;

		uint32_t record = j->joined->record_of[*block];

		if (record == NO_RECORD)
			j->joined->fate_of[*block] = VT_RECORD_CHANGED;
		else if (is_same_record(&j->moment->after->blocks.data[record], b))
			j->was_there[*block] = true;
	}
}

static bool is_older(const struct vt_recorder_moment *moment,
		     const struct vt_recorder_block *record, int device)
{
	uint64_t listed_ns =
		device >= 0 && device < VT_TORCH_MAX_DEVICES ? moment->listed_ns[device] : 0;

	return listed_ns > LATE_NS &&
	       vt_recorder_time_ns(moment->head, record->time, listed_ns) < listed_ns - LATE_NS;
}

static enum vt_recorder_fate judge(const struct join *j, size_t block)
{
	const struct vt_recorder_moment *moment = j->moment;
	uint32_t index = j->joined->record_of[block];
	const struct vt_recorder_block *record;
	uint64_t requested = j->blocks[block].requested;

	/* As a record has it. */
	if (requested > VT_RECORDER_MAX_PACKED)
		requested = VT_RECORDER_MAX_PACKED;
	if (j->joined->fate_of[block] != VT_RECORD_NONE || index == NO_RECORD)
		return j->joined->fate_of[block];
	record = &moment->after->blocks.data[index];
	if (moment->before && !j->was_there[block] &&
	    !is_older(moment, record, j->blocks[block].device))
		return VT_RECORD_CHANGED;
	return requested && requested != record->size ? VT_RECORD_MISMATCH : VT_RECORD_JOINED;
}

bool vt_recorder_join(const struct vt_recorder_moment *moment, const struct vt_block_rec *blocks,
		      size_t n_blocks, struct vt_recorder_joined *joined)
{
	struct join j = { .moment = moment, .blocks = blocks, .joined = joined };
	bool ok = join_init(&j, n_blocks);

	if (ok) {
		match_records(&j);
		compare_before(&j);
	}
	for (size_t i = 0; ok && i < n_blocks; i++) {
		if (!is_in_use(&blocks[i]))
			continue;
		joined->fate_of[i] = (uint8_t)judge(&j, i);
		joined->n[joined->fate_of[i]]++;
	}
	vt_map_deinit(&j.index_of);
	free(j.was_there);
	return ok;
}

void vt_recorder_joined_deinit(struct vt_recorder_joined *joined)
{
	free(joined->record_of);
	free(joined->fate_of);
	*joined = (struct vt_recorder_joined){ 0 };
}
