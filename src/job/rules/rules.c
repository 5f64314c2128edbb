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
	const char *code;
	unsigned int states; /* of the named ranks */
	unsigned int others; /* at least one other rank is in one of these; 0: no condition */
	bool elsewhere; /* named for being elsewhere: not those with a thread in a collective */
	bool not_in; /* "rank 3 is not in all_reduce but ..."; without: never sure to be awaited */
} rules[] = {
	{ "crashed", IN(VT_STATE_CRASHED), 0, false, false },
	{ "out-of-memory", IN(VT_STATE_OOM), 0, false, false },
	{ "traced", IN(VT_STATE_TRACED), 0, false, false },
	{ "stopped", IN(VT_STATE_STOPPED), 0, false, false },
	{ "retries-allocation", IN(VT_STATE_ALLOCATOR), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE),
	  false, false },
	{ "stuck", IN(VT_STATE_STUCK), 0, false, false },
	{ "waits-for-loader", IN(VT_STATE_LOADER), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false,
	  false },
	{ "waits-for-lock", IN(VT_STATE_LOCK), WAITS_FOR_RANKS | IN(VT_STATE_DEVICE), false,
	  false },
	{ "missed-collective",
	  IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS) | IN(VT_STATE_DEVICE) | IN(VT_STATE_IDLE),
	  WAITS_FOR_RANKS, true, true },
	{ "gpu-waits-for-rank", IN(VT_STATE_RUNS) | IN(VT_STATE_WAITS), IN(VT_STATE_DEVICE), true,
	  false },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

static bool is_in(const struct vt_member *member, unsigned int states)
{
	return states & IN(member->state);
}

static bool is_in_collective(const struct vt_job_look *look, const struct vt_member *member)
{
	for (size_t i = 0; i < member->threads.n; i++)
		if (look->in_collective[member->threads.data[i].doing])
			return true;
	return false;
}

static bool gather(struct vt_job_look *look, unsigned int states, bool elsewhere,
		   struct vt_job_indices *found)
{
	for (size_t i = 0; i < look->ranks.n; i++) {
		const struct vt_member *member = vt_look_member(look, look->ranks.data[i]);

		if (is_in(member, states) && !(elsewhere && is_in_collective(look, member)) &&
		    !vt_job_indices_add(found, look->ranks.data[i]))
			return false;
	}
	return true;
}

/* Only two ranks are in it: the others are elsewhere, and fine. */
static bool is_of_two(const char *operation)
{
	static const char *const names[] = { "send",
					     "recv",
					     "isend",
					     "irecv",
					     "batch_isend_irecv",
					     "send_object_list",
					     "recv_object_list" };

	for (size_t i = 0; operation && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

static bool surely_waits_for_nobody(const struct vt_job_look *look, const struct vt_member *member)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(look->job, member);

	if (doing &&
	    (doing->waits.code == VT_WAITS_SLEEP || doing->waits.code == VT_WAITS_SELECT_NOTHING))
		return true;
	return member->state == VT_STATE_RUNS;
}

/* They moved a moment later: they were there for an instant, as in every step of a healthy job. */
static bool has_any_moved(const struct vt_job_look *look, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (vt_look_member(look, members->data[i])->moved == 1)
			return true;
	return false;
}

/* All are known to have kept sleeping. */
static bool do_all_sleep(const struct vt_job_look *look, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++)
		if (vt_look_member(look, members->data[i])->moved != 0)
			return false;
	return true;
}

/*
 * The others wait for one of the named ranks: there is no other rank, and the others are at one
 * place and stay there. Half of the ranks at one place may be a process group while the named ones
 * are fine; of two ranks it is the one that waits for no rank.
 */
static bool is_missed(const struct vt_job_look *look, const struct vt_job_indices *named,
		      const struct vt_job_groups *others)
{
	size_t n = vt_look_whole_world(look),
	       waiting = others->n == 1 ? others->data[0].members.n : 0;

	if (!n || !waiting || named->n + waiting != n ||
	    has_any_moved(look, &others->data[0].members) ||
	    is_of_two(vt_look_member(look, others->data[0].members.data[0])->operation))
		return false;
	return waiting * 2 > n ||
	       (n == 2 && surely_waits_for_nobody(look, vt_look_member(look, named->data[0])));
}

