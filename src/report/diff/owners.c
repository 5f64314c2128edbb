/* SPDX-License-Identifier: Apache-2.0 */
/* Who held the blocks in use before, and who holds them now. */
#include "report/diff/owners.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

static bool are_exact(const struct vt_diff *diff)
{
	for (size_t i = 0; i < diff->devices.n; i++)
		if (!diff->devices.data[i].exact)
			return false;
	return true;
}

static enum vt_diff_owners judge(const struct vt_diff *diff)
{
	bool before = diff->before->owners.state == VT_OWNERS_READ,
	     after = diff->after->owners.state == VT_OWNERS_READ;

	if (!before && !after)
		return VT_DIFF_OWNERS_NEITHER;
	if (!before || !after)
		return after ? VT_DIFF_OWNERS_AFTER : VT_DIFF_OWNERS_BEFORE;
	return are_exact(diff) ? VT_DIFF_OWNERS_COMPARED : VT_DIFF_OWNERS_INEXACT;
}

static bool are_whole(const struct vt_diff *diff)
{
	const struct vt_model_owners *before = &diff->before->owners, *after = &diff->after->owners;

	return before->asked || after->asked ? before->asked && after->asked :
					       before->whole && after->whole;
}

static bool add(struct vt_diff *diff, const struct vt_keeper *before, const struct vt_keeper *after)
{
	static const struct vt_keeper nothing;
	struct vt_diff_owner *owner = vt_vec_append(&diff->owners);
	const struct vt_keeper *is = after ? after : before;

	if (!owner)
		return false;
	before = before ? before : &nothing;
	after = after ? after : &nothing;
	*owner = (struct vt_diff_owner){
		.variable = is->variable,
		.path = is->path,
		.category = is->category,
		.certain = is->certain,
		.amount = { { before->bytes, before->blocks }, { after->bytes, after->blocks } },
		.tensors_before = before->tensors,
		.tensors_after = after->tensors,
	};
	return true;
}

/* The largest growth first; unchanged ones by size. */
static int compare(const void *a, const void *b)
{
	const struct vt_diff_owner *x = a, *y = b;
	int64_t of_x = vt_diff_bytes(&x->amount), of_y = vt_diff_bytes(&y->amount);

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	if (x->amount.after.bytes != y->amount.after.bytes)
		return x->amount.after.bytes > y->amount.after.bytes ? -1 : 1;
	if (x->category != y->category)
		return x->category < y->category ? -1 : 1;
	return strcmp(x->variable, y->variable);
}

/* Saved reports are not counted when they are loaded. */
static void compare_categories(struct vt_diff *diff)
{
	for (size_t i = 0; i < diff->owners.n; i++) {
		const struct vt_diff_amount *a = &diff->owners.data[i].amount;
		struct vt_diff_amount *sum = &diff->categories[diff->owners.data[i].category];

		sum->before.bytes += a->before.bytes;
		sum->before.blocks += a->before.blocks;
		sum->after.bytes += a->after.bytes;
		sum->after.blocks += a->after.blocks;
	}
}

/* ---- blocks with another owner ---- */

/* Addresses of blocks: index in owners.items. */
static bool index_owners(const struct vt_model *model, struct vt_map *by_address)
{
	for (size_t i = 0; i < model->owners.items.n; i++)
		if (!vt_map_put(by_address, model->blocks[model->owners.items.data[i].block].addr,
				i))
			return false;
	return true;
}

static const struct vt_keeper *keeper_of(const struct vt_keepers *keepers, size_t owner)
{
	return &keepers->items.data[keepers->of_owner.data[owner]];
}

/* diff.owners are those of the later report, in its order, and then those that are gone. */
static void find_renamed(struct vt_diff *diff, const struct vt_map *by_address)
{
	const struct vt_model *before = diff->before, *after = diff->after;

	for (size_t i = 0; i < after->owners.items.n; i++) {
		const struct vt_block_rec *is = &after->blocks[after->owners.items.data[i].block],
					  *was;
		const uint64_t *found = vt_map_get(by_address, is->addr);
		const struct vt_keeper *a, *b;
		struct vt_diff_owner *owner;

		if (!found)
			continue;
		was = &before->blocks[before->owners.items.data[*found].block];
		a = keeper_of(&diff->keepers[0], *found);
		b = keeper_of(&diff->keepers[1], i);
		if (was->size != is->size || was->device != is->device ||
		    (a->category == b->category && !strcmp(a->variable, b->variable)))
			continue;
		owner = &diff->owners.data[diff->keepers[1].of_owner.data[i]];
		owner->renamed.bytes += is->size;
		owner->renamed.blocks++;
	}
}

static bool compare_names(struct vt_diff *diff)
{
	struct vt_map by_address = { 0 };
	bool ok;

	if (diff->why_other)
		return true;
	ok = index_owners(diff->before, &by_address);
	if (ok)
		find_renamed(diff, &by_address);
	vt_map_deinit(&by_address);
	return ok;
}

bool vt_diff_compare_owners(struct vt_diff *diff)
{
	bool ok = true;

	diff->owners_compared = judge(diff);
	if (diff->owners_compared != VT_DIFF_OWNERS_COMPARED)
		return true;
	if (!vt_keepers_init(&diff->keepers[0], diff->before) ||
	    !vt_keepers_init(&diff->keepers[1], diff->after))
		return false;
	for (size_t i = 0; i < diff->keepers[1].items.n && ok; i++) {
		const struct vt_keeper *after = &diff->keepers[1].items.data[i];

		ok = add(diff, vt_keepers_find(&diff->keepers[0], after->variable, after->category),
			 after);
	}
	for (size_t i = 0; i < diff->keepers[0].items.n && ok; i++) {
		const struct vt_keeper *before = &diff->keepers[0].items.data[i];

		if (!vt_keepers_find(&diff->keepers[1], before->variable, before->category))
			ok = add(diff, before, NULL);
	}
	ok = ok && compare_names(diff);
	compare_categories(diff);
	diff->owners_whole = are_whole(diff);
	if (diff->owners.n > 1)
		qsort(diff->owners.data, diff->owners.n, sizeof(*diff->owners.data), compare);
	return ok;
}
