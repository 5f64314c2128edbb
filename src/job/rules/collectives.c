/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are behind the others in a process group, according to PyTorch's flight recorders.
 * Ranks of a running job are always some collectives apart, and are not read at the same instant: a
 * rank is behind when it had not begun a collective long after the others had. Each process group
 * is judged separately, by the first collective in which any rank waits. A rank that is behind
 * because it waits in another group is not the one that the others wait for.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/flight.h"
#include "base/format.h"
#include "job/groups.h"
#include "job/rules/review.h"

#define STALL_MS 30000 /* a healthy GPU has less work than this queued */
#define MAX_SAID 6

struct judging {
	struct vt_review *review;
	const struct vt_job_process_group *group;
	const struct vt_model_operation *op; /* for which the group waits, from the first member */
	uint64_t since_ms;                   /* when the last waiting member began it */
	uint64_t waited_ms;                  /* of that member, when it was asked */
	struct vt_job_indices waiting;       /* members that are in it */
};

static uint64_t told_ms(const struct judging *j, const struct vt_job_grouped *member)
{
	return vt_review_member(j->review, member->member)->collectives.told_ms;
}

static uint64_t begun_ms(const struct judging *j, const struct vt_job_grouped *member)
{
	uint64_t told = told_ms(j, member), age = member->state->oldest.age_ms;

	return told > age ? told - age : 0;
}

/*
 * It was asked long after the others had begun the collective, by both clocks: one wrong clock
 * alone accuses no rank.
 */
static bool is_late(const struct judging *j, const struct vt_job_grouped *member)
{
	return j->waited_ms >= VT_LATE_MS && told_ms(j, member) >= j->since_ms + VT_LATE_MS;
}

static bool check_waiting(struct judging *j)
{
	for (size_t i = 0; i < j->group->members.n; i++) {
		const struct vt_job_grouped *member = &j->group->members.data[i];

		if (!vt_job_waits_in(j->group, member))
			continue;
		j->op = j->op ? j->op : &member->state->oldest;
		if (begun_ms(j, member) > j->since_ms)
			j->since_ms = begun_ms(j, member);
		if (member->state->oldest.age_ms < j->waited_ms)
			j->waited_ms = member->state->oldest.age_ms;
		if (!vt_job_indices_add(&j->waiting, member->member))
			return false;
	}
	return true;
}

/* ---- words ---- */

/* "all_reduce number 12 of process group default_pg" */
static void add_operation(const struct judging *j, struct vt_str *text)
{
	vt_str_addf(text, "%.100s number %" PRId64 " of process group %.100s", j->op->name,
		    j->op->number, vt_flight_group_name(j->group->any));
}

/* How long the waiting members have waited, at the last read of any of them. */
static void add_how_long(const struct judging *j, struct vt_str *text)
{
	uint64_t last = j->since_ms;
	char age[VT_NUM_MAX];

	for (size_t i = 0; i < j->group->members.n; i++)
		if (vt_job_waits_in(j->group, &j->group->members.data[i]) &&
		    told_ms(j, &j->group->members.data[i]) > last)
			last = told_ms(j, &j->group->members.data[i]);
	vt_str_addf(text, "for %s", vt_format_age(age, (double)(last - j->since_ms) / 1000.0));
}

/* In any group, or for another rank. */
static bool waits_itself(const struct judging *j, uint32_t member)
{
	const struct vt_model_collectives *c = &vt_review_member(j->review, member)->collectives;

	for (size_t i = 0; i < c->groups.n; i++)
		if (c->groups.data[i].n_pending)
			return true;
	return false;
}

static void say(struct judging *j, enum vt_finding code, const struct vt_job_indices *whom,
		bool alarm, bool differ, const struct vt_str *text)
{
	bool few = whom->n * 2 <= j->group->members.n;

	vt_review_say(j->review, code, alarm, differ && few, whom, text);
}

/*
 * Ranks begin collectives long before the GPU reaches them: a rank that began one and waits may be
 * fine.
 */
