/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three views of one allocator compared, block for block and number for number: the walk from
 * outside, the walk by the helper injected into the process, and the library's own snapshot
 * (tests/targets/c10_driver.cc). matrix.py drives it.
 *
 *   matrix_compare PID     reads names of snapshot files, one a line; each time it attaches anew,
 *                          as vramtap does, and answers
 *                          with one line: what was counted, or what differs and that it gives up
 *
 * The target must be idle. No deadline is tight: a machine that is busy is no difference.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "functional/torch_compare.h"
#include "inject/inject.h"
#include "target/live.h"
#include "target/proc.h"
#include "walk/torch/torch.h"

#define PATIENCE_NS (600 * VT_NS_PER_S)
#define SPARE_BLOCKS 4096

/* One attachment. */
struct tool {
	struct vt_proc proc;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_torch_found found;
};

/* What a walk found, of all devices. */
struct view {
	struct vt_torch_device_result devices[VT_TORCH_MAX_DEVICES];
	int n_devices;
	struct vt_block_rec *recs;
	size_t n_recs;
};

struct counts {
	uint64_t blocks, segments, pending, unmapped, private, expandable, pool_unknown;
};

static void attach(struct tool *tool, pid_t pid)
{
	memset(tool, 0, sizeof(*tool));
	check(vt_proc_init(&tool->proc, pid));
	check(vt_maps_init(&tool->maps, pid));
	check(vt_modules_init(&tool->modules, pid, &tool->maps));
	check(vt_live_create(pid, &tool->live));
	vt_live_set_coherent(tool->live, true);
	check(vt_torch_find(&tool->modules, &tool->maps, vt_live_source(tool->live), &tool->found));
	if (tool->found.backend != VT_TORCH_NATIVE)
		die(tool->found.why[0] ? tool->found.why : "no native allocator");
}

static void detach(struct tool *tool)
{
	vt_live_destroy(tool->live);
	vt_modules_deinit(&tool->modules);
	vt_maps_deinit(&tool->maps);
	vt_proc_deinit(&tool->proc);
}

static void append(struct view *view, const struct vt_block_rec *recs, size_t n)
{
	struct vt_block_rec *all = reallocarray(view->recs, view->n_recs + n + 1, sizeof(*all));

	if (!all)
		die("out of memory");
	if (n)
		memcpy(all + view->n_recs, recs, n * sizeof(*all));
	view->recs = all;
	view->n_recs += n;
}

static void look_from_outside(struct tool *tool, struct view *view)
{
	struct vt_memsrc *src = vt_live_source(tool->live);
	uint64_t dcas[VT_TORCH_MAX_DEVICES];

	memset(view, 0, sizeof(*view));
	view->n_devices = vt_torch_devices(src, &tool->found.layout, tool->found.allocator, dcas);
	for (int i = 0; i < view->n_devices; i++) {
		struct record_sink sink;

		view->devices[i] = walk_outside(src, &tool->found, dcas[i], i, &sink);
		append(view, sink.recs.data, view->devices[i].blocks);
		vt_vec_deinit(&sink.recs);
	}
}

/* Room for n_blocks suffices: the target is idle. */
static void look_from_inside(struct tool *tool, size_t n_blocks, struct view *view)
{
	struct vt_inject_options options = { .budget_ns = PATIENCE_NS };
	struct vt_torch_walk_args args = {
		.allocator = tool->found.allocator,
		.lock_deadline_ns = PATIENCE_NS,
		.walk_deadline_ns = PATIENCE_NS,
		.max_blocks = n_blocks + SPARE_BLOCKS,
		.layout = tool->found.layout,
	};
	void (*release)(struct vt_block_rec * blocks, size_t n);
	struct vt_inject_timing timing = { 0 };
	struct vt_torch_walk_answer answer;
	struct vt_block_rec *recs = NULL;
	struct vt_helper *helper = NULL;
	size_t n = 0;

	memset(view, 0, sizeof(*view));
	check(vt_helper_create(&tool->proc, &tool->modules, tool->live, &options, &timing,
			       &helper));
	check(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET +
					     args.max_blocks * sizeof(struct vt_block_rec)));
	vt_helper_shared(helper)->args.torch_walk = args;
	check(vt_helper_call(helper, VT_OP_TORCH_WALK, vt_now_ns() + PATIENCE_NS));
	answer = vt_helper_shared(helper)->torch;
	if (answer.n_devices < 0 || answer.n_devices > VT_TORCH_MAX_DEVICES)
		die("the helper answered for impossibly many devices");
	view->n_devices = answer.n_devices;
	memcpy(view->devices, answer.devices, sizeof(view->devices[0]) * (size_t)answer.n_devices);
	check(vt_helper_take_blocks(helper, &recs, &n, &release));
	append(view, recs, n);
	release(recs, n);
	vt_helper_destroy(helper);
}

