/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: holders that do no work, and ranks that hold more than others. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/amounts.h"
#include "job/rules/review.h"

#define MAX_SAID 6
#define MUCH (UINT64_C(1) << 30) /* a difference between ranks that is worth a line */

/* ---- holders ---- */

static const char *device_name(const struct vt_job_device *d, char buf[96])
{
	snprintf(buf, 96, "%.48s of %.40s", d->name, *d->host ? d->host : "this host");
	return buf;
}

static void say_holder(struct vt_review *review, const struct vt_job_device *d, size_t holder)
{
	uint32_t index = d->holders.members[holder];
	const struct vt_member *m = vt_review_member(review, index);
	const struct vt_job_held *held = &d->held[holder];
	const struct vt_job_memory *memory =
		held->memory == VT_NO_MEMORY ? NULL : &m->memory.data[held->memory];
	struct vt_job_indices who = { 0 };
	char size[VT_NUM_MAX], device[96];
	struct vt_str text = { 0 };

	review->failed |= !vt_job_indices_add(&who, index);
	vt_review_add_who(review, &who, &text);
	if (*m->label.name)
		vt_str_addf(&text, " (%.40s)", m->label.name);
	vt_str_add(&text,
		   m->label.in_job ? ", which is not a rank," : ", which is outside the job,");
	if (held->counted)
		vt_str_addf(&text, " holds %s of %s", vt_format_size(size, held->bytes),
			    device_name(d, device));
	else if (memory && memory->known)
		vt_str_addf(&text, " holds %s of %s", vt_format_size(size, memory->reserved),
			    device_name(d, device));
	else
		vt_str_addf(&text, " has a context on %s", device_name(d, device));
	vt_review_say(review, m->label.in_job ? VT_FINDING_IDLE_HOLDER : VT_FINDING_OUTSIDE_HOLDER,
		      false, false, &who, &text);
	vt_str_deinit(&text);
	free(who.data);
}

static void say_holders(struct vt_review *review)
{
	size_t said = 0;

	for (size_t i = 0; i < review->job->devices.n; i++) {
		const struct vt_job_device *d = &review->job->devices.data[i];

		for (size_t k = 0; k < d->holders.n && said < MAX_SAID; k++) {
			const struct vt_label *label =
				&vt_review_member(review, d->holders.members[k])->label;

			if (label->role == VT_ROLE_RANK && label->in_job)
				continue;
			say_holder(review, d, k);
			said++;
		}
	}
}

/* ---- imbalance ---- */

static uint64_t in_use(const struct vt_job_memory *m)
{
	return m->allocated;
}

static uint64_t cached(const struct vt_job_memory *m)
{
	return m->cached;
}

static uint64_t at_site(const struct vt_member *m, const char *title)
{
	for (size_t i = 0; i < m->sites.n; i++)
		if (!strcmp(m->sites.data[i].title, title))
			return m->sites.data[i].bytes;
	return 0;
}

/* "; most of the difference is at forward attn.py:57 (+18.0 GiB)" */
static void add_site(const struct vt_member *more, const struct vt_member *usual,
		     struct vt_str *text)
{
	const struct vt_job_site *largest = NULL;
	uint64_t by = 0;
	char size[VT_NUM_MAX];

	for (size_t i = 0; i < more->sites.n && usual->sites.n; i++) {
		uint64_t there = at_site(usual, more->sites.data[i].title);

		if (more->sites.data[i].bytes > there && more->sites.data[i].bytes - there > by) {
			largest = &more->sites.data[i];
			by = largest->bytes - there;
		}
	}
	if (largest)
		vt_str_addf(text, "; most of the difference was allocated at %.100s (%s)",
			    largest->title, vt_format_change(size, (int64_t)by));
}

static void say_imbalance(struct vt_review *review, vt_job_amount_of what, enum vt_finding code,
			  const char *words)
{
	struct vt_job_amount *amounts = calloc(review->ranks.n + 1, sizeof(*amounts));
	char more[VT_NUM_MAX], usual[VT_NUM_MAX];
	const struct vt_job_amount *median, *most;
	struct vt_job_indices who = { 0 };
	struct vt_str text = { 0 };
	size_t n = 0;

	review->failed |= !amounts;
	for (size_t i = 0; i < review->ranks.n && amounts; i++) {
		amounts[n].member = review->ranks.data[i];
		n += vt_job_amount_sum(vt_review_member(review, review->ranks.data[i]), what,
				       &amounts[n].bytes);
	}
	if (n < 2) {
		free(amounts);
		return;
	}
	vt_job_amounts_sort(amounts, n);
	median = &amounts[(n - 1) / 2];
	most = &amounts[n - 1];
	if (most->bytes - median->bytes >= MUCH &&
	    most->bytes - median->bytes > median->bytes / 4) {
		review->failed |= !vt_job_indices_add(&who, most->member);
		vt_review_add_who(review, &who, &text);
		vt_str_addf(&text, " has %s %s, the median rank %s",
			    vt_format_size(more, most->bytes), words,
			    vt_format_size(usual, median->bytes));
		if (what == in_use)
			add_site(vt_review_member(review, most->member),
				 vt_review_member(review, median->member), &text);
		vt_review_say(review, code, false, false, &who, &text);
	}
	vt_str_deinit(&text);
	free(who.data);
	free(amounts);
}

void vt_rules_memory(struct vt_review *review)
{
	if (review->comparable) {
		say_imbalance(review, in_use, VT_FINDING_IMBALANCE, "in use");
		say_imbalance(review, cached, VT_FINDING_IMBALANCE_CACHED, "cached");
	}
	vt_rules_categories(review);
	vt_rules_ledger(review);
	say_holders(review);
}
