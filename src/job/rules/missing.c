/* SPDX-License-Identifier: Apache-2.0 */
/* What should be there but is not: ranks, loader workers. */
#include <stdlib.h>
#include <string.h>

#include "job/rules/review.h"
#include "base/hash.h"
#include "base/map.h"

#define MAX_SAID 6     /* verdicts of one kind */
#define MAX_GAPS 8     /* gaps in the local ranks of a host that are named */
#define MAX_LOCAL 1024 /* ranks of a host */

/* ---- ranks ---- */

/* Ranks that were found, but about which nothing is known. */
static void say_unread(struct vt_review *review)
{
	struct vt_job_indices unread = { 0 };
	struct vt_job_groups groups = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->job->members.n && ok; i++) {
		const struct vt_member *m = vt_review_member(review, (uint32_t)i);

		if (m->label.role == VT_ROLE_RANK && m->label.in_job && m->state == VT_STATE_GONE)
			ok = vt_job_indices_add(&unread, (uint32_t)i);
	}
	ok = ok && vt_review_group(review, &unread, &groups);
	for (size_t i = 0; i < groups.n && i < MAX_SAID && ok; i++) {
		struct vt_str text = { 0 };

		vt_review_add_who(review, &groups.data[i].members, &text);
		vt_str_add(&text, " ");
		vt_review_add_does(review, &groups.data[i], &text);
		vt_review_say(review, VT_FINDING_UNREAD_RANK, true, true, &groups.data[i].members,
			      &text);
		vt_str_deinit(&text);
	}
	review->failed |= !ok;
	vt_job_groups_deinit(&groups);
	free(unread.data);
}

/* Ranks of one host have local numbers from 0 on: a gap, or a number too few, is a missing rank. */
struct host {
	const char *name;
	int n_local; /* their number, according to the ranks; 0 unknown */
	int most;    /* largest local number */
	int offset;  /* rank - local rank, if equal for all */
	bool odd;    /* it differs, or a rank occurs twice: no conclusion is possible */
	struct vt_job_indices ranks;
};

static void add_to_host(struct host *host, const struct vt_label *label)
{
	if (label->local_world_size > host->n_local)
		host->n_local = label->local_world_size;
	if (label->local_rank > host->most)
		host->most = label->local_rank;
	host->odd |= label->rank - label->local_rank != host->offset;
}

static bool has_local(const struct vt_review *review, const struct host *host, int local)
{
	for (size_t i = 0; i < host->ranks.n; i++)
		if (vt_review_member(review, host->ranks.data[i])->label.local_rank == local)
			return true;
	return false;
}

static bool is_rank(const struct vt_label *label)
{
	return label->role == VT_ROLE_RANK && label->in_job && label->rank >= 0;
}

/* On any host, read or not. */
static bool is_there(const struct vt_review *review, int rank)
{
	for (size_t i = 0; i < review->job->members.n; i++)
		if (is_rank(&vt_review_member(review, (uint32_t)i)->label) &&
		    vt_review_member(review, (uint32_t)i)->label.rank == rank)
			return true;
	return false;
}

/* Local numbers that no rank has. */
struct gap {
	int first, last;
};
struct gaps {
	struct gap list[MAX_GAPS];
	size_t n;
	int missing;
	bool more; /* there are further gaps */
};

static void add_gaps(const struct gaps *gaps, int offset, struct vt_str *text)
{
	for (size_t i = 0; i < gaps->n; i++) {
		const struct gap *gap = &gaps->list[i];

		vt_str_addf(text, "%s%d", i ? "," : "", offset + gap->first);
		if (gap->last > gap->first)
			vt_str_addf(text, "%c%d", gap->last > gap->first + 1 ? '-' : ',',
				    offset + gap->last);
	}
	vt_str_add(text, gaps->more ? ",..." : "");
}

/* A single rank on its host does not tell the first number of the host's ranks. */
static void add_missing(const struct host *host, const struct vt_label *any,
			const struct gaps *gaps, int n_local, struct vt_str *text,
			struct vt_str *brief)
{
	bool alone = host->ranks.n == 1, many = gaps->missing > 1;

