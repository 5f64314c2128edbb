/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer: what the members do, taken together. Each verdict follows from what is stored; what one moment cannot show (that
 * a loop never ends) is not said. Nothing is decided by how many ranks there are: of two that do different things, the one that
 * is not where the other waits for it is the one that is named.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "report/format.h"
#include "report/job_look.h"

#define MAX_GROUPS 6 /* verdicts of one rule; more would push the evidence off the screen */

#define IN(state) (1u << (state))
#define WAITS_FOR_RANKS (IN(VT_STATE_COLLECTIVE) | IN(VT_STATE_STORE))

/* A rank in one of these states, while others wait as said: "rank 3 does this; the other 7 wait in all_reduce". */
static const struct rule {
	const char *code;
	unsigned int states; /* of those who are named */
	unsigned int others; /* at least one other rank is in one of these; 0 it does not matter */
	bool not_in; /* "rank 3 is not in all_reduce, where the others wait: it runs Python" */
} rules[] = {
	{ "crashed", IN(VT_STATE_CRASHED), 0, false },
	{ "out-of-memory", IN(VT_STATE_OOM), 0, false },
	{ "traced", IN(VT_STATE_TRACED), 0, false },
	{ "stopped", IN(VT_STATE_STOPPED), 0, false },
	{ "retries-allocation", IN(VT_STATE_ALLOCATOR), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false },
	{ "stuck", IN(VT_STATE_STUCK), 0, false },
	{ "waits-for-loader", IN(VT_STATE_LOADER), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false },
	{ "waits-for-lock", IN(VT_STATE_LOCK), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false },
	{ "missed-collective",
	  IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS) | IN(VT_STATE_DEVICE) | IN(VT_STATE_IDLE) | IN(VT_STATE_UNDECIDED),
	  WAITS_FOR_RANKS, true },
	{ "gpu-waits-for-rank", IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS), IN(VT_STATE_DEVICE), false },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

static bool is_in(const struct vt_member *member, unsigned int states)
{
	return states & IN(member->state);
}

static bool gather(struct vt_job_look *look, unsigned int states, struct vt_job_indices *found)
{
	for (size_t i = 0; i < look->ranks.n; i++)
		if (is_in(vt_look_member(look, look->ranks.data[i]), states) && !vt_job_indices_add(found, look->ranks.data[i]))
			return false;
	return true;
}

/*
 * "; ranks 0-2,4-7 wait in all_reduce (train.py:88 train_step)": the largest group of them, and how many more there are. named:
 * that many ranks were named before.
 */
static void add_others(struct vt_job_look *look, const struct vt_job_groups *others, size_t named, struct vt_str *text)
{
	const struct vt_job_group *most = &others->data[0];
	size_t n = most->members.n;

	if (n > 1 && named + n == look->ranks.n)
		vt_str_addf(text, "the other %zu ", n);
	else
		vt_look_add_who(look, &most->members, text);
	if (!(n > 1 && named + n == look->ranks.n))
		vt_str_add(text, " ");
	vt_look_add_plural(most->text, n > 1, text);
}

/* " and asked for 2.1 GiB" of the one that it is about. */
static void add_request(const struct vt_job_look *look, const struct vt_job_group *group, struct vt_str *text)
{
	const struct vt_job_requests *r = &vt_look_member(look, group->members.data[0])->requests;
	char size[VT_NUM_MAX];

	if (r->last_failed && (r->waits || vt_look_member(look, group->members.data[0])->state == VT_STATE_ALLOCATOR))
		vt_str_addf(text, ", %s %s", r->waits ? "asked for" : "the last request that failed was for",
			    vt_format_size(size, r->last_failed));
}

static void say_group(struct vt_job_look *look, const struct rule *rule, const struct vt_job_group *group,
		      const struct vt_job_groups *others, size_t named)
{
	const struct vt_member *first = others->n ? vt_look_member(look, others->data[0].members.data[0]) : NULL;
	bool many = group->members.n > 1;
	struct vt_str text = { 0 };

	vt_look_add_who(look, &group->members, &text);
	vt_str_add(&text, " ");
	if (rule->not_in && first && first->operation)
		vt_str_addf(&text, "%s not in %.100s but ", many ? "are" : "is", first->operation);
	vt_look_add_plural(group->text, many, &text);
	add_request(look, group, &text);
	if (others->n) {
		vt_str_add(&text, "; ");
		add_others(look, others, named, &text);
	}
	vt_look_say(look, rule->code, true, group->members.n * 2 < look->ranks.n || look->ranks.n <= 2, &group->members, &text);
	vt_str_deinit(&text);
}

