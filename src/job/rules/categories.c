/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold more or less of a kind of memory than the others: of activations, of garbage. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/amounts.h"
#include "job/rules/review.h"

#define MIB UINT64_C(1048576)
#define MAX_SAID 3

/*
 * A difference from the median rank is worth a line when it is at least so many bytes, and more
 * than one of so many parts of what that rank has. Ranks of one kind differ little in what a model
 * is made of; stages of a pipeline do, which is why nothing is said when most ranks differ. The
 * order is that of the lines: leaks first.
 */
static const struct rule {
	enum vt_category category;
	const char *what; /* "has 9.10 GiB of" */
	uint64_t least;
	unsigned int part;
} rules[] = {
	{ VT_CATEGORY_EXCEPTION, "memory that only an exception holds", 256 * MIB, 4 },
	{ VT_CATEGORY_GARBAGE, "garbage that is not collected", 256 * MIB, 4 },
	{ VT_CATEGORY_ACTIVATION, "activations", 512 * MIB, 4 },
	{ VT_CATEGORY_CACHE, "caches of keys and values", 512 * MIB, 4 },
	{ VT_CATEGORY_PYTHON, "Python variables that are in no model", 512 * MIB, 4 },
	{ VT_CATEGORY_FRAME, "variables of running functions", 512 * MIB, 4 },
	{ VT_CATEGORY_INPUT, "inputs", 512 * MIB, 4 },
	{ VT_CATEGORY_GRADIENT, "gradients", 512 * MIB, 4 },
	{ VT_CATEGORY_OPTIMIZER, "optimizer state", 512 * MIB, 4 },
	{ VT_CATEGORY_PARAMETER, "parameters", 512 * MIB, 4 },
	{ VT_CATEGORY_BUFFER, "buffers of modules", 512 * MIB, 4 },
	{ VT_CATEGORY_COMMUNICATION, "buffers of torch.distributed", 512 * MIB, 4 },
	{ VT_CATEGORY_WORKSPACE, "workspaces of libraries", 512 * MIB, 4 },
	{ VT_CATEGORY_GRAPH_POOL, "pools of CUDA graphs", 512 * MIB, 4 },
	{ VT_CATEGORY_NATIVE, "memory that native code holds", 512 * MIB, 4 },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

struct comparison {
	struct vt_review *review;
	const struct rule *rule;
	struct vt_job_amount *amounts; /* ascending */
	size_t n;
	/* of amounts: those from differ to differ_end differ, the others lie from other on */
	size_t differ, differ_end, other, other_end;
	size_t said;
};

static void gather(struct comparison *c)
{
	c->n = 0;
	for (size_t i = 0; i < c->review->ranks.n; i++) {
		uint32_t member = c->review->ranks.data[i];
		const struct vt_job_owners *owners = &vt_review_member(c->review, member)->owners;

		if (vt_job_owners_known(owners))
			c->amounts[c->n++] =
				(struct vt_job_amount){ owners->bytes[c->rule->category], member };
	}
	vt_job_amounts_sort(c->amounts, c->n);
}

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
	vt_review_say(c->review, VT_FINDING_IMBALANCE_CATEGORY, false, false, &who, &text);
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
	if (more < c->n && c->said < MAX_SAID)
		say(c);
	c->differ = 0;
	c->differ_end = less;
	if (less && c->said < MAX_SAID)
		say(c);
}

void vt_rules_categories(struct vt_review *review)
{
	struct comparison c = {
		.review = review,
		.amounts = calloc(review->ranks.n + 1, sizeof(*c.amounts)),
	};

	review->failed |= !c.amounts;
	for (size_t i = 0; i < N_RULES && c.amounts && review->comparable; i++) {
		c.rule = &rules[i];
		gather(&c);
		if (c.n > 1)
			compare(&c);
	}
	free(c.amounts);
}
