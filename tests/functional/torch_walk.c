/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and walks PyTorch's allocator in a process from outside, and compares every block and every
 * number with the library's own snapshot (tests/targets/c10_driver.cc, "snapshot").
 *
 *   torch_walk PID                 only find: prints backend and layout
 *   torch_walk PID SNAPSHOT        the target must be idle; 1 and what differs, if anything does
 *   torch_walk -r RUNS PID         the target may change: results must be complete or marked
 *                                  unstable, and never impossible
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "functional/torch_compare.h"
#include "target/live.h"
#include "walk/torch/torch.h"

static void compare(struct vt_memsrc *src, const struct vt_torch_found *found, const char *path)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES], blocks = 0, ns = 0;
	int n = vt_torch_devices(src, &found->layout, found->allocator, dcas);
	struct truth truth = { 0 };
	size_t at = 0;

	truth_read(&truth, path);
	for (int i = 0; i < n; i++) {
		struct record_sink sink;
		struct vt_torch_device_result result = walk_outside(src, found, dcas[i], i, &sink);

		compare_device(&result, sink.recs.data, &truth, &at);
		blocks += result.blocks;
		ns += result.walk_ns;
		vt_vec_deinit(&sink.recs);
	}
	if (!differences && at != truth.blocks.n)
		differ("devices", n, 0, at, truth.blocks.n);
	printf("%d devices, %" PRIu64
	       " blocks, walked in %.2f ms (%.0f ns a block), %d differences\n",
	       n, blocks, (double)ns / 1e6, blocks ? (double)ns / (double)blocks : 0, differences);
	truth_deinit(&truth);
}

/* ---- a target that runs ---- */

static void check_running(const struct vt_torch_device_result *result,
			  const struct vt_block_rec *recs)
{
	uint64_t last = 0;

	if (result->result != VT_WALK_COMPLETE && result->result != VT_WALK_UNSTABLE) {
		printf("differs: device %d: result %d: %s\n", result->device, result->result,
		       result->why);
		differences++;
	}
	for (uint64_t i = 0; i < result->blocks; i++) {
		if (recs[i].addr < last || !recs[i].size || recs[i].device != result->device)
			differ("impossible block", result->device, recs[i].addr, recs[i].size,
			       last);
		last = recs[i].addr + recs[i].size;
	}
	if (result->result == VT_WALK_COMPLETE && result->dropped)
		differ("dropped blocks of a complete walk", result->device, 0, result->dropped, 0);
}

static void watch(struct vt_live *live, struct vt_memsrc *src, const struct vt_torch_found *found,
		  int runs)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES], complete = 0, unstable = 0, dropped = 0, blocks = 0;

	for (int run = 0; run < runs; run++) {
		int n;

		vt_live_drop_cache(live);
		n = vt_torch_devices(src, &found->layout, found->allocator, dcas);
		for (int i = 0; i < n; i++) {
			struct record_sink sink;
			struct vt_torch_device_result result =
				walk_outside(src, found, dcas[i], i, &sink);

			check_running(&result, sink.recs.data);
			complete += result.result == VT_WALK_COMPLETE;
			unstable += result.result == VT_WALK_UNSTABLE;
			dropped += result.dropped;
			blocks += result.blocks;
			vt_vec_deinit(&sink.recs);
		}
	}
	printf("%d walks: %" PRIu64 " complete, %" PRIu64 " unstable, %" PRIu64 " blocks, %" PRIu64
	       " dropped, %d impossible\n",
	       runs, complete, unstable, blocks, dropped, differences);
}

static const char *backend_name(enum vt_torch_backend backend)
{
	static const char *const names[] = {
		[VT_TORCH_ABSENT] = "absent",       [VT_TORCH_UNUSED] = "unused",
		[VT_TORCH_NATIVE] = "native",       [VT_TORCH_ASYNC] = "async",
		[VT_TORCH_PLUGGABLE] = "pluggable", [VT_TORCH_UNKNOWN] = "unknown",
	};

	return names[backend];
}

static void print_found(const struct vt_torch_found *found, uint64_t ns)
{
	const struct vt_torch_layout *l = &found->layout;

	printf("%s, version '%s', found in %.2f ms%s%s\n", backend_name(found->backend),
	       found->version, (double)ns / 1e6, found->why[0] ? ": " : "", found->why);
	if (found->backend == VT_TORCH_NATIVE)
		printf("layout '%s': device_vector %u, large %u, small %u, active %u, graph_pools %u, %u sets, pool %u, "
		       "private_large %u, stats_extra %u, block size at %u\n",
		       l->name, l->device_vector, l->large_blocks, l->small_blocks,
		       l->active_blocks, l->graph_pools, l->sets_per_pool, l->pool_size_of,
		       l->private_large, l->stats_extra, l->block.size);
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
	check(vt_torch_find(&modules, &maps,
			    runs ? vt_live_source(live) : vt_live_cached_source(live), &found));
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
