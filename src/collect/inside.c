/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's answers from inside the process: devices with their memory, and the allocator's
 * blocks.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "inject/cuda_imports.h"
#include "walk/torch/abi.h"

/* CUDA error numbers that have a meaning of their own here (cuda.h: CUDA_ERROR_NOT_INITIALIZED). */
#define CUDA_NOT_INITIALIZED 3

/*
 * How long the helper tries one device's allocator lock; PyTorch holds it for microseconds, or for
 * ever.
 */
#define LOCK_DEADLINE_NS (50 * VT_NS_PER_MS)
#define WALK_DEADLINE_NS (5 * VT_NS_PER_S)
#define MAX_BLOCKS 50000000
#define POOLS_DEADLINE_NS VT_NS_PER_S
/* New blocks between the count and the walk. */
#define SPARE_BLOCKS 4096

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue ..." */
static void read_driver_version(struct vt_collect *c)
{
	VT_FCLOSE FILE *file = fopen("/proc/driver/nvidia/version", "re");
	char line[512], *save = NULL;

	c->model->versions.driver = "";
	if (!file || !fgets(line, sizeof(line), file))
		return;
	for (char *word = strtok_r(line, " \t\n", &save); word;
	     word = strtok_r(NULL, " \t\n", &save))
		if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.'))
			c->model->versions.driver = vt_collect_copy(c, word, 32);
}

static void add_device(struct vt_collect *c, const struct vt_cuda_device *from)
{
	struct vt_model_device *device = vt_vec_append(&c->model->devices);

	if (!device) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "nomem",
			      "GPU %d is missing: not enough memory here", from->ordinal);
		return;
	}
	*device = (struct vt_model_device){
		.ordinal = from->ordinal,
		.name = vt_collect_copy(c, from->name, sizeof(from->name)),
		.context_active = from->context_active,
		.context = from->context,
		.have_memory = from->have_memory && from->total_bytes >= from->free_bytes &&
			       from->total_bytes > 0,
		.memory_from = from->memory_from ? "cuMemGetInfo" : "cudaMemGetInfo",
		.have_uuid = true,
	};
	memcpy(device->uuid, from->uuid, sizeof(device->uuid));
	device->total_bytes = from->total_bytes;
	if (device->have_memory) {
		device->free_bytes = from->free_bytes;
		device->used_bytes = from->total_bytes - from->free_bytes;
		return;
	}
	if (!from->context_active) {
		device->why_no_memory = "this process has no context on it";
		return;
	}
	if (from->have_memory && !from->error) {
		device->why_no_memory = "the numbers that came back make no sense";
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "memory-nonsense",
			      "GPU %d: %llu bytes free of %llu makes no sense: not shown",
			      from->ordinal, (unsigned long long)from->free_bytes,
			      (unsigned long long)from->total_bytes);
		return;
	}
	device->why_no_memory = vt_arena_printf(&c->model->arena,
						"the call failed with CUDA error %d", from->error);
	vt_model_diag(
		c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "meminfo-failed",
		"the free memory of GPU %d is unknown: the call failed inside the process with CUDA error %d",
		from->ordinal, from->error);
}

static void ask_cuda(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_error *err =
		vt_helper_call(helper, VT_OP_CUDA, vt_now_ns() + c->options->budget_ns);

	if (err) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_CUDA,
				      "the device's memory is unknown", err);
		return;
	}

	/* A copy: the target could change the shared file between a check and a use. */
	struct vt_cuda_answer answer = vt_helper_shared(helper)->cuda;
	int n = answer.n_devices < 0                   ? 0 :
		answer.n_devices > VT_MAX_CUDA_DEVICES ? VT_MAX_CUDA_DEVICES :
							 answer.n_devices;

	c->context_slot = answer.context_slot;
	c->context_inner = answer.context_inner;
	c->model->versions.cuda_driver = answer.driver_version;
	c->model->versions.cuda_runtime = answer.runtime_version;
	c->driver = VT_DRIVER_ANSWERED;
	if (answer.error == CUDA_NOT_INITIALIZED) {
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "not-initialised",
			"CUDA is loaded but this process never initialised it: it holds no device memory");
		c->model->cuda_method = VT_METHOD_INSIDE;
		c->driver = VT_DRIVER_UNUSED;
		if (c->torch.backend == VT_TORCH_NATIVE)
			vt_collect_torch_inherited(c);
		return;
	}
	if (answer.error) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "enumeration-failed",
			      "the devices are unknown: the driver answered with CUDA error %d",
			      answer.error);
		return;
	}
	c->model->cuda_method = VT_METHOD_INSIDE;
	for (int i = 0; i < n; i++)
		add_device(c, &answer.devices[i]);
	if (n == 0)
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "no-devices",
			      "the driver shows this process no device");
}

