/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's allocator into the model: which it is, and the results of a walk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/collect.h"

/* The target runs while its layout is looked for, so a look can fail that the next one passes. */
#define FIND_ATTEMPTS 8

static const char *const backend_names[] = {
	[VT_TORCH_ABSENT] = "not loaded",
	[VT_TORCH_UNUSED] = "not initialised",
	[VT_TORCH_NATIVE] = "native",
	[VT_TORCH_ASYNC] = "cudaMallocAsync",
	[VT_TORCH_PLUGGABLE] = "pluggable",
	[VT_TORCH_UNKNOWN] = "refused",
};

static void find_once(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	struct vt_torch_found found = { 0 };
	/* Not the cached source: while the target runs, what one try read would serve the next. */
	struct vt_error *err = vt_torch_find(&c->modules, &c->maps, c->mem, &found);

	if (err) {
		found.backend = VT_TORCH_UNKNOWN;
		snprintf(found.why, sizeof(found.why), "%s", err->message);
		vt_error_destroy(err);
	}
	c->torch = found;
	model->torch_state = backend_names[found.backend];
	model->versions.torch = vt_collect_copy(c, found.version, sizeof(found.version));
	model->versions.torch_layout =
		found.backend == VT_TORCH_NATIVE ? vt_collect_copy(c, found.layout.name, sizeof(found.layout.name)) : "";
}

void vt_collect_find_torch(struct vt_collect *c)
{
	for (int attempt = 0; attempt < FIND_ATTEMPTS; attempt++) {
		find_once(c);
		if (c->torch.backend != VT_TORCH_UNKNOWN || c->mem->coherent)
			break;
	}
}

static bool pools_known(const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (model->devices.data[i].pools_known)
			return true;
	return false;
}

void vt_collect_say_backend(struct vt_collect *c)
{
	if (c->torch.backend == VT_TORCH_PLUGGABLE)
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "backend-not-native",
			      "PyTorch uses a pluggable allocator, whose blocks cannot be listed");
	if (c->torch.backend != VT_TORCH_ASYNC)
		return;
	if (pools_known(c->model))
		vt_model_diag(c->model, VT_DIAG_NOTE, "torch", "backend-not-native",
			      "PyTorch uses its cudaMallocAsync backend: the blocks are the driver's, which lists none; its "
			      "pools' sums are shown");
	else
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "backend-not-native",
			      "PyTorch uses its cudaMallocAsync backend: what it holds is in the driver's memory pools, of which "
			      "only the driver knows how large they are, and it was not asked or did not say");
}

void vt_collect_find_torch_again(struct vt_collect *c)
{
	if (c->torch.backend == VT_TORCH_UNKNOWN)
		find_once(c);
	if (c->torch.backend == VT_TORCH_UNKNOWN)
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "layout-refused",
			      "PyTorch's allocator is not shown: its layout is not understood (%s); nothing was guessed",
			      c->torch.why);
}

/* What is wrong with the blocks themselves is said by vt_model_account(). */
static void say_who_holds_the_lock(struct vt_collect *c, const struct vt_model_allocator *allocator)
{
	const struct vt_torch_device_result *r = &allocator->result;

	if (r->lock != VT_LOCK_HELD_BY)
		return;
	bool named = *allocator->owner_name; /* a core has no names */

	vt_model_diag(c->model, VT_DIAG_NOTE, "torch", "lock-held",
		      "the allocator's lock of GPU %d is held by thread %d%s%s%s: read without it, %s", allocator->device,
		      r->owner_tid, named ? " (" : "", allocator->owner_name, named ? ")" : "",
		      r->result == VT_WALK_COMPLETE ? "and every sum agrees" : "so what did not fit is left out");
}

void vt_collect_add_allocators(struct vt_collect *c, enum vt_method method, const struct vt_torch_device_result *results,
			       size_t n)
{
	size_t first = 0;

	for (size_t i = 0; i < n; i++) {
		const struct vt_torch_device_result *r = &results[i];
		struct vt_model_allocator *allocator = vt_vec_append(&c->model->allocators);

		if (!allocator || r->blocks > c->model->n_blocks - first) {
			vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "records", "block records of GPU %zu are missing", i);
			if (allocator)
				c->model->allocators.n--;
			return;
		}
		*allocator = (struct vt_model_allocator){
			.device = r->device,
			.method = method,
			.result = *r,
			.first_block = first,
			.n_blocks = r->blocks,
			.owner_name = c->origin->thread_name(c, r->owner_tid),
			/* PyTorch takes its lock itself when it is asked. */
			.consistency = r->lock == VT_LOCK_TAKEN || method == VT_METHOD_INTERPRETER ? VT_CONSISTENT_LOCKED :
												    VT_CONSISTENT_UNCHANGED,
		};
		allocator->result.why[sizeof(r->why) - 1] = '\0';
		first += r->blocks;
		say_who_holds_the_lock(c, allocator);
	}
}

void vt_collect_torch_inherited(struct vt_collect *c)
{
	c->torch_inherited = true;
	c->model->torch_state = "inherited";
	vt_model_diag(c->model, VT_DIAG_NOTE, "torch", "inherited",
		      "PyTorch's allocator in this process is the copy that fork() made of the parent's (process %d): its blocks are "
		      "the parent's, this process holds none",
		      c->proc.ppid);
}
