/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts from the answers of NCCL's RAS. RAS numbers ranks within a communicator: a communicator
 * as large as the world has the job's ranks; in others a pid identifies a rank, if all processes of
 * the job are there. Answers from several hosts have the same subject: nothing is reported twice.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "job/rules/review.h"
#include "base/hash.h"
#include "base/map.h"

#define MAX_SAID 6      /* verdicts of one kind */
#define MAX_NAMED 6     /* processes, or different counts, in a sentence */
#define MANY UINT64_MAX /* a pid that more than one member has */

struct ras_review {
	struct vt_review *review;
	struct vt_map by_rank, by_pid; /* members */
	struct vt_map ill;             /* processes that were named as lost or silent */
	int world_size;                /* -1 unknown */
	bool by_pid_alone;             /* all of the job is known, with pids of one namespace */
	size_t said[VT_RAS_N_ABOUT];
};

/* ---- from RAS's ranks to members ---- */

static bool learn_ranks(struct ras_review *r)
{
	struct vt_review *review = r->review;
	bool ok = true;

	r->world_size = -1;
	if (!review->comparable)
		return true;
	r->by_pid_alone = vt_review_whole_world(review);
	for (size_t i = 0; i < review->ranks.n && ok; i++) {
		const struct vt_label *label =
			&vt_review_member(review, review->ranks.data[i])->label;
		const uint64_t *same = vt_map_get(&r->by_pid, (uint64_t)label->pid);

		if (vt_review_member(review, review->ranks.data[i])->core)
			continue;
		r->world_size = label->world_size;
		r->by_pid_alone &= !*label->container;
		ok = vt_map_put(&r->by_pid, (uint64_t)label->pid,
				same ? MANY : review->ranks.data[i]) &&
		     (label->rank < 0 ||
		      vt_map_put(&r->by_rank, (uint64_t)label->rank, review->ranks.data[i]));
	}
	return ok;
}

/* A process in a container has another pid there. */
static bool may_be(const struct ras_review *r, uint32_t member, const struct vt_ras_rank *rank)
{
	const struct vt_label *label = &vt_review_member(r->review, member)->label;

	return !rank->pid || label->pid == rank->pid || *label->container;
}

static bool has_job_numbers(const struct ras_review *r, const struct vt_ras_group *group)
{
	return r->world_size > 0 && group->size == r->world_size;
}

static bool find_member(const struct ras_review *r, const struct vt_ras_group *group,
			const struct vt_ras_rank *rank, uint32_t *member)
{
	const uint64_t *found = NULL;

	if (has_job_numbers(r, group) && rank->rank >= 0)
		found = vt_map_get(&r->by_rank, (uint64_t)rank->rank);
	else if (r->by_pid_alone && rank->pid)
		found = vt_map_get(&r->by_pid, (uint64_t)rank->pid);
	if (!found || *found == MANY || !may_be(r, (uint32_t)*found, rank))
		return false;
	*member = (uint32_t)*found;
	return true;
}

/* All ranks of a group as members, or none of them. */
static bool find_members(struct ras_review *r, const struct vt_ras_group *group,
			 struct vt_job_indices *members)
{
	bool all = group->n && group->ranks.n == group->n;
	uint32_t member = 0;

	members->n = 0;
	for (size_t i = 0; i < group->ranks.n && all; i++) {
		all = find_member(r, group, &group->ranks.data[i], &member);
		r->review->failed |= all && !vt_job_indices_add(members, member);
	}
	if (!all)
		members->n = 0;
	vt_job_indices_sort(members);
	return all && members->n == group->n;
}

/* ---- words ---- */

static void add_process(const struct ras_review *r, const struct vt_ras_group *group,
			const struct vt_ras_rank *rank, struct vt_str *text)
{
	bool numbered = rank->rank >= 0;

	if (numbered)
		vt_str_addf(text, "%srank %d",
			    has_job_numbers(r, group) || group->size < 0 ? "" : "its ", rank->rank);
	if (rank->pid)
		vt_str_addf(text, "%spid %d on %.64s%s", numbered ? " (" : "", (int)rank->pid,
			    rank->host, numbered ? ")" : "");
}

/* "ranks 3,5" of the job, "its rank 1 (pid 4711 on 10.0.0.1)" of the communicator, "7 ranks". */
static void add_group(struct ras_review *r, const struct vt_ras_group *group,
		      const struct vt_job_indices *members, struct vt_str *text)
{
	if (members->n) {
		vt_review_add_who(r->review, members, text);
		return;
	}
	if (group->ranks.n < group->n || group->n > MAX_NAMED) {
		vt_str_addf(text, "%" PRIu64 " %s%s", group->n,
			    *group->communicator ? "rank" : "process",
			    group->n == 1        ? "" :
			    *group->communicator ? "s" :
						   "es");
		return;
	}
	for (size_t i = 0; i < group->ranks.n; i++) {
		vt_str_add(text, i ? ", " : "");
		add_process(r, group, &group->ranks.data[i], text);
	}
}

