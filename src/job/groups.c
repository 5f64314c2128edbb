/* SPDX-License-Identifier: Apache-2.0 */
#include "job/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "model/flight.h"

struct finding {
	const struct vt_job *job;
	struct vt_job_process_groups *groups;
	struct vt_map by_key;  /* index in groups */
	struct vt_map by_rank; /* index in job.members */
};

static bool is_told(const struct vt_member *m)
{
	return m->label.in_job && m->label.role == VT_ROLE_RANK && m->collectives.told_ms;
}

/* Groups of one name may have different ranks, but Gloo's ranks are a guess. Texts are interned. */
static uint64_t key_of(const struct vt_model_process_group *g)
{
	return vt_hash_mix(vt_hash_mix((uintptr_t)g->backend, (uintptr_t)g->name),
			   strcmp(g->backend, "gloo") ? (uintptr_t)g->ranks : 0);
}

static struct vt_job_process_group *group_like(struct finding *f,
					       const struct vt_model_process_group *g)
{
	const uint64_t *found = vt_map_get(&f->by_key, key_of(g));
	struct vt_job_process_group *group;

	if (found)
		return &f->groups->data[*found];
	if (!vt_map_put(&f->by_key, key_of(g), f->groups->n))
		return NULL;
	group = vt_vec_append(f->groups);
	if (group)
		*group = (struct vt_job_process_group){ .any = g };
	return group;
}

static bool add_member(struct vt_job_process_group *group, uint32_t member,
		       const struct vt_model_process_group *state)
{
	struct vt_job_grouped *grouped = vt_vec_append(&group->members);

	group->ranks_differ |= state && state->ranks != group->any->ranks;
	if (grouped)
		*grouped = (struct vt_job_grouped){ member, state };
	return grouped;
}

static bool add_states(struct finding *f, uint32_t index)
{
	const struct vt_member *m = &f->job->members.data[index];

	for (size_t i = 0; i < m->collectives.groups.n; i++) {
		struct vt_job_process_group *group = group_like(f, &m->collectives.groups.data[i]);

		if (!group || !add_member(group, index, &m->collectives.groups.data[i]))
			return false;
	}
	return m->label.rank < 0 || vt_map_put(&f->by_rank, (uint64_t)m->label.rank, index);
}

/* Otherwise it may have no recorder of this kind. */
static bool has_one_like(const struct vt_member *m, const struct vt_model_process_group *g)
{
	for (size_t i = 0; i < m->collectives.groups.n; i++)
		if (m->collectives.groups.data[i].backend == g->backend)
			return true;
	return false;
}

/* Adds members of the group whose recorders do not mention it. */
static bool add_rest(struct finding *f, struct vt_job_process_group *group)
{
	const char *ranks = group->ranks_differ ? NULL : group->any->ranks;
	struct vt_map there = { 0 };
	int first, last;
	bool ok = true;

	for (size_t i = 0; i < group->members.n && ok; i++)
		ok = vt_map_put(&there, group->members.data[i].member, 0);
	while (ok && vt_flight_next_ranks(&ranks, &first, &last)) {
		group->n_ranks += (size_t)(last - first) + 1;
		for (int rank = first; rank <= last && ok; rank++) {
			const uint64_t *found = vt_map_get(&f->by_rank, (uint64_t)rank);

			if (found && has_one_like(&f->job->members.data[*found], group->any) &&
			    !vt_map_get(&there, *found))
				ok = add_member(group, (uint32_t)*found, NULL);
		}
	}
	vt_map_deinit(&there);
	return ok;
}

static int compare_members(const void *pa, const void *pb)
{
	const struct vt_job_grouped *a = pa, *b = pb;

	return (a->member > b->member) - (a->member < b->member);
}

static bool is_waiting(const struct vt_job_grouped *member)
{
	return member->state && member->state->n_pending && !member->state->oldest.of_two;
}

static void look_who_waits(struct vt_job_process_group *group)
{
	for (size_t i = 0; i < group->members.n; i++) {
		const struct vt_job_grouped *member = &group->members.data[i];

		if (!is_waiting(member))
			continue;
		if (!group->n_waiting++ || member->state->oldest.number < group->waits_for)
			group->waits_for = member->state->oldest.number;
	}
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct vt_job_process_group *a = pa, *b = pb;

	if (!a->n_waiting != !b->n_waiting)
		return a->n_waiting ? -1 : 1;
	if (a->members.n != b->members.n)
		return a->members.n > b->members.n ? -1 : 1;
	return strcmp(a->any->name, b->any->name);
}

static bool find_all(struct finding *f)
{
	for (size_t i = 0; i < f->job->members.n; i++)
		if (is_told(&f->job->members.data[i]) && !add_states(f, (uint32_t)i))
			return false;
	for (size_t i = 0; i < f->groups->n; i++) {
		struct vt_job_process_group *group = &f->groups->data[i];

		if (!add_rest(f, group))
			return false;
		qsort(group->members.data, group->members.n, sizeof(*group->members.data),
		      compare_members);
		look_who_waits(group);
	}
	if (f->groups->n)
		qsort(f->groups->data, f->groups->n, sizeof(*f->groups->data), compare_groups);
	return true;
}

bool vt_job_find_process_groups(const struct vt_job *job, struct vt_job_process_groups *groups)
{
	struct finding f = { .job = job, .groups = groups };
	bool ok = find_all(&f);

	vt_map_deinit(&f.by_key);
	vt_map_deinit(&f.by_rank);
	return ok;
}

void vt_job_process_groups_deinit(struct vt_job_process_groups *groups)
{
	for (size_t i = 0; i < groups->n; i++)
		vt_vec_deinit(&groups->data[i].members);
	vt_vec_deinit(groups);
}

bool vt_job_waits_in(const struct vt_job_process_group *group, const struct vt_job_grouped *member)
{
	return is_waiting(member) && member->state->oldest.number == group->waits_for;
}

int64_t vt_job_last_begun(const struct vt_job_grouped *member)
{
	return member->state ? member->state->last_enqueued : 0;
}