	vt_str_addf(text, "%srank%s ", alone ? "local " : "", many ? "s" : "");
	add_gaps(gaps, alone ? 0 : host->offset, text);
	if (alone)
		vt_str_addf(text, " of %d", n_local);
	else if (any->world_size > 0)
		vt_str_addf(text, " of %d", any->world_size);
	vt_str_addf(brief, "%s %s missing", vt_str_get(text), many ? "are" : "is");
	if (many)
		vt_str_addf(text, " are missing: no processes that were found on %.64s are ",
			    any->host);
	else
		vt_str_addf(text, " is missing: no process that was found on %.64s is ", any->host);
	if (alone) {
		vt_str_add(text, many ? "these" : "it");
	} else {
		vt_str_add(text, many ? "local ranks " : "local rank ");
		add_gaps(gaps, 0, text);
		vt_str_addf(text, " of %d", n_local);
	}
	vt_str_add(text, many ? "; they were killed or ended, unless they were left out" :
				"; it was killed or ended, unless it was left out");
}

/* The only dead child of the ranks' parent. Its environment is gone, so its rank is unknown. */
static uint32_t find_ended(const struct vt_review *review, const struct vt_label *any)
{
	uint32_t found = VT_NO_INDEX;

	for (size_t i = 0; i < review->job->members.n; i++) {
		const struct vt_member *m = vt_review_member(review, (uint32_t)i);

		if (m->process_state != 'Z' || m->label.rank >= 0 ||
		    m->label.role == VT_ROLE_LOADER || m->label.ppid != any->ppid ||
		    strcmp(m->label.host, any->host) != 0)
			continue;
		if (found != VT_NO_INDEX)
			return VT_NO_INDEX;
		found = (uint32_t)i;
	}
	return found;
}

static void say_ended(struct vt_review *review, const struct host *host, int local, int n_local,
		      uint32_t ended)
{
	const struct vt_label *any = &vt_review_member(review, host->ranks.data[0])->label;
	const struct vt_member *m = vt_review_member(review, ended);
	struct vt_job_indices who = { 0 };
	struct vt_str text = { 0 }, brief = { 0 };

	review->failed |= !vt_job_indices_add(&who, ended);
	if (host->ranks.n > 1)
		vt_str_addf(&text, "rank %d", host->offset + local);
	else
		vt_str_addf(&text, "local rank %d of %d", local, n_local);
	if (host->ranks.n > 1 && any->world_size > 0)
		vt_str_addf(&text, " of %d", any->world_size);
	vt_str_addf(&brief, "%s (pid %d) has ended or was killed", vt_str_get(&text),
		    (int)m->label.pid);
	vt_str_addf(
		&text,
		" has ended or was killed: pid %d (%.40s) on %.64s is a zombie that its parent %d has not reaped",
		(int)m->label.pid, m->label.name, any->host, (int)m->label.ppid);
	vt_review_say(review, VT_FINDING_MISSING_RANK, true, true, &who, &text);
	vt_review_brief(review, vt_str_get(&brief));
	review->failed |= brief.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&brief);
	free(who.data);
}

static void find_gaps(const struct vt_review *review, const struct host *host, int world_size,
		      int n_local, struct gaps *gaps)
{
	for (int local = 0; local < n_local && local < MAX_LOCAL; local++) {
		if (host->ranks.n > 1 && world_size > 0 && host->offset + local >= world_size)
			return;
		if (has_local(review, host, local) ||
		    (host->ranks.n > 1 && is_there(review, host->offset + local)))
			continue;
		gaps->missing++;
		if (gaps->n && gaps->list[gaps->n - 1].last == local - 1)
			gaps->list[gaps->n - 1].last = local;
		else if (gaps->n < MAX_GAPS)
			gaps->list[gaps->n++] = (struct gap){ local, local };
		else
			gaps->more = true;
	}
}

static void say_missing(struct vt_review *review, const struct host *host)
{
	const struct vt_label *any = &vt_review_member(review, host->ranks.data[0])->label;
	int n_local = host->n_local > host->most ? host->n_local : host->most + 1;
	struct vt_job_indices none = { 0 };
	struct gaps gaps = { .n = 0 };
	struct vt_str text = { 0 }, brief = { 0 };
	uint32_t ended;

	/* The whole job is on one host: then the world is the host's. */
	if (any->world_size > n_local && review->ranks.n == host->ranks.n &&
	    any->world_size <= n_local + 1 && !host->n_local)
		n_local = any->world_size;
	find_gaps(review, host, any->world_size, n_local, &gaps);
	if (!gaps.n)
		return;
	ended = gaps.missing == 1 ? find_ended(review, any) : VT_NO_INDEX;
	if (ended != VT_NO_INDEX) {
		say_ended(review, host, gaps.list[0].first, n_local, ended);
		return;
	}
	add_missing(host, any, &gaps, n_local, &text, &brief);
	vt_review_say(review, VT_FINDING_MISSING_RANK, true, false, &none, &text);
	vt_review_brief(review, vt_str_get(&brief));
	review->failed |= brief.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&brief);
}