static void add_communicator(const struct vt_ras_group *group, const char *before,
			     struct vt_str *text)
{
	vt_str_addf(text, " (%scommunicator %.18s", before, group->communicator);
	if (group->size > 0)
		vt_str_addf(text, " of %d rank%s", group->size, group->size == 1 ? "" : "s");
	vt_str_add(text, ")");
}

static void say(struct ras_review *r, enum vt_ras_about about, enum vt_finding code, bool alarm,
		bool outliers, const struct vt_job_indices *members, const struct vt_str *text)
{
	struct vt_job *job = r->review->job;
	const char *copy = text->failed ? NULL : vt_job_text(job, vt_str_get(text), text->n);

	for (size_t i = 0; i < job->verdicts.n; i++)
		if (job->verdicts.data[i].text == copy)
			return;
	if (r->said[about]++ < MAX_SAID)
		vt_review_say(r->review, code, alarm, outliers, members, text);
}

/* Without its communicator. */
static void say_brief(struct ras_review *r, size_t before, const char *brief)
{
	if (r->review->job->verdicts.n > before)
		vt_review_brief(r->review, brief);
}

/* ---- lost, silent, in error ---- */

static const struct rule {
	enum vt_ras_about about;
	enum vt_finding code;
	const char *one, *many; /* for one rank, and for many; NULL: what they report */
} rules[] = {
	{ VT_RAS_DEAD, VT_FINDING_RAS_DEAD, "is considered dead by NCCL's RAS",
	  "are considered dead by NCCL's RAS" },
	{ VT_RAS_SILENT, VT_FINDING_RAS_SILENT, "does not answer NCCL's RAS",
	  "do not answer NCCL's RAS" },
	{ VT_RAS_ABSENT, VT_FINDING_RAS_ABSENT, "is not known to NCCL's RAS",
	  "are not known to NCCL's RAS" },
	{ VT_RAS_ERROR, VT_FINDING_RAS_ERROR, NULL, NULL },
};

static void say_group(struct ras_review *r, const struct rule *rule,
		      const struct vt_ras_group *group)
{
	struct vt_job_indices members = { 0 };
	size_t before = r->review->job->verdicts.n;
	struct vt_str text = { 0 }, brief = { 0 };

	(void)find_members(r, group, &members);
	add_group(r, group, &members, &text);
	if (rule->one)
		vt_str_addf(&text, " %s", group->n == 1 ? rule->one : rule->many);
	else
		vt_str_addf(&text, " report%s \"%.80s\" to NCCL's RAS", group->n == 1 ? "s" : "",
			    group->what);
	vt_str_add(&brief, vt_str_get(&text));
	if (*group->communicator)
		add_communicator(group, "", &text);
	say(r, rule->about, rule->code, true, members.n && members.n * 2 < r->review->ranks.n,
	    &members, &text);
	say_brief(r, before, vt_str_get(&brief));
	r->review->failed |= brief.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&brief);
	free(members.data);
}

static bool has_about(const struct vt_ras *ras, enum vt_ras_about about)
{
	for (size_t i = 0; i < ras->groups.n; i++)
		if (ras->groups.data[i].about == about)
			return true;
	return false;
}

/* A lost process is lost in all its communicators. Hosts are interned. */
static bool was_named(struct ras_review *r, const struct rule *rule,
		      const struct vt_ras_group *group)
{
	bool all = group->ranks.n == group->n;

	if (rule->about != VT_RAS_DEAD && rule->about != VT_RAS_SILENT)
		return false;
	for (size_t i = 0; i < group->ranks.n; i++) {
		const struct vt_ras_rank *rank = &group->ranks.data[i];
		uint64_t key = vt_hash_mix((uintptr_t)rank->host, (uint64_t)rank->pid);

		all &= rank->pid && vt_map_get(&r->ill, key);
		r->review->failed |= !vt_map_put(&r->ill, key, 0);
	}
	return all;
}

/*
 * An absent rank is one of the dead or silent ones, if any. The communicator of all ranks names
 * them better.
 */
