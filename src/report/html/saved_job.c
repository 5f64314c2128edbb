/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/saved_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct reading {
	struct vt_html_saved *saved;
	json_t *members;
	unsigned char *urgency; /* of each member */
	int32_t *changes; /* scratch, one more: how many ranges begin there, less those that end */
};

/* Ranges of a file may overlap as they like: each costs the same, however long it is. */
static void mark(struct reading *r, json_t *set)
{
	json_t *range;
	json_int_t n = (json_int_t)json_array_size(r->members);
	size_t i;

	json_array_foreach(set, i, range)
	{
		json_int_t from = json_integer_value(json_array_get(range, 0)),
			   to = json_integer_value(json_array_get(range, 1));

		if (from < 0)
			from = 0;
		if (to >= n)
			to = n - 1;
		if (from > to)
			continue;
		r->changes[from]++;
		r->changes[to + 1]--;
	}
}

static void hurry_marked(struct reading *r, enum vt_html_urgency urgency)
{
	size_t n = json_array_size(r->members);
	int32_t inside = 0;

	for (size_t i = 0; i < n; i++) {
		inside += r->changes[i];
		if (inside && r->urgency[i] > urgency)
			r->urgency[i] = (unsigned char)urgency;
	}
	memset(r->changes, 0, (n + 1) * sizeof(*r->changes));
}

static json_t *first_link(json_t *cause)
{
	return json_array_get(json_object_get(cause, "links"), 0);
}

static void look_at_findings(struct reading *r)
{
	json_t *found = json_object_get(r->saved->root, "found"), *one;
	size_t i;

	json_array_foreach(json_object_get(found, "causes"), i, one)
	{
		mark(r, json_object_get(first_link(one), "members"));
	}
	hurry_marked(r, VT_HTML_ODD);
	json_array_foreach(json_object_get(found, "verdicts"), i, one)
	{
		if (json_is_true(json_object_get(one, "alarm")))
			mark(r, json_object_get(one, "members"));
	}
	hurry_marked(r, VT_HTML_NAMED);
}

static void look_at_members(struct reading *r)
{
	json_t *member;
	size_t i;

	json_array_foreach(r->members, i, member)
	{
		const char *role = json_string_value(json_object_get(member, "role"));

		r->urgency[i] = role && !strcmp(role, "rank") ? VT_HTML_RANK : VT_HTML_OTHER;
		if (json_is_true(json_object_get(member, "outlier")))
			r->urgency[i] = VT_HTML_ODD;
	}
}

/* A file that came from elsewhere must not bring others of this machine into the page. */
static bool is_below(const char *report)
{
	if (*report == '/')
		return false;
	for (const char *part = report; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
			return false;
	}
	return true;
}

/* Relative to the job's own file. */
static const char *path_of(struct reading *r, const char *report)
{
	const char *slash = strrchr(r->saved->path, '/');

	if (!slash)
		return vt_arena_strdup(&r->saved->values, report);
	return vt_arena_printf(&r->saved->values, "%.*s/%s", (int)(slash - r->saved->path),
			       r->saved->path, report);
}

static bool add(struct reading *r, size_t i, struct vt_html_attached *attached)
{
	json_t *member = json_array_get(r->members, i);
	const char *report = json_string_value(json_object_get(member, "report"));
	struct vt_html_candidate one = {
		.what = { .of = (uint32_t)i },
		.urgency = (enum vt_html_urgency)r->urgency[i],
		.pid = (pid_t)json_integer_value(json_object_get(member, "pid")),
	};

	/* The host of a core's process may be another one. */
	if (json_is_null(json_object_get(member, "core")))
		one.host = json_string_value(json_object_get(member, "host"));
	if (!report || !*report || !is_below(report))
		return true;
	one.path = path_of(r, report);
	return one.path && vt_html_add_attached(attached, &one);
}

struct vt_error *vt_html_saved_job_attach(struct vt_html_saved *saved,
					  struct vt_html_attached *attached)
{
	struct reading r = { .saved = saved, .members = json_object_get(saved->root, "members") };
	size_t n = json_array_size(r.members);
	VT_FREE unsigned char *urgency = calloc(n + 1, 1);
	VT_FREE int32_t *changes = calloc(n + 1, sizeof(*changes));

	if (!urgency || !changes)
		return &vt_enomem;
	if (!strcmp(saved->path, "-"))
		return NULL; /* nobody knows where they are */
	r.urgency = urgency;
	r.changes = changes;
	look_at_members(&r);
	look_at_findings(&r);
	for (size_t i = 0; i < n; i++)
		if (!add(&r, i, attached))
			return &vt_enomem;
	return vt_html_choose_attached(attached);
}
