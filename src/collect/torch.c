/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's allocator into the model: which it is, and the results of a walk. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/collect.h"
#include "walk/torch/find.h"
#include "walk/torch/table.h"

static const enum vt_allocator_state states[] = {
	[VT_TORCH_ABSENT] = VT_ALLOCATOR_NOT_LOADED,
	[VT_TORCH_UNUSED] = VT_ALLOCATOR_NOT_INITIALISED,
	[VT_TORCH_NATIVE] = VT_ALLOCATOR_NATIVE,
	[VT_TORCH_ASYNC] = VT_ALLOCATOR_ASYNC,
	[VT_TORCH_PLUGGABLE] = VT_ALLOCATOR_PLUGGABLE,
	[VT_TORCH_UNKNOWN] = VT_ALLOCATOR_REFUSED,
};

static void tell_found(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	const struct vt_torch_found *found = &c->torch;

	model->torch_state = states[found->backend];
	model->versions.torch = vt_collect_copy(c, found->version, sizeof(found->version));
	model->versions.torch_layout =
		found->row ? vt_collect_copy(c, found->layout.name, sizeof(found->layout.name)) :
			     "";
	model->versions.torch_layout_unknown = found->backend == VT_TORCH_NATIVE && !found->row;
}

/* Of a process that runs, while its allocator is in the middle of a change. */
#define LOOKS 5
#define LOOK_NS VT_NS_PER_MS

void vt_collect_find_torch(struct vt_collect *c)
{
	vt_target_find_torch(&c->target, &c->torch);
	for (int i = 1; i < LOOKS && c->target.live && c->torch.backend == VT_TORCH_UNKNOWN &&
			c->torch.allocator;
	     i++) {
		vt_sleep_ns(LOOK_NS);
		vt_torch_find_layout(&c->target.maps, c->target.mem, c->torch.allocator, &c->torch);
	}
	tell_found(c);
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
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "backend-not-native",
			      "PyTorch uses a pluggable allocator, whose blocks cannot be listed");
	if (c->torch.backend != VT_TORCH_ASYNC)
		return;
	if (pools_known(c->model))
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "backend-not-native",
			"PyTorch uses its cudaMallocAsync backend: the driver owns the blocks and does not list them; the totals of its pools are shown");
	else
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "backend-not-native",
			"PyTorch uses its cudaMallocAsync backend: its memory is in the driver's pools, whose size only the driver knows, and the driver was not asked or did not answer");
}

/* For an unknown release; "" if it has no block that could show any, too. */
static const char *fields_not_found(struct vt_collect *c)
{
	const struct vt_torch_found *found = &c->torch;
	const char *list = "";

	for (enum vt_torch_field field = 0;
	     found->layout.block.size_of && field < VT_TORCH_N_FIELDS; field++) {
		const char *longer;

		if (found->how[field] != VT_TORCH_HOW_NOT)
			continue;
		longer = vt_arena_printf(&c->model->arena, "%s%s%s.%s", list, *list ? ", " : "",
					 vt_torch_field_class(field), vt_torch_field_name(field));
		list = longer ? longer : list;
	}
	return list;
}

/*
 * A layout is taken as it is found. A diagnostic says that no table confirms it, and more so that
 * one contradicts it.
 */
static void say_what_the_table_says(struct vt_collect *c)
{
	const struct vt_torch_found *found = &c->torch;
	const char *version = found->version[0] ? found->version : "of unknown version";
	const char *missing;

	if (found->backend != VT_TORCH_NATIVE)
		return;
	missing = fields_not_found(c);
	if (found->differs[0])
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "layout-differs",
			"the layout of PyTorch %s differs from the table's row of this release: %s",
			version, found->differs);
	if (!found->row)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "layout-unknown",
			"PyTorch %s is not a release that this vramtap knows: its allocator's layout was found by signature alone, and is used only where every check of every block passed%s%s",
			version, *missing ? "; not found: " : "", missing);
}

/*
 * Blocks may have appeared since none showed the fields of a block; and what was not found while
 * the target ran may be found now. The place of the allocator and its version are known: no file is
 * read while the target is stopped.
 */
static bool look_again(const struct vt_torch_found *found)
{
	return found->allocator &&
	       (found->backend == VT_TORCH_UNKNOWN ||
		(found->backend == VT_TORCH_NATIVE && !found->layout.block.size_of));
}

void vt_collect_find_torch_again(struct vt_collect *c)
{
	if (look_again(&c->torch)) {
		vt_torch_find_layout(&c->target.maps, c->target.mem, c->torch.allocator, &c->torch);
		tell_found(c);
	}
	if (c->torch.backend == VT_TORCH_UNKNOWN)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "layout-refused",
			"PyTorch's allocator is not shown: its layout is not understood (%s); nothing was guessed",
			c->torch.why);
}

