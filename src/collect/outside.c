/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator, walked from outside if there was no walk inside. It is read while the target
 * runs; if nothing has changed when the target is stopped, that counts. Otherwise it is read once
 * more, and the target is stopped only while its blocks are copied: memory for the copy is
 * allocated before, and the copy is sorted, checked and summed after the threads run again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/progress.h"
#include "collect/outside.h"
#include "target/readers.h"

/* For all devices: the target is stopped during it. */
#define READ_DEADLINE_NS (2 * VT_NS_PER_S)
/* for all devices; the watchdog of the threads' capture counts it too */
#define REHEARSE_NS (2 * VT_NS_PER_S)
/* no thread waits for a core, which may be on a slow disk */
#define CORE_DEADLINE_NS (60 * VT_NS_PER_S)
#define MANY_BLOCKS 10000 /* are worth some threads */

static void heap_release(struct vt_block_rec *blocks, size_t n)
{
	(void)n;
	free(blocks);
}

/*
 * The driver has its own threads in a process that uses it ("cuda-EvtHandlr"); fork() does not copy
 * threads.
 */
static bool has_driver_thread(const struct vt_collect *c)
{
	struct vt_thread_list list = { 0 };
	bool found = false;

	VT_ERROR struct vt_error *err = vt_thread_list_init(&list, c->target.proc.pid);

	for (size_t i = 0; !err && i < list.threads.n; i++)
		found |= !strncmp(list.threads.data[i].name, "cuda", 4);
	vt_thread_list_deinit(&list);
	return found;
}

/*
 * Without an answer of the driver: the parent has the same DeviceCachingAllocators at the same
 * addresses if fork() copied them. (Two processes that each made their own after a fork() could
 * agree, too; then both have the driver's threads. The mappings of the devices do not help: a
 * forked child has them as well, driver 580.)
 */
static bool looks_inherited(const struct vt_collect *c)
{
	uint64_t ours[VT_TORCH_MAX_DEVICES], theirs[VT_TORCH_MAX_DEVICES];
	struct vt_live *parent = NULL;
	bool same = false;

	if (c->driver != VT_DRIVER_SILENT || c->target.proc.ppid <= 0)
		return false;

	VT_ERROR struct vt_error *err = vt_live_create(c->target.proc.ppid, &parent);

	if (!err) {
		int n = vt_torch_devices(c->target.mem, &c->torch.layout, c->torch.allocator, ours);

		same = n > 0 &&
		       vt_torch_devices(vt_live_source(parent), &c->torch.layout,
					c->torch.allocator, theirs) == n &&
		       !memcmp(ours, theirs, (size_t)n * sizeof(ours[0]));
	}
	vt_live_destroy(parent);
	return same && !has_driver_thread(c);
}

/* Threads that read with us, and the smallest useful chunk. Without them one thread reads all. */
static void find_readers(struct vt_collect *c)
{
	if (c->target.live && !c->outside->chunk &&
	    vt_live_read_together(c->target.live, vt_readers_useful()))
		c->outside->chunk = vt_outside_map_pages(VT_OUTSIDE_CHUNK);
}

static void prepare_devices(struct vt_collect *c)
{
	struct vt_memsrc *src = c->target.mem;
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	int n;

	if (vt_collect_blocks_told(c) || c->torch_inherited)
		return;
	if (c->torch.backend == VT_TORCH_NATIVE && looks_inherited(c)) {
		vt_collect_torch_inherited(c);
		return;
	}
	c->outside = calloc(1, sizeof(*c->outside));
	if (!c->outside || c->torch.backend != VT_TORCH_NATIVE)
		return;
	n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);
	for (int i = 0; i < n; i++) {
		int64_t count = vt_outside_count(c, src, dcas[i]);

		c->outside->devices[i].dca = dcas[i];
		c->outside->devices[i].expected = count;
		c->outside->devices[i].operations = vt_outside_operations(c, dcas[i]);
		/* without it, or if there are more: allocated while the target is stopped */
		if (count >= 0 && count <= VT_OUTSIDE_MAX_BLOCKS)
			vt_outside_make_scratch(&c->outside->devices[i], count);
		if (count >= MANY_BLOCKS)
			find_readers(c);
	}
	c->outside->n = n > 0 ? n : 0;
}

/*
 * The last of them is the newest when the target stops; that is the first device, which is the one
 * in use if any is.
 */