static void say_more(struct vt_job_look *look, const struct rule *rule, const struct vt_job_groups *groups)
{
	struct vt_job_indices rest = { 0 };
	struct vt_str text = { 0 };
	bool ok = true;

	for (size_t g = MAX_GROUPS; g < groups->n; g++)
		for (size_t i = 0; i < groups->data[g].members.n && ok; i++)
			ok = vt_job_indices_add(&rest, groups->data[g].members.data[i]);
	look->failed |= !ok;
	vt_job_indices_sort(&rest);
	vt_look_add_who(look, &rest, &text);
	vt_str_addf(&text, ": as those, at %zu other places", groups->n - MAX_GROUPS);
	vt_look_say(look, rule->code, true, false, &rest, &text);
	vt_str_deinit(&text);
	free(rest.data);
}

/*
 * Of what others wait for, ranks come before the GPU: a rank that waits for its GPU may itself be the one that is
 * waited for.
 */
static unsigned int what_others_do(const struct vt_job_look *look, const struct rule *rule)
{
	size_t for_ranks = look->n_states[VT_STATE_COLLECTIVE] + look->n_states[VT_STATE_STORE];

	if (!for_ranks && rule->others & IN(VT_STATE_DEVICE) && look->n_states[VT_STATE_DEVICE] * 2 < look->ranks.n)
		return 0; /* in a job that is well some rank always waits for its GPU */
	if (for_ranks)
		return WAITS_FOR_RANKS;
	return look->n_states[VT_STATE_DEVICE] ? IN(VT_STATE_DEVICE) : 0;
}

static void apply(struct vt_job_look *look, const struct rule *rule)
{
	struct vt_job_indices named = { 0 }, waiting = { 0 };
	struct vt_job_groups groups = { 0 }, others = { 0 };
	unsigned int do_what = what_others_do(look, rule);
	bool ok = gather(look, rule->states & ~do_what, &named) && gather(look, do_what, &waiting);

	if (ok && named.n && (!rule->others || (do_what & rule->others && waiting.n)))
		ok = vt_look_group(look, &waiting, &others) && vt_look_group(look, &named, &groups);
	for (size_t i = 0; i < groups.n && i < MAX_GROUPS && ok; i++)
		say_group(look, rule, &groups.data[i], &others, groups.data[i].members.n);
	if (groups.n > MAX_GROUPS && ok)
		say_more(look, rule, &groups);
	look->failed |= !ok;
	vt_job_groups_deinit(&groups);
	vt_job_groups_deinit(&others);
	free(named.data);
	free(waiting.data);
}

/* ---- all of them in collectives, but not in the same ---- */

/* "ranks 0-2,4-7 wait in all_reduce (train.py:88 train_step)" */
static void add_group(struct vt_job_look *look, const struct vt_job_group *group, struct vt_str *text)
{
	vt_look_add_who(look, &group->members, text);
	vt_str_add(text, " ");
	vt_look_add_plural(group->text, group->members.n > 1, text);
}

/* Not wrong in itself: ranks of different process groups may be in different ones. */
static void say_different(struct vt_job_look *look)
{
	struct vt_job_indices in = { 0 };
	struct vt_job_groups groups = { 0 };
	bool ok = gather(look, IN(VT_STATE_COLLECTIVE), &in) && vt_look_group(look, &in, &groups);
	bool most = ok && groups.n > 1 && groups.data[0].members.n * 2 > look->ranks.n;

	for (size_t i = 1; i < groups.n && i <= MAX_GROUPS && ok; i++) {
		struct vt_str text = { 0 };

		add_group(look, &groups.data[i], &text);
		vt_str_add(&text, most && i == 1 ? ", but " : i == 1 ? ", and " : "");
		if (i == 1)
			add_group(look, &groups.data[0], &text);
		vt_look_say(look, "different-collective", true, most, most ? &groups.data[i].members : &in, &text);
		vt_str_deinit(&text);
	}
	look->failed |= !ok;
	vt_job_groups_deinit(&groups);
	free(in.data);
}

void vt_rules_ranks(struct vt_job_look *look)
{
	for (size_t i = 0; i < N_RULES && look->ranks.n > 0; i++)
		apply(look, &rules[i]);
	say_different(look);
}

