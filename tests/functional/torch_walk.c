/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and walks PyTorch's allocator in a process from outside, and compares every block and every number with the library's
 * own snapshot (tests/targets/c10_driver.cc, "snapshot").
 *
 *   torch_walk PID                 only find: prints backend and layout
 *   torch_walk PID SNAPSHOT        the target must be idle; 1 and what differs, if anything does
 *   torch_walk -r RUNS PID         the target may change: results must be complete or marked unstable, and never impossible
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"
#include "target/live.h"
#include "walk/torch.h"

#define MAX_DIFFERENCES 10
#define WALK_NS (10 * VT_NS_PER_S)

struct block {
	struct vt_block_rec rec;
	uint64_t segment;
	bool large, expandable;
};

struct truth {
	VT_VEC(struct block) blocks;
	struct vt_torch_stats stats[VT_TORCH_MAX_DEVICES];
	uint64_t segments[VT_TORCH_MAX_DEVICES];
};

struct sink {
	struct vt_torch_sink base;
	VT_VEC(struct vt_block_rec) recs;
};

static int differences;

static void differ(const char *what, int device, uint64_t addr, uint64_t ours, uint64_t theirs)
{
	if (differences++ < MAX_DIFFERENCES)
		printf("differs: device %d, %#" PRIx64 ": %s: %" PRIu64 " (%#" PRIx64 "), PyTorch says %" PRIu64 " (%#" PRIx64
		       ")\n", device, addr, what, ours, ours, theirs, theirs);
}

static void die(const char *what)
{
	printf("torch_walk: %s\n", what);
	exit(1);
}

static void check(struct vt_error *err)
{
	if (err)
		die(err->message);
}

/* ---- PyTorch's word ---- */

static uint8_t parse_state(const char *word)
{
	static const char *const words[] = { "active_allocated", "active_pending_free", "inactive" };

	for (uint8_t i = 0; i < 3; i++) {
		if (!strcmp(words[i], word))
			return i;
	}
	die("an unknown state in the snapshot");
	return 0;
}

static void parse_block(struct truth *truth, const char *line)
{
	struct block *b = vt_vec_append(&truth->blocks);
	char state[32], kind[16];
	uint64_t first, second;
	int device, expandable;

	if (!b)
		die("out of memory");
	memset(b, 0, sizeof(*b));
	if (sscanf(line,
		   "block %d %" SCNx64 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %31s %" SCNx64 " %" SCNu64 ".%" SCNu64 " %d %15s",
		   &device, &b->segment, &b->rec.addr, &b->rec.size, &b->rec.requested, state, &b->rec.stream, &first, &second,
		   &expandable, kind) != 11)
		die("a bad line in the snapshot");
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
		{ "allocation", &stats->allocation }, { "segment", &stats->segment }, { "active", &stats->active },
		{ "inactive_split", &stats->inactive_split }, { "allocated_bytes", &stats->allocated_bytes },
		{ "reserved_bytes", &stats->reserved_bytes }, { "active_bytes", &stats->active_bytes },
		{ "inactive_split_bytes", &stats->inactive_split_bytes }, { "requested_bytes", &stats->requested_bytes },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(all[i].name, name))
			return all[i].stat;
	}
	die("an unknown statistic in the snapshot");
	return NULL;
}

static void parse_stat(struct truth *truth, const char *line)
{
	struct vt_torch_stat value, *stat;
	char name[32];
	int device;

	if (sscanf(line, "stats %d %31s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &device, name, &value.current,
		   &value.peak, &value.allocated, &value.freed) != 6 || device < 0 || device >= VT_TORCH_MAX_DEVICES)
		die("a bad line in the snapshot");
	stat = stat_named(&truth->stats[device], name);
	*stat = value;
}

static void read_truth(struct truth *truth, const char *path)
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
	}
}

/* ---- ours ---- */

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	if (!vt_vec_reserve(&sink->recs, sink->recs.n + n))
		return NULL;
	sink->recs.n += n;
	return sink->recs.data + sink->recs.n - n;
}

static struct vt_torch_device_result walk(struct vt_memsrc *src, const struct vt_torch_found *found, uint64_t dca, int device,
					  struct sink *sink)
{
	int64_t n = vt_torch_count_blocks(src, &found->layout, dca);
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(2 * (uint64_t)(n > 0 ? n : 0) + 1024) };
	struct vt_torch_walk_limits limits = {
		.max_blocks = UINT32_MAX, .deadline_ns = vt_now_ns() + WALK_NS, .now_ns = vt_now_ns,
	};
	struct vt_torch_device_result result = { .owner_tid = vt_torch_mutex_owner(src, &found->layout, dca) };

	if (result.owner_tid > 0)
		result.lock = VT_LOCK_HELD_BY;
	/* pages that exist, as they do when the tool walks: the kernel clearing them is not what is measured */
	scratch.base = malloc(scratch.size);
	if (!scratch.base || !vt_vec_reserve(&sink->recs, (size_t)(n > 0 ? n : 0) + 1024))
		die("out of memory");
	memset(scratch.base, 1, scratch.size);
	memset(sink->recs.data, 1, sink->recs.capacity * sizeof(*sink->recs.data));
	vt_torch_walk_device(src, &found->layout, dca, device, &limits, &scratch, &sink->base, &result);
	free(scratch.base);
	return result;
}