static void compare_view(const struct view *view, const struct truth *truth)
{
	size_t at = 0, first = 0;

	for (int i = 0; i < view->n_devices; i++) {
		const struct vt_torch_device_result *result = &view->devices[i];

		if (result->blocks > view->n_recs - first)
			die("fewer records than blocks");
		compare_device(result, view->recs + first, truth, &at);
		first += result->blocks;
	}
	if (!differences && (at != truth->blocks.n || first != view->n_recs))
		differ("devices", view->n_devices, 0, at, truth->blocks.n);
}

/*
 * Byte for byte, with what the snapshot does not have: address space without memory, contexts, the
 * addresses of Block objects.
 */
static void compare_views(const struct view *outside, const struct view *inside)
{
	if (outside->n_devices != inside->n_devices || outside->n_recs != inside->n_recs) {
		differ("records outside and inside", 0, 0, outside->n_recs, inside->n_recs);
		return;
	}
	for (size_t i = 0; i < outside->n_recs; i++) {
		if (memcmp(&outside->recs[i], &inside->recs[i], sizeof(outside->recs[i])))
			differ("record outside and inside", outside->recs[i].device,
			       outside->recs[i].addr, i, i);
	}
	for (int i = 0; i < outside->n_devices; i++) {
		if (outside->devices[i].segments != inside->devices[i].segments ||
		    memcmp(outside->devices[i].bytes, inside->devices[i].bytes,
			   sizeof(inside->devices[i].bytes)))
			differ("sums outside and inside", i, 0, outside->devices[i].segments,
			       inside->devices[i].segments);
	}
}

static struct counts count(const struct view *view, const struct truth *truth)
{
	struct counts counts = { .blocks = truth->blocks.n };

	for (int i = 0; i < view->n_devices; i++)
		counts.segments += view->devices[i].segments;
	for (size_t i = 0; i < view->n_recs; i++) {
		counts.pending += view->recs[i].state == VT_BLOCK_AWAITING_FREE;
		counts.unmapped += view->recs[i].state == VT_BLOCK_UNMAPPED;
		counts.private += !!(view->recs[i].flags & VT_BLOCK_PRIVATE_POOL);
		counts.expandable += !!(view->recs[i].flags & VT_BLOCK_EXPANDABLE);
	}
	for (size_t i = 0; i < truth->blocks.n; i++)
		counts.pool_unknown += truth->blocks.data[i].pool_unknown;
	return counts;
}

static void compare_all(pid_t pid, const char *path)
{
	struct view outside, inside;
	struct truth truth = { 0 };
	struct counts c;
	struct tool tool;

	truth_read(&truth, path);
	attach(&tool, pid);
	look_from_outside(&tool, &outside);
	look_from_inside(&tool, truth.blocks.n + outside.n_recs, &inside);
	compare_view(&outside, &truth);
	compare_view(&inside, &truth);
	compare_views(&outside, &inside);
	c = count(&outside, &truth);
	if (!differences)
		printf("equal %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		       " %" PRIu64 " %s\n",
		       c.blocks, c.segments, c.pending, c.unmapped, c.private, c.expandable,
		       c.pool_unknown, tool.found.layout.name);
	free(outside.recs);
	free(inside.recs);
	truth_deinit(&truth);
	detach(&tool);
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc != 2)
		return 64;
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (!differences && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		compare_all(atoi(argv[1]), line);
	}
	return differences != 0;
}
