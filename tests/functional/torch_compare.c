/* SPDX-License-Identifier: Apache-2.0 */
#include "functional/torch_compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MAX_DIFFERENCES 10
#define WALK_NS (600 * VT_NS_PER_S) /* a busy machine is no difference */

int differences;

void differ(const char *what, int device, uint64_t addr, uint64_t ours, uint64_t theirs)
{
	if (differences++ < MAX_DIFFERENCES)
		printf("differs: device %d, %#" PRIx64 ": %s: %" PRIu64 " (%#" PRIx64
		       "), PyTorch says %" PRIu64 " (%#" PRIx64 ")\n",
		       device, addr, what, ours, ours, theirs, theirs);
}

void die(const char *what)
{
	printf("cannot go on: %s\n", what);
	exit(1);
}

void check(struct vt_error *err)
{
	if (err)
		die(err->message);
}

/* ---- PyTorch's word ---- */

static uint8_t parse_state(const char *word)
{
	static const char *const words[] = { "active_allocated", "active_pending_free",
					     "inactive" };

	for (uint8_t i = 0; i < 3; i++) {
		if (!strcmp(words[i], word))
			return i;
	}
	die("an unknown state in the snapshot");
}

static void parse_block(struct truth *truth, const char *line)
{
	struct truth_block *b = vt_vec_append(&truth->blocks);
	char state[32], kind[16], pool[48];
	uint64_t first = 0, second = 0;
	int device, expandable;

	if (!b)
		die("out of memory");
	memset(b, 0, sizeof(*b));
	if (sscanf(line,
		   "block %d %" SCNx64 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %31s %" SCNx64
		   " %47s %d %15s",
		   &device, &b->segment, &b->rec.addr, &b->rec.size, &b->rec.requested, state,
		   &b->rec.stream, pool, &expandable, kind) != 10 ||
	    device < 0 || device >= VT_TORCH_MAX_DEVICES)
		die("a bad line in the snapshot");
	b->pool_unknown = !strcmp(pool, "?.?");
	if (!b->pool_unknown && sscanf(pool, "%" SCNu64 ".%" SCNu64, &first, &second) != 2)
		die("a bad pool in the snapshot");
	b->rec.device = (int16_t)device;
	b->rec.state = parse_state(state);
	b->rec.pool = first << 32 | second;
	b->expandable = expandable != 0;
	b->large = !strcmp(kind, "large");
	truth->segments[device] += b->segment == b->rec.addr;
}

static struct vt_torch_stat *stat_named(struct vt_torch_stats *stats, const char *name)
{
	const struct {
		const char *name;
		struct vt_torch_stat *stat;
	} all[] = {
		{ "allocation", &stats->allocation },
		{ "segment", &stats->segment },
		{ "active", &stats->active },
		{ "inactive_split", &stats->inactive_split },
		{ "allocated_bytes", &stats->allocated_bytes },
		{ "reserved_bytes", &stats->reserved_bytes },
		{ "active_bytes", &stats->active_bytes },
		{ "inactive_split_bytes", &stats->inactive_split_bytes },
		{ "requested_bytes", &stats->requested_bytes },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(all[i].name, name))
			return all[i].stat;
	}
	die("an unknown statistic in the snapshot");
}

static void parse_stat(struct truth *truth, const char *line)
{
	struct vt_torch_stat value, *stat;
	char name[32];
	int device;

	if (sscanf(line, "stats %d %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &device,
		   name, &value.current, &value.peak, &value.allocated, &value.freed) != 6 ||
	    device < 0 || device >= VT_TORCH_MAX_DEVICES)
		die("a bad line in the snapshot");
	stat = stat_named(&truth->stats[device], name);
	*stat = value;
}

static void parse_counters(struct truth *truth, const char *line)
{
	int64_t retries, ooms;
	int device;

	if (sscanf(line, "counters %d %" SCNd64 " %" SCNd64, &device, &retries, &ooms) != 3 ||
	    device < 0 || device >= VT_TORCH_MAX_DEVICES)
		die("a bad line in the snapshot");
	truth->stats[device].num_alloc_retries = retries;
	truth->stats[device].num_ooms = ooms;
}

static int by_addr(const void *a, const void *b)
{
	const struct truth_block *x = a, *y = b;

	if (x->rec.device != y->rec.device)
		return x->rec.device < y->rec.device ? -1 : 1;
	return (x->rec.addr > y->rec.addr) - (x->rec.addr < y->rec.addr);
}

void truth_read(struct truth *truth, const char *path)
{
	FILE *f VT_FCLOSE = fopen(path, "re");
	char line[512];

	if (!f)
		die("cannot open the snapshot");
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "block ", 6))
			parse_block(truth, line);
		else if (!strncmp(line, "stats ", 6))
			parse_stat(truth, line);
		else if (!strncmp(line, "counters ", 9))
			parse_counters(truth, line);
	}
	if (truth->blocks.n)
		qsort(truth->blocks.data, truth->blocks.n, sizeof(*truth->blocks.data), by_addr);
}

void truth_deinit(struct truth *truth)
{
	vt_vec_deinit(&truth->blocks);
}

