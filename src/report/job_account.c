/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from all members together: their order, whether they were looked at at one moment, how complete it all is. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/job_parts.h"

/* -1 is not known: after all others. */
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
	/* A live one before its cores. */
	if (!order)
		order = strcmp(a->core ? a->core : "", b->core ? b->core : "");
	return order;
}

static bool is_same_process(const struct vt_member *a, const struct vt_member *b)
{
	/* Of a core that could not be read no number is known. */
	return a->label.pid > 0 && a->label.pid == b->label.pid && !strcmp(a->label.host, b->label.host) &&
	       !strcmp(a->core ? a->core : "", b->core ? b->core : "");
}

/*
 * The same directory, or two of the same node, may have been named: of two reports of one process the one that says
 * more stays.
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
		if (members[i].completeness < before->completeness) {
			struct vt_member worse = *before;

			*before = members[i];
			members[i] = worse;
		}
		vt_member_deinit(&members[i]);
	}
	job->members.n = n;
	if (dropped)
		vt_job_diag(job, VT_DIAG_NOTE, "doubles", "%zu process%s there more than once: one report of each was taken",
			    dropped, dropped == 1 ? " was" : "es were");
}

/* ---- the moment ---- */

struct moments {
	uint64_t first, last;
};

static bool add_moment(struct vt_map *by_host, struct moments *moments, size_t *n, const struct vt_member *member)
{
	const uint64_t *found = vt_map_get(by_host, (uintptr_t)member->label.host);
	struct moments *m;

	if (!found) {
		moments[*n] = (struct moments){ .first = member->stopped_ns, .last = member->stopped_ns };
		return vt_map_put(by_host, (uintptr_t)member->label.host, (*n)++);
	}
	m = &moments[*found];
	if (member->stopped_ns < m->first)
		m->first = member->stopped_ns;
	if (member->stopped_ns > m->last)
		m->last = member->stopped_ns;
	return true;
}

/* Clocks of different hosts are not compared. Names of hosts are interned. */
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

static enum vt_completeness completeness_of(const struct vt_job *job)
{
	size_t n[VT_NOTHING + 1] = { 0 };

	for (size_t i = 0; i < job->members.n; i++)
		n[job->members.data[i].completeness]++;
	if (n[VT_NOTHING] == job->members.n)
		return VT_NOTHING;
	return job->failed || n[VT_COMPLETE] < job->members.n ? VT_PARTIAL : VT_COMPLETE;
}

void vt_job_account(struct vt_job *job)
{
	bool ok;

	if (job->members.n)
		qsort(job->members.data, job->members.n, sizeof(*job->members.data), compare_members);
	drop_doubles(job);
	ok = measure_skew(job) && vt_job_decide_states(job) && vt_job_build_tree(job) && vt_job_build_devices(job) &&
	     vt_job_make_verdicts(job);
	job->failed |= !ok;
	job->completeness = completeness_of(job);
}