static void add_pool(struct vt_model_device *device, int kind, const struct vt_cuda_pool *from)
{
	if (!from->handle || from->error)
		return;
	device->pools_known = true;
	device->pools[device->n_pools++] = (struct vt_model_pool){
		.is_current = kind == VT_POOL_CURRENT,
		.handle = from->handle,
		.reserved_bytes = from->reserved,
		.reserved_high_bytes = from->reserved_high,
		.used_bytes = from->used,
		.used_high_bytes = from->used_high,
	};
}

/* The last question to the driver: if it does not answer, nothing else is lost. */
static void ask_pools(struct vt_collect *c, struct vt_helper *helper)
{
	uint64_t budget = c->options->budget_ns < POOLS_DEADLINE_NS ? c->options->budget_ns :
								      POOLS_DEADLINE_NS;
	struct vt_error *err = vt_helper_call(helper, VT_OP_CUDA_POOLS, vt_now_ns() + budget);

	if (err) {
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_CUDA,
				      "the driver's memory pools are not known", err);
		return;
	}

	struct vt_cuda_pools_answer answer = vt_helper_shared(helper)->pools; /* a copy, as above */

	for (size_t i = 0; i < c->model->devices.n; i++) {
		struct vt_model_device *device = &c->model->devices.data[i];

		if (device->ordinal < 0 || device->ordinal >= VT_MAX_CUDA_DEVICES ||
		    device->ordinal >= answer.n_devices)
			continue;
		for (int k = 0; k < VT_N_POOLS; k++)
			add_pool(device, k, &answer.pools[device->ordinal][k]);
	}
}

/* The totals that each device's allocator has ever reserved and freed; they hardly ever repeat. */
static void read_reserved(struct vt_collect *c, struct vt_reserved *reserved)
{
	struct vt_memsrc *src = vt_live_source(c->target.live);
	uint64_t dcas[VT_TORCH_MAX_DEVICES];

	*reserved = (struct vt_reserved){ .n = vt_torch_devices(src, &c->torch.layout,
								c->torch.allocator, dcas) };
	for (int i = 0; i < reserved->n; i++)
		if (vt_mem_read(src, dcas[i] + c->torch.layout.stats + 5 * VT_STATS_ARRAY,
				&reserved->stats[i], sizeof(reserved->stats[i])))
			reserved->n = -1;
}

/* The devices' memory again; all zero if they do not answer. */
static struct vt_cuda_answer ask_again(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_error *err =
		vt_helper_call(helper, VT_OP_CUDA, vt_now_ns() + c->options->budget_ns);
	struct vt_cuda_answer answer = { 0 };

	if (!err)
		answer = vt_helper_shared(helper)->cuda;
	vt_error_destroy(err);
	return answer;
}

static bool is_same_memory(const struct vt_cuda_answer *answer, size_t i,
			   const struct vt_model_device *device)
{
	return !answer->error && (int64_t)i < answer->n_devices && i < VT_MAX_CUDA_DEVICES &&
	       answer->devices[i].ordinal == device->ordinal && answer->devices[i].have_memory &&
	       answer->devices[i].free_bytes == device->free_bytes;
}

/*
 * The device's memory was read before the walk. Read again after it, both numbers must be the same,
 * and the allocator must have reserved and freed nothing since before: otherwise the difference
 * between used and reserved mixes two moments, and means nothing.
 */
static void ask_memory_again(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_cuda_answer answer = ask_again(c, helper);
	const struct vt_reserved *before = &c->reserved;
	struct vt_reserved after;

	read_reserved(c, &after);
	for (size_t i = 0; i < c->model->devices.n; i++) {
		struct vt_model_device *device = &c->model->devices.data[i];

		device->memory_moved =
			!is_same_memory(&answer, i, device) || before->n != after.n ||
			after.n < 0 ||
			((int64_t)i < after.n &&
			 memcmp(&before->stats[i], &after.stats[i], sizeof(after.stats[i])) != 0);
	}
}

/* The same if PyTorch listed its blocks: asks again whether it has done anything since. */
static void ask_all_again(struct vt_collect *c, struct vt_helper *helper,
			  const struct vt_ask_pytorch_args *args)
{
	struct vt_cuda_answer answer = ask_again(c, helper);
	bool nothing = vt_collect_nothing_reserved(c, helper, args);

	for (size_t i = 0; i < c->model->devices.n; i++) {
		struct vt_model_device *device = &c->model->devices.data[i];

		device->memory_moved = !nothing || !is_same_memory(&answer, i, device);
	}
}

