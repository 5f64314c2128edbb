/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of NCCL's RAS into the report of a job, and back. */
#include <limits.h>
#include <string.h>

#include "job/internal.h"
#include "json/in.h"
#include "json/out.h"
#include "job/ras/ras.h"

#define MAX_RANK (1 << 24)

static const char *about_name(unsigned int about)
{
	static const char *const names[VT_RAS_N_ABOUT] = {
		[VT_RAS_DEAD] = "dead",   [VT_RAS_SILENT] = "silent", [VT_RAS_ABSENT] = "absent",
		[VT_RAS_ERROR] = "error", [VT_RAS_STATUS] = "status", [VT_RAS_COUNT] = "count",
	};

	return about < VT_RAS_N_ABOUT ? names[about] : NULL;
}

/* ---- writing ---- */

/* Null below min: unknown. */
static void put_known(struct vt_json *json, const char *key, int value, int min)
{
	if (value < min)
		vt_json_null(json, key);
	else
		vt_json_int(json, key, value);
}

static void put_group(struct vt_json *json, const struct vt_ras_group *group)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "about", about_name(group->about));
	vt_json_name(json, "communicator", group->communicator);
	put_known(json, "size", group->size, 1);
	vt_json_name(json, "what", group->what);
	if (group->about == VT_RAS_COUNT)
		vt_json_uint(json, "count", group->count);
	if (group->about == VT_RAS_COUNT && group->moved >= 0)
		vt_json_bool(json, "moved", group->moved);
	vt_json_uint(json, "n", group->n);
	vt_json_array(json, "ranks");
	for (size_t i = 0; i < group->ranks.n; i++) {
		const struct vt_ras_rank *rank = &group->ranks.data[i];

		vt_json_object_line(json, NULL);
		put_known(json, "rank", rank->rank, 0);
		put_known(json, "pid", rank->pid, 1);
		vt_json_name(json, "host", rank->host);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void put_answer(struct vt_json *json, const struct vt_ras *ras)
{
	vt_json_object(json, NULL);
	vt_json_name(json, "host", ras->host);
	put_known(json, "pid", ras->pid, 1);
	vt_json_name(json, "address", ras->address);
	vt_json_text(json, "file", ras->file);
	vt_json_name(json, "nccl_version", ras->version);
	vt_json_bool(json, "understood", ras->understood);
	vt_json_uint(json, "communicators", ras->communicators);
	vt_json_array(json, "groups");
	for (size_t i = 0; i < ras->groups.n; i++)
		put_group(json, &ras->groups.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "lines");
	for (size_t i = 0; i < ras->lines.n; i++)
		vt_json_text(json, NULL, ras->lines.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

void vt_job_put_ras(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "ras");
	for (size_t i = 0; i < job->ras.n; i++)
		put_answer(json, &job->ras.data[i]);
	vt_json_end_array(json);
}

/* ---- reading ---- */

struct load {
	struct vt_job *job;
	struct vt_json_in *in;
	const char *prefix;
};

static const char *intern(struct load *l, const struct vt_json_value *value, const char *key,
			  const char *otherwise)
{
	const char *copy;

	if (!value || vt_json_is(value, VT_JSON_NULL))
		return otherwise;
	if (!vt_json_is(value, VT_JSON_STRING)) {
		vt_json_in_wrong(l->in, key, "is no text");
		return otherwise;
	}
	copy = vt_job_text(l->job, vt_json_string(value), vt_json_length(value));
	return copy ? copy : otherwise;
}

static const char *load_name(struct load *l, const struct vt_json_value *from, const char *key)
{
	return intern(l, vt_json_get(from, key), key, "");
}

static void load_rank(struct load *l, const struct vt_json_value *from, struct vt_ras_group *group)
{
	struct vt_ras_rank *rank = vt_vec_append(&group->ranks);

	if (!rank) {
		l->job->failed = true;
		return;
	}
	*rank = (struct vt_ras_rank){ .rank = -1, .host = load_name(l, from, "host") };
	vt_json_in_int(l->in, from, "rank", 0, MAX_RANK, &rank->rank);
	vt_json_in_int(l->in, from, "pid", 1, INT_MAX, &rank->pid);
}

static void load_group(struct load *l, const struct vt_json_value *from, struct vt_ras *ras)
{
	struct vt_ras_group *group = vt_ras_new_group(l->job, ras);
	const struct vt_json_value *ranks = vt_json_in_array(l->in, from, "ranks");

	if (!group)
		return;
	group->about = (enum vt_ras_about)vt_json_in_word(l->in, from, "about", about_name,
							  VT_RAS_N_ABOUT);
	group->communicator = load_name(l, from, "communicator");
	/* Always interned: its address distinguishes groups. */
	group->what = intern(l, vt_json_get(from, "what"), "what", vt_job_text(l->job, "", 0));
	vt_json_in_int(l->in, from, "size", 1, MAX_RANK, &group->size);
	vt_json_in_uint(l->in, from, "count", &group->count);
	if (group->about == VT_RAS_COUNT && vt_json_get(from, "moved"))
		group->moved = (signed char)vt_json_in_need_bool(l->in, from, "moved");
	group->n = vt_json_in_need_uint(l->in, from, "n");
	for (size_t i = 0; i < vt_json_count(ranks) && !l->job->failed; i++)
		load_rank(l, vt_json_in_element(l->in, ranks, i, "ranks"), group);
	if (group->n < group->ranks.n || group->n > MAX_RANK)
		vt_json_in_wrong(l->in, "n", "is not how many there are");
}

static void load_lines(struct load *l, const struct vt_json_value *from, struct vt_ras *ras)
{
	const struct vt_json_value *lines = vt_json_in_array(l->in, from, "lines");

	for (size_t i = 0; i < vt_json_count(lines); i++) {
		const char *text = intern(l, vt_json_at(lines, i), "lines", "");
		const char **line = vt_vec_append(&ras->lines);

		if (!line) {
			l->job->failed = true;
			return;
		}
		*line = text;
	}
}

static const char *load_file(struct load *l, const struct vt_json_value *from)
{
	const char *file = intern(l, vt_json_get(from, "file"), "file", NULL), *path;

	if (!file || !l->prefix || !*l->prefix)
		return file;
	path = vt_arena_printf(&l->job->arena, "%s/%s", l->prefix, file);
	l->job->failed |= !path;
	return path;
}

static void load_answer(struct load *l, const struct vt_json_value *from)
{
	struct vt_ras *ras = vt_job_new_ras(l->job);
	const struct vt_json_value *groups = vt_json_in_array(l->in, from, "groups");

	if (!ras)
		return;
	ras->host = load_name(l, from, "host");
	vt_json_in_int(l->in, from, "pid", 1, INT_MAX, &ras->pid);
	ras->address = load_name(l, from, "address");
	ras->file = load_file(l, from);
	ras->version = load_name(l, from, "nccl_version");
	ras->understood = vt_json_in_need_bool(l->in, from, "understood");
	ras->communicators = vt_json_in_need_uint(l->in, from, "communicators");
	for (size_t i = 0; i < vt_json_count(groups) && !l->job->failed; i++)
		load_group(l, vt_json_in_element(l->in, groups, i, "groups"), ras);
	load_lines(l, from, ras);
}

void vt_job_load_ras(struct vt_job *job, struct vt_json_in *in, const struct vt_json_value *root,
		     const char *prefix)
{
	struct load l = { .job = job, .in = in, .prefix = prefix };
	const struct vt_json_value *answers = vt_json_in_array(in, root, "ras");

	for (size_t i = 0; i < vt_json_count(answers) && !job->failed && !in->wrong[0]; i++)
		load_answer(&l, vt_json_in_element(in, answers, i, "ras"));
}
