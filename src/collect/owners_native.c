/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that no tensor of Python or autograd is in, and whose holders are known to be elsewhere.
 * It reads little, so it is done for each report; owners_unseen.c searches for the others.
 */
#include "collect/owners.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "owners/owners.h"
#include "walk/torch/workspaces.h"

enum {
	MAX_WORKSPACES = 1024,
	MAX_UNKNOWN = 65536, /* blocks */
};

/*
 * Nobody is known that holds it, or somebody in C++. Memory of a CUDA graph's pool without a tensor
 * is among them.
 */
static bool is_unknown(const struct vt_model_owner *owner)
{
	return owner->category == VT_CATEGORY_NATIVE || (!owner->n_storages && !*owner->name);
}

/* The owner of the block in use that begins here, if it is unknown; else NULL. */
static struct vt_model_owner *unknown_at(struct vt_collect *c, uint64_t addr)
{
	struct vt_model_owners *owners = &c->model->owners;

	for (size_t i = 0; i < owners->items.n; i++) {
		struct vt_model_owner *owner = &owners->items.data[i];

		if (is_unknown(owner) && c->model->blocks[owner->block].addr == addr)
			return owner;
	}
	return NULL;
}

static void name_workspaces(struct vt_collect *c)
{
	VT_FREE struct vt_torch_workspace *all = calloc(MAX_WORKSPACES, sizeof(*all));
	size_t n =
		all ? vt_torch_workspaces(&c->target.modules, c->target.mem, all, MAX_WORKSPACES) :
		      0;

	for (size_t i = 0; i < n; i++) {
		struct vt_model_owner *owner = unknown_at(c, all[i].data);

		if (!owner)
			continue;
		owner->category = VT_CATEGORY_WORKSPACE;
		owner->unowned = VT_UNOWNED_LIBRARY;
		owner->name = vt_arena_printf(&c->model->arena, "workspace of %s", all[i].library);
		owner->certain = owner->name;
		owner->name = owner->name ? owner->name : "";
	}
}

size_t vt_collect_owners_stacks(struct vt_collect *c, struct vt_owners_stack *stacks)
{
	size_t n = 0;

	for (size_t i = 0; i < c->stop.session.threads.n; i++) {
		const struct vt_session_thread *thread = &c->stop.session.threads.data[i];
		uint64_t sp = vt_regs_sp(&thread->regs);
		const struct vt_map_entry *entry = thread->stopped || thread->sampled ?
							   vt_maps_find(&c->target.maps, sp) :
							   NULL;

		if (entry)
			stacks[n++] = (struct vt_owners_stack){ thread->tid, sp, entry->end };
	}
	return n;
}

static size_t list_unknown(struct vt_collect *c, uint64_t *blocks)
{
	const struct vt_model_owners *owners = &c->model->owners;
	size_t n = 0;

	for (size_t i = 0; i < owners->items.n && n < MAX_UNKNOWN; i++) {
		if (is_unknown(&owners->items.data[i]))
			blocks[n++] = c->model->blocks[owners->items.data[i].block].addr;
	}
	return n;
}

static void name_found(struct vt_collect *c, const struct vt_owners_found *found)
{
	struct vt_model_owner *owner = unknown_at(c, found->addr);
	const char *name = found->holder ?
				   found->holder->name :
				   vt_arena_printf(&c->model->arena, "temporary in C++ (thread %d)",
						   (int)found->tid);

	if (!owner || !name || (*owner->name && !found->holder))
		return;
	owner->unowned = VT_UNOWNED_LIBRARY;
	owner->category = (uint8_t)(found->holder ? found->holder->category : VT_CATEGORY_FRAME);
	owner->name = name;
}

/* What is not found stays unknown, and the report says so: no error. */
static void name_native(struct vt_collect *c, struct vt_owners *owners)
{
	VT_FREE struct vt_owners_stack *stacks =
		calloc(c->stop.session.threads.n + 1, sizeof(*stacks));
	VT_FREE uint64_t *blocks = calloc(MAX_UNKNOWN, sizeof(*blocks));
	VT_FREE struct vt_owners_found *found = NULL;
	size_t n = stacks && blocks ? list_unknown(c, blocks) : 0, n_found = 0;

	if (!n)
		return;
	found = calloc(n, sizeof(*found));
	if (!found)
		return;

	VT_ERROR struct vt_error *err = vt_owners_find_native(
		owners, stacks, vt_collect_owners_stacks(c, stacks), blocks, n, found, &n_found);

	for (size_t i = 0; i < n_found && !err; i++)
		name_found(c, &found[i]);
}

void vt_collect_owners_native(struct vt_collect *c, struct vt_owners *owners)
{
	name_workspaces(c);
	name_native(c, owners);
}