static void apply(struct ras_review *r, const struct vt_ras *ras, const struct rule *rule)
{
	if (rule->about == VT_RAS_ABSENT &&
	    (has_about(ras, VT_RAS_DEAD) || has_about(ras, VT_RAS_SILENT)))
		return;
	for (int world = 1; world >= 0; world--) {
		for (size_t i = 0; i < ras->groups.n; i++) {
			const struct vt_ras_group *group = &ras->groups.data[i];

			if (group->about == rule->about && group->n &&
			    has_job_numbers(r, group) == world && !was_named(r, rule, group))
				say_group(r, rule, group);
		}
	}
}

/* ---- ranks of a communicator that differ ---- */

/* Groups of one communicator with the same subject; for counts, the highest one is the last. */
struct differing {
	const struct vt_ras_group *groups;
	size_t n;
	struct vt_job_indices *members; /* of each */
	const struct vt_ras_group *most;
};

static bool waits(const struct vt_member *member)
{
	if (member->moved == 1)
		return false;
	return member->state == VT_STATE_COLLECTIVE || member->state == VT_STATE_STORE ||
	       member->state == VT_STATE_DEVICE;
}

static bool is_of(const struct differing *d, uint32_t member)
{
	for (size_t g = 0; g < d->n; g++)
		for (size_t i = 0; i < d->members[g].n && &d->groups[g] != d->most; i++)
			if (d->members[g].data[i] == member)
				return true;
	return false;
}

/* The text does not name the majority: it is all other ranks. */
static bool name_most(struct ras_review *r, struct differing *d)
{
	size_t n = vt_review_whole_world(r->review);
	struct vt_job_indices *most = &d->members[d->most - d->groups];

	if (most->n)
		return true;
	if (!n || d->most->size < 0 || (size_t)d->most->size != n)
		return false;
	for (size_t g = 0; g < d->n; g++)
		if (&d->groups[g] != d->most && !d->members[g].n)
			return false;
	for (size_t i = 0; i < r->review->ranks.n; i++)
		if (!is_of(d, r->review->ranks.data[i]))
			r->review->failed |= !vt_job_indices_add(most, r->review->ranks.data[i]);
	if (most->n != d->most->n)
		most->n = 0;
	return most->n;
}

/*
 * The ranks that launched more than others wait for these, and are the majority, or one of two.
 * Ranks that no rank waits for are often behind for a moment; there is no verdict about them if a
 * second answer of RAS shows progress (all_moved()). A rank that launched more in between did not
 * wait.
 */
static bool is_proven(struct ras_review *r, struct differing *d)
{
	const struct vt_job_indices *most = &d->members[d->most - d->groups];

	for (size_t g = 0; g < d->n; g++)
		if (d->groups[g].moved == 1)
			return false;
	if (!name_most(r, d) || d->most->size <= 0 ||
	    (most->n * 2 <= (size_t)d->most->size && d->most->size != 2))
		return false;
	for (size_t i = 0; i < most->n; i++)
		if (!waits(vt_review_member(r->review, most->data[i])))
			return false;
	return true;
}

/* " has launched 5 AllReduce operations", " has status ABORT" */
static void add_what(const struct vt_ras_group *group, bool first, struct vt_str *text)
{
	const char *has = group->n == 1 ? "has" : "have";

	if (group->about == VT_RAS_STATUS) {
		vt_str_addf(text, " %s status %.40s", has, group->what);
		return;
	}
	if (group->count)
		vt_str_addf(text, " %s launched %" PRIu64, has, group->count);
	else
		vt_str_addf(text, " %s launched none", has);
	if (first)
		vt_str_addf(text, "%s %.40s operation%s", group->count ? "" : " of the",
			    *group->what ? group->what : "collective",
			    group->count == 1 ? "" : "s");
}

static void add_differing(struct ras_review *r, const struct differing *d, struct vt_str *text)
{
	size_t said = 0;

	for (size_t g = 0; g < d->n; g++) {
		bool last = &d->groups[g] == d->most;

		if (last || said == MAX_NAMED)
			continue;
		vt_str_add(text, said++ ? ", " : "");
		add_group(r, &d->groups[g], &d->members[g], text);
		add_what(&d->groups[g], said == 1, text);
	}
	if (d->n - 1 > said)
		vt_str_addf(text, ", %zu others differ", d->n - 1 - said);
	vt_str_add(text, said ? ", " : "");
	add_group(r, d->most, &d->members[d->most - d->groups], text);
	add_what(d->most, !said, text);
	add_communicator(d->most, "NCCL's RAS, ", text);
}