/*
 * Ranks that wait for something other than ranks delay the others, whatever unread ranks do: if all
 * of them wait at one place, or sleep longer than a step of a healthy job with several process
 * groups.
 */
static bool are_kept(const struct vt_job_look *look, const struct vt_job_indices *named,
		     const struct vt_job_groups *others)
{
	size_t n = vt_look_whole_world(look), waiting = 0;
	bool asleep = true;

	/* This loader is only slow. Waits for the GIL or in the driver poll: they always move. */
	for (size_t i = 0; i < named->n; i++) {
		const struct vt_member *m = vt_look_member(look, named->data[i]);

		if (m->state == VT_STATE_LOADER && m->moved == 1)
			return false;
	}
	for (size_t i = 0; i < others->n; i++) {
		if (has_any_moved(look, &others->data[i].members))
			return false;
		asleep = asleep && do_all_sleep(look, &others->data[i].members);
		waiting += others->data[i].members.n;
	}
	n = n ? n : look->ranks.n;
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
static void add_others(struct vt_job_look *look, const struct vt_job_groups *others, size_t named,
		       struct vt_str *text)
{
	const struct vt_job_group *most = &others->data[0];
	size_t n = most->members.n;

	if (n > 1 && named + n == look->ranks.n)
		vt_str_addf(text, "the other %zu ", n);
	else
		vt_look_add_who(look, &most->members, text);
	if (!(n > 1 && named + n == look->ranks.n))
		vt_str_add(text, " ");
	vt_look_add_does(look, most, text);
}

/* ", asked for 2.1 GiB", for the first of the ranks: usually there is one. */
static void add_request(const struct vt_job_look *look, const struct rule *rule,
			const struct vt_job_group *group, struct vt_str *text)
{
	const struct vt_job_requests *r = &vt_look_member(look, group->members.data[0])->requests;
	char size[VT_NUM_MAX];

	if (r->last_failed &&
	    (r->waits || vt_look_member(look, group->members.data[0])->state == VT_STATE_ALLOCATOR))
		vt_str_addf(text, ", %s %s",
			    r->waits ? "asked for" : "the last request that failed was for",
			    vt_format_size(size, r->last_failed));
	else if (rule->elsewhere && r->known && r->failed)
		vt_str_addf(text, ", after %llu request%s for GPU memory had failed in it",
			    (unsigned long long)r->failed, r->failed == 1 ? "" : "s");
}

/*
 * Each also waits for others in a collective, according to its recorder: one of these delays them.
 */
static bool do_all_wait_themselves(const struct vt_job_look *look,
				   const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++) {
		const struct vt_model_collectives *c =
			&vt_look_member(look, members->data[i])->collectives;
		bool waits = false;

		for (size_t g = 0; g < c->groups.n; g++)
			waits |= c->groups.data[g].n_pending && !c->groups.data[g].oldest.of_two &&
				 c->groups.data[g].oldest.age_ms >= VT_LATE_MS;
		if (!waits)
			return false;
	}
	return true;
}

static void say_group(struct vt_job_look *look, const struct rule *rule,
		      const struct vt_job_group *group, const struct vt_job_groups *others,
		      bool proven)
{
	const struct vt_member *first =
		others->n ? vt_look_member(look, others->data[0].members.data[0]) : NULL;
	bool many = group->members.n > 1,
	     few = group->members.n * 2 < look->ranks.n || look->ranks.n <= 2;
	struct vt_str text = { 0 };

	proven = proven && !(rule->elsewhere && do_all_wait_themselves(look, &group->members));
	vt_look_add_who(look, &group->members, &text);
	vt_str_add(&text, " ");
	if (rule->not_in && first && first->operation && !is_of_two(first->operation))
		vt_str_addf(&text, "%s not in %.100s but ", many ? "are" : "is", first->operation);
	vt_look_add_does(look, group, &text);
	add_request(look, rule, group, &text);
	if (others->n) {
		vt_str_add(&text, "; ");
		add_others(look, others, group->members.n, &text);
	}
	vt_look_say(look, rule->code, is_alarm(rule, proven), few && are_outliers(rule, proven),
		    &group->members, &text);
	vt_str_deinit(&text);
}