/* Ranks that could not be read are not missing. */
static bool add_rank(struct vt_map *by_host, struct vt_review *review, struct host *hosts,
		     size_t *n, uint32_t index)
{
	const struct vt_label *label = &vt_review_member(review, index)->label;
	const uint64_t *found = vt_map_get(by_host, (uintptr_t)label->host);

	if (!found) {
		hosts[*n] = (struct host){ .name = label->host,
					   .offset = label->rank - label->local_rank,
					   .most = -1 };
		if (!vt_map_put(by_host, (uintptr_t)label->host, *n))
			return false;
		(*n)++;
		found = vt_map_get(by_host, (uintptr_t)label->host);
	}
	add_to_host(&hosts[*found], label);
	return vt_job_indices_add(&hosts[*found].ranks, index);
}

/* As many ranks as the world has: none is missing, whatever their hosts say. */
static bool are_all_there(const struct vt_review *review)
{
	int world_size = vt_review_member(review, review->ranks.data[0])->label.world_size;
	size_t n = 0;

	for (size_t i = 0; i < review->job->members.n; i++)
		n += is_rank(&vt_review_member(review, (uint32_t)i)->label);
	return world_size > 0 && n >= (size_t)world_size;
}

static void look_for_gaps(struct vt_review *review)
{
	struct host *hosts = calloc(review->job->members.n + 1, sizeof(*hosts));
	struct vt_map by_host = { 0 };
	size_t n = 0, with_gap = 0;

	for (size_t i = 0; i < review->job->members.n && hosts && !review->failed; i++) {
		const struct vt_label *label = &vt_review_member(review, (uint32_t)i)->label;

		if (is_rank(label) && label->local_rank >= 0)
			review->failed |= !add_rank(&by_host, review, hosts, &n, (uint32_t)i);
	}
	for (size_t i = 0; i < n && !review->failed && with_gap < MAX_SAID; i++) {
		size_t before = review->job->verdicts.n;

		if (!hosts[i].odd)
			say_missing(review, &hosts[i]);
		with_gap += review->job->verdicts.n > before;
	}
	review->failed |= !hosts;
	for (size_t i = 0; i < n; i++)
		free(hosts[i].ranks.data);
	vt_map_deinit(&by_host);
	free(hosts);
}

void vt_rules_missing(struct vt_review *review)
{
	if (review->comparable && !are_all_there(review))
		look_for_gaps(review);
	say_unread(review);
}

/* ---- loader workers ---- */

static bool is_worker_in(const struct vt_member *m, unsigned int states)
{
	/*
	 * A thread that waits for a lock, and went on right after, is well: threads of one process
	 * share the GIL.
	 */
	if (m->state == VT_STATE_LOCK && m->moved == 1)
		return false;
	return m->label.role == VT_ROLE_LOADER && m->label.in_job && states >> m->state & 1;
}

static uint64_t process_key(const struct vt_label *label, pid_t pid)
{
	return vt_hash_mix((uintptr_t)vt_job_system(label), (uint64_t)pid);
}

/*
 * The verdict about workers in some states; if waiting is given, only about workers of its ranks.
 */
static void say_workers(struct vt_review *review, enum vt_finding code, bool alarm,
			unsigned int states, const struct vt_map *waiting)
{
	struct vt_job_indices found = { 0 };
	struct vt_job_groups groups = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->job->members.n && ok; i++) {
		const struct vt_member *m = vt_review_member(review, (uint32_t)i);

		if (is_worker_in(m, states) &&
		    (!waiting || vt_map_get(waiting, process_key(&m->label, m->label.of))))
			ok = vt_job_indices_add(&found, (uint32_t)i);
	}
	ok = ok && vt_review_group(review, &found, &groups);
	for (size_t i = 0; i < groups.n && i < MAX_SAID && ok; i++) {
		struct vt_str text = { 0 };

		vt_review_add_who(review, &groups.data[i].members, &text);
		vt_str_add(&text, " ");
		vt_review_add_does(review, &groups.data[i], &text);
		vt_review_say(review, code, alarm, alarm, &groups.data[i].members, &text);
		vt_str_deinit(&text);
	}
	review->failed |= !ok;
	vt_job_groups_deinit(&groups);
	free(found.data);
}

/* Their ranks wait for what delays them. Whether a busy worker takes long is unknown. */
static void say_busy_workers(struct vt_review *review)
{
	struct vt_map waiting = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->ranks.n && ok; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (m->state == VT_STATE_LOADER)
			ok = vt_map_put(&waiting, process_key(&m->label, m->label.pid), 0);
	}
	review->failed |= !ok;
	say_workers(review, VT_FINDING_LOADER_BUSY, false,
		    1u << VT_STATE_RUNS | 1u << VT_STATE_WAITS | 1u << VT_STATE_DEVICE, &waiting);
	vt_map_deinit(&waiting);
}

