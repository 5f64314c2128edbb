/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of causes. A cause whose members wait for those of another one is a link within its chain;
 * one that waits for no other is where a chain begins. Without a cause, or where nobody is known to
 * wait, there is none, unless it is wrong by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "job/rules/causes.h"

#define MAX_LINKS 6
#define MAX_SAID_GROUPS 2 /* of those that wait in one link */

struct building {
	struct vt_review *review;
	struct vt_causes *causes;
	struct vt_job_indices seen;
	struct vt_job_link links[MAX_LINKS];
	size_t n;
	struct vt_job_indices last; /* the members of the last link */
};

/* ---- words ---- */

static bool add_link(struct building *b, const struct vt_job_indices *members,
		     const struct vt_str *text)
{
	struct vt_job *job = b->review->job;
	const char *copy = text->failed ? NULL : vt_job_text(job, vt_str_get(text), text->n);

	b->review->failed |= !copy;
	if (!copy)
		return false;
	b->links[b->n++] =
		(struct vt_job_link){ .members = vt_job_set(job, members), .text = copy };
	return true;
}

/* "worker 0 of rank 1 (pid 30908) is stopped by a signal (train.py:30 read_sample)" */
static void add_root_words(struct building *b, const struct vt_cause *cause, struct vt_str *text)
{
	const struct vt_job_verdict *v = &b->review->job->verdicts.data[cause->verdict];
	struct vt_job_groups groups = { 0 };
	bool many = cause->members.n > 1;
	const char *phrase = many ? cause->kind->phrases : cause->kind->phrase;

	if (v->brief) {
		vt_str_add(text, v->brief);
		return;
	}
	if (!cause->members.n || !vt_review_group(b->review, &cause->members, &groups)) {
		vt_str_add(text, v->text);
		return;
	}
	vt_review_add_who(b->review, &cause->members, text);
	if (!many && b->review->job->members.data[cause->members.data[0]].label.rank >= 0)
		vt_str_addf(text, " (pid %d)",
			    (int)vt_review_member(b->review, cause->members.data[0])->label.pid);
	vt_str_addf(text, " %s", phrase ? phrase : "");
	vt_review_add_does(b->review, &groups.data[0], text);
	vt_job_groups_deinit(&groups);
}

/* "ranks 0,2-3 wait in all_reduce (train.py:88 train_step)" */
static void add_group_words(struct building *b, const struct vt_job_group *group,
			    struct vt_str *text)
{
	const struct vt_member *first = vt_review_member(b->review, group->members.data[0]);
	bool many = group->members.n > 1;

	vt_review_add_who(b->review, &group->members, text);
	vt_str_add(text, " ");
	if (first->state == VT_STATE_LOADER)
		vt_str_addf(text, "%s for %s", many ? "wait" : "waits",
			    b->links[0].members.n > 1 ? "them" : "it");
	else
		vt_review_add_does(b->review, group, text);
}

static bool add_waiting(struct building *b, const struct vt_job_indices *members)
{
	struct vt_job_groups groups = { 0 };
	struct vt_str text = { 0 };
	bool ok = vt_review_group(b->review, members, &groups);
	size_t said = 0, left = 0;

	for (size_t i = 0; i < groups.n && ok; i++) {
		if (i >= MAX_SAID_GROUPS) {
			left += groups.data[i].members.n;
			continue;
		}
		vt_str_add(&text, said++ ? ", " : "");
		add_group_words(b, &groups.data[i], &text);
	}
	if (left)
		vt_str_addf(&text, ", %zu more elsewhere", left);
	ok = ok && add_link(b, members, &text);
	vt_job_groups_deinit(&groups);
	vt_str_deinit(&text);
	return ok;
}

/* ---- from link to link ---- */

static bool do_meet(const struct vt_job_indices *a, const struct vt_job_indices *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (vt_indices_have(b, a->data[i]))
			return true;
	return false;
}

static bool see(struct building *b, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (!vt_job_indices_add(&b->seen, members->data[i]))
			return false;
	return true;
}

/* Those that wait for any of the last link's, and were not named before. */
static bool find_next(struct building *b, struct vt_job_indices *next, enum vt_doubt *doubt)
{
	for (size_t i = 0; i < b->causes->n; i++) {
		struct vt_cause *cause = &b->causes->data[i];

		if (!do_meet(&cause->members, &b->last))
			continue;
		cause->in_chain = true;
		if (cause->waiting.n && !*doubt)
			*doubt = cause->doubt;
		for (size_t k = 0; k < cause->waiting.n; k++)
			if (!vt_indices_have(&b->seen, cause->waiting.data[k]) &&
			    !vt_indices_have(next, cause->waiting.data[k]) &&
			    !vt_job_indices_add(next, cause->waiting.data[k]))
				return false;
	}
	vt_job_indices_sort(next);
	return true;
}