/* ---- comparing ---- */

static int by_addr(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	if (x->rec.device != y->rec.device)
		return x->rec.device < y->rec.device ? -1 : 1;
	return (x->rec.addr > y->rec.addr) - (x->rec.addr < y->rec.addr);
}

static void compare_block(const struct vt_block_rec *rec, uint64_t segment, const struct block *b)
{
	const struct {
		const char *what;
		uint64_t ours, theirs;
	} fields[] = {
		{ "address", rec->addr, b->rec.addr },
		{ "size", rec->size, b->rec.size },
		{ "state", rec->state, b->rec.state },
		/* PyTorch keeps the last request of a free block; we do not show it */
		{ "requested", rec->requested, rec->state == VT_BLOCK_ALLOCATED ? b->rec.requested : 0 },
		{ "stream", rec->stream, b->rec.stream },
		{ "pool", rec->pool, b->rec.pool },
		{ "segment", segment, b->segment },
		{ "small pool", !!(rec->flags & VT_BLOCK_SMALL_POOL), !b->large },
		{ "private pool", !!(rec->flags & VT_BLOCK_PRIVATE_POOL), b->rec.pool != 0 },
		{ "expandable", !!(rec->flags & VT_BLOCK_EXPANDABLE), b->expandable },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].ours != fields[i].theirs)
			differ(fields[i].what, rec->device, rec->addr, fields[i].ours, fields[i].theirs);
	}
}

/* Our records of one device with PyTorch's, which are sorted; *at is the next of those. */
static void compare_device(const struct vt_torch_device_result *result, const struct vt_block_rec *recs, struct truth *truth,
			   size_t *at)
{
	struct vt_torch_stats *theirs = &truth->stats[result->device];
	uint64_t segment = 0, last = 0;

	for (uint64_t i = 0; i < result->blocks; i++) {
		if (recs[i].addr < last)
			differ("order", result->device, recs[i].addr, last, 0);
		last = recs[i].addr + recs[i].size;
		if (recs[i].flags & VT_BLOCK_SEGMENT_START)
			segment = recs[i].addr;
		if (recs[i].state == VT_BLOCK_UNMAPPED)
			continue;
		if (*at == truth->blocks.n || truth->blocks.data[*at].rec.device != result->device) {
			differ("a block that PyTorch has not", result->device, recs[i].addr, recs[i].size, 0);
			return;
		}
		compare_block(&recs[i], segment, &truth->blocks.data[(*at)++]);
	}
	if (*at < truth->blocks.n && truth->blocks.data[*at].rec.device == result->device)
		differ("a block is missing", result->device, truth->blocks.data[*at].rec.addr, 0,
		       truth->blocks.data[*at].rec.size);
	if (result->segments != truth->segments[result->device])
		differ("segments", result->device, 0, result->segments, truth->segments[result->device]);
	theirs->num_alloc_retries = result->stats.num_alloc_retries; /* not in the snapshot */
	theirs->num_ooms = result->stats.num_ooms;
	if (!result->have_stats || memcmp(&result->stats, theirs, sizeof(*theirs)))
		differ("statistics", result->device, 0, (uint64_t)result->stats.reserved_bytes.current,
		       (uint64_t)theirs->reserved_bytes.current);
}

static void compare(struct vt_memsrc *src, const struct vt_torch_found *found, const char *path)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES], blocks = 0, ns = 0;
	int n = vt_torch_devices(src, &found->layout, found->allocator, dcas);
	struct truth truth = { 0 };
	size_t at = 0;

	read_truth(&truth, path);
	if (truth.blocks.n)
		qsort(truth.blocks.data, truth.blocks.n, sizeof(*truth.blocks.data), by_addr);
	for (int i = 0; i < n; i++) {
		struct sink sink = { .base.reserve = reserve };
		struct vt_torch_device_result result = walk(src, found, dcas[i], i, &sink);

		if (result.result != VT_WALK_COMPLETE) {
			printf("differs: device %d: result %d: %s (at %#" PRIx64 ")\n", i, result.result, result.why,
			       result.bad_addr);
			differences++;
		} else {
			compare_device(&result, sink.recs.data, &truth, &at);
		}
		blocks += result.blocks;
		ns += result.walk_ns;
		vt_vec_deinit(&sink.recs);
	}
	if (!differences && at != truth.blocks.n)
		differ("devices", n, 0, at, truth.blocks.n);
	printf("%d devices, %" PRIu64 " blocks, walked in %.2f ms (%.0f ns a block), %d differences\n", n, blocks,
	       (double)ns / 1e6, blocks ? (double)ns / (double)blocks : 0, differences);
	vt_vec_deinit(&truth.blocks);
}