/* The number of workers of each rank, by its index in look->ranks. */
static bool count_workers(struct vt_review *review, size_t *n_workers)
{
	struct vt_map by_process = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->ranks.n && ok; i++) {
		const struct vt_label *label =
			&vt_review_member(review, review->ranks.data[i])->label;

		ok = vt_map_put(&by_process, process_key(label, label->pid), i);
	}
	for (size_t i = 0; i < review->job->members.n && ok; i++) {
		const struct vt_label *label = &vt_review_member(review, (uint32_t)i)->label;
		const uint64_t *rank = vt_map_get(&by_process, process_key(label, label->of));

		if (label->role == VT_ROLE_LOADER && label->in_job && rank &&
		    vt_review_member(review, (uint32_t)i)->process_state != 'Z')
			n_workers[*rank]++;
	}
	vt_map_deinit(&by_process);
	return ok;
}

static int compare_counts(const void *pa, const void *pb)
{
	const size_t *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

/*
 * More than half of the ranks have as many or more; of two ranks, the other. sorted: all counts,
 * ascending.
 */
static size_t usual_count(const size_t *sorted, size_t n)
{
	return n > 2 ? sorted[n - 1 - n / 2] : sorted[n - 1];
}

static void say_fewer_workers(struct vt_review *review, uint32_t rank, size_t there, size_t usual)
{
	bool waits = vt_review_member(review, rank)->state == VT_STATE_LOADER;
	struct vt_job_indices who = { 0 };
	struct vt_str text = { 0 };

	review->failed |= !vt_job_indices_add(&who, rank);
	vt_review_add_who(review, &who, &text);
	vt_str_addf(&text, " %s %zu; %s %zu or more",
		    waits ? "waits for loader workers and has" : "has loader workers:", there,
		    review->ranks.n > 2 ? "most ranks have" : "the other has", usual);
	vt_review_say(review, VT_FINDING_FEWER_LOADER_WORKERS, false, false, &who, &text);
	vt_str_deinit(&text);
	free(who.data);
}

/*
 * Which worker is gone is unknown: their numbers are the start order of those that exist. It is not
 * even certain that one is gone: ranks that begin another loader have more workers for a while.
 */
static void compare_workers(struct vt_review *review, const size_t *n_workers, size_t *sorted)
{
	size_t said = 0, usual;

	memcpy(sorted, n_workers, review->ranks.n * sizeof(*sorted));
	qsort(sorted, review->ranks.n, sizeof(*sorted), compare_counts);
	usual = usual_count(sorted, review->ranks.n);
	for (size_t i = 0; i < review->ranks.n && said < MAX_SAID; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (n_workers[i] >= usual || (m->state != VT_STATE_LOADER && !m->outlier))
			continue;
		say_fewer_workers(review, review->ranks.data[i], n_workers[i], usual);
		said++;
	}
}

static void say_too_few_workers(struct vt_review *review)
{
	size_t *n_workers = calloc(2 * review->ranks.n + 1, sizeof(*n_workers));

	if (n_workers && review->comparable && review->ranks.n > 1 &&
	    count_workers(review, n_workers))
		compare_workers(review, n_workers, n_workers + review->ranks.n);
	review->failed |= !n_workers;
	free(n_workers);
}

/* Their ranks wait for them, or differ from the others. Otherwise a loader is just finishing. */
static void say_ended_workers(struct vt_review *review)
{
	struct vt_map concerned = { 0 };
	bool ok = true;

	for (size_t i = 0; i < review->ranks.n && ok; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (m->state == VT_STATE_LOADER || m->outlier)
			ok = vt_map_put(&concerned, process_key(&m->label, m->label.pid), 0);
	}
	review->failed |= !ok;
	say_workers(review, VT_FINDING_LOADER_WORKER, true, 1u << VT_STATE_GONE, &concerned);
	vt_map_deinit(&concerned);
}

void vt_rules_workers(struct vt_review *review)
{
	say_ended_workers(review);
	say_workers(review, VT_FINDING_LOADER_WORKER, true,
		    1u << VT_STATE_STUCK | 1u << VT_STATE_STOPPED | 1u << VT_STATE_TRACED |
			    1u << VT_STATE_LOCK,
		    NULL);
	say_too_few_workers(review);
	say_busy_workers(review);
}