static const char *build_id_of(struct vt_collect *c, struct vt_module *module)
{
	char text[2 * VT_BUILD_ID_MAX + 1] = "";
	VT_ERROR struct vt_error *err = vt_module_open(&c->target.modules, module);

	for (size_t i = 0; !err && i < module->build_id_len; i++)
		snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
	return vt_collect_copy(c, text, sizeof(text));
}

static const char *wheel_with(const char *build_id)
{
	size_t n;
	const struct vt_torch_row *rows = vt_torch_rows(&n);

	for (size_t i = 0; *build_id && i < n; i++) {
		if (!vt_torch_is_hidden(&rows[i]) && !strcmp(rows[i].build_id, build_id))
			return rows[i].wheel;
	}
	return NULL;
}

void vt_collect_layout_seen(struct vt_collect *c, struct vt_layout_seen *seen)
{
	struct vt_module *library = (struct vt_module *)c->torch.c10_cuda;
	char process[sizeof(c->target.proc.name) + 16];

	snprintf(process, sizeof(process), "%s (%d)", c->target.proc.name, (int)c->target.proc.pid);
	*seen = (struct vt_layout_seen){
		.pid = c->target.proc.pid,
		.found = c->torch,
		.process = vt_collect_copy(c, process, sizeof(process)),
		.state = states[c->torch.backend],
		.library = library ? vt_collect_copy(c, library->path, PATH_MAX) : "",
		.build_id = library ? build_id_of(c, library) : "",
	};
	seen->found.c10_cuda = NULL;
	seen->wheel = wheel_with(seen->build_id);
}

/* vt_model_account() reports what is wrong with the blocks themselves. */
static void say_who_holds_the_lock(struct vt_collect *c, const struct vt_model_allocator *allocator)
{
	const struct vt_torch_device_result *r = &allocator->result;

	if (r->lock != VT_LOCK_HELD_BY)
		return;
	bool named = *allocator->owner_name; /* a core has no names */

	vt_model_diag(
		c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "lock-held",
		"the allocator's lock of GPU %d is held by thread %d%s%s%s: read without it, %s",
		allocator->device, r->owner_tid, named ? " (" : "", allocator->owner_name,
		named ? ")" : "",
		r->result == VT_WALK_COMPLETE ? "and every total agrees" :
						"but blocks that do not fit are left out");
}

/*
 * For a release that no table knows, only what passed all checks is shown; the rest, if some
 * failed, proves nothing.
 */
static void refuse_unproven(struct vt_model_allocator *allocator)
{
	struct vt_torch_device_result *r = &allocator->result;
	char why[sizeof(r->why)];

	snprintf(why, sizeof(why), "unknown release: %.*s", (int)sizeof(why) - 18, r->why);
	*r = (struct vt_torch_device_result){
		.device = r->device,
		.result = VT_WALK_REFUSED,
		.lock = r->lock,
		.owner_tid = r->owner_tid,
		.walk_ns = r->walk_ns,
		.read_ns = r->read_ns,
		.allocator = r->allocator,
		.bad_addr = r->bad_addr,
	};
	memcpy(r->why, why, sizeof(why));
	allocator->n_blocks = 0;
}

void vt_collect_add_allocators(struct vt_collect *c, enum vt_method method,
			       const struct vt_torch_device_result *results, size_t n)
{
	size_t first = 0;

	if (!c->list_again) /* else it is known */
		say_what_the_table_says(c);
	for (size_t i = 0; i < n; i++) {
		const struct vt_torch_device_result *r = &results[i];
		struct vt_model_allocator *allocator = vt_vec_append(&c->model->allocators);

		if (!allocator || r->blocks > c->model->n_blocks - first) {
			vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_TORCH, "records",
				      "block records of GPU %zu are missing", i);
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
			.owner_name = c->target.origin->thread_name(c, r->owner_tid),
			/* PyTorch takes its lock itself when it is asked. */
			.consistency = r->lock == VT_LOCK_TAKEN || method == VT_METHOD_INTERPRETER ?
					       VT_CONSISTENT_LOCKED :
					       VT_CONSISTENT_UNCHANGED,
		};
		allocator->result.why[sizeof(r->why) - 1] = '\0';
		first += r->blocks;
		if (!c->torch.row && r->result == VT_WALK_UNSTABLE)
			refuse_unproven(allocator);
		say_who_holds_the_lock(c, allocator);
	}
}

void vt_collect_torch_inherited(struct vt_collect *c)
{
	c->torch_inherited = true;
	c->model->torch_state = VT_ALLOCATOR_INHERITED;
	vt_model_diag(
		c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "inherited",
		"PyTorch's allocator in this process was copied from the parent (process %d) by fork(): the blocks belong to the parent, this process holds none",
		c->target.proc.ppid);
}