static void move(struct vt_job_indices *from, struct vt_job_indices *to)
{
	free(to->data);
	*to = *from;
	*from = (struct vt_job_indices){ 0 };
}

static bool follow(struct building *b, struct vt_cause *root, enum vt_doubt *doubt)
{
	struct vt_job_indices next = { 0 };
	struct vt_member_set waiting = { .members = root->waiting.data, .n = root->waiting.n };
	bool ok = see(b, &root->members);

	root->in_chain = true;
	*doubt = root->doubt;
	for (size_t i = 0; i < waiting.n && ok; i++)
		if (!vt_indices_have(&b->seen, waiting.members[i]))
			ok = vt_job_indices_add(&next, waiting.members[i]);
	while (ok && next.n && b->n < MAX_LINKS) {
		ok = add_waiting(b, &next) && see(b, &next);
		move(&next, &b->last);
		ok = ok && find_next(b, &next, doubt);
	}
	free(next.data);
	return ok;
}

/* Ranks; loader workers do not count. */
static size_t count_hanging(const struct building *b)
{
	size_t n = 0;

	for (size_t i = 1; i < b->n; i++)
		n += b->links[i].members.n;
	return n;
}

static bool keep(struct building *b, const struct vt_cause *root, enum vt_doubt doubt, bool circle)
{
	struct vt_job *job = b->review->job;
	struct vt_job_link *links = vt_arena_alloc(&job->arena, b->n * sizeof(*links));
	struct vt_job_chain *chain = links ? vt_vec_append(&job->chains) : NULL;

	if (!chain)
		return false;
	memcpy(links, b->links, b->n * sizeof(*links));
	*chain = (struct vt_job_chain){
		.code = root->kind->code,
		.cure = vt_cause_cure(b->review, root),
		.doubt = doubt,
		.circle = circle,
		.links = links,
		.n_links = b->n,
		.hanging = count_hanging(b),
	};
	return vt_chain_fill_steps(job, chain);
}

static bool build(struct vt_review *review, struct vt_causes *causes, struct vt_cause *root,
		  bool circle)
{
	struct building b = { .review = review, .causes = causes };
	struct vt_str text = { 0 };
	enum vt_doubt doubt;
	bool ok;

	add_root_words(&b, root, &text);
	ok = add_link(&b, &root->members, &text) && follow(&b, root, &doubt) &&
	     keep(&b, root, doubt, circle);
	vt_str_deinit(&text);
	free(b.seen.data);
	free(b.last.data);
	return ok;
}

/* ---- where chains begin ---- */

/* It waits in vain, whatever for: no work of its GPU ends any more. */
static bool is_lost(const struct vt_cause *cause)
{
	return cause->kind->cure == VT_CURE_RESET || cause->kind->cure == VT_CURE_CONTEXT;
}

/* One of its members waits for those of another cause. */
static bool is_kept(const struct vt_causes *causes, const struct vt_cause *cause)
{
	if (is_lost(cause))
		return false;
	for (size_t i = 0; i < causes->n; i++)
		if (&causes->data[i] != cause && do_meet(&cause->members, &causes->data[i].waiting))
			return true;
	return false;
}

static bool is_root(const struct vt_causes *causes, const struct vt_cause *cause)
{
	if (is_kept(causes, cause))
		return false;
	return cause->waiting.n || (cause->kind->alone && cause->alarm);
}

/* The ones on which most ranks hang first; of equal ones in the order of the kinds. */
static void sort(struct vt_job *job)
{
	for (size_t i = 1; i < job->chains.n; i++) {
		struct vt_job_chain chain = job->chains.data[i];
		size_t k = i;

		for (; k && job->chains.data[k - 1].hanging < chain.hanging; k--)
			job->chains.data[k] = job->chains.data[k - 1];
		job->chains.data[k] = chain;
	}
}

void vt_rules_chains(struct vt_review *review)
{
	struct vt_causes causes = { 0 };
	bool ok = vt_causes_find(review, &causes);

	for (size_t i = 0; i < causes.n && ok; i++)
		if (is_root(&causes, &causes.data[i]))
			ok = build(review, &causes, &causes.data[i], false);
	/* Those that are left wait for each other. */
	for (size_t i = 0; i < causes.n && ok; i++)
		if (!causes.data[i].in_chain && causes.data[i].waiting.n &&
		    is_kept(&causes, &causes.data[i]))
			ok = build(review, &causes, &causes.data[i], true);
	review->failed |= !ok;
	vt_causes_deinit(&causes);
	sort(review->job);
}