/* ---- a target that runs ---- */

static void check_running(const struct vt_torch_device_result *result, const struct vt_block_rec *recs)
{
	uint64_t last = 0;

	if (result->result != VT_WALK_COMPLETE && result->result != VT_WALK_UNSTABLE) {
		printf("differs: device %d: result %d: %s\n", result->device, result->result, result->why);
		differences++;
	}
	for (uint64_t i = 0; i < result->blocks; i++) {
		if (recs[i].addr < last || !recs[i].size || recs[i].device != result->device)
			differ("impossible block", result->device, recs[i].addr, recs[i].size, last);
		last = recs[i].addr + recs[i].size;
	}
	if (result->result == VT_WALK_COMPLETE && result->dropped)
		differ("dropped blocks of a complete walk", result->device, 0, result->dropped, 0);
}

static void watch(struct vt_live *live, struct vt_memsrc *src, const struct vt_torch_found *found, int runs)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES], complete = 0, unstable = 0, dropped = 0, blocks = 0;

	for (int run = 0; run < runs; run++) {
		int n;

		vt_live_drop_cache(live);
		n = vt_torch_devices(src, &found->layout, found->allocator, dcas);
		for (int i = 0; i < n; i++) {
			struct sink sink = { .base.reserve = reserve };
			struct vt_torch_device_result result = walk(src, found, dcas[i], i, &sink);

			check_running(&result, sink.recs.data);
			complete += result.result == VT_WALK_COMPLETE;
			unstable += result.result == VT_WALK_UNSTABLE;
			dropped += result.dropped;
			blocks += result.blocks;
			vt_vec_deinit(&sink.recs);
		}
	}
	printf("%d walks: %" PRIu64 " complete, %" PRIu64 " unstable, %" PRIu64 " blocks, %" PRIu64 " dropped, %d impossible\n",
	       runs, complete, unstable, blocks, dropped, differences);
}

static const char *backend_name(enum vt_torch_backend backend)
{
	static const char *const names[] = {
		[VT_TORCH_ABSENT] = "absent", [VT_TORCH_UNUSED] = "unused", [VT_TORCH_NATIVE] = "native",
		[VT_TORCH_ASYNC] = "async", [VT_TORCH_PLUGGABLE] = "pluggable", [VT_TORCH_UNKNOWN] = "unknown",
	};

	return names[backend];
}

static void print_found(const struct vt_torch_found *found, uint64_t ns)
{
	const struct vt_torch_layout *l = &found->layout;

	printf("%s, version '%s', found in %.2f ms%s%s\n", backend_name(found->backend), found->version, (double)ns / 1e6,
	       found->why[0] ? ": " : "", found->why);
	if (found->backend == VT_TORCH_NATIVE)
		printf("layout '%s': device_vector %u, large %u, small %u, active %u, graph_pools %u, %u sets, pool %u, "
		       "private_large %u, stats_extra %u, block size at %u\n", l->name, l->device_vector, l->large_blocks,
		       l->small_blocks, l->active_blocks, l->graph_pools, l->sets_per_pool, l->pool_size_of, l->private_large,
		       l->stats_extra, l->block.size);
}

int main(int argc, char **argv)
{
	struct vt_maps maps = { 0 };
	struct vt_modules modules = { 0 };
	struct vt_live *live = NULL;
	struct vt_torch_found found;
	uint64_t start;
	int runs = 0, opt;
	pid_t pid;

	while ((opt = getopt(argc, argv, "r:")) != -1) {
		if (opt != 'r')
			return 64;
		runs = atoi(optarg);
	}
	if (optind >= argc)
		return 64;
	pid = atoi(argv[optind++]);
	check(vt_maps_init(&maps, pid));
	check(vt_modules_init(&modules, pid, &maps));
	check(vt_live_create(pid, &live));
	vt_live_set_coherent(live, !runs);
	start = vt_now_ns();
	check(vt_torch_find(&modules, &maps, runs ? vt_live_source(live) : vt_live_cached_source(live), &found));
	print_found(&found, vt_now_ns() - start);
	if ((runs || optind < argc) && found.backend != VT_TORCH_NATIVE)
		die("no native allocator");
	if (runs)
		watch(live, vt_live_source(live), &found, runs);
	else if (optind < argc)
		compare(vt_live_source(live), &found, argv[optind]);
	vt_live_destroy(live);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	return differences != 0;
}
