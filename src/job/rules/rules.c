/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer: what the members do, taken together. Each verdict follows from stored facts; there is
 * none about what one moment cannot show (that a loop never ends). Ranks are compared only when
 * they are those of one job. A rank that is not where the others wait is an alarm only when the
 * others can be waiting for it: all ranks are there, and the others are together. Otherwise it is
 * only mentioned.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/map.h"
#include "job/rules/review.h"
#include "job/rules/rules.h"

#define MAX_GROUPS 6 /* verdicts of one rule; more would push the evidence off the screen */

#define IN(state) (1u << (state))
#define WAITS_FOR_RANKS (IN(VT_STATE_COLLECTIVE) | IN(VT_STATE_STORE))

/*
 * A rank in one of these states, while others wait: "rank 3 does this; the other 7 wait in
 * all_reduce".
 */
static const struct rule {
	enum vt_finding code;
	unsigned int states; /* of the named ranks */
	unsigned int others; /* at least one other rank is in one of these; 0: no condition */
	bool elsewhere; /* named for being elsewhere: not those with a thread in a collective */
	bool not_in; /* "rank 3 is not in all_reduce but ..."; without: never sure to be awaited */
} rules[] = {
	{ VT_FINDING_CRASHED, IN(VT_STATE_CRASHED), 0, false, false },
	{ VT_FINDING_OUT_OF_MEMORY, IN(VT_STATE_OOM), 0, false, false },
	{ VT_FINDING_TRACED, IN(VT_STATE_TRACED), 0, false, false },
	{ VT_FINDING_STOPPED, IN(VT_STATE_STOPPED), 0, false, false },
	{ VT_FINDING_RETRIES_ALLOCATION, IN(VT_STATE_ALLOCATOR),
	  WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false, false },
	{ VT_FINDING_STUCK, IN(VT_STATE_STUCK), 0, false, false },
	{ VT_FINDING_WAITS_FOR_LOADER, IN(VT_STATE_LOADER), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE),
	  false, false },
	{ VT_FINDING_WAITS_FOR_LOCK, IN(VT_STATE_LOCK), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE),
	  false, false },
	{ VT_FINDING_MISSED_COLLECTIVE,
	  IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS) | IN(VT_STATE_DEVICE) | IN(VT_STATE_IDLE),
	  WAITS_FOR_RANKS, true, true },
	{ VT_FINDING_GPU_WAITS_FOR_RANK, IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS),
	  IN(VT_STATE_DEVICE), true, false },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

static bool is_in(const struct vt_member *member, unsigned int states)
{
	return states & IN(member->state);
}

static bool is_in_collective(const struct vt_review *review, const struct vt_member *member)
{
	for (size_t i = 0; i < member->threads.n; i++)
		if (review->in_collective[member->threads.data[i].doing])
			return true;
	return false;
}

static bool gather(struct vt_review *review, unsigned int states, bool elsewhere,
		   struct vt_job_indices *found)
{
	for (size_t i = 0; i < review->ranks.n; i++) {
		const struct vt_member *member = vt_review_member(review, review->ranks.data[i]);

		if (is_in(member, states) && !(elsewhere && is_in_collective(review, member)) &&
		    !vt_job_indices_add(found, review->ranks.data[i]))
			return false;
	}
	return true;
}

static bool surely_waits_for_nobody(const struct vt_review *review, const struct vt_member *member)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(review->job, member);

	if (doing &&
	    (doing->waits.code == VT_WAITS_SLEEP || doing->waits.code == VT_WAITS_SELECT_NOTHING))
		return true;
	return member->state == VT_STATE_RUNS;
}

/* They moved a moment later: they were there for an instant, as in every step of a healthy job. */
static bool has_any_moved(const struct vt_review *review, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (vt_review_member(review, members->data[i])->moved == 1)
			return true;
	return false;
}

/* All are known to have kept sleeping. */
static bool do_all_sleep(const struct vt_review *review, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (vt_review_member(review, members->data[i])->moved != 0)
			return false;
	return true;
}

/*
 * The others wait for one of the named ranks: there is no other rank, and the others are at one
 * place and stay there. Half of the ranks at one place may be a process group while the named ones
 * are fine; of two ranks it is the one that waits for no rank.
 */
static bool is_missed(const struct vt_review *review, const struct vt_job_indices *named,
		      const struct vt_job_groups *others)
{
	size_t n = vt_review_whole_world(review),
	       waiting = others->n == 1 ? others->data[0].members.n : 0;

	if (!n || !waiting || named->n + waiting != n ||
	    has_any_moved(review, &others->data[0].members) ||
	    vt_review_is_of_two(
		    vt_review_member(review, others->data[0].members.data[0])->operation))
		return false;
	return waiting * 2 > n ||
	       (n == 2 &&
		surely_waits_for_nobody(review, vt_review_member(review, named->data[0])));
}

