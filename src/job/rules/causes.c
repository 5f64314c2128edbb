/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From verdicts to causes: one for each set of processes, by what explains most, and who waits for
 * it. A verdict knows who waits if its rule could prove it for its ranks alone. With several
 * causes at once none can: here the ranks that wait hang on each of them, when there is no other.
 */
#include <stdlib.h>
#include <string.h>

#include "job/rules/causes.h"

/* What explains more comes first: a stopped rank is behind, too. */
static const struct vt_cause_kind kinds[] = {
	{ VT_FINDING_MISSING_RANK, VT_CURE_RESTART, true, false, NULL, NULL },
	{ VT_FINDING_UNREAD_RANK, VT_CURE_RESTART, true, false, NULL, NULL },
	{ VT_FINDING_CRASHED, VT_CURE_CORE, true, false, NULL, NULL },
	{ VT_FINDING_OUT_OF_MEMORY, VT_CURE_MEMORY, true, false, NULL, NULL },
	{ VT_FINDING_TRACED, VT_CURE_DETACH, true, false, NULL, NULL },
	{ VT_FINDING_STOPPED, VT_CURE_CONTINUE, true, false, NULL, NULL },
	{ VT_FINDING_GPU_FAULT, VT_CURE_RESET, true, false, NULL, NULL },
	{ VT_FINDING_CONTEXT_LOST, VT_CURE_CONTEXT, true, false, NULL, NULL },
	{ VT_FINDING_STUCK, VT_CURE_KERNEL, true, false, NULL, NULL },
	{ VT_FINDING_LOADER_WORKER, VT_CURE_LOOK, true, false, NULL, NULL },
	{ VT_FINDING_RAS_DEAD, VT_CURE_NETWORK, true, false, NULL, NULL },
	{ VT_FINDING_RETRIES_ALLOCATION, VT_CURE_MEMORY, false, false, NULL, NULL },
	{ VT_FINDING_WAITS_FOR_LOCK, VT_CURE_LOCK, false, false, NULL, NULL },
	{ VT_FINDING_WAITS_FOR_LOADER, VT_CURE_LOOK, false, false, NULL, NULL },
	{ VT_FINDING_LOADER_BUSY, VT_CURE_WORKER, false, false, NULL, NULL },
	{ VT_FINDING_MISMATCHED_COLLECTIVE, VT_CURE_SAME_ORDER, false, false,
	  "began another operation than the others: it ",
	  "began another operation than the others: they " },
	{ VT_FINDING_BEHIND, VT_CURE_LOOK, false, true,
	  "has not begun what the others wait in: it ",
	  "have not begun what the others wait in: they " },
	{ VT_FINDING_NOT_STARTED, VT_CURE_GPU, false, false,
	  "has a GPU that is busy with earlier work: it ",
	  "have GPUs that are busy with earlier work: they " },
	{ VT_FINDING_MISSED_COLLECTIVE, VT_CURE_LOOK, false, true, NULL, NULL },
	{ VT_FINDING_RAS_BEHIND, VT_CURE_LOOK, false, true,
	  "has launched fewer collectives than the others: it ",
	  "have launched fewer collectives than the others: they " },
	{ VT_FINDING_RAS_SILENT, VT_CURE_NETWORK, true, false, NULL, NULL },
};