/* An upper bound on the number of blocks, counted from outside; only for sizing the answer. */
static uint64_t estimate_blocks(struct vt_collect *c)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES], total = 0;
	struct vt_memsrc *src = vt_live_cached_source(c->target.live);
	int n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);

	for (int i = 0; i < n; i++) {
		int64_t count = vt_torch_count_blocks(src, &c->torch.layout, dcas[i]);

		if (count > 0)
			total += (uint64_t)count;
	}
	return total < MAX_BLOCKS ? total + SPARE_BLOCKS : MAX_BLOCKS;
}

/*
 * If the target allocates so much in the meantime that the room is too small, vt_helper_call()
 * grows it.
 */
static struct vt_error *walk_torch(struct vt_collect *c, struct vt_helper *helper)
{
	VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET +
					      estimate_blocks(c) * sizeof(struct vt_block_rec)));
	vt_helper_shared(helper)->args.torch_walk = (struct vt_torch_walk_args){
		.allocator = c->torch.allocator,
		.lock_deadline_ns = LOCK_DEADLINE_NS,
		.walk_deadline_ns = WALK_DEADLINE_NS,
		.max_blocks = MAX_BLOCKS,
		.layout = c->torch.layout,
	};
	return vt_helper_call(helper, VT_OP_TORCH_WALK, vt_now_ns() + c->options->budget_ns);
}

static struct vt_error *take_torch(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_model *model = c->model;

	VT_TRY(walk_torch(c, helper));

	struct vt_torch_walk_answer answer = vt_helper_shared(helper)->torch;

	if (answer.n_devices < 0 || answer.n_devices > VT_TORCH_MAX_DEVICES)
		return vt_error_create(VT_ERR_FORMAT, "the helper answered for %d devices",
				       answer.n_devices);
	VT_TRY(vt_helper_take_blocks(helper, &model->blocks, &model->n_blocks,
				     &model->blocks_release));
	vt_collect_add_allocators(c, VT_METHOD_INSIDE, answer.devices, (size_t)answer.n_devices);
	model->timing.walk_ms = (double)answer.total_ns / VT_NS_PER_MS;
	model->torch_method = VT_METHOD_INSIDE;
	return NULL;
}

/* The blocks by the walk; device memory was read before, and is read again. */
static void walk_inside(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_error *err = take_torch(c, helper);

	if (err) {
		vt_collect_diag_error(
			c, VT_DIAG_NOTE, VT_STAGE_TORCH,
			"the allocator was read from outside, because the walk inside did not finish",
			err);
		return;
	}
	if (c->model->devices.n > 0)
		ask_memory_again(c, helper);
}

/* What PyTorch had reserved while the ranges were asked for. */
static void take_reserved(struct vt_model_ledger_device *d, const struct vt_reserved *before,
			  const struct vt_reserved *after)
{
	if (d->device < 0 || d->device >= before->n || d->device >= after->n)
		return;
	d->torch_known = true;
	d->torch_reserved = before->stats[d->device];
	d->torch_moved = memcmp(&before->stats[d->device], &after->stats[d->device],
				sizeof(after->stats[d->device])) != 0;
}

/* The ledger's sums need used memory of the same moment: the same before and after. */
static void find_ledger(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_model_ledger *ledger = &c->model->ledger;
	struct vt_cuda_answer answer;
	struct vt_reserved before = { .n = -1 }, after = { .n = -1 };
	bool native = c->torch.backend == VT_TORCH_NATIVE;

	if (native)
		read_reserved(c, &before);
	if (!vt_collect_ledger(c, helper) && !ledger->known)
		return;
	if (native)
		read_reserved(c, &after);
	answer = ask_again(c, helper);
	for (size_t i = 0; i < ledger->devices.n; i++) {
		struct vt_model_ledger_device *d = &ledger->devices.data[i];
		size_t k = 0;

		while (k < c->model->devices.n && c->model->devices.data[k].ordinal != d->device)
			k++;
		d->moved = k == c->model->devices.n ||
			   !is_same_memory(&answer, k, &c->model->devices.data[k]);
		take_reserved(d, &before, &after);
	}
}

static bool has_context(const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (model->devices.data[i].context_active)
			return true;
	return false;
}

/* Why PyTorch cannot be asked at all, or NULL. */
static const char *why_not_ask(const struct vt_collect *c)
{
	if (c->torch_inherited)
		return "its allocator is a copy of the parent's";
	if (c->driver == VT_DRIVER_SILENT)
		return "the driver did not answer";
	if (!has_context(c->model))
		return "this process has no CUDA context";
	if (!c->torch.allocator ||
	    (c->torch.backend != VT_TORCH_NATIVE && c->torch.backend != VT_TORCH_UNKNOWN))
		return "its native allocator is not in use";
	return NULL;
}

/*
 * The blocks as PyTorch lists them: if their layout is refused, or the user prefers it. False: it
 * did not list them.
 */