/* ---- nobody differs ---- */

/* What follows when all ranks are in one state at one place; NULL nothing. */
static const struct {
	enum vt_job_state state;
	const char *code, *then;
} when_all[] = {
	{ VT_STATE_COLLECTIVE, "all-in-collective",
	  ": none is missing from it, so that it is NCCL, the network or a GPU that does not go on" },
	{ VT_STATE_STORE, "all-in-store", "" },
	{ VT_STATE_LOADER, "all-wait-for-loader", "" },
	{ VT_STATE_DEVICE, "all-wait-for-gpu", "" },
};

/* "all 8 ranks", or "the 7 ranks that were looked at (of 8)"; whether it is all of them. */
static bool add_all(const struct vt_job_look *look, struct vt_str *text)
{
	int world_size = vt_look_member(look, look->ranks.data[0])->label.world_size;
	bool all = world_size <= 0 || (size_t)world_size <= look->ranks.n;

	if (all)
		vt_look_add_who(look, &look->ranks, text);
	else if (look->ranks.n > 1)
		vt_str_addf(text, "the %zu ranks that were looked at (of %d)", look->ranks.n, world_size);
	else
		vt_str_addf(text, "the rank that was looked at (of %d)", world_size);
	return all;
}

static void say_all_equal(struct vt_job_look *look, const struct vt_job_group *group)
{
	enum vt_job_state state = vt_look_member(look, look->ranks.data[0])->state;
	const char *code = "all-equal", *then = "";
	struct vt_str text = { 0 };
	bool alarm = false, all = add_all(look, &text);

	for (size_t i = 0; i < sizeof(when_all) / sizeof(when_all[0]); i++) {
		if (when_all[i].state != state)
			continue;
		code = when_all[i].code;
		then = all && look->ranks.n > 1 ? when_all[i].then : "";
		alarm = true;
	}
	vt_str_add(&text, " ");
	vt_look_add_plural(group->text, group->members.n > 1, &text);
	vt_str_add(&text, then);
	vt_look_say(look, code, alarm, false, &group->members, &text);
	vt_str_deinit(&text);
}

/* Without any verdict on ranks, what most do is said all the same. */
static void say_most(struct vt_job_look *look, const struct vt_job_groups *groups)
{
	struct vt_str text = { 0 };

	for (size_t i = 0; i < groups->n && i < 3; i++) {
		vt_str_add(&text, i ? "; " : "");
		add_group(look, &groups->data[i], &text);
	}
	if (groups->n > 3)
		vt_str_addf(&text, "; the others are at %zu other places", groups->n - 3);
	vt_look_say(look, "ranks", false, false, &look->ranks, &text);
	vt_str_deinit(&text);
}

/* What the others do was said with each rank that differs. */
static bool is_decided(const struct vt_job *job)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (strcmp(job->verdicts.data[i].code, "missing-rank") && strcmp(job->verdicts.data[i].code, "unread-rank"))
			return true;
	return false;
}

void vt_rules_equal(struct vt_job_look *look)
{
	struct vt_job_groups groups = { 0 };

	if (!look->ranks.n || is_decided(look->job))
		return;
	if (vt_look_group(look, &look->ranks, &groups) && groups.n == 1)
		say_all_equal(look, &groups.data[0]);
	else if (groups.n > 1 && look->n_states[VT_STATE_LOADER] == look->ranks.n)
		say_all_equal(look, &(struct vt_job_group){ .text = "waits for loader workers", .members = look->ranks });
	else if (groups.n)
		say_most(look, &groups);
	vt_job_groups_deinit(&groups);
}

bool vt_job_make_verdicts(struct vt_job *job)
{
	struct vt_job_look look = { .job = job };

	for (size_t i = 0; i < job->members.n; i++) {
		struct vt_member *m = &job->members.data[i];

		m->outlier = false;
		if (m->label.role != VT_ROLE_RANK || !m->label.in_job || (m->state == VT_STATE_GONE && m->error))
			continue;
		look.n_states[m->state]++;
		look.failed |= !vt_job_indices_add(&look.ranks, (uint32_t)i);
	}
	vt_rules_missing(&look);
	vt_rules_ranks(&look);
	vt_rules_equal(&look);
	vt_rules_workers(&look);
	vt_rules_sequences(&look);
	vt_rules_memory(&look);
	free(look.ranks.data);
	return !look.failed;
}