static void say_differing(struct ras_review *r, struct differing *d)
{
	bool counts = d->groups[0].about == VT_RAS_COUNT, alarm = counts && is_proven(r, d),
	     all = true;
	size_t before;
	struct vt_job_indices who = { 0 };
	struct vt_str text = { 0 };

	add_differing(r, d, &text);
	for (size_t g = 0; g < d->n; g++) {
		if (&d->groups[g] == d->most)
			continue;
		all &= d->members[g].n;
		for (size_t i = 0; i < d->members[g].n; i++)
			r->review->failed |= !vt_job_indices_add(&who, d->members[g].data[i]);
	}
	vt_job_indices_sort(&who);
	if (!all)
		who.n = 0;
	before = r->review->job->verdicts.n;
	say(r, d->groups[0].about, counts ? VT_FINDING_RAS_BEHIND : VT_FINDING_RAS_STATUS, alarm,
	    alarm, &who, &text);
	if (alarm && r->review->job->verdicts.n > before)
		vt_review_waiting(r->review, &d->members[d->most - d->groups]);
	vt_str_deinit(&text);
	free(who.data);
}

/* The reference group: for counts, the highest; for statuses, the largest group. */
static const struct vt_ras_group *choose_most(const struct vt_ras_group *groups, size_t n)
{
	const struct vt_ras_group *most = groups;

	for (size_t g = 1; g < n; g++)
		if (groups[g].about == VT_RAS_COUNT ? groups[g].count > most->count :
						      groups[g].n > most->n)
			most = &groups[g];
	return most;
}

static bool is_same_question(const struct vt_ras_group *a, const struct vt_ras_group *b)
{
	return a->about == b->about && a->communicator == b->communicator &&
	       (a->about != VT_RAS_COUNT || a->what == b->what);
}

/* The number of groups, from the first one on, with the same subject. */
static size_t length(const struct vt_ras *ras, size_t first)
{
	size_t end = first + 1;

	while (end < ras->groups.n &&
	       is_same_question(&ras->groups.data[first], &ras->groups.data[end]))
		end++;
	return end - first;
}

/* All ranks that differ from the reference group had launched fewer at the earlier answer. */
static bool all_moved(const struct vt_ras_group *groups, size_t n)
{
	const struct vt_ras_group *most = choose_most(groups, n);

	for (size_t g = 0; g < n; g++)
		if (&groups[g] != most && groups[g].moved != 1)
			return false;
	return true;
}

/* By this answer, or by one from another host. */
static bool was_seen_to_move(const struct ras_review *r, const struct vt_ras_group *group)
{
	const struct vt_job *job = r->review->job;

	for (size_t k = 0; k < job->ras.n && group->about == VT_RAS_COUNT; k++) {
		const struct vt_ras *ras = &job->ras.data[k];

		for (size_t i = 0; i < ras->groups.n; i += length(ras, i))
			if (length(ras, i) > 1 && is_same_question(group, &ras->groups.data[i]) &&
			    all_moved(&ras->groups.data[i], length(ras, i)))
				return true;
	}
	return false;
}

static void compare_groups(struct ras_review *r, const struct vt_ras_group *groups, size_t n)
{
	struct differing d = { .groups = groups, .n = n, .most = choose_most(groups, n) };

	d.members = calloc(n, sizeof(*d.members));
	r->review->failed |= !d.members;
	for (size_t g = 0; g < n && d.members; g++)
		(void)find_members(r, &groups[g], &d.members[g]);
	if (d.members)
		say_differing(r, &d);
	for (size_t g = 0; g < n && d.members; g++)
		free(d.members[g].data);
	free(d.members);
}

static void say_differences(struct ras_review *r, const struct vt_ras *ras, enum vt_ras_about about)
{
	for (size_t i = 0, n; i < ras->groups.n; i += n) {
		const struct vt_ras_group *groups = &ras->groups.data[i];

		n = length(ras, i);
		if (groups->about == about && n > 1 && !was_seen_to_move(r, groups))
			compare_groups(r, groups, n);
	}
}

void vt_rules_ras(struct vt_review *review)
{
	struct ras_review r = { .review = review };

	review->failed |= review->job->ras.n && !learn_ranks(&r);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		for (size_t k = 0; k < review->job->ras.n; k++)
			apply(&r, &review->job->ras.data[k], &rules[i]);
	for (size_t k = 0; k < review->job->ras.n; k++) {
		say_differences(&r, &review->job->ras.data[k], VT_RAS_COUNT);
		say_differences(&r, &review->job->ras.data[k], VT_RAS_STATUS);
	}
	vt_map_deinit(&r.by_rank);
	vt_map_deinit(&r.by_pid);
	vt_map_deinit(&r.ill);
}