static void say_more(struct vt_job_look *look, const struct rule *rule,
		     const struct vt_job_groups *groups, bool proven)
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
	vt_look_say(look, rule->code, is_alarm(rule, proven), false, &rest, &text);
	vt_str_deinit(&text);
	free(rest.data);
}

/*
 * What at least half of the ranks wait for; in a healthy job some rank always waits. Ranks come
 * before the GPU: a rank that waits for its GPU may be the one that others wait for.
 */
static unsigned int what_others_do(const struct vt_job_look *look, const struct rule *rule)
{
	size_t for_ranks = look->n_states[VT_STATE_COLLECTIVE] + look->n_states[VT_STATE_STORE];
	unsigned int for_what = for_ranks ? WAITS_FOR_RANKS : 0;

	if (!look->comparable)
		return 0;
	if (for_ranks * 2 >= look->ranks.n)
		return for_what;
	if ((for_ranks + look->n_states[VT_STATE_DEVICE]) * 2 < look->ranks.n ||
	    (for_what && rule->elsewhere))
		return 0;
	return for_what | IN(VT_STATE_DEVICE);
}

static void apply(struct vt_job_look *look, const struct rule *rule)
{
	struct vt_job_indices named = { 0 }, waiting = { 0 };
	struct vt_job_groups groups = { 0 }, others = { 0 };
	unsigned int do_what = what_others_do(look, rule);
	bool ok = gather(look, rule->states & ~do_what, rule->elsewhere, &named) &&
		  gather(look, do_what, false, &waiting);
	bool proven = false;

	if (ok && named.n && (!rule->others || (do_what & rule->others && waiting.n)))
		ok = vt_look_group(look, &waiting, &others) && vt_look_group(look, &named, &groups);
	proven = ok && named.n && others.n &&
		 (rule->elsewhere ? is_missed : are_kept)(look, &named, &others);
	for (size_t i = 0; i < groups.n && i < MAX_GROUPS && ok; i++)
		say_group(look, rule, &groups.data[i], &others, proven);
	if (groups.n > MAX_GROUPS && ok)
		say_more(look, rule, &groups, proven);
	look->failed |= !ok;
	vt_job_groups_deinit(&groups);
	vt_job_groups_deinit(&others);
	free(named.data);
	free(waiting.data);
}

/* ---- all ranks in collectives, but in different ones ---- */

/* "ranks 0-2,4-7 wait in all_reduce (train.py:88 train_step)" */
static void add_group(struct vt_job_look *look, const struct vt_job_group *group,
		      struct vt_str *text)
{
	vt_look_add_who(look, &group->members, text);
	vt_str_add(text, " ");
	vt_look_add_does(look, group, text);
}

/* Recorders say that they are different operations of one group. */
static bool is_mismatch_known(const struct vt_job *job)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (!strcmp(job->verdicts.data[i].code, "mismatched-collective"))
			return true;
	return false;
}

/* No alarm: ranks of different process groups may be in different ones. */
static void say_different(struct vt_job_look *look)
{
	struct vt_job_indices in = { 0 };
	struct vt_job_groups groups = { 0 };
	bool ok = gather(look, IN(VT_STATE_COLLECTIVE), false, &in) &&
		  vt_look_group(look, &in, &groups);
	bool most = ok && groups.n > 1 && groups.data[0].members.n * 2 > look->ranks.n;

	for (size_t i = 1; i < groups.n && i <= MAX_GROUPS && ok; i++) {
		struct vt_str text = { 0 };

		add_group(look, &groups.data[i], &text);
		vt_str_add(&text, most && i == 1 ? ", but " : i == 1 ? ", and " : "");
		if (i == 1)
			add_group(look, &groups.data[0], &text);
		if (!is_mismatch_known(look->job))
			vt_str_add(&text, " (well, if these are of different process groups)");
		vt_look_say(look, "different-collective", false, false,
			    most ? &groups.data[i].members : &in, &text);
		vt_str_deinit(&text);
	}
	look->failed |= !ok;
	vt_job_groups_deinit(&groups);
	free(in.data);
}