static bool is_stalled(const struct judging *j)
{
	return j->waited_ms >= STALL_MS;
}

/* ---- ranks that have not begun it ---- */

/* The last collective that they began; -2 they differ. */
static int64_t common_number(const struct judging *j, const struct vt_job_indices *behind)
{
	int64_t common = -1;
	size_t next = 0;

	for (size_t i = 0; i < j->group->members.n && next < behind->n; i++) {
		int64_t begun = vt_job_last_begun(&j->group->members.data[i]);

		if (j->group->members.data[i].member != behind->data[next])
			continue;
		common = !next++ || common == begun ? begun : -2;
	}
	return common;
}

/* entangled: those of them that wait in something else. */
static void say_behind(struct judging *j, const struct vt_job_indices *behind,
		       const struct vt_job_indices *entangled)
{
	int64_t number = common_number(j, behind);
	bool many = behind->n > 1;
	struct vt_str text = { 0 };

	vt_review_add_who(j->review, behind, &text);
	vt_str_addf(&text, " %s not begun ", many ? "have" : "has");
	add_operation(j, &text);
	if (number > 0)
		vt_str_addf(&text, ", the last one there was number %" PRId64, number);
	else if (number == 0)
		vt_str_add(&text, ", nor any there before");
	vt_str_add(&text, "; ");
	vt_review_add_who(j->review, &j->waiting, &text);
	vt_str_addf(&text, " wait%s in it ", j->waiting.n > 1 ? "" : "s");
	add_how_long(j, &text);
	if (entangled->n) {
		vt_str_add(&text, "; ");
		vt_review_add_who(j->review, entangled, &text);
		vt_str_addf(&text, " wait%s in another operation", entangled->n > 1 ? "" : "s");
	}
	say(j, VT_FINDING_BEHIND, behind, true, false, &text);
	vt_review_waiting(j->review, &j->waiting);
	for (size_t i = 0; i < behind->n && behind->n * 2 <= j->group->members.n; i++)
		if (!waits_itself(j, behind->data[i]))
			j->review->job->members.data[behind->data[i]].outlier = true;
	vt_str_deinit(&text);
}

/* Fills the ranks that have not begun it; late: they should have by now. */
static bool gather_behind(struct judging *j, struct vt_job_indices *behind,
			  struct vt_job_indices *entangled, bool *late)
{
	*late = true;
	for (size_t i = 0; i < j->group->members.n; i++) {
		const struct vt_job_grouped *member = &j->group->members.data[i];
		int64_t begun = vt_job_last_begun(member);

		if (begun < 0 || begun >= j->group->waits_for)
			continue;
		*late &= is_late(j, member);
		if (!vt_job_indices_add(behind, member->member) ||
		    (waits_itself(j, member->member) &&
		     !vt_job_indices_add(entangled, member->member)))
			return false;
	}
	return true;
}

/* ---- all ranks have begun it ---- */

/* Compares one waiting member with the first one. */
typedef bool differs_fn(const struct vt_model_operation *first,
			const struct vt_model_operation *op);

static bool is_other_operation(const struct vt_model_operation *first,
			       const struct vt_model_operation *op)
{
	return strcmp(first->name, op->name) != 0;
}

/* In other collectives, ranks may pass tensors of different sizes. */
static bool is_other_input(const struct vt_model_operation *first,
			   const struct vt_model_operation *op)
{
	return !strcmp(first->name, "all_reduce") && first->input && op->input &&
	       strcmp(first->input, op->input) != 0;
}

static bool is_started_otherwise(const struct vt_model_operation *first,
				 const struct vt_model_operation *op)
{
	return first->started >= 0 && op->started >= 0 && first->started != op->started;
}

static void add_op(const struct vt_model_operation *op, bool with_input, struct vt_str *text)
{
	vt_str_addf(text, "%.100s", op->name);
	if (with_input && op->input)
		vt_str_addf(text, " of %.100s", op->input);
}