/* ---- ours ---- */

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct record_sink *sink = (struct record_sink *)base;

	if (!vt_vec_reserve(&sink->recs, sink->recs.n + n))
		return NULL;
	sink->recs.n += n;
	return sink->recs.data + sink->recs.n - n;
}

struct vt_torch_device_result walk_outside(struct vt_memsrc *src,
					   const struct vt_torch_found *found, uint64_t dca,
					   int device, struct record_sink *sink)
{
	int64_t n = vt_torch_count_blocks(src, &found->layout, dca);
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(
						    2 * (uint64_t)(n > 0 ? n : 0) + 1024) };
	struct vt_torch_walk_limits limits = {
		.max_blocks = UINT32_MAX,
		.deadline_ns = vt_now_ns() + WALK_NS,
		.now_ns = vt_now_ns,
	};
	struct vt_torch_device_result result = { .owner_tid = vt_torch_mutex_owner(
							 src, &found->layout, dca) };

	*sink = (struct record_sink){ .base.reserve = reserve };
	if (result.owner_tid > 0)
		result.lock = VT_LOCK_HELD_BY;
	/*
	 * pages that exist, as they do when the tool walks: the kernel clearing them is not what is
	 * measured
	 */
	scratch.base = malloc(scratch.size);
	if (!scratch.base || !vt_vec_reserve(&sink->recs, (size_t)(n > 0 ? n : 0) + 1024))
		die("out of memory");
	memset(scratch.base, 1, scratch.size);
	memset(sink->recs.data, 1, sink->recs.capacity * sizeof(*sink->recs.data));
	vt_torch_walk_device(src, &found->layout, dca, device, &limits, &scratch, &sink->base,
			     &result);
	free(scratch.base);
	return result;
}

/* ---- comparing ---- */

static void compare_block(const struct vt_block_rec *rec, uint64_t segment,
			  const struct truth_block *b)
{
	const struct {
		const char *what;
		uint64_t ours, theirs;
	} fields[] = {
		{ "address", rec->addr, b->rec.addr },
		{ "size", rec->size, b->rec.size },
		{ "state", rec->state, b->rec.state },
		{ "requested", rec->requested, b->rec.requested },
		{ "stream", rec->stream, b->rec.stream },
		{ "pool", b->pool_unknown ? 0 : rec->pool, b->rec.pool },
		{ "segment", segment, b->segment },
		{ "small pool", !!(rec->flags & VT_BLOCK_SMALL_POOL), !b->large },
		{ "private pool", !!(rec->flags & VT_BLOCK_PRIVATE_POOL) && !b->pool_unknown,
		  b->rec.pool != 0 },
		{ "expandable", !!(rec->flags & VT_BLOCK_EXPANDABLE), b->expandable },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].ours != fields[i].theirs)
			differ(fields[i].what, rec->device, rec->addr, fields[i].ours,
			       fields[i].theirs);
	}
}

/* They are nothing but 64-bit numbers, in the same order. */
static void compare_stats(int device, const struct vt_torch_stats *ours,
			  const struct vt_torch_stats *theirs)
{
	const uint64_t *x = (const uint64_t *)ours, *y = (const uint64_t *)theirs;

	for (size_t i = 0; i < sizeof(*ours) / sizeof(*x); i++) {
		if (x[i] != y[i])
			differ("statistic", device, i, x[i], y[i]);
	}
}

void compare_device(const struct vt_torch_device_result *result, const struct vt_block_rec *recs,
		    const struct truth *truth, size_t *at)
{
	uint64_t segment = 0, last = 0;

	if (result->result != VT_WALK_COMPLETE) {
		printf("differs: device %d: result %d: %s (at %#" PRIx64 ")\n", result->device,
		       result->result, result->why, result->bad_addr);
		differences++;
		return;
	}
	for (uint64_t i = 0; i < result->blocks; i++) {
		if (recs[i].addr < last)
			differ("order", result->device, recs[i].addr, last, 0);
		last = recs[i].addr + recs[i].size;
		if (recs[i].flags & VT_BLOCK_SEGMENT_START)
			segment = recs[i].addr;
		if (recs[i].state == VT_BLOCK_UNMAPPED)
			continue;
		if (*at == truth->blocks.n ||
		    truth->blocks.data[*at].rec.device != result->device) {
			differ("a block that PyTorch has not", result->device, recs[i].addr,
			       recs[i].size, 0);
			return;
		}
		compare_block(&recs[i], segment, &truth->blocks.data[(*at)++]);
	}
	if (*at < truth->blocks.n && truth->blocks.data[*at].rec.device == result->device)
		differ("a block is missing", result->device, truth->blocks.data[*at].rec.addr, 0,
		       truth->blocks.data[*at].rec.size);
	if (result->segments != truth->segments[result->device])
		differ("segments", result->device, 0, result->segments,
		       truth->segments[result->device]);
	if (!result->have_stats)
		differ("no statistics", result->device, 0, 0, 1);
	compare_stats(result->device, &result->stats, &truth->stats[result->device]);
}