static void apply_all(struct vt_job_look *look, bool alone)
{
	for (size_t i = 0; i < N_RULES && look->ranks.n > 0; i++)
		if (alone == !rules[i].others)
			apply(look, &rules[i]);
}

void vt_rules_alone(struct vt_job_look *look)
{
	apply_all(look, true);
}

void vt_rules_ranks(struct vt_job_look *look)
{
	apply_all(look, false);
	if (look->comparable)
		say_different(look);
}

/* ---- no rank differs ---- */

/*
 * All ranks are in one state at one place, and none is known to have moved a moment later. A job
 * that keeps its GPUs busy waits for them nearly always: that is an alarm only if all of them kept
 * sleeping.
 */
static const struct {
	enum vt_job_state state;
	const char *code, *then;
	bool when_all_sleep;
} when_all[] = {
	{ VT_STATE_COLLECTIVE, "all-in-collective",
	  ": if they are in one process group, no rank is missing; the cause is NCCL, the network, a GPU that makes "
	  "no progress, or mismatched tensor sizes",
	  false },
	{ VT_STATE_STORE, "all-in-store", "", false },
	{ VT_STATE_LOADER, "all-wait-for-loader", "", false },
	{ VT_STATE_DEVICE, "all-wait-for-gpu", "", true },
};

/* "all 8 ranks", or "the 7 ranks that were looked at (of 8)". */
static void add_all(const struct vt_job_look *look, struct vt_str *text)
{
	int world_size = vt_look_member(look, look->ranks.data[0])->label.world_size;

	if (world_size <= 0 || (size_t)world_size <= look->ranks.n)
		vt_look_add_who(look, &look->ranks, text);
	else if (look->ranks.n > 1)
		vt_str_addf(text, "the %zu ranks that were looked at (of %d)", look->ranks.n,
			    world_size);
	else
		vt_str_addf(text, "the rank that was looked at (of %d)", world_size);
}

static void say_all_equal(struct vt_job_look *look, const struct vt_job_group *group)
{
	const struct vt_member *first = vt_look_member(look, look->ranks.data[0]);
	bool alarm = false, moved = has_any_moved(look, &look->ranks);
	/* Flight recorders and RAS know better which rank is missing, and have reported it. */
	bool all = vt_look_whole_world(look) > 1 && !is_of_two(first->operation) && !moved &&
		   !look->job->verdicts.n;
	const char *code = "all-equal", *then = "";
	struct vt_str text = { 0 };

	add_all(look, &text);
	for (size_t i = 0; i < sizeof(when_all) / sizeof(when_all[0]); i++) {
		if (when_all[i].state != first->state)
			continue;
		code = when_all[i].code;
		then = all ? when_all[i].then : "";
		alarm = when_all[i].when_all_sleep ? do_all_sleep(look, &look->ranks) : !moved;
	}
	vt_str_add(&text, " ");
	vt_look_add_does(look, group, &text);
	vt_str_add(&text, then);
	vt_look_say(look, code, alarm, false, &group->members, &text);
	vt_str_deinit(&text);
}

/* Without any verdict about ranks, report at least what most of them do. */
static void say_most(struct vt_job_look *look, const struct vt_job_groups *groups)
{
	struct vt_str text = { 0 };

	if (!look->comparable && look->ranks.n > 1)
		vt_str_add(&text, "not compared, because they may belong to different jobs: ");
	for (size_t i = 0; i < groups->n && i < 3; i++) {
		vt_str_add(&text, i ? "; " : "");
		add_group(look, &groups->data[i], &text);
	}
	if (groups->n > 3)
		vt_str_addf(&text, "; the others are at %zu other places", groups->n - 3);
	vt_look_say(look, "ranks", false, false, &look->ranks, &text);
	vt_str_deinit(&text);
}