/*
 * Ranks that wait for something other than ranks delay the others, whatever unread ranks do: if all
 * of them wait at one place, or sleep longer than a step of a healthy job with several process
 * groups.
 */
static bool are_kept(const struct vt_review *review, const struct vt_job_indices *named,
		     const struct vt_job_groups *others)
{
	size_t n = vt_review_whole_world(review), waiting = 0;
	bool asleep = true;

	/* This loader is only slow. Waits for the GIL or in the driver poll: they always move. */
	for (size_t i = 0; i < named->n; i++) {
		const struct vt_member *m = vt_review_member(review, named->data[i]);

		if (m->state == VT_STATE_LOADER && m->moved == 1)
			return false;
	}
	for (size_t i = 0; i < others->n; i++) {
		if (has_any_moved(review, &others->data[i].members))
			return false;
		asleep = asleep && do_all_sleep(review, &others->data[i].members);
		waiting += others->data[i].members.n;
	}
	n = n ? n : review->ranks.n;
	if (named->n + waiting != n || (others->n > 1 && !asleep))
		return false;
	return waiting * 2 > n || n == 2;
}

/* Wrong by itself, or wrong if others surely wait for it; a wait for a GPU is never sure. */
static bool is_alarm(const struct rule *rule, bool proven)
{
	return !rule->others || (proven && (rule->not_in || !rule->elsewhere));
}

/* They are shown as outliers. */
static bool are_outliers(const struct rule *rule, bool proven)
{
	return !rule->others || proven;
}

/*
 * "; ranks 0-2,4-7 wait in all_reduce (train.py:88 train_step)": the largest group of them, and the
 * number of the rest. named: the number of ranks that were named before.
 */
static void add_others(struct vt_review *review, const struct vt_job_groups *others, size_t named,
		       struct vt_str *text)
{
	const struct vt_job_group *most = &others->data[0];
	size_t n = most->members.n;

	if (n > 1 && named + n == review->ranks.n)
		vt_str_addf(text, "the other %zu ", n);
	else
		vt_review_add_who(review, &most->members, text);
	if (!(n > 1 && named + n == review->ranks.n))
		vt_str_add(text, " ");
	vt_review_add_does(review, most, text);
}

/* ", asked for 2.1 GiB", for the first of the ranks: usually there is one. */
static void add_request(const struct vt_review *review, const struct rule *rule,
			const struct vt_job_group *group, struct vt_str *text)
{
	const struct vt_job_requests *r =
		&vt_review_member(review, group->members.data[0])->requests;
	char size[VT_NUM_MAX];

	if (r->last_failed &&
	    (r->waits ||
	     vt_review_member(review, group->members.data[0])->state == VT_STATE_ALLOCATOR))
		vt_str_addf(text, ", %s %s",
			    r->waits ? "asked for" : "the last request that failed was for",
			    vt_format_size(size, r->last_failed));
	else if (rule->elsewhere && r->known && r->failed)
		vt_str_addf(text, ", after %llu failed request%s for GPU memory",
			    (unsigned long long)r->failed, r->failed == 1 ? "" : "s");
}

/*
 * Each also waits for others in a collective, according to its recorder: one of these delays them.
 */
static bool do_all_wait_themselves(const struct vt_review *review,
				   const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++) {
		const struct vt_model_collectives *c =
			&vt_review_member(review, members->data[i])->collectives;
		bool waits = false;

		for (size_t g = 0; g < c->groups.n; g++)
			waits |= c->groups.data[g].n_pending && !c->groups.data[g].oldest.of_two &&
				 c->groups.data[g].oldest.age_ms >= VT_LATE_MS;
		if (!waits)
			return false;
	}
	return true;
}

static void note_waiting(struct vt_review *review, const struct vt_job_groups *others)
{
	struct vt_job_indices waiting = { 0 };

	for (size_t g = 0; g < others->n; g++)
		for (size_t i = 0; i < others->data[g].members.n; i++)
			review->failed |=
				!vt_job_indices_add(&waiting, others->data[g].members.data[i]);
	vt_job_indices_sort(&waiting);
	vt_review_waiting(review, &waiting);
	free(waiting.data);
}