/* Loader workers: by what they do, instead of VT_CURE_LOOK. */
static const enum vt_cure by_state[VT_N_STATES] = {
	[VT_STATE_GONE] = VT_CURE_RESTART,  [VT_STATE_STOPPED] = VT_CURE_CONTINUE,
	[VT_STATE_TRACED] = VT_CURE_DETACH, [VT_STATE_STUCK] = VT_CURE_KERNEL,
	[VT_STATE_LOCK] = VT_CURE_LOCK,
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

bool vt_indices_have(const struct vt_job_indices *indices, uint32_t member)
{
	for (size_t i = 0; i < indices->n; i++)
		if (indices->data[i] == member)
			return true;
	return false;
}

void vt_causes_deinit(struct vt_causes *causes)
{
	for (size_t i = 0; i < causes->n; i++) {
		free(causes->data[i].members.data);
		free(causes->data[i].waiting.data);
	}
	vt_vec_deinit(causes);
}

/* ---- one cause ---- */

static bool copy(struct vt_job_indices *to, const struct vt_member_set *from)
{
	for (size_t i = 0; i < from->n; i++)
		if (!vt_indices_have(to, from->members[i]) &&
		    !vt_job_indices_add(to, from->members[i]))
			return false;
	vt_job_indices_sort(to);
	return true;
}

/* What it says is no cause: nothing is known about the rank, or it is there again. */
static bool is_cause(const struct vt_review *review, const struct vt_job_verdict *v)
{
	for (size_t i = 0; i < v->members.n; i++) {
		const struct vt_member *m = vt_review_member(review, v->members.members[i]);

		if (v->code == VT_FINDING_UNREAD_RANK && m->process_state != 'Z')
			return false;
		for (size_t k = 0; k < review->ranks.n && v->code == VT_FINDING_CRASHED; k++) {
			const struct vt_member *other =
				vt_review_member(review, review->ranks.data[k]);

			if (!other->core && other->label.rank == m->label.rank)
				return false;
		}
	}
	return true;
}

/* The cause that its members have already; NULL none. */
static struct vt_cause *find_same(struct vt_causes *causes, const struct vt_member_set *members)
{
	for (size_t i = 0; i < causes->n; i++) {
		size_t n = 0;

		while (n < members->n &&
		       vt_indices_have(&causes->data[i].members, members->members[n]))
			n++;
		if (n && n == members->n)
			return &causes->data[i];
	}
	return NULL;
}

static bool is_worker_of(const struct vt_member *worker, const struct vt_member *rank)
{
	return worker->label.role == VT_ROLE_LOADER && worker->label.in_job &&
	       worker->label.of == rank->label.pid &&
	       vt_job_system(&worker->label) == vt_job_system(&rank->label);
}

/* The ranks that wait for their loader, and whose workers these are. */
static bool add_owners(const struct vt_review *review, struct vt_cause *cause)
{
	for (size_t i = 0; i < review->ranks.n; i++) {
		const struct vt_member *rank = vt_review_member(review, review->ranks.data[i]);
		bool owns = false;

		for (size_t k = 0; k < cause->members.n; k++)
			owns |= is_worker_of(vt_review_member(review, cause->members.data[k]),
					     rank);
		if (owns && rank->state == VT_STATE_LOADER && rank->moved != 1 &&
		    !vt_job_indices_add(&cause->waiting, review->ranks.data[i]))
			return false;
	}
	return true;
}

/* A rank that waits for it has another worker, which is not out of work. */
static bool have_others(const struct vt_review *review, const struct vt_cause *cause)
{
	for (size_t i = 0; i < review->job->members.n; i++) {
		const struct vt_member *m = vt_review_member(review, (uint32_t)i);

		if (m->label.role != VT_ROLE_LOADER || m->state == VT_STATE_IDLE ||
		    vt_indices_have(&cause->members, (uint32_t)i))
			continue;
		for (size_t k = 0; k < cause->waiting.n; k++)
			if (is_worker_of(m, vt_review_member(review, cause->waiting.data[k])))
				return true;
	}
	return false;
}

/* They are waited for already by what is worse. */
static bool do_others_explain(const struct vt_causes *causes, const struct vt_cause *busy)
{
	for (size_t i = 0; i < causes->n; i++)
		for (size_t k = 0; k < busy->waiting.n; k++)
			if (causes->data[i].kind->code == VT_FINDING_LOADER_WORKER &&
			    vt_indices_have(&causes->data[i].waiting, busy->waiting.data[k]))
				return true;
	return false;
}

/* Their ranks wait for them. False: not a cause, or out of memory. */
static bool look_at_workers(struct vt_review *review, const struct vt_causes *causes,
			    struct vt_cause *cause)
{
	bool busy = cause->kind->code == VT_FINDING_LOADER_BUSY;

	if (!add_owners(review, cause)) {
		review->failed = true;
		return false;
	}
	if (busy && (!cause->waiting.n || do_others_explain(causes, cause)))
		return false;
	cause->doubt = busy                       ? VT_DOUBT_SLOW :
		       have_others(review, cause) ? VT_DOUBT_WORKERS :
						    VT_DOUBT_NONE;
	return true;
}

static void add(struct vt_review *review, struct vt_causes *causes,
		const struct vt_cause_kind *kind, size_t verdict)
{
	const struct vt_job_verdict *v = &review->job->verdicts.data[verdict];
	struct vt_cause *same = find_same(causes, &v->members), *added;
	struct vt_cause cause = { .kind = kind, .verdict = verdict, .alarm = v->alarm };
	bool workers = kind->code == VT_FINDING_LOADER_WORKER ||
		       kind->code == VT_FINDING_LOADER_BUSY;

	if (same) {
		same->alarm |= v->alarm;
		review->failed |= !copy(&same->waiting, &v->waiting);
		return;
	}
	review->failed |= !copy(&cause.members, &v->members) || !copy(&cause.waiting, &v->waiting);
	if (workers && !look_at_workers(review, causes, &cause)) {
		free(cause.members.data);
		free(cause.waiting.data);
		return;
	}
	added = vt_vec_append(causes);
	if (added) {
		*added = cause;
		return;
	}
	review->failed = true;
	free(cause.members.data);
	free(cause.waiting.data);
}

/* ---- several causes ---- */

/* What all ranks do when each is either the subject of a cause, or waits. */
struct blocked {
	struct vt_job_indices ranks; /* that wait for ranks, or for their GPU */
	bool proven;                 /* none of them went on, and there are no other ranks */
	bool whole, together, most;
};

static bool is_subject(const struct vt_causes *causes, uint32_t rank)
{
	for (size_t i = 0; i < causes->n; i++) {
		const struct vt_cause *c = &causes->data[i];

		if (vt_indices_have(&c->members, rank) ||
		    (c->kind->code == VT_FINDING_LOADER_WORKER &&
		     vt_indices_have(&c->waiting, rank)))
			return true;
	}
	return false;
}

static bool can_wait(const struct vt_member *m)
{
	return (m->state == VT_STATE_COLLECTIVE && !vt_review_is_of_two(m->operation)) ||
	       m->state == VT_STATE_STORE || m->state == VT_STATE_DEVICE;
}

/* Those that have ended are not among the ranks that can be compared. */
static size_t count_ended(const struct vt_causes *causes)
{
	size_t n = 0;

	for (size_t i = 0; i < causes->n; i++)
		if (causes->data[i].kind->cure == VT_CURE_RESTART)
			n += causes->data[i].members.n;
	return n;
}

static bool find_blocked(struct vt_review *review, const struct vt_causes *causes,
			 struct blocked *b)
{
	struct vt_job_groups groups = { 0 };
	bool asleep = true;
	int world_size;

	b->proven = review->comparable;
	for (size_t i = 0; i < review->ranks.n; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (is_subject(causes, review->ranks.data[i]))
			continue;
		b->proven &= can_wait(m) && m->moved != 1;
		asleep &= m->moved == 0;
		if (!vt_job_indices_add(&b->ranks, review->ranks.data[i]))
			return false;
	}
	if (!b->ranks.n || !b->proven)
		return true;
	if (!vt_review_group(review, &b->ranks, &groups))
		return false;
	world_size = vt_review_member(review, b->ranks.data[0])->label.world_size;
	b->whole = world_size > 0 && review->ranks.n + count_ended(causes) >= (size_t)world_size;
	b->together = groups.n == 1;
	b->proven = b->together || asleep;
	b->most = b->ranks.n * 2 > review->ranks.n || review->ranks.n == 2;
	vt_job_groups_deinit(&groups);
	return true;
}

static bool is_any_alarm(const struct vt_causes *causes)
{
	for (size_t i = 0; i < causes->n; i++)
		if (causes->data[i].alarm)
			return true;
	return false;
}

static enum vt_doubt doubt_about(const struct vt_cause *cause, const struct blocked *b)
{
	if (cause->kind->code == VT_FINDING_MISSING_RANK && !cause->members.n)
		return VT_DOUBT_LEFT_OUT;
	if (!b->whole)
		return VT_DOUBT_UNSEEN;
	return !b->most || cause->kind->elsewhere ? VT_DOUBT_GROUPS : VT_DOUBT_NONE;
}

static bool is_about_workers(const struct vt_cause *cause)
{
	return cause->kind->code == VT_FINDING_LOADER_WORKER ||
	       cause->kind->code == VT_FINDING_LOADER_BUSY;
}

/* The ranks that wait do so for each that does not, if nothing else can be what they wait for. */
static bool share(struct vt_review *review, struct vt_causes *causes)
{
	struct blocked b = { 0 };
	bool ok = !is_any_alarm(causes) || find_blocked(review, causes, &b);

	for (size_t i = 0; i < causes->n && ok && b.ranks.n && b.proven; i++) {
		struct vt_cause *cause = &causes->data[i];
		struct vt_member_set set = { .members = b.ranks.data, .n = b.ranks.n };

		if (cause->waiting.n || is_about_workers(cause) ||
		    (!cause->kind->alone && !(b.most && b.together)))
			continue;
		cause->doubt = doubt_about(cause, &b);
		ok = copy(&cause->waiting, &set);
	}
	free(b.ranks.data);
	return ok;
}

/* A GPU that others do not wait for may have work for as long. */
static void doubt_devices(const struct vt_review *review, struct vt_cause *cause)
{
	for (size_t i = 0; i < cause->waiting.n && !cause->doubt; i++) {
		const struct vt_member *m = vt_review_member(review, cause->waiting.data[i]);

		if (m->state == VT_STATE_DEVICE && cause->kind->code != VT_FINDING_BEHIND &&
		    cause->kind->code != VT_FINDING_NOT_STARTED &&
		    cause->kind->code != VT_FINDING_RAS_BEHIND)
			cause->doubt = VT_DOUBT_GPU;
	}
}

bool vt_causes_find(struct vt_review *review, struct vt_causes *causes)
{
	for (size_t k = 0; k < N_KINDS; k++)
		for (size_t i = 0; i < review->job->verdicts.n; i++)
			if (review->job->verdicts.data[i].code == kinds[k].code &&
			    is_cause(review, &review->job->verdicts.data[i]))
				add(review, causes, &kinds[k], i);
	review->failed |= !share(review, causes);
	for (size_t i = 0; i < causes->n; i++)
		doubt_devices(review, &causes->data[i]);
	return !review->failed;
}

enum vt_cure vt_cause_cure(const struct vt_review *review, const struct vt_cause *cause)
{
	if (cause->kind->code != VT_FINDING_LOADER_WORKER)
		return cause->kind->cure;
	return by_state[vt_review_member(review, cause->members.data[0])->state];
}
