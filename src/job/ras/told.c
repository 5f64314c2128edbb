/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads RAS's JSON output (2.28.7 on, rasDumpCommsToJSON()): each communicator with all its ranks,
 * their launched operations, and the missing ranks. RAS leaves the comparison to the reader.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "job/ras/reading.h"
#include "json/in.h"

#define MAX_RANK (1 << 24)
#define MAX_OPERATIONS 32
#define MAX_VALUES 16 /* different values of one operation that are kept apart */
#define NCCL_SUCCESS 0
#define NCCL_IN_PROGRESS 7

struct told {
	struct vt_ras_reading *r;
	struct vt_json_in in;
	struct vt_ras_group like; /* of the communicator */
	const struct vt_json_value *ranks;
	size_t n_ranks;
};

/* ncclResult_t, in the words of RAS's text output. */
static const char *error_name(int result)
{
	static const char *const names[] = {
		[1] = "Unhandled CUDA error", [2] = "System error",  [3] = "Internal error",
		[4] = "Invalid argument",     [5] = "Invalid usage", [6] = "Remote process error",
	};

	return result > 0 && (size_t)result < sizeof(names) / sizeof(names[0]) ? names[result] :
										 "Unexpected error";
}

static const struct vt_json_value *need_object(struct told *t, const struct vt_json_value *from,
					       const char *key)
{
	const struct vt_json_value *object = vt_json_in_object(&t->in, from, key);

	if (!object)
		vt_json_in_wrong(&t->in, key, "is missing");
	return object;
}

static int need_int(struct told *t, const struct vt_json_value *from, const char *key, int64_t min)
{
	int value = -1;

	if (!vt_json_in_int(&t->in, from, key, min, MAX_RANK, &value))
		vt_json_in_wrong(&t->in, key, "is missing");
	return value;
}

static const char *intern(struct told *t, const char *text)
{
	const char *copy = vt_job_text(t->r->job, text, strlen(text));

	t->in.nomem |= !copy;
	return copy ? copy : "";
}

/* Adds a rank (an object of the document) to the group of ranks with the same finding. */
static void add_rank(struct told *t, const struct vt_json_value *from, enum vt_ras_about about,
		     const char *what, uint64_t count)
{
	struct vt_ras_group like = t->like, *group;
	const char *host = vt_json_in_need_text(&t->in, from, "host");
	int pid = -1;

	like.about = about;
	like.what = intern(t, what);
	like.count = count;
	vt_json_in_int(&t->in, from, "pid", -1, INT_MAX, &pid);
	group = t->in.nomem || t->in.wrong[0] ? NULL : vt_ras_group(t->r, &like);
	if (group)
		vt_ras_add_rank(t->r, group, need_int(t, from, "rank", 0), pid > 0 ? pid : 0, host,
				pid > 0 ? strlen(host) : 0);
}

/* ---- status and errors ---- */

static const char *status_of(struct told *t, const struct vt_json_value *status)
{
	int state = need_int(t, status, "init_state", 0);
	bool aborted = vt_json_in_need_bool(&t->in, status, "abort_flag");
	bool finalized = vt_json_in_need_bool(&t->in, status, "finalize_called");
	bool destroyed = vt_json_in_need_bool(&t->in, status, "destroy_flag");

	if (aborted)
		return "ABORT";
	if (finalized || destroyed)
		return "FINALIZE";
	return state == NCCL_SUCCESS ? "RUNNING" : "INIT";
}

static void add_errors(struct told *t, const struct vt_json_value *rank,
		       const struct vt_json_value *status)
{
	static const char *const keys[] = { "init_state", "async_error" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int result = need_int(t, status, keys[i], 0);

		if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
			add_rank(t, rank, VT_RAS_ERROR, error_name(result), 0);
	}
}

/* A missing rank that answers has left this communicator, or not yet joined it. */
static void add_missing(struct told *t, const struct vt_json_value *rank)
{
	const struct vt_json_value *status = vt_json_in_object(&t->in, rank, "status");

	if (!status)
		add_rank(t, rank, VT_RAS_ABSENT, "", 0);
	else if (vt_json_in_need_bool(&t->in, status, "considered_dead"))
		add_rank(t, rank, VT_RAS_DEAD, "", 0);
	else if (vt_json_in_need_bool(&t->in, status, "unresponsive"))
		add_rank(t, rank, VT_RAS_SILENT, "", 0);
	else
		add_rank(t, rank, VT_RAS_STATUS, "NOCOMM", 0);
}

static void read_status(struct told *t, const struct vt_json_value *missing)
{
	const char *first = NULL;
	bool differ = false;

	for (size_t i = 0; i < vt_json_count(missing) && !t->in.wrong[0]; i++)
		add_missing(t, vt_json_in_element(&t->in, missing, i, "missing_ranks"));
	for (size_t i = t->r->first_group; i < t->r->ras->groups.n; i++)
		differ |= t->r->ras->groups.data[i].about == VT_RAS_STATUS;
	for (size_t i = 0; i < t->n_ranks && !t->in.wrong[0]; i++) {
		const struct vt_json_value *rank = vt_json_in_element(&t->in, t->ranks, i, "ranks"),
					   *status = need_object(t, rank, "status");
		const char *name = status_of(t, status);

		first = first ? first : name;
		differ |= strcmp(first, name) != 0;
		add_errors(t, rank, status);
	}
	for (size_t i = 0; i < t->n_ranks && differ && !t->in.wrong[0]; i++) {
		const struct vt_json_value *rank = vt_json_in_element(&t->in, t->ranks, i, "ranks");

		add_rank(t, rank, VT_RAS_STATUS, status_of(t, need_object(t, rank, "status")), 0);
	}
}

