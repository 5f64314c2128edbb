/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the owners of the blocks tell: each of their notices (model/notices.c, found in owners/),
 * with what to do about it; and a container that keeps much. A notice that is no alarm may be on
 * purpose: it is advice only where memory is wanting.
 */
#include <string.h>

#include "advise/internal.h"
#include "model/notices.h"

#define LEAST_ITEMS 4

static bool is_wanting(const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (vt_advise_was_short(model, model->devices.data[i].ordinal))
			return true;
	return false;
}

static void add_name(struct vt_advise *a, struct vt_model_advice *advice, const char *name,
		     const char *text)
{
	if (text && *text)
		vt_advise_text(a, advice, name, text);
}

/* ---- what a rule says of its notice ---- */

static void say_exception(struct vt_advise *a, struct vt_model_advice *advice,
			  const struct vt_model_notice *n)
{
	vt_advise_number(advice, "exceptions", n->count);
	vt_advise_number(advice, "part_bytes", n->part_bytes);
	add_name(a, advice, "name", n->name);
	add_name(a, advice, "type", n->type);
	add_name(a, advice, "kept", n->other);
}

static void say_garbage(struct vt_advise *a, struct vt_model_advice *advice,
			const struct vt_model_notice *n)
{
	add_name(a, advice, "name", n->name);
	add_name(a, advice, "collector", vt_notice_why((enum vt_why)n->why));
	vt_advise_setting(a, advice,
			  n->why == VT_WHY_FROZEN ? "gc.unfreeze(); gc.collect()" : "gc.collect()");
}

static void say_graphs(struct vt_advise *a, struct vt_model_advice *advice,
		       const struct vt_model_notice *n)
{
	add_name(a, advice, "name", n->name);
	vt_advise_number(advice, "items", n->count);
	vt_advise_number(advice, "graph_bytes", n->part_bytes);
	if (n->why == VT_WHY_GROWS)
		vt_advise_number(advice, "versions", n->versions);
	else if (n->why == VT_WHY_NONE)
		vt_advise_sure(advice, VT_SURE_POSSIBLE);
}

static void say_parameters(struct vt_advise *a, struct vt_model_advice *advice,
			   const struct vt_model_notice *n)
{
	add_name(a, advice, "name", n->name);
	vt_advise_number(advice, "parameters", n->count);
	if (n->part_bytes)
		vt_advise_number(advice, "state_bytes", n->part_bytes);
}

static void say_gradients(struct vt_advise *a, struct vt_model_advice *advice,
			  const struct vt_model_notice *n)
{
	(void)a;
	vt_advise_number(advice, "parameters", n->count);
	vt_advise_sure(advice, VT_SURE_POSSIBLE);
}

static void say_copy(struct vt_advise *a, struct vt_model_advice *advice,
		     const struct vt_model_notice *n)
{
	add_name(a, advice, "name", n->name);
	add_name(a, advice, "other", n->other);
	if (n->code == VT_NOTICE_EQUAL_MODELS)
		vt_advise_number(advice, "models", n->count);
}

static void say_dataset(struct vt_advise *a, struct vt_model_advice *advice,
			const struct vt_model_notice *n)
{
	add_name(a, advice, "name", n->name);
	add_name(a, advice, "type", n->type);
}

static const struct {
	enum vt_advice_rule rule;
	enum vt_notice notice;
	void (*say)(struct vt_advise *a, struct vt_model_advice *advice,
		    const struct vt_model_notice *n);
} of_notices[] = {
	{ VT_ADVICE_HELD_BY_EXCEPTION, VT_NOTICE_EXCEPTION, say_exception },
	{ VT_ADVICE_GARBAGE, VT_NOTICE_GARBAGE, say_garbage },
	{ VT_ADVICE_KEPT_GRAPHS, VT_NOTICE_KEPT_GRAPHS, say_graphs },
	{ VT_ADVICE_LEFT_PARAMETERS, VT_NOTICE_LEFT_PARAMETERS, say_parameters },
	{ VT_ADVICE_FROZEN_STATE, VT_NOTICE_FROZEN_STATE, say_parameters },
	{ VT_ADVICE_LOST_GRADIENTS, VT_NOTICE_LOST_GRADIENTS, say_parameters },
	{ VT_ADVICE_KEPT_GRADIENTS, VT_NOTICE_KEPT_GRADIENTS, say_gradients },
	{ VT_ADVICE_DATA_SET, VT_NOTICE_DATASET, say_dataset },
	{ VT_ADVICE_STATE_COPY, VT_NOTICE_STATE_COPY, say_copy },
	{ VT_ADVICE_EQUAL_MODELS, VT_NOTICE_EQUAL_MODELS, say_copy },
};

