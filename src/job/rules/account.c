/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from all members: their order, whether they were read at one moment, completeness.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "job/internal.h"
#include "job/rules/rules.h"

/* -1 is unknown: after all others. */
static int compare_numbers(int64_t a, int64_t b)
{
	if (a == b || a < 0 || b < 0)
		return (a < 0) - (b < 0);
	return a < b ? -1 : 1;
}

static int compare_members(const void *pa, const void *pb)
{
	const struct vt_member *a = pa, *b = pb;
	int order = compare_numbers(a->label.role, b->label.role);

	if (!order)
		order = compare_numbers(a->label.rank, b->label.rank);
	if (!order)
		order = compare_numbers(a->label.worker, b->label.worker);
	if (!order)
		order = strcmp(a->label.host, b->label.host);
	if (!order)
		order = compare_numbers(a->label.pid, b->label.pid);
	/* A live process before its cores. */
	if (!order)
		order = strcmp(a->core ? a->core : "", b->core ? b->core : "");
	return order;
}

/* Reports of one process become adjacent. */
static int compare_processes(const void *pa, const void *pb)
{
	const struct vt_member *a = pa, *b = pb;
	int order = strcmp(vt_job_system(&a->label), vt_job_system(&b->label));

	if (!order)
		order = compare_numbers(a->label.pid, b->label.pid);
	if (!order)
		order = strcmp(a->core ? a->core : "", b->core ? b->core : "");
	if (!order)
		order = compare_numbers((int64_t)a->label.start_ticks,
					(int64_t)b->label.start_ticks);
	return order;
}

static bool is_same_process(const struct vt_member *a, const struct vt_member *b)
{
	/* A core that could not be read has no known pid. */
	return a->label.pid > 0 && !compare_processes(a, b);
}

/* Chooses between two reports of one process. */
static bool says_more(const struct vt_member *a, const struct vt_member *b)
{
	if (a->label.in_job != b->label.in_job)
		return a->label.in_job;
	if (a->completeness != b->completeness)
		return a->completeness < b->completeness;
	return a->have_moment && b->have_moment && a->stopped_ns > b->stopped_ns;
}

static void swap(struct vt_member *a, struct vt_member *b)
{
	struct vt_member kept = *a;

	*a = *b;
	*b = kept;
}

/*
 * The user may name a directory twice, or two directories of one node; or several nodes of a batch
 * system are one machine, and the command on each of them found all processes. Of several reports
 * of one process, the most complete one stays; of equally complete ones, the latest.
 */
static void drop_doubles(struct vt_job *job)
{
	struct vt_member *members = job->members.data;
	size_t n = 0, dropped = 0;

	for (size_t i = 0; i < job->members.n; i++) {
		struct vt_member *before = n ? &members[n - 1] : NULL;

		if (!before || !is_same_process(before, &members[i])) {
			members[n++] = members[i];
			continue;
		}
		dropped++;
		if (says_more(&members[i], before))
			swap(before, &members[i]);
		vt_member_deinit(&members[i]);
	}
	job->members.n = n;
	if (dropped)
		vt_job_diag(job, VT_DIAG_NOTE, "doubles",
			    "%zu report%s left out: there are others for %s", dropped,
			    dropped == 1 ? " was" : "s were",
			    dropped == 1 ? "this process" : "these processes");
}

/* One answer from one process is enough. */
static void drop_answers(struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->ras.n; i++) {
		struct vt_ras *ras = &job->ras.data[i];
		bool is_there = false;

		for (size_t k = 0; k < n && !is_there; k++)
			is_there = job->ras.data[k].pid == ras->pid &&
				   !strcmp(job->ras.data[k].host, ras->host);
		if (is_there)
			vt_ras_deinit(ras);
		else
			job->ras.data[n++] = *ras;
	}
	job->ras.n = n;
}

/* ---- the moment ---- */

struct moments {
	uint64_t first, last;
};

static bool add_moment(struct vt_map *by_host, struct moments *moments, size_t *n,
		       const struct vt_member *member)
{
	const uint64_t *found = vt_map_get(by_host, (uintptr_t)vt_job_system(&member->label));
	struct moments *m;

	if (!found) {
		moments[*n] =
			(struct moments){ .first = member->stopped_ns, .last = member->stopped_ns };
		return vt_map_put(by_host, (uintptr_t)vt_job_system(&member->label), (*n)++);
	}
	m = &moments[*found];
	if (member->stopped_ns < m->first)
		m->first = member->stopped_ns;
	if (member->stopped_ns > m->last)
		m->last = member->stopped_ns;
	return true;
}

/* Clocks of different hosts are not compared. Their names are interned. */
static bool measure_skew(struct vt_job *job)
{
	struct moments *moments = calloc(job->members.n + 1, sizeof(*moments));
	struct vt_map by_host = { 0 };
	bool ok = moments;
	size_t n = 0;

	for (size_t i = 0; i < job->members.n && ok; i++)
		if (job->members.data[i].have_moment)
			ok = add_moment(&by_host, moments, &n, &job->members.data[i]);
	job->skew_ms = -1;
	for (size_t i = 0; i < n && ok; i++) {
		double ms = (double)(moments[i].last - moments[i].first) / VT_NS_PER_MS;

		if (ms > job->skew_ms)
			job->skew_ms = ms;
	}
	vt_map_deinit(&by_host);
	free(moments);
	return ok;
}

static bool is_part_missing(const struct vt_job *job)
{
	for (size_t i = 0; i < job->diags.n; i++)
		if (job->diags.data[i].level == VT_DIAG_MISSING)
			return true;
	return false;
}

/* Processes outside the job do not count. */
static enum vt_completeness completeness_of(const struct vt_job *job)
{
	size_t n[VT_NOTHING + 1] = { 0 }, all = 0;

	for (size_t i = 0; i < job->members.n; i++) {
		n[job->members.data[i].completeness] += job->members.data[i].label.in_job;
		all += job->members.data[i].label.in_job;
	}
	if (n[VT_NOTHING] == all)
		return VT_NOTHING;
	return job->failed || n[VT_COMPLETE] < all || is_part_missing(job) ? VT_PARTIAL :
									     VT_COMPLETE;
}

static void sort(struct vt_job *job, int (*compare)(const void *a, const void *b))
{
	if (job->members.n)
		qsort(job->members.data, job->members.n, sizeof(*job->members.data), compare);
}

void vt_job_account(struct vt_job *job)
{
	bool ok;

	sort(job, compare_processes);
	drop_doubles(job);
	sort(job, compare_members);
	drop_answers(job);
	ok = measure_skew(job) && vt_job_decide_states(job) && vt_job_build_tree(job) &&
	     vt_job_build_devices(job) && vt_job_build_faults(job) && vt_job_make_verdicts(job);
	job->failed |= !ok;
	job->completeness = completeness_of(job);
}