static void say_group(struct vt_review *review, const struct rule *rule,
		      const struct vt_job_group *group, const struct vt_job_groups *others,
		      bool proven)
{
	const struct vt_member *first =
		others->n ? vt_review_member(review, others->data[0].members.data[0]) : NULL;
	bool many = group->members.n > 1,
	     few = group->members.n * 2 < review->ranks.n || review->ranks.n <= 2;
	struct vt_str text = { 0 };

	proven = proven && !(rule->elsewhere && do_all_wait_themselves(review, &group->members));
	vt_review_add_who(review, &group->members, &text);
	vt_str_add(&text, " ");
	if (rule->not_in && first && first->operation && !vt_review_is_of_two(first->operation))
		vt_str_addf(&text, "%s not in %.100s but ", many ? "are" : "is", first->operation);
	vt_review_add_does(review, group, &text);
	add_request(review, rule, group, &text);
	if (others->n) {
		vt_str_add(&text, "; ");
		add_others(review, others, group->members.n, &text);
	}
	vt_review_say(review, rule->code, is_alarm(rule, proven), few && are_outliers(rule, proven),
		      &group->members, &text);
	if (proven && is_alarm(rule, proven))
		note_waiting(review, others);
	vt_str_deinit(&text);
}

static void say_more(struct vt_review *review, const struct rule *rule,
		     const struct vt_job_groups *groups, bool proven)
{
	struct vt_job_indices rest = { 0 };
	struct vt_str text = { 0 };
	bool ok = true;

	for (size_t g = MAX_GROUPS; g < groups->n; g++)
		for (size_t i = 0; i < groups->data[g].members.n && ok; i++)
			ok = vt_job_indices_add(&rest, groups->data[g].members.data[i]);
	review->failed |= !ok;
	vt_job_indices_sort(&rest);
	vt_review_add_who(review, &rest, &text);
	vt_str_addf(&text, ": the same, at %zu other places", groups->n - MAX_GROUPS);
	vt_review_say(review, rule->code, is_alarm(rule, proven), false, &rest, &text);
	vt_str_deinit(&text);
	free(rest.data);
}

/*
 * What at least half of the ranks wait for; in a healthy job some rank always waits. Ranks come
 * before the GPU: a rank that waits for its GPU may be the one that others wait for.
 */
static unsigned int what_others_do(const struct vt_review *review, const struct rule *rule)
{
	size_t for_ranks = review->n_states[VT_STATE_COLLECTIVE] + review->n_states[VT_STATE_STORE];
	unsigned int for_what = for_ranks ? WAITS_FOR_RANKS : 0;

	if (!review->comparable)
		return 0;
	if (for_ranks * 2 >= review->ranks.n)
		return for_what;
	if ((for_ranks + review->n_states[VT_STATE_DEVICE]) * 2 < review->ranks.n ||
	    (for_what && rule->elsewhere))
		return 0;
	return for_what | IN(VT_STATE_DEVICE);
}

static void apply(struct vt_review *review, const struct rule *rule)
{
	struct vt_job_indices named = { 0 }, waiting = { 0 };
	struct vt_job_groups groups = { 0 }, others = { 0 };
	unsigned int do_what = what_others_do(review, rule);
	bool ok = gather(review, rule->states & ~do_what, rule->elsewhere, &named) &&
		  gather(review, do_what, false, &waiting);
	bool proven = false;

	if (ok && named.n && (!rule->others || (do_what & rule->others && waiting.n)))
		ok = vt_review_group(review, &waiting, &others) &&
		     vt_review_group(review, &named, &groups);
	proven = ok && named.n && others.n &&
		 (rule->elsewhere ? is_missed : are_kept)(review, &named, &others);
	for (size_t i = 0; i < groups.n && i < MAX_GROUPS && ok; i++)
		say_group(review, rule, &groups.data[i], &others, proven);
	if (groups.n > MAX_GROUPS && ok)
		say_more(review, rule, &groups, proven);
	review->failed |= !ok;
	vt_job_groups_deinit(&groups);
	vt_job_groups_deinit(&others);
	free(named.data);
	free(waiting.data);
}

/* ---- all ranks in collectives, but in different ones ---- */

/* "ranks 0-2,4-7 wait in all_reduce (train.py:88 train_step)" */
static void add_group(struct vt_review *review, const struct vt_job_group *group,
		      struct vt_str *text)
{
	vt_review_add_who(review, &group->members, text);
	vt_str_add(text, " ");
	vt_review_add_does(review, group, text);
}

/* Recorders say that they are different operations of one group. */
static bool is_mismatch_known(const struct vt_job *job)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (job->verdicts.data[i].code == VT_FINDING_MISMATCHED_COLLECTIVE)
			return true;
	return false;
}