/* What goes by itself soon: an exception that is handled, and young garbage. */
static bool is_passing(const struct vt_model_notice *n)
{
	return n->why == VT_WHY_HANDLED || n->why == VT_WHY_YOUNG;
}

static void advise_notice(struct vt_advise *a, size_t row, const struct vt_model_notice *n)
{
	struct vt_model_advice *advice;
	bool alarm = vt_notice_is_alarm(n);

	if (is_passing(n) || (!alarm && !is_wanting(a->model)))
		return;
	advice = vt_advise_add(a, -1);
	if (!advice)
		return;
	advice->alarm = alarm;
	if (!n->certain)
		vt_advise_sure(advice, VT_SURE_POSSIBLE);
	vt_advise_number(advice, "held_bytes", n->bytes);
	of_notices[row].say(a, advice, n);
}

void vt_advise_notices(struct vt_advise *a)
{
	const struct vt_model_owners *owners = &a->model->owners;
	size_t row = 0;

	while (of_notices[row].rule != a->row->rule)
		row++;
	for (size_t i = 0; i < owners->notices.n; i++)
		if (owners->notices.data[i].code == of_notices[row].notice)
			advise_notice(a, row, &owners->notices.data[i]);
}

/* ---- containers ---- */

/* 0: not known, for an allocator could not be read exactly. */
static uint64_t all_in_use(const struct vt_model *model)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < model->allocators.n; i++) {
		if (!model->allocators.data[i].exact)
			return 0;
		bytes += model->allocators.data[i].allocated_bytes;
	}
	return bytes;
}

static bool has_notice(const struct vt_model_owners *owners, const char *name)
{
	for (size_t i = 0; i < owners->notices.n; i++)
		if (!strcmp(owners->notices.data[i].name, name))
			return true;
	return false;
}

/*
 * Of what a container keeps, how much is neither a part of a model, an optimizer or a cache, nor
 * for a graph? Its blocks have names that have its own in them: "outputs[3]",
 * "… kept by outputs[3]".
 */
static uint64_t plain_bytes(const struct vt_model *model, const struct vt_model_freed *freed)
{
	const char *place = strstr(freed->name, " in ");
	size_t n = place ? (size_t)(place - freed->name) : strlen(freed->name);
	uint64_t bytes = 0;

	for (size_t i = 0; n > 0 && i < model->owners.items.n; i++) {
		const struct vt_model_owner *owner = &model->owners.items.data[i];

		if ((owner->category == VT_CATEGORY_PYTHON ||
		     owner->category == VT_CATEGORY_FRAME) &&
		    owner->block < model->n_blocks &&
		    memmem(owner->name, strlen(owner->name), freed->name, n))
			bytes += model->blocks[owner->block].size;
	}
	return bytes;
}

/* One look does not show whether it grows: vramtap watch --grow does. */
void vt_advise_kept_items(struct vt_advise *a)
{
	const struct vt_model_owners *owners = &a->model->owners;
	uint64_t all = all_in_use(a->model);

	if (!all || !is_wanting(a->model))
		return;
	for (size_t i = 0; i < owners->freed.n; i++) {
		const struct vt_model_freed *freed = &owners->freed.data[i];
		struct vt_model_advice *advice;

		if (freed->items < LEAST_ITEMS || freed->bytes < all / 4 || freed->bytes > all ||
		    freed->category == VT_CATEGORY_ACTIVATION || has_notice(owners, freed->name) ||
		    plain_bytes(a->model, freed) < freed->bytes / 2)
			continue;
		advice = vt_advise_add(a, -1);
		vt_advise_number(advice, "held_bytes", freed->bytes);
		vt_advise_number(advice, "items", freed->items);
		vt_advise_number(advice, "share_percent",
				 (uint64_t)((double)freed->bytes / (double)all * 100));
		vt_advise_text(a, advice, "name", freed->name);
		if (vt_advise_is_live(a->model))
			vt_advise_command(a, advice, "vramtap watch %d --grow",
					  (int)a->model->process.pid);
		return;
	}
}
