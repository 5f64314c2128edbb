/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the GPUs run, as the CUDA debugger told. It accuses nobody: a GPU without a kernel can have
 * finished all that it had. It is evidence beside what stacks, flight recorders and RAS say, whose
 * verdicts tell then what the GPUs of their ranks run. An exception on a GPU is wrong by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "job/rules/review.h"

#define MAX_EXCEPTIONS 6

static const struct vt_job_kernels *kernels_of(const struct vt_review *review, uint32_t member)
{
	return &vt_review_member(review, member)->kernels;
}

/* ---- exceptions ---- */

static const char *raised_by(const struct vt_review *review, size_t rank)
{
	const struct vt_job_kernels *kernels = kernels_of(review, review->ranks.data[rank]);

	return kernels->raised.n ? kernels->raised.data[0] : NULL;
}

/* The ranks with the exception of this one, which must be the first of them; else false. */
static bool gather_raised(struct vt_review *review, size_t first, struct vt_job_indices *same)
{
	const char *what = raised_by(review, first);

	same->n = 0;
	for (size_t i = 0; what && i < review->ranks.n; i++) {
		if (raised_by(review, i) != what)
			continue;
		if (i < first)
			return false;
		review->failed |= !vt_job_indices_add(same, review->ranks.data[i]);
	}
	return same->n;
}

static void say_raised(struct vt_review *review)
{
	struct vt_job_indices same = { 0 };
	size_t said = 0;

	for (size_t i = 0; i < review->ranks.n && said < MAX_EXCEPTIONS; i++) {
		struct vt_str text = { 0 };

		if (!gather_raised(review, i, &same))
			continue;
		vt_str_add(&text, same.n > 1 ? "the GPUs of " : "the GPU of ");
		vt_review_add_who(review, &same, &text);
		vt_str_addf(&text, " %s an exception: %.100s", same.n > 1 ? "have" : "has",
			    raised_by(review, i));
		vt_review_say(review, VT_FINDING_GPU_EXCEPTION, true, same.n * 2 < review->ranks.n,
			      &same, &text);
		vt_str_deinit(&text);
		said++;
	}
	free(same.data);
}

/* ---- evidence ---- */

/* Verdicts that name ranks for not being where the others are. */
static bool takes_evidence(enum vt_finding code)
{
	static const enum vt_finding codes[] = {
		VT_FINDING_BEHIND,     VT_FINDING_NOT_STARTED,       VT_FINDING_RAS_BEHIND,
		VT_FINDING_RAS_STATUS, VT_FINDING_MISSED_COLLECTIVE, VT_FINDING_GPU_WAITS_FOR_RANK,
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i] == code)
			return true;
	return false;
}

static bool are_same(const struct vt_job_kernels *a, const struct vt_job_kernels *b)
{
	if (a->state != b->state || a->list.n != b->list.n || a->more || b->more)
		return false;
	for (size_t i = 0; i < a->list.n; i++)
		if (a->list.data[i].name != b->list.data[i].name)
			return false;
	return true;
}

/* Of all of them it was told, and it is the same. */
static bool agree(const struct vt_review *review, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (!vt_job_kernels_known(kernels_of(review, members->data[i])) ||
		    !are_same(kernels_of(review, members->data[i]),
			      kernels_of(review, members->data[0])))
			return false;
	return members->n;
}

static bool are_in_collectives(const struct vt_review *review, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (!vt_job_kernels_are_collective(kernels_of(review, members->data[i])))
			return false;
	return members->n;
}

static bool is_in(const struct vt_member_set *set, uint32_t member)
{
	return vt_job_has(set->members, set->n, member);
}

/*
 * The ranks of a verdict, and those that wait for them: all others, if it does not say which. Of
 * these, some may not be known.
 */