/* No alarm: ranks of different process groups may be in different ones. */
static void say_different(struct vt_review *review)
{
	struct vt_job_indices in = { 0 };
	struct vt_job_groups groups = { 0 };
	bool ok = gather(review, IN(VT_STATE_COLLECTIVE), false, &in) &&
		  vt_review_group(review, &in, &groups);
	bool most = ok && groups.n > 1 && groups.data[0].members.n * 2 > review->ranks.n;

	for (size_t i = 1; i < groups.n && i <= MAX_GROUPS && ok; i++) {
		struct vt_str text = { 0 };

		add_group(review, &groups.data[i], &text);
		vt_str_add(&text, most && i == 1 ? ", but " : i == 1 ? ", and " : "");
		if (i == 1)
			add_group(review, &groups.data[0], &text);
		if (!is_mismatch_known(review->job))
			vt_str_add(&text, " (fine if these are different process groups)");
		vt_review_say(review, VT_FINDING_DIFFERENT_COLLECTIVE, false, false,
			      most ? &groups.data[i].members : &in, &text);
		vt_str_deinit(&text);
	}
	review->failed |= !ok;
	vt_job_groups_deinit(&groups);
	free(in.data);
}

static void apply_all(struct vt_review *review, bool alone)
{
	for (size_t i = 0; i < N_RULES && review->ranks.n > 0; i++)
		if (alone == !rules[i].others)
			apply(review, &rules[i]);
}

void vt_rules_alone(struct vt_review *review)
{
	apply_all(review, true);
}

void vt_rules_ranks(struct vt_review *review)
{
	apply_all(review, false);
	if (review->comparable)
		say_different(review);
}

/* ---- no rank differs ---- */

/*
 * All ranks are in one state at one place, and none is known to have moved a moment later. A job
 * that keeps its GPUs busy waits for them nearly always: that is an alarm only if all of them kept
 * sleeping.
 */
static const struct {
	enum vt_job_state state;
	enum vt_finding code;
	const char *then;
	bool when_all_sleep;
} when_all[] = {
	{ VT_STATE_COLLECTIVE, VT_FINDING_ALL_IN_COLLECTIVE,
	  ": if they are in one process group, no rank is missing; the cause is NCCL, the network, a GPU that makes "
	  "no progress, or mismatched tensor sizes",
	  false },
	{ VT_STATE_STORE, VT_FINDING_ALL_IN_STORE, "", false },
	{ VT_STATE_LOADER, VT_FINDING_ALL_WAIT_FOR_LOADER, "", false },
	{ VT_STATE_DEVICE, VT_FINDING_ALL_WAIT_FOR_GPU, "", true },
};

/* "all 8 ranks", or "the 7 ranks that were read (of 8)". */
static void add_all(const struct vt_review *review, struct vt_str *text)
{
	int world_size = vt_review_member(review, review->ranks.data[0])->label.world_size;

	if (world_size <= 0 || (size_t)world_size <= review->ranks.n)
		vt_review_add_who(review, &review->ranks, text);
	else if (review->ranks.n > 1)
		vt_str_addf(text, "the %zu ranks that were read (of %d)", review->ranks.n,
			    world_size);
	else
		vt_str_addf(text, "the rank that was read (of %d)", world_size);
}

static void say_all_equal(struct vt_review *review, const struct vt_job_group *group)
{
	const struct vt_member *first = vt_review_member(review, review->ranks.data[0]);
	bool alarm = false, moved = has_any_moved(review, &review->ranks);
	/* Flight recorders and RAS know better which rank is missing, and have reported it. */
	bool all = vt_review_whole_world(review) > 1 && !vt_review_is_of_two(first->operation) &&
		   !moved && !review->job->verdicts.n;
	enum vt_finding code = VT_FINDING_ALL_EQUAL;
	const char *then = "";
	struct vt_str text = { 0 };

	add_all(review, &text);
	for (size_t i = 0; i < sizeof(when_all) / sizeof(when_all[0]); i++) {
		if (when_all[i].state != first->state)
			continue;
		code = when_all[i].code;
		then = all ? when_all[i].then : "";
		alarm = when_all[i].when_all_sleep ? do_all_sleep(review, &review->ranks) : !moved;
	}
	vt_str_add(&text, " ");
	vt_review_add_does(review, group, &text);
	vt_str_add(&text, then);
	vt_review_say(review, code, alarm, false, &group->members, &text);
	vt_str_deinit(&text);
}

