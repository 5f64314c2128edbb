/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of devices. A rank whose context is lost, or whose device needs a reset, does not come
 * back: those that wait for it do so in vain. Errors of memory and clocks that are held down are
 * wrong by themselves, and accuse no rank.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "job/rules/review.h"

#define MAX_LOST 6 /* verdicts */

static bool have(const struct vt_job_indices *indices, uint32_t member)
{
	return vt_job_has(indices->data, indices->n, member);
}

/* The ranks among its members, as far as something is known about them. */
static void gather_ranks(struct vt_review *review, const struct vt_job_fault *fault,
			 struct vt_job_indices *ranks)
{
	ranks->n = 0;
	for (size_t i = 0; i < fault->members.n; i++)
		if (have(&review->ranks, fault->members.members[i]))
			review->failed |= !vt_job_indices_add(ranks, fault->members.members[i]);
}

static void add_xid(struct vt_str *text, uint32_t code)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(code);

	vt_str_addf(text, ": Xid %" PRIu32, code);
	if (meaning)
		vt_str_addf(text, " (%s)", meaning->name);
}

static void say(struct vt_review *review, enum vt_finding code, const struct vt_job_indices *ranks,
		struct vt_str *text)
{
	bool few = ranks->n * 2 < review->ranks.n || (review->ranks.n == 2 && ranks->n == 1);

	vt_review_say(review, code, true, few, ranks, text);
	vt_review_brief(review, vt_str_get(text));
	vt_str_deinit(text);
}

/* ---- devices that need a reset ---- */

static void say_devices(struct vt_review *review, struct vt_job_indices *said)
{
	struct vt_job_indices ranks = { 0 };

	for (size_t i = 0; i < review->job->faults.n; i++) {
		const struct vt_job_fault *fault = &review->job->faults.data[i];
		struct vt_str text = { 0 };
		bool is_new = false;

		if (fault->kind != VT_JOB_XID || !fault->alarm || !fault->of_device)
			continue;
		gather_ranks(review, fault, &ranks);
		for (size_t k = 0; k < ranks.n; k++)
			is_new |= !have(said, ranks.data[k]);
		/* What follows a fault on the same devices is listed, and accuses nobody anew. */
		if (!is_new)
			continue;
		for (size_t k = 0; k < ranks.n; k++)
			review->failed |= !vt_job_indices_add(said, ranks.data[k]);
		vt_str_add(&text, ranks.n > 1 ? "the GPUs of " : "the GPU of ");
		vt_review_add_who(review, &ranks, &text);
		vt_str_add(&text, ranks.n > 1 ? " have a fault" : " has a fault");
		add_xid(&text, fault->xid->code);
		say(review, VT_FINDING_GPU_FAULT, &ranks, &text);
	}
	free(ranks.data);
}

/* ---- contexts ---- */

/* The ranks that lost it like this one, which must be the first of them; else false. */
static bool gather_lost(struct vt_review *review, const struct vt_job_indices *said, size_t first,
			struct vt_job_indices *same)
{
	const struct vt_member *m = vt_review_member(review, review->ranks.data[first]);

	same->n = 0;
	if (m->lost == VT_CONTEXT_NOT_LOST)
		return false;
	for (size_t i = 0; i < review->ranks.n; i++) {
		const struct vt_member *other = vt_review_member(review, review->ranks.data[i]);

		if (other->lost != m->lost || other->lost_by != m->lost_by ||
		    have(said, review->ranks.data[i]))
			continue;
		if (i < first)
			return false;
		review->failed |= !vt_job_indices_add(same, review->ranks.data[i]);
	}
	return same->n;
}

static void say_lost(struct vt_review *review, const struct vt_job_indices *said)
{
	struct vt_job_indices same = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < review->ranks.n && n < MAX_LOST; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);
		struct vt_str text = { 0 };

		if (have(said, review->ranks.data[i]) || !gather_lost(review, said, i, &same))
			continue;
		vt_review_add_who(review, &same, &text);
		vt_str_addf(&text, " %s%s lost %s", same.n > 1 ? "have" : "has",
			    m->lost == VT_CONTEXT_LOST ? "" : " likely",
			    same.n > 1 ? "their CUDA contexts" : "its CUDA context");
		if (m->lost_by)
			add_xid(&text, m->lost_by);
		say(review, VT_FINDING_CONTEXT_LOST, &same, &text);
		n++;
	}
	free(same.data);
}

void vt_rules_faults(struct vt_review *review)
{
	struct vt_job_indices said = { 0 };

	say_devices(review, &said);
	say_lost(review, &said);
	free(said.data);
}

/* ---- health ---- */

void vt_rules_health(struct vt_review *review)
{
	static const enum vt_finding findings[VT_N_JOB_FAULTS] = {
		[VT_JOB_MEMORY_ERRORS] = VT_FINDING_GPU_MEMORY_ERRORS,
		[VT_JOB_THROTTLED] = VT_FINDING_GPU_THROTTLED,
	};
	struct vt_job_indices ranks = { 0 };

	for (size_t i = 0; i < review->job->faults.n; i++) {
		const struct vt_job_fault *fault = &review->job->faults.data[i];
		struct vt_str text = { 0 };

		if (fault->kind != VT_JOB_MEMORY_ERRORS && fault->kind != VT_JOB_THROTTLED)
			continue;
		gather_ranks(review, fault, &ranks);
		if (!ranks.n)
			continue;
		vt_str_add(&text, fault->text);
		vt_review_say(review, findings[fault->kind], true, false, &ranks, &text);
		vt_str_deinit(&text);
	}
	free(ranks.data);
}