static bool split(const struct vt_review *review, const struct vt_job_verdict *v,
		  struct vt_job_indices *named, struct vt_job_indices *others)
{
	for (size_t i = 0; i < review->ranks.n; i++) {
		uint32_t rank = review->ranks.data[i];
		bool is_named = is_in(&v->members, rank);

		if (!is_named && ((v->waiting.n && !is_in(&v->waiting, rank)) ||
				  !vt_job_kernels_known(kernels_of(review, rank))))
			continue;
		if (!vt_job_indices_add(is_named ? named : others, rank))
			return false;
	}
	return named->n == v->members.n;
}

static void add_runs(struct vt_review *review, const struct vt_job_indices *members,
		     struct vt_str *text)
{
	vt_job_kernels_say(text, kernels_of(review, members->data[0]), false, "…");
}

/* "; cuda-gdb sees nothing run on the GPU of rank 3, and ncclDevKernel_… on those of ranks 0-2" */
static void add_evidence(struct vt_review *review, struct vt_job_verdict *v,
			 const struct vt_job_indices *named, const struct vt_job_indices *others)
{
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s; cuda-gdb sees ", v->text);
	add_runs(review, named, &text);
	vt_str_add(&text, named->n > 1 ? " run on the GPUs of " : " run on the GPU of ");
	vt_review_add_who(review, named, &text);
	if (are_in_collectives(review, others)) {
		vt_str_add(&text, ", and ");
		if (agree(review, others))
			add_runs(review, others, &text);
		else
			vt_str_add(&text, "kernels of NCCL");
		vt_str_add(&text, others->n > 1 ? " on those of " : " on that of ");
		vt_review_add_who(review, others, &text);
	}
	v->text = text.failed ? NULL : vt_job_text(review->job, vt_str_get(&text), text.n);
	vt_str_deinit(&text);
}

static bool support(struct vt_review *review, size_t verdict)
{
	struct vt_job_verdict *v = &review->job->verdicts.data[verdict];
	struct vt_job_indices named = { 0 }, others = { 0 };
	const char *before = v->text;
	bool ok = split(review, v, &named, &others) && agree(review, &named);

	if (ok) {
		add_evidence(review, v, &named, &others);
		review->failed |= !v->text;
		v->text = v->text ? v->text : before;
	}
	free(named.data);
	free(others.data);
	return ok;
}

/* ---- without such a verdict ---- */

/* The GPUs of most ranks are in a collective, and those of the others are not. */
static void say_who_is_not(struct vt_review *review)
{
	struct vt_job_indices in = { 0 }, others = { 0 };
	struct vt_str text = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->ranks.n && ok; i++) {
		uint32_t rank = review->ranks.data[i];

		ok = vt_job_kernels_known(kernels_of(review, rank)) &&
		     vt_job_indices_add(vt_job_kernels_are_collective(kernels_of(review, rank)) ?
						&in :
						&others,
					rank);
	}
	if (ok && in.n * 2 >= review->ranks.n && others.n) {
		vt_str_add(&text, in.n > 1 ? "the GPUs of " : "the GPU of ");
		vt_review_add_who(review, &in, &text);
		vt_str_addf(&text, " run%s ", in.n > 1 ? "" : "s");
		if (agree(review, &in))
			add_runs(review, &in, &text);
		else
			vt_str_add(&text, "kernels of NCCL");
		vt_str_add(&text, others.n > 1 ? ", those of " : ", that of ");
		vt_review_add_who(review, &others, &text);
		if (agree(review, &others)) {
			vt_str_addf(&text, " run%s ", others.n > 1 ? "" : "s");
			add_runs(review, &others, &text);
		} else {
			vt_str_add(&text, others.n > 1 ? " do not" : " does not");
		}
		vt_review_say(review, VT_FINDING_GPUS_DIFFER, false, false, &others, &text);
	}
	vt_str_deinit(&text);
	free(in.data);
	free(others.data);
}

void vt_rules_kernels(struct vt_review *review)
{
	bool supported = false;

	for (size_t i = 0; i < review->job->verdicts.n && review->comparable; i++)
		if (takes_evidence(review->job->verdicts.data[i].code))
			supported |= support(review, i);
	if (review->comparable && !supported && review->ranks.n > 1)
		say_who_is_not(review);
	say_raised(review);
}