static void rehearse(struct vt_collect *c)
{
	uint64_t start;

	vt_collect_usage_before(c);
	start = vt_now_ns();
	if (c->outside)
		vt_collect_recorded_before(c);
	/* What is listed again is in use: there is no quiet moment to be found. */
	for (int i = c->outside && !c->list_again ? c->outside->n : 0; i-- > 0;)
		vt_outside_rehearse(c, &c->outside->devices[i], i, start + REHEARSE_NS);
	if (c->outside)
		c->outside->ns += vt_now_ns() - start;
}

/*
 * The allocators of all devices, again: they may be new. False: nothing can be read, which is
 * reported.
 */
static bool find_devices(struct vt_collect *c)
{
	struct vt_memsrc *src = c->target.mem;
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	int n;

	vt_collect_find_torch_again(c);
	if (c->torch.backend != VT_TORCH_NATIVE)
		return false;
	if (!c->outside) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "nomem",
			      "the blocks are missing: not enough memory here");
		return false;
	}
	n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);
	if (n < 0) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "unreadable",
			      "the allocator's list of devices is unreadable");
		return false;
	}
	for (int i = 0; i < n; i++) {
		if (c->outside->devices[i].dca != dcas[i])
			c->outside->devices[i].walk = NULL;
		c->outside->devices[i].dca = dcas[i];
	}
	c->outside->n = n;
	return true;
}

static void read_devices(struct vt_collect *c)
{
	struct vt_memsrc *src = c->target.mem;
	uint64_t start = vt_now_ns();
	uint64_t deadline = start + (c->target.live ? READ_DEADLINE_NS : CORE_DEADLINE_NS);

	if (vt_collect_blocks_told(c) || c->torch_inherited)
		return;
	if (c->list_again && c->outside && !vt_outside_has_changed(c)) {
		c->outside->unchanged = true;
		return;
	}
	if (!find_devices(c))
		return;
	for (int i = 0; i < c->outside->n; i++) {
		struct vt_outside_device *device = &c->outside->devices[i];

		if (device->walk && vt_torch_walk_holds(device->walk, src))
			/* the earlier read is the list of this moment, too */
			vt_collect_recorded_listing(c, i);
		else
			vt_outside_read(c, device, i, deadline);
		device->consistency = src->coherent ? VT_CONSISTENT_STOPPED :
						      VT_CONSISTENT_UNCHANGED;
		/*
		 * Some thread could not be stopped: one read is enough only if the statistics prove
		 * it.
		 */
		device->unproven = !src->coherent && !device->result.certain;
	}
	c->outside->read = true;
	c->outside->ns += vt_now_ns() - start;
	if (c->target.live)
		c->model->timing.blocks_stopped_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
}

bool vt_collect_outside_is_read(const struct vt_collect *c)
{
	if (vt_collect_blocks_told(c) || c->torch_inherited || c->torch.backend != VT_TORCH_NATIVE)
		return true;
	return c->outside && c->outside->read && !vt_outside_is_unproven(c);
}

/* One device after the other; each is exact, or not, on its own. */
static void settle(struct vt_collect *c, struct vt_outside_sink *sink)
{
	uint64_t deadline_ns = vt_now_ns() + c->options->budget_ns;

	if (!find_devices(c))
		return;
	vt_collect_usage_before(c);
	vt_collect_recorded_before(c);
	for (int i = 0; i < c->outside->n; i++)
		vt_outside_settle(c, &c->outside->devices[i], i, deadline_ns, sink);
	c->outside->read = true;
}

/* One note for all devices with the same result. vt_model_account() reports what is not exact. */
static void say_consistency(struct vt_model *model, enum vt_consistency consistency,
			    const char *why)
{
	const char *devices = "";
	size_t n = 0;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];
		const char *longer;

		if (!a->passes || !a->n_blocks || a->result.result != VT_WALK_COMPLETE ||
		    a->consistency != consistency)
			continue;
		longer =
			vt_arena_printf(&model->arena, "%s%s%d", devices, n ? ", " : "", a->device);
		devices = longer ? longer : devices;
		n++;
	}
	if (n)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_TORCH, "consistent",
			"GPU %s: the blocks were read while the process ran; %s, so they are exact",
			devices, why);
}

/*
 * The driver was asked for the devices' memory earlier, and is not asked again after a walk from
 * outside. So the used memory outside PyTorch is known only if PyTorch has reserved and freed
 * nothing since.
 */
static void compare_reserved(struct vt_collect *c, const struct vt_torch_device_result *result)
{
	bool same = result->device < c->reserved.n && result->have_stats &&
		    !memcmp(&c->reserved.stats[result->device], &result->stats.reserved_bytes,
			    sizeof(c->reserved.stats[0]));

	for (size_t i = 0; i < c->model->devices.n; i++)
		if (c->model->devices.data[i].ordinal == result->device)
			c->model->devices.data[i].memory_moved |= !same;
}