static bool ask_pytorch(struct vt_collect *c, struct vt_helper *helper)
{
	static const char not_asked[] = "PyTorch itself was not asked for its blocks";
	struct vt_ask_pytorch_args args;
	struct vt_error *err;

	if (c->torch.backend != VT_TORCH_UNKNOWN && !c->options->ask_pytorch)
		return false;
	if (why_not_ask(c)) {
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "not-asked", "%s: %s",
			      not_asked, why_not_ask(c));
		return false;
	}
	err = vt_collect_ask_pytorch(c, helper, &args);
	if (err) {
		if (err->code == VT_ERR_TIMEOUT)
			vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "no-answer",
				      "PyTorch did not list its blocks: %s", err->message);
		else
			vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "not-asked", "%s: %s",
				      not_asked, err->message);
		vt_error_destroy(err);
		return false;
	}
	ask_all_again(c, helper, &args);
	vt_collect_say_asked(c);
	return true;
}

static struct vt_error *start_helper(struct vt_collect *c, struct vt_helper **helper)
{
	struct vt_inject_options options = { .budget_ns = c->options->budget_ns,
					     .allow_resume = c->options->allow_resume };
	struct vt_inject_timing timing = { 0 };

	VT_TRY(vt_helper_create(&c->target.proc, &c->target.modules, c->target.live, &options,
				&timing, helper));
	c->helper_tid = vt_helper_tid(*helper);
	c->model->timing.attach_ms = (double)timing.total_ns / VT_NS_PER_MS;
	c->model->timing.borrowed_us = (double)timing.borrowed_ns / VT_NS_PER_US;
	c->model->timing.borrowed_tid = timing.borrowed_tid;
	vt_cuda_imports(&c->target.modules, &vt_helper_shared(*helper)->imports);
	return NULL;
}

static bool has_driver(struct vt_collect *c)
{
	size_t index = 0;

	return vt_modules_by_name(&c->target.modules, "libcuda.so", &index) != NULL;
}

void vt_collect_say_not_asked(struct vt_collect *c)
{
	if (!c->model->process.uses_cuda || !c->target.live || c->target.held ||
	    c->options->touch == VT_TOUCH_INSIDE || c->model->devices.n)
		return;
	vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "read-only",
		      "the devices were not asked for their memory: %s runs no code in the process",
		      vt_touch_option(c->options->touch));
}

void vt_collect_inside(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	struct vt_helper *helper = NULL;

	c->reserved.n = -1;
	read_driver_version(c);
	model->process.uses_cuda = has_driver(c);
	if (!model->process.uses_cuda)
		return;
	if (c->target.held)
		return; /* nothing can run in it, which model.held_by says */
	if (c->options->touch != VT_TOUCH_INSIDE)
		return; /* see vt_collect_say_not_asked() */

	struct vt_error *err = start_helper(c, &helper);

	if (err) {
		vt_collect_diag_error(
			c, VT_DIAG_MISSING, VT_STAGE_INJECT,
			"the devices could not be asked for their memory; all else was read from outside",
			err);
		return;
	}
	c->helper = helper;
	vt_collect_owners_explore(c);
	vt_collect_moment_begins(c);
	if (c->torch.backend == VT_TORCH_NATIVE)
		read_reserved(c, &c->reserved);
	ask_cuda(c, helper);
	vt_collect_recorded_before(c);
	if (!ask_pytorch(c, helper) && c->torch.backend == VT_TORCH_NATIVE && !c->torch_inherited)
		walk_inside(c, helper);
	if (c->options->ask_pytorch)
		vt_collect_ask_owners(c, helper);
	if (model->devices.n > 0)
		ask_pools(c, helper);
	if (c->options->ledger && has_context(model))
		find_ledger(c, helper);
	if (c->options->ask_jax)
		vt_collect_ask_jax(c, helper);
	if (c->options->ask_collectives)
		vt_collect_flight(c, helper);
	vt_collect_streams(c, 0);
	if (vt_collect_limits_wanted(c) || c->model->streams.wanted || vt_collect_owners_compare(c))
		return;
	c->helper = NULL;
	vt_helper_destroy(helper);
	vt_target_withdraw_maps(&c->target); /* it has the helper's mappings */
}

/* The driver has answered before, and which context is active the helper sees itself. */
struct vt_error *vt_collect_inside_streams(struct vt_collect *c)
{
	if (!has_driver(c))
		return vt_error_create(VT_ERR_NOTFOUND, "the process has no CUDA driver any more");
	VT_TRY(start_helper(c, &c->helper));
	c->driver = VT_DRIVER_ANSWERED;
	vt_collect_streams(c, 0);
	return NULL;
}
