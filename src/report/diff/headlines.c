/* SPDX-License-Identifier: Apache-2.0 */
/* The first lines of a comparison: how much more each device holds, and where most of it is. */
#include "report/diff/headlines.h"

#include <math.h>

#include "base/format.h"
#include "base/str.h"
#include "model/place.h"

struct answer {
	struct vt_diff *diff;
	bool nomem;
};

static void headline(struct answer *w, const char *code, bool alarm, struct vt_str *text)
{
	struct vt_model_headline *h = text->failed ? NULL : vt_vec_append(&w->diff->headlines);
	char *copy = h ? vt_arena_strdup(&w->diff->arena, vt_str_get(text)) : NULL;

	if (copy)
		*h = (struct vt_model_headline){ .code = code, .alarm = alarm, .text = copy };
	else
		w->nomem = true;
	vt_str_deinit(text);
}

static void add_place(struct vt_str *text, const struct vt_model_frame *f)
{
	if (!f) {
		vt_str_add(text, "a thread that ran no Python");
		return;
	}
	vt_place_add_function(text, f, true);
	vt_str_add(text, " ");
	vt_place_add_where(text, f);
}

static void add_blocks(struct vt_str *text, const struct vt_diff_amount *a)
{
	char before[VT_NUM_MAX], after[VT_NUM_MAX];

	vt_str_addf(text, ", %s -> %s blocks", vt_format_count(before, a->before.blocks),
		    vt_format_count(after, a->after.blocks));
}

/* The place with most of the growth; allocated: of all devices. */
static void add_most(const struct answer *w, struct vt_str *text, int64_t allocated)
{
	const struct vt_diff *diff = w->diff;
	const struct vt_diff_site *site = diff->sites.n ? &diff->sites.data[0] : NULL;
	const struct vt_diff_group *group = diff->groups.n ? &diff->groups.data[0] : NULL;
	char number[VT_NUM_MAX], size[VT_NUM_MAX];

	if (diff->sites_compared == VT_DIFF_SITES_COMPARED && site &&
	    vt_diff_bytes(&site->amount) > 0) {
		int64_t grown = vt_diff_bytes(&site->amount);

		if (grown <= allocated)
			vt_str_addf(text, "; %s of it from one place: ",
				    vt_format_size(number, (uint64_t)grown));
		else
			vt_str_addf(text, "; %s from one place, others gave back: ",
				    vt_format_change(number, grown));
		add_place(text, site->title);
		add_blocks(text, &site->amount);
	} else if (diff->sites_compared != VT_DIFF_SITES_COMPARED && group &&
		   vt_diff_bytes(&group->amount) > 0) {
		vt_str_addf(text, "; most in blocks of %s on %s: %s",
			    vt_format_size(size, group->size),
			    group->stream ? "one stream" : "the default stream",
			    vt_format_change(number, vt_diff_bytes(&group->amount)));
		add_blocks(text, &group->amount);
	}
}

static void add_time(struct vt_str *text, const struct vt_diff *diff)
{
	char age[VT_NUM_MAX];

	if (!diff->why_other)
		vt_str_addf(text, " in %s", vt_format_age(age, fabs(diff->seconds)));
}

static void device_headline(struct answer *w, const struct vt_diff_device *d, int64_t allocated,
			    bool most)
{
	const struct vt_diff_amount *a = &d->parts[VT_DIFF_ALLOCATED];
	char by[VT_NUM_MAX], from[VT_NUM_MAX], to[VT_NUM_MAX];
	struct vt_str text = { 0 };

	if (!d->known[VT_DIFF_ALLOCATED]) {
		if (!d->known[VT_DIFF_FREE] || !vt_diff_bytes(&d->parts[VT_DIFF_FREE]))
			return;
		vt_str_addf(&text, "GPU %d: free %s", d->ordinal,
			    vt_format_change(by, vt_diff_bytes(&d->parts[VT_DIFF_FREE])));
		add_time(&text, w->diff);
		vt_str_addf(&text, " (from %s to %s), of all processes together",
			    vt_format_size(from, d->parts[VT_DIFF_FREE].before.bytes),
			    vt_format_size(to, d->parts[VT_DIFF_FREE].after.bytes));
		headline(w, "free", false, &text);
		return;
	}
	if (!vt_diff_bytes(a)) {
		vt_str_addf(&text, "GPU %d: in use as before: %s", d->ordinal,
			    vt_format_size(to, a->after.bytes));
	} else {
		vt_str_addf(&text, "GPU %d: in use %s", d->ordinal,
			    vt_format_change(by, vt_diff_bytes(a)));
		add_time(&text, w->diff);
		vt_str_addf(&text, " (from %s to %s)", vt_format_size(from, a->before.bytes),
			    vt_format_size(to, a->after.bytes));
	}
	if (most)
		add_most(w, &text, allocated);
	headline(w, "in-use", false, &text);
}