/* Without any verdict about ranks, report at least what most of them do. */
static void say_most(struct vt_review *review, const struct vt_job_groups *groups)
{
	struct vt_str text = { 0 };

	if (!review->comparable && review->ranks.n > 1)
		vt_str_add(&text, "not compared, because they may belong to different jobs: ");
	for (size_t i = 0; i < groups->n && i < 3; i++) {
		vt_str_add(&text, i ? "; " : "");
		add_group(review, &groups->data[i], &text);
	}
	if (groups->n > 3)
		vt_str_addf(&text, "; the others are at %zu other places", groups->n - 3);
	vt_review_say(review, VT_FINDING_RANKS, false, false, &review->ranks, &text);
	vt_str_deinit(&text);
}

/*
 * Verdicts about outliers already tell what the others do; these verdicts do not tell where ranks
 * are.
 */
static bool is_decided(const struct vt_job *job)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (vt_finding_tells_where(job->verdicts.data[i].code))
			return true;
	return false;
}

void vt_rules_equal(struct vt_review *review)
{
	struct vt_job_groups groups = { 0 };

	if (!review->ranks.n || is_decided(review->job))
		return;
	if (vt_review_group(review, &review->ranks, &groups) && groups.n == 1 && review->comparable)
		say_all_equal(review, &groups.data[0]);
	else if (groups.n > 1 && review->comparable &&
		 review->n_states[VT_STATE_LOADER] == review->ranks.n)
		say_all_equal(review, &(struct vt_job_group){ .members = review->ranks });
	else if (groups.n)
		say_most(review, &groups);
	vt_job_groups_deinit(&groups);
}

/* ---- all rules ---- */

/* Without ranks (torch.multiprocessing) they belong to one job if one process started them. */
static bool are_of_one_job(const struct vt_label *a, const struct vt_label *b)
{
	if (strcmp(a->job, b->job) != 0 || a->world_size != b->world_size)
		return false;
	if (a->rank >= 0 || b->rank >= 0)
		return a->rank >= 0 && b->rank >= 0;
	return a->ppid == b->ppid && !strcmp(vt_job_system(a), vt_job_system(b));
}

/* Less is known about a core, and its rank may have restarted since. */
static bool are_comparable(struct vt_review *review)
{
	const struct vt_label *first = NULL;
	struct vt_map numbers = { 0 };
	bool are = true;

	for (size_t i = 0; i < review->ranks.n && are; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (m->state == VT_STATE_CRASHED)
			continue;
		first = first ? first : &m->label;
		are = are_of_one_job(first, &m->label);
		if (!are || m->label.rank < 0)
			continue;
		are = !vt_map_get(&numbers, (uint64_t)m->label.rank);
		review->failed |= are && !vt_map_put(&numbers, (uint64_t)m->label.rank, i);
	}
	vt_map_deinit(&numbers);
	if (!are)
		vt_job_diag(
			review->job, VT_DIAG_NOTE, "not-compared",
			"the ranks were not compared: they are not those of one job, each there once");
	return are && first;
}

static bool check_doings(struct vt_review *review)
{
	const struct vt_job *job = review->job;

	review->in_collective = calloc(job->doings.n + 1, sizeof(*review->in_collective));
	for (size_t i = 0; i < job->doings.n && review->in_collective; i++)
		review->in_collective[i] = vt_job_is_in_collective(job, &job->doings.data[i]);
	return review->in_collective;
}

static void apply_rules(struct vt_review *review)
{
	review->comparable = are_comparable(review);
	vt_rules_missing(review);
	vt_rules_faults(review);
	vt_rules_alone(review);
	vt_rules_sequences(review);
	vt_rules_ranks(review);
	vt_rules_ras(review);
	vt_rules_equal(review);
	vt_rules_kernels(review);
	vt_rules_health(review);
	vt_rules_workers(review);
	vt_rules_memory(review);
	vt_rules_chains(review);
	VT_JOB_PUT_ALARMS_FIRST(&review->job->verdicts);
}

bool vt_job_make_verdicts(struct vt_job *job)
{
	struct vt_review review = { .job = job };

	for (size_t i = 0; i < job->members.n; i++) {
		struct vt_member *m = &job->members.data[i];

		m->outlier = false;
		if (m->label.role != VT_ROLE_RANK || !m->label.in_job ||
		    (m->state == VT_STATE_GONE && m->error))
			continue;
		review.n_states[m->state]++;
		review.failed |= !vt_job_indices_add(&review.ranks, (uint32_t)i);
	}
	if (check_doings(&review))
		apply_rules(&review);
	review.failed |= !review.in_collective;
	free(review.in_collective);
	free(review.ranks.data);
	return !review.failed;
}