/* "rank 1 began broadcast as number 12 of process group default_pg, ranks 0,2-3 all_reduce" */
static void say_mismatch(struct judging *j, bool inputs, const struct vt_model_operation *op,
			 const struct vt_job_indices *these, const struct vt_job_indices *others)
{
	struct vt_str text = { 0 };

	vt_review_add_who(j->review, these, &text);
	vt_str_add(&text, " began ");
	add_op(op, inputs, &text);
	vt_str_addf(&text, " as number %" PRId64 " of process group %.100s, ", j->op->number,
		    vt_flight_group_name(j->group->any));
	vt_review_add_who(j->review, others, &text);
	vt_str_add(&text, " ");
	add_op(j->op, inputs, &text);
	vt_str_add(&text, ": they wait for each other ");
	add_how_long(j, &text);
	say(j, VT_FINDING_MISMATCHED_COLLECTIVE, these, true, true, &text);
	vt_review_waiting(j->review, others);
	vt_str_deinit(&text);
}

static void say_not_started(struct judging *j, const struct vt_job_indices *not_started,
			    const struct vt_job_indices *started)
{
	struct vt_str text = { 0 };

	vt_str_add(&text, not_started->n > 1 ? "the GPUs of " : "the GPU of ");
	vt_review_add_who(j->review, not_started, &text);
	vt_str_addf(&text, " %s not started ", not_started->n > 1 ? "have" : "has");
	add_operation(j, &text);
	vt_str_add(&text, ", those of ");
	vt_review_add_who(j->review, started, &text);
	vt_str_addf(&text, " have%s; they wait ",
		    is_stalled(j) ? ": earlier work does not finish" : "");
	add_how_long(j, &text);
	say(j, VT_FINDING_NOT_STARTED, not_started, is_stalled(j), is_stalled(j), &text);
	if (is_stalled(j))
		vt_review_waiting(j->review, started);
	vt_str_deinit(&text);
}

/* Splits the waiting members; *other: the first that differs. False when out of memory. */
static bool split(struct judging *j, differs_fn *differs, struct vt_job_indices *same,
		  struct vt_job_indices *others, const struct vt_model_operation **other)
{
	for (size_t i = 0; i < j->group->members.n; i++) {
		const struct vt_job_grouped *member = &j->group->members.data[i];
		bool is_other = vt_job_waits_in(j->group, member) &&
				differs(j->op, &member->state->oldest);

		if (!vt_job_waits_in(j->group, member))
			continue;
		if (is_other && !*other)
			*other = &member->state->oldest;
		if (!vt_job_indices_add(is_other ? others : same, member->member))
			return false;
	}
	return true;
}

/* True: a verdict was added. The smaller part is the one that differs. */
static bool try_split(struct judging *j, differs_fn *differs)
{
	const struct vt_model_operation *other = NULL, *first = j->op;
	struct vt_job_indices same = { 0 }, others = { 0 };
	bool ok = split(j, differs, &same, &others, &other), turn;

	turn = other &&
	       (others.n > same.n || (differs == is_started_otherwise && first->started == 0));
	if (ok && other && differs == is_started_otherwise) {
		say_not_started(j, turn ? &same : &others, turn ? &others : &same);
	} else if (ok && other) {
		j->op = turn ? other : first;
		say_mismatch(j, differs == is_other_input, turn ? first : other,
			     turn ? &same : &others, turn ? &others : &same);
	}
	j->review->failed |= !ok;
	free(same.data);
	free(others.data);
	return ok && other;
}

/* Some members have finished it. */
static void say_not_completed(struct judging *j)
{
	struct vt_str text = { 0 };

	vt_review_add_who(j->review, &j->waiting, &text);
	vt_str_addf(&text, " %s not completed ", j->waiting.n > 1 ? "have" : "has");
	add_operation(j, &text);
	vt_str_add(&text, ", which others of the group have, ");
	add_how_long(j, &text);
	say(j, VT_FINDING_NOT_COMPLETED, &j->waiting, is_stalled(j), is_stalled(j), &text);
	vt_str_deinit(&text);
}