/* What more it holds, without what may only have another name. */
static int64_t grown(const struct vt_diff_owner *o)
{
	return (int64_t)((uint64_t)vt_diff_bytes(&o->amount) - o->renamed.bytes);
}

/* The owner that grew most; only_named: of those with a name. NULL: none grew. */
static const struct vt_diff_owner *most_grown(const struct vt_diff *diff, bool only_named)
{
	const struct vt_diff_owner *best = NULL;

	for (size_t i = 0; i < diff->owners.n; i++) {
		const struct vt_diff_owner *o = &diff->owners.data[i];

		if ((*o->variable || !only_named) && grown(o) > (best ? grown(best) : 0))
			best = o;
	}
	return best;
}

static void add_renamed(struct vt_str *text, const struct vt_diff_owner *o)
{
	char blocks[VT_NUM_MAX];

	if (o->renamed.blocks)
		vt_str_addf(text, "; %s of its blocks may have had another name before",
			    vt_format_count(blocks, o->renamed.blocks));
}

static void named_headline(struct answer *w, const struct vt_diff_owner *o)
{
	char change[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX];
	struct vt_str text = { 0 };

	vt_str_add(&text, o->variable);
	if (w->diff->why_other || w->diff->seconds < 0)
		vt_str_addf(&text, ": %s -> %s tensors, %s",
			    vt_format_count(before, o->tensors_before),
			    vt_format_count(after, o->tensors_after),
			    vt_format_change(change, vt_diff_bytes(&o->amount)));
	else
		vt_keeper_add_growth(&text, o->tensors_before, o->tensors_after,
				     vt_diff_bytes(&o->amount));
	vt_str_add(&text, ": ");
	vt_keeper_add_how(&text, o->variable, o->path, o->category, o->certain);
	add_renamed(&text, o);
	headline(w, "owner", false, &text);
}

static void unnamed_headline(struct answer *w, const struct vt_diff_owner *o)
{
	char change[VT_NUM_MAX];
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s: %s",
		    o->category == VT_CATEGORY_UNKNOWN ? "blocks that nobody was found for" :
							 vt_category_words(o->category),
		    vt_format_change(change, vt_diff_bytes(&o->amount)));
	add_blocks(&text, &o->amount);
	add_renamed(&text, o);
	headline(w, "unnamed", false, &text);
}

/* What holds most of the growth; if that has no name, the variable that holds most of the rest. */
static void owner_headlines(struct answer *w)
{
	const struct vt_diff *diff = w->diff;
	const struct vt_diff_owner *most, *named;

	/* It may not be growth. */
	if (!diff->owners_whole)
		return;
	most = most_grown(diff, false);
	named = most_grown(diff, true);
	if (most && most != named)
		unnamed_headline(w, most);
	if (named)
		named_headline(w, named);
}

bool vt_diff_make_headlines(struct vt_diff *diff)
{
	struct answer answer = { .diff = diff }, *w = &answer;
	struct vt_str text = { 0 };
	int64_t allocated = 0;
	size_t n = 0;

	for (size_t i = 0; i < diff->devices.n; i++) {
		const struct vt_diff_device *d = &diff->devices.data[i];

		n += d->known[VT_DIFF_ALLOCATED];
		if (d->known[VT_DIFF_ALLOCATED])
			allocated =
				(int64_t)((uint64_t)allocated +
					  (uint64_t)vt_diff_bytes(&d->parts[VT_DIFF_ALLOCATED]));
	}
	owner_headlines(w);
	/* Sites count all devices together. */
	for (size_t i = 0; i < diff->devices.n; i++)
		device_headline(w, &diff->devices.data[i], allocated, n == 1);
	if (n > 1) {
		char by[VT_NUM_MAX];

		vt_str_addf(&text, "All GPUs: in use %s", vt_format_change(by, allocated));
		add_most(w, &text, allocated);
		headline(w, "in-use-all", false, &text);
	}
	if (!n && !diff->headlines.n) {
		vt_str_add(
			&text,
			"Nothing can be compared: neither report knows both what PyTorch has and what is free on a GPU");
		headline(w, "nothing", true, &text);
	}
	return !w->nomem;
}