/*
 * Verdicts about outliers already tell what the others do; these verdicts do not tell where ranks
 * are.
 */
static bool is_decided(const struct vt_job *job)
{
	static const char *const undecided[] = { "missing-rank",
						 "unread-rank",
						 "collective-stalls",
						 "collective-waits",
						 "not-started",
						 "not-completed",
						 "ras-*" };
	size_t n = 0;

	for (size_t i = 0; i < job->verdicts.n; i++)
		for (size_t k = 0; k < sizeof(undecided) / sizeof(undecided[0]); k++)
			n += vt_glob(undecided[k], job->verdicts.data[i].code);
	return n < job->verdicts.n;
}

void vt_rules_equal(struct vt_job_look *look)
{
	struct vt_job_groups groups = { 0 };

	if (!look->ranks.n || is_decided(look->job))
		return;
	if (vt_look_group(look, &look->ranks, &groups) && groups.n == 1 && look->comparable)
		say_all_equal(look, &groups.data[0]);
	else if (groups.n > 1 && look->comparable &&
		 look->n_states[VT_STATE_LOADER] == look->ranks.n)
		say_all_equal(look, &(struct vt_job_group){ .members = look->ranks });
	else if (groups.n)
		say_most(look, &groups);
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
static bool are_comparable(struct vt_job_look *look)
{
	const struct vt_label *first = NULL;
	struct vt_map numbers = { 0 };
	bool are = true;

	for (size_t i = 0; i < look->ranks.n && are; i++) {
		const struct vt_member *m = vt_look_member(look, look->ranks.data[i]);

		if (m->state == VT_STATE_CRASHED)
			continue;
		first = first ? first : &m->label;
		are = are_of_one_job(first, &m->label);
		if (!are || m->label.rank < 0)
			continue;
		are = !vt_map_get(&numbers, (uint64_t)m->label.rank);
		look->failed |= are && !vt_map_put(&numbers, (uint64_t)m->label.rank, i);
	}
	vt_map_deinit(&numbers);
	if (!are)
		vt_job_diag(
			look->job, VT_DIAG_NOTE, "not-compared",
			"the ranks are not those of one job, each there once: they were not compared with each other");
	return are && first;
}

static bool look_at_doings(struct vt_job_look *look)
{
	const struct vt_job *job = look->job;

	look->in_collective = calloc(job->doings.n + 1, sizeof(*look->in_collective));
	for (size_t i = 0; i < job->doings.n && look->in_collective; i++)
		look->in_collective[i] = vt_job_is_in_collective(job, &job->doings.data[i]);
	return look->in_collective;
}

static void put_alarms_first(struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->verdicts.n; i++) {
		struct vt_job_verdict v = job->verdicts.data[i];

		if (!v.alarm)
			continue;
		memmove(&job->verdicts.data[n + 1], &job->verdicts.data[n], (i - n) * sizeof(v));
		job->verdicts.data[n++] = v;
	}
}

static void apply_rules(struct vt_job_look *look)
{
	look->comparable = are_comparable(look);
	vt_rules_missing(look);
	vt_rules_alone(look);
	vt_rules_sequences(look);
	vt_rules_ranks(look);
	vt_rules_ras(look);
	vt_rules_equal(look);
	vt_rules_workers(look);
	vt_rules_memory(look);
	put_alarms_first(look->job);
}

bool vt_job_make_verdicts(struct vt_job *job)
{
	struct vt_job_look look = { .job = job };

	for (size_t i = 0; i < job->members.n; i++) {
		struct vt_member *m = &job->members.data[i];

		m->outlier = false;
		if (m->label.role != VT_ROLE_RANK || !m->label.in_job ||
		    (m->state == VT_STATE_GONE && m->error))
			continue;
		look.n_states[m->state]++;
		look.failed |= !vt_job_indices_add(&look.ranks, (uint32_t)i);
	}
	if (look_at_doings(&look))
		apply_rules(&look);
	look.failed |= !look.in_collective;
	free(look.in_collective);
	free(look.ranks.data);
	return !look.failed;
}