/* ---- counts ---- */

static uint64_t count_of(struct told *t, size_t rank, const char *operation)
{
	const struct vt_json_value *counts =
		need_object(t, vt_json_at(t->ranks, rank), "collective_counts");

	return vt_json_in_need_uint(&t->in, counts, operation);
}

/* The number of different values; MAX_VALUES + 1 if there are more than are kept apart. */
static size_t count_values(struct told *t, const char *operation)
{
	uint64_t values[MAX_VALUES];
	size_t n = 0;

	for (size_t i = 0; i < t->n_ranks && !t->in.wrong[0]; i++) {
		uint64_t count = count_of(t, i, operation);
		size_t k = 0;

		while (k < n && values[k] != count)
			k++;
		if (k == MAX_VALUES)
			return MAX_VALUES + 1;
		values[k] = count;
		n += k == n;
	}
	return n;
}

static void read_operation(struct told *t, const char *operation)
{
	size_t n = count_values(t, operation);

	if (n > MAX_VALUES)
		t->r->ras->understood = false;
	if (n < 2 || n > MAX_VALUES)
		return;
	for (size_t i = 0; i < t->n_ranks && !t->in.wrong[0]; i++)
		add_rank(t, vt_json_at(t->ranks, i), VT_RAS_COUNT, operation,
			 count_of(t, i, operation));
}

/* The first rank gives the kinds: all ranks have the same NCCL. */
static void read_counts(struct told *t)
{
	const struct vt_json_value *first =
		t->n_ranks ? vt_json_in_element(&t->in, t->ranks, 0, "ranks") : NULL;
	const struct vt_json_value *counts = first ? need_object(t, first, "collective_counts") :
						     NULL;

	for (size_t i = 0; i < vt_json_keys(counts) && !t->in.wrong[0]; i++) {
		if (i >= MAX_OPERATIONS) {
			t->r->ras->understood = false;
			return;
		}
		read_operation(t, vt_json_key(counts, i));
	}
}

/* ---- the whole answer ---- */

/* hash alone is not unique. */
static void read_communicator(struct told *t, const struct vt_json_value *from)
{
	const char *hash = vt_json_in_need_text(&t->in, from, "hash");
	const char *second = vt_json_in_need_text(&t->in, from, "secondary_hash");
	const char *name = vt_arena_printf(t->in.values, "%s:%s", hash, second);

	t->in.nomem |= !name;
	t->like = (struct vt_ras_group){ .communicator = intern(t, name ? name : ""),
					 .size = need_int(t, from, "size", 1) };
	t->ranks = vt_json_in_array(&t->in, from, "ranks");
	t->n_ranks = vt_json_count(t->ranks);
	read_status(t, vt_json_in_array(&t->in, from, "missing_ranks"));
	read_counts(t);
	vt_ras_end_part(t->r);
}

static void read_root(struct told *t, const struct vt_json_value *root)
{
	const struct vt_json_value *communicators = vt_json_in_array(&t->in, root, "communicators");
	const char *version = vt_json_in_need_text(&t->in, root, "nccl_version");

	t->r->ras->version = intern(t, version);
	t->r->ras->communicators = vt_json_count(communicators);
	if (!communicators)
		vt_json_in_wrong(&t->in, "communicators", "is missing");
	for (size_t i = 0; i < vt_json_count(communicators) && !t->in.wrong[0]; i++)
		read_communicator(t, vt_json_in_element(&t->in, communicators, i, "communicators"));
}

/*
 * NCCL 2.28 (up to 2.28.9) omits a comma in a missing rank's object; no JSON string contains a line
 * end.
 */
static void put_commas(char *text)
{
	static const char before[] = "\n          \"status\": {";

	for (char *at = text; (at = strstr(at, before)); at += strlen(before))
		if (at > text && at[-1] >= '0' && at[-1] <= '9')
			*at = ',';
}

void vt_ras_read_json(struct vt_ras_reading *r, char *text, size_t n)
{
	struct vt_arena values = { 0 };
	struct told t = { .r = r, .in = { .values = &values, .strings = &values } };
	const struct vt_json_value *root = NULL;

	put_commas(text);

	VT_ERROR struct vt_error *err = vt_json_in_parse(&t.in, text, n, &root);

	if (!err)
		read_root(&t, root);
	if (err || t.in.wrong[0] || t.in.nomem) {
		const char *why = err ? err->message : t.in.wrong;

		r->ras->understood = false;
		vt_ras_drop_groups(r, 0);
		vt_ras_add_line(r, why, strlen(why));
	}
	vt_arena_deinit(&values);
}