static void say_stalls(struct judging *j)
{
	struct vt_str text = { 0 };

	vt_review_add_who(j->review, &j->waiting, &text);
	vt_str_addf(&text, "%s begun ", j->waiting.n == 2 ? " have both" : " have all");
	add_operation(j, &text);
	vt_str_add(&text, " and wait in it ");
	add_how_long(j, &text);
	vt_str_add(&text, ": no rank is missing");
	if (is_stalled(j))
		vt_str_add(
			&text,
			"; the cause is NCCL, the network, a GPU that makes no progress, or mismatched tensor sizes");
	say(j, VT_FINDING_COLLECTIVE_STALLS, &j->waiting, is_stalled(j), false, &text);
	vt_str_deinit(&text);
}

/* All members that answered wait in it; the state of the group's other ranks is unknown. */
static void say_unknown(struct judging *j)
{
	size_t n = j->group->n_ranks - j->group->members.n;
	struct vt_str text = { 0 };

	vt_review_add_who(j->review, &j->waiting, &text);
	vt_str_addf(&text, " wait%s in ", j->waiting.n > 1 ? "" : "s");
	add_operation(j, &text);
	vt_str_add(&text, " ");
	add_how_long(j, &text);
	vt_str_addf(&text, "; it is not known whether the %zu other%s of the group %s begun it", n,
		    n > 1 ? "s" : "", n > 1 ? "have" : "has");
	say(j, VT_FINDING_COLLECTIVE_WAITS, &j->waiting, is_stalled(j), false, &text);
	vt_str_deinit(&text);
}

static bool are_all_late(const struct judging *j)
{
	for (size_t i = 0; i < j->group->members.n; i++)
		if (!is_late(j, &j->group->members.data[i]))
			return false;
	return true;
}

/* There are members that do not wait in it. */
static bool have_others_completed(const struct judging *j)
{
	for (size_t i = 0; i < j->group->members.n; i++) {
		const struct vt_job_grouped *member = &j->group->members.data[i];

		if (!vt_job_waits_in(j->group, member) &&
		    (!member->state || member->state->last_completed < j->group->waits_for))
			return false;
	}
	return j->waiting.n < j->group->members.n;
}

static void judge_begun(struct judging *j)
{
	if (j->group->n_ranks < 2 || !are_all_late(j))
		return;
	if (try_split(j, is_other_operation) || try_split(j, is_other_input) ||
	    try_split(j, is_started_otherwise))
		return;
	if (have_others_completed(j))
		say_not_completed(j);
	else if (j->waiting.n == j->group->n_ranks)
		say_stalls(j);
	else if (j->waiting.n == j->group->members.n && j->waiting.n < j->group->n_ranks)
		say_unknown(j);
}

/* ---- all groups ---- */

static void judge(struct vt_review *review, const struct vt_job_process_group *group,
		  bool entangled_ones)
{
	struct judging j = { .review = review, .group = group, .waited_ms = UINT64_MAX };
	struct vt_job_indices behind = { 0 }, entangled = { 0 };
	bool late, ok = check_waiting(&j) && gather_behind(&j, &behind, &entangled, &late);

	if (ok && behind.n && late && entangled_ones == (entangled.n > 0))
		say_behind(&j, &behind, &entangled);
	else if (ok && !behind.n && !entangled_ones)
		judge_begun(&j);
	review->failed |= !ok;
	free(behind.data);
	free(entangled.data);
	free(j.waiting.data);
}

void vt_rules_sequences(struct vt_review *review)
{
	struct vt_job_process_groups groups = { 0 };
	size_t before = review->job->verdicts.n;

	if (!review->comparable)
		return;
	review->failed |= !vt_job_find_process_groups(review->job, &groups);
	/* The rank that all wait for comes first. */
	for (int entangled = 0; entangled < 2; entangled++)
		for (size_t i = 0; i < groups.n && groups.data[i].n_waiting && !review->failed; i++)
			if (review->job->verdicts.n - before < MAX_SAID)
				judge(review, &groups.data[i], entangled);
	vt_job_process_groups_deinit(&groups);
}