static void finish_walks(struct vt_collect *c, struct vt_outside_sink *sink)
{
	uint64_t deadline_ns = vt_now_ns() + c->options->budget_ns;

	for (int i = 0; i < c->outside->n; i++) {
		struct vt_outside_device *device = &c->outside->devices[i];
		size_t before = sink->n;

		if (device->unproven) {
			device->walk = NULL;
			device->consistency = VT_CONSISTENT_NOT;
			vt_outside_settle(c, device, i, deadline_ns, sink);
		} else if (device->walk) {
			vt_torch_walk_finish(device->walk, &sink->sink);
			/* A refused walk may have asked for room that it did not fill. */
			sink->n = before + device->result.blocks;
		}
	}
}

static void take(struct vt_collect *c, struct vt_outside_sink *sink)
{
	struct vt_torch_device_result results[VT_TORCH_MAX_DEVICES];
	struct vt_model *model = c->model;

	for (int i = 0; i < c->outside->n; i++) {
		results[i] = c->outside->devices[i].result;
		compare_reserved(c, &results[i]);
	}
	model->blocks = sink->records;
	model->n_blocks = sink->n;
	model->blocks_release = heap_release;
	model->torch_method = VT_METHOD_OUTSIDE;
	vt_collect_add_allocators(c, VT_METHOD_OUTSIDE, results, (size_t)c->outside->n);
	for (size_t i = 0; i < model->allocators.n; i++) {
		model->allocators.data[i].consistency = c->outside->devices[i].consistency;
		model->allocators.data[i].passes = c->outside->devices[i].passes;
	}
	say_consistency(model, VT_CONSISTENT_UNCHANGED,
			"PyTorch's own statistics show that nothing changed");
	say_consistency(model, VT_CONSISTENT_REPEATED, "the last two passes agree");
}

static void list_blocks(struct vt_collect *c)
{
	struct vt_outside_sink sink;
	uint64_t start = vt_now_ns();

	vt_outside_sink_init(&sink);
	if (c->options->touch == VT_TOUCH_NOTHING)
		vt_progress("waiting for a moment when the allocator does not change");
	if (!c->outside || !c->outside->read)
		settle(c, &sink);
	if (!c->outside || !c->outside->read)
		return;
	finish_walks(c, &sink);
	take(c, &sink);
	c->model->timing.walk_ms = (double)(c->outside->ns + vt_now_ns() - start) / VT_NS_PER_MS;
}

/* What was listed inside counts, unless the later list is as good. */
static void list_blocks_again(struct vt_collect *c)
{
	struct vt_outside_sink sink;

	vt_outside_sink_init(&sink);
	if (c->outside && c->outside->read && !vt_outside_is_unproven(c)) {
		finish_walks(c, &sink);
		if (vt_outside_is_exact(c)) {
			vt_outside_forget_inside(c->model);
			take(c, &sink);
			c->list_again = false;
			return;
		}
	}
	free(sink.records);
	c->list_again = false;
	/* What is unchanged is the list of the stop, too. */
	if (!c->outside || !c->outside->unchanged)
		vt_collect_recorded_inside(c);
}

static void release(struct vt_collect *c)
{
	if (!c->outside)
		return;
	if (c->outside->chunk)
		munmap(c->outside->chunk, VT_OUTSIDE_CHUNK);
	for (int i = 0; i < VT_TORCH_MAX_DEVICES; i++)
		if (c->outside->devices[i].scratch.base)
			munmap(c->outside->devices[i].scratch.base,
			       c->outside->devices[i].scratch.size);
	free(c->outside);
	c->outside = NULL;
}

static void finish_devices(struct vt_collect *c)
{
	if (c->list_again)
		list_blocks_again(c);
	else if (!vt_collect_blocks_told(c) && !c->torch_inherited)
		list_blocks(c);
	release(c);
}

/* ---- at the stop ---- */

/* If it may not be stopped, finish reads it in passes. */
static bool prepare_for_stop(struct vt_collect *c)
{
	prepare_devices(c);
	return (c->options->touch != VT_TOUCH_NOTHING || c->target.origin->stands_still) &&
	       !vt_collect_outside_is_read(c);
}

static void copy(struct vt_collect *c)
{
	if (c->stop.stands)
		read_devices(c);
}

const struct vt_participant vt_stop_blocks = {
	.want = VT_WANT_MEMORY,
	.prepare = prepare_for_stop,
	.rehearse = rehearse,
	.copy = copy,
	.finish = finish_devices,
};
