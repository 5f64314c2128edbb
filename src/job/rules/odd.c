/* SPDX-License-Identifier: Apache-2.0 */
#include "job/rules/odd.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"

struct comparison {
	struct vt_review *review;
	const struct vt_odd_rule *rule;
	struct vt_job_amount *amounts; /* ascending */
	size_t n;
	/* of amounts: those from differ to differ_end differ, the others lie from other on */
	size_t differ, differ_end, other, other_end;
	size_t said, may_say;
};

static bool differs(const struct comparison *c, size_t i)
{
	uint64_t median = c->amounts[(c->n - 1) / 2].bytes, bytes = c->amounts[i].bytes,
		 by = bytes > median ? bytes - median : median - bytes;

	return by >= c->rule->least && by > median / c->rule->part;
}

static void add_range(const struct comparison *c, size_t begin, size_t end, struct vt_str *text)
{
	char least[VT_NUM_MAX], most[VT_NUM_MAX];

	vt_format_size(least, c->amounts[begin].bytes);
	vt_format_size(most, c->amounts[end - 1].bytes);
	if (!c->amounts[end - 1].bytes)
		vt_str_add(text, "none");
	else if (c->amounts[begin].bytes == c->amounts[end - 1].bytes || !strcmp(least, most))
		vt_str_add(text, most);
	else
		vt_str_addf(text, "%s to %s", least, most);
}

static bool set_of(const struct comparison *c, size_t begin, size_t end,
		   struct vt_job_indices *indices)
{
	for (size_t i = begin; i < end; i++)
		if (!vt_job_indices_add(indices, c->amounts[i].member))
			return false;
	vt_job_indices_sort(indices);
	return true;
}

/* "rank 3 has 9.10 GiB of activations, the others 4.00 GiB" */
static void say(struct comparison *c)
{
	struct vt_job_indices who = { 0 }, others = { 0 };
	bool none = !c->amounts[c->differ_end - 1].bytes;
	struct vt_str text = { 0 };

	c->review->failed |= !set_of(c, c->differ, c->differ_end, &who) ||
			     !set_of(c, c->other, c->other_end, &others);
	vt_review_add_who(c->review, &who, &text);
	vt_str_add(&text, who.n > 1 ? " have " : " has ");
	if (none)
		vt_str_add(&text, "no");
	else
		add_range(c, c->differ, c->differ_end, &text);
	vt_str_addf(&text, "%s %s, ", none ? "" : " of", c->rule->what);
	if (who.n + others.n == c->review->ranks.n && others.n > 1)
		vt_str_add(&text, "the others");
	else
		vt_review_add_who(c->review, &others, &text);
	vt_str_add(&text, " ");
	add_range(c, c->other, c->other_end, &text);
	vt_review_say(c->review, c->rule->finding, false, false, &who, &text);
	c->said++;
	vt_str_deinit(&text);
	free(who.data);
	free(others.data);
}

/* Ranks with more than the median one are at the end, those with less at the beginning. */
static void compare(struct comparison *c)
{
	size_t less = 0, more = c->n;

	while (less < (c->n - 1) / 2 && differs(c, less))
		less++;
	while (more - 1 > (c->n - 1) / 2 && differs(c, more - 1))
		more--;
	c->other = less;
	c->other_end = more;
	if ((less + c->n - more) * 2 > c->n)
		return;
	c->differ = more;
	c->differ_end = c->n;
	if (more < c->n && c->said < c->may_say)
		say(c);
	c->differ = 0;
	c->differ_end = less;
	if (less && c->said < c->may_say)
		say(c);
}

size_t vt_odd_say(struct vt_review *review, const struct vt_odd_rule *rule,
		  struct vt_job_amount *amounts, size_t n, size_t may_say)
{
	struct comparison c = {
		.review = review, .rule = rule, .amounts = amounts, .n = n, .may_say = may_say
	};

	vt_job_amounts_sort(amounts, n);
	if (n > 1)
		compare(&c);
	return c.said;
}
