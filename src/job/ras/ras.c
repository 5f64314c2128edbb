/* SPDX-License-Identifier: Apache-2.0 */
/* Adds an answer of NCCL's RAS to a job; finds what moved between two answers. */
#include "job/ras/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "job/ras/ras.h"

/* ---- asked again ---- */

bool vt_ras_differs(const struct vt_ras *ras)
{
	for (size_t i = 0; i < ras->groups.n; i++)
		if (ras->groups.data[i].about == VT_RAS_COUNT)
			return true;
	return false;
}

/*
 * The earlier answer: for each rank of each question, and for unnamed ranks. Equal texts have one
 * address.
 */
struct before {
	struct vt_map counts;    /* of each rank of a question */
	struct vt_map unnamed;   /* question and count: there were unnamed ranks */
	struct vt_map questions; /* that were asked at all */
	bool ok;
};

static uint64_t question_of(const struct vt_ras_group *group)
{
	return vt_hash_mix((uintptr_t)group->communicator, (uintptr_t)group->what);
}

/* With a communicator, RAS's number of the rank; without one, its process. */
static uint64_t rank_of(const struct vt_ras_group *group, const struct vt_ras_rank *rank)
{
	uint64_t number = rank->rank >= 0 ?
				  (uint64_t)rank->rank :
				  vt_hash_mix((uintptr_t)rank->host, (uint64_t)rank->pid) |
					  1ULL << 63;

	return vt_hash_mix(question_of(group), number);
}

static void learn_group(struct before *before, const struct vt_ras_group *group)
{
	uint64_t question = question_of(group);

	before->ok &= vt_map_put(&before->questions, question, 1);
	for (size_t i = 0; i < group->ranks.n && before->ok; i++)
		before->ok = vt_map_put(&before->counts, rank_of(group, &group->ranks.data[i]),
					group->count);
	if (group->ranks.n < group->n)
		before->ok &= vt_map_put(&before->unnamed, vt_hash_mix(question, group->count), 1);
}

/*
 * Some of its ranks may have launched no more than before. If all counts were equal, no rank was
 * behind.
 */
static bool stays(const struct before *before, const struct vt_ras_group *group)
{
	uint64_t question = question_of(group);
	bool was_unnamed = vt_map_get(&before->unnamed, vt_hash_mix(question, group->count));

	if (!vt_map_get(&before->questions, question))
		return false;
	if (group->ranks.n < group->n && was_unnamed)
		return true;
	for (size_t i = 0; i < group->ranks.n; i++) {
		const uint64_t *count =
			vt_map_get(&before->counts, rank_of(group, &group->ranks.data[i]));

		if (count ? *count == group->count : was_unnamed)
			return true;
	}
	return false;
}

bool vt_ras_compare(struct vt_ras *now, const struct vt_ras *earlier)
{
	struct before before = { .ok = true };
	bool some_stay = false;

	for (size_t i = 0; i < earlier->groups.n && before.ok; i++)
		if (earlier->groups.data[i].about == VT_RAS_COUNT)
			learn_group(&before, &earlier->groups.data[i]);
	for (size_t i = 0; i < now->groups.n && before.ok; i++) {
		struct vt_ras_group *group = &now->groups.data[i];

		if (group->about != VT_RAS_COUNT)
			continue;
		group->moved = (signed char)!stays(&before, group);
		some_stay |= !group->moved;
	}
	vt_map_deinit(&before.counts);
	vt_map_deinit(&before.unnamed);
	vt_map_deinit(&before.questions);
	return some_stay;
}

/* ---- an answer ---- */

/* A zero byte would end the text: it becomes a byte that RAS never writes. */
static char *without_zeros(const char *text, size_t n)
{
	char *clean = malloc(n + 1);

	if (!clean)
		return NULL;
	for (size_t i = 0; i < n; i++)
		clean[i] = text[i] ? text[i] : '\1';
	clean[n] = '\0';
	return clean;
}

static const char *intern(struct vt_job *job, const char *text, const char *otherwise)
{
	const char *copy = text ? vt_job_text(job, text, strlen(text)) : NULL;

	return copy ? copy : otherwise;
}

bool vt_job_add_ras(struct vt_job *job, const struct vt_ras *asked, const char *text, size_t n)
{
	struct vt_ras_reading r = { .job = job,
				    .ras = vt_job_new_ras(job),
				    .whole = asked->understood };
	VT_FREE char *clean = without_zeros(text, n);

	if (!r.ras || !clean) {
		job->failed = true;
		return false;
	}
	r.ras->host = intern(job, asked->host, "");
	r.ras->address = intern(job, asked->address, "");
	r.ras->file = intern(job, asked->file, NULL);
	r.ras->pid = asked->pid;
	r.ras->understood = true;
	if (*clean == '{')
		vt_ras_read_json(&r, clean, n);
	else
		vt_ras_read_text(&r, clean);
	return !job->failed;
}
