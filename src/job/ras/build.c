/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of both forms of an answer. */
#include "job/ras/reading.h"

#include <stdlib.h>
#include <string.h>

#define MAX_GROUPS 4096
#define MAX_RANKS 65536 /* named in all groups: a faulty communicator may have as many as the job */
#define MAX_LINES 24
#define MAX_LINE 240 /* bytes */

static bool is_like(const struct vt_ras_group *a, const struct vt_ras_group *b)
{
	return a->about == b->about && a->what == b->what && a->count == b->count;
}

struct vt_ras_group *vt_ras_group(struct vt_ras_reading *r, const struct vt_ras_group *like)
{
	struct vt_ras_group *group;

	for (size_t i = r->first_group; i < r->ras->groups.n; i++)
		if (is_like(&r->ras->groups.data[i], like))
			return &r->ras->groups.data[i];
	group = r->ras->groups.n < MAX_GROUPS ? vt_ras_new_group(r->job, r->ras) : NULL;
	if (!group) {
		r->ras->understood = false;
		return NULL;
	}
	*group = (struct vt_ras_group){
		.about = like->about,
		.communicator = like->communicator,
		.size = like->size,
		.what = like->what,
		.count = like->count,
		.moved = -1,
	};
	return group;
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct vt_ras_group *a = pa, *b = pb;
	int order = (a->about > b->about) - (a->about < b->about);

	if (!order)
		order = strcmp(a->what, b->what);
	return order ? order : (a->count > b->count) - (a->count < b->count);
}

void vt_ras_end_part(struct vt_ras_reading *r)
{
	struct vt_ras_group *groups = r->ras->groups.data; /* NULL when there are none */
	size_t n = r->ras->groups.n - r->first_group;

	if (n > 1)
		qsort(groups + r->first_group, n, sizeof(*groups), compare_groups);
	r->first_group = r->ras->groups.n;
}

void vt_ras_drop_groups(struct vt_ras_reading *r, size_t n)
{
	for (size_t i = n; i < r->ras->groups.n; i++)
		vt_vec_deinit(&r->ras->groups.data[i].ranks);
	if (r->ras->groups.n > n)
		r->ras->groups.n = n;
}

void vt_ras_add_rank(struct vt_ras_reading *r, struct vt_ras_group *group, int rank, pid_t pid,
		     const char *host, size_t n)
{
	struct vt_ras_rank *added;
	const char *name;

	group->n++;
	if (r->n_ranks++ >= MAX_RANKS)
		return;
	added = vt_vec_append(&group->ranks);
	name = added ? vt_job_text(r->job, host, n) : NULL;
	r->job->failed |= !name;
	if (!added)
		return;
	*added = (struct vt_ras_rank){ .rank = rank, .pid = pid, .host = name ? name : "" };
}

void vt_ras_add_line(struct vt_ras_reading *r, const char *line, size_t n)
{
	const char **added, *copy;

	if (r->ras->lines.n >= MAX_LINES || !n)
		return;
	copy = vt_job_text(r->job, line, n < MAX_LINE ? n : MAX_LINE);
	added = copy ? vt_vec_append(&r->ras->lines) : NULL;
	if (added)
		*added = copy;
	else
		r->job->failed = true;
}
