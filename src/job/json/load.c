/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a job that was saved as JSON into another one: its interned parts are interned again, and
 * its indices become those of the other job.
 */
#include <limits.h>
#include <string.h>

#include "model/flight.h"
#include "model/usage_json.h"
#include "model/words_0_1.h"
#include "job/internal.h"
#include "json/in.h"
#include "job/json/json.h"
#include "job/ras/ras.h"

#define MAX_DEVICE 1023
#define MAX_BYTES (UINT64_C(1) << 50) /* of one process: a job's totals must not overflow */
#define MAX_RANK (1 << 24)

struct load {
	struct vt_json_in in;
	struct vt_job *job;
	const char *prefix;
	bool only_one;
	pid_t pid; /* of that member; 0 any */
	/* Maps the document's indices to the job's, in in.values. */
	uint32_t *frames, *stacks, *doings;
	size_t n_frames, n_stacks, n_doings;
};

/* ---- parts ---- */

static const char *intern(struct load *l, json_t *from, const char *key, const char *otherwise)
{
	json_t *value = json_object_get(from, key);
	const char *copy;

	if (!value || json_is_null(value))
		return otherwise;
	if (!json_is_string(value)) {
		vt_json_in_wrong(&l->in, key, "is not a text");
		return otherwise;
	}
	copy = vt_job_text(l->job, json_string_value(value), json_string_length(value));
	l->in.nomem |= !copy;
	return copy ? copy : otherwise;
}

static const char *intern_text(struct load *l, const char *text)
{
	const char *copy = text && *text ? vt_job_text(l->job, text, strlen(text)) : NULL;

	l->in.nomem |= text && *text && !copy;
	return copy;
}

static char load_char(struct load *l, json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);
	const char *text = json_string_value(value);

	if (json_string_length(value) == 1 && text[0] > ' ' && text[0] < 0x7f)
		return text[0];
	vt_json_in_wrong(&l->in, key, "is not a letter");
	return '?';
}

static uint64_t load_bytes(struct load *l, json_t *from, const char *key)
{
	uint64_t bytes = vt_json_in_need_uint(&l->in, from, key);

	if (bytes <= MAX_BYTES)
		return bytes;
	vt_json_in_wrong(&l->in, key, "is more than there is");
	return 0;
}

static pid_t load_pid(struct load *l, json_t *from, const char *key)
{
	int pid = 0;

	vt_json_in_int(&l->in, from, key, 0, INT_MAX, &pid);
	return pid;
}

static bool has(json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);

	return value && !json_is_null(value);
}

/* ---- interned parts ---- */

static uint32_t *new_indices(struct load *l, size_t n)
{
	uint32_t *indices = vt_arena_alloc(l->in.values, (n + 1) * sizeof(*indices));

	l->in.nomem |= !indices;
	return indices;
}

static uint32_t load_frame(struct load *l, json_t *from)
{
	const char *kind = json_string_value(json_object_get(from, "kind"));
	struct vt_job_frame frame = {
		.kind = kind && !strcmp(kind, "python") ? VT_FRAME_PYTHON : VT_FRAME_NATIVE,
		.function = intern(l, from, "function", NULL),
		.file = intern(l, from, "file", NULL),
		.module = intern(l, from, "module", NULL),
	};

	if (!kind)
		vt_json_in_wrong(&l->in, "kind", "is missing");
	vt_json_in_int(&l->in, from, "line", 0, INT_MAX, &frame.line);
	vt_json_in_bool(&l->in, from, "program", &frame.program);
	return vt_job_intern_frame(l->job, &frame);
}

static void load_frames(struct load *l, json_t *root)
{
	json_t *frames = vt_json_in_array(&l->in, root, "frames");
	size_t n = json_array_size(frames);

	l->frames = new_indices(l, n);
	for (size_t i = 0; i < n && !l->in.nomem && !l->job->failed; i++)
		l->frames[i] = load_frame(l, vt_json_in_element(&l->in, frames, i, "frames"));
	l->n_frames = n;
}

static uint32_t load_stack(struct load *l, json_t *array, uint32_t *scratch)
{
	size_t n = json_array_size(array);

	if (!json_is_array(array))
		vt_json_in_wrong(&l->in, "stacks", "has an element that is not an array");
	for (size_t i = 0; i < n; i++) {
		scratch[i] = vt_json_in_index(&l->in, array, i, l->n_frames, "stacks");
		if (l->in.wrong[0])
			return 0;
		scratch[i] = l->frames[scratch[i]];
	}
	return vt_job_intern_stack(l->job, scratch, n);
}

static void load_stacks(struct load *l, json_t *root)
{
	json_t *stacks = vt_json_in_array(&l->in, root, "stacks");
	size_t n = json_array_size(stacks), longest = 0;
	uint32_t *scratch;

	for (size_t i = 0; i < n; i++)
		if (json_array_size(json_array_get(stacks, i)) > longest)
			longest = json_array_size(json_array_get(stacks, i));
	scratch = new_indices(l, longest);
	l->stacks = new_indices(l, n);
	for (size_t i = 0; i < n && !l->in.nomem && !l->job->failed && !l->in.wrong[0]; i++)
		l->stacks[i] = load_stack(l, json_array_get(stacks, i), scratch);
	l->n_stacks = n;
}

/* vramtap 0.1.0 saved sentences only. */
static struct vt_verdict load_verdict(struct load *l, json_t *from)
{
	enum vt_verdict_code code = vt_verdict_code_of(intern(l, from, "verdict_code", NULL));
	const char *sentence = intern(l, from, "verdict", NULL);
	struct vt_verdict verdict = {
		.code = code,
		.purpose = vt_purpose_of(intern(l, from, "verdict_purpose", NULL)),
		.function = intern(l, from, "verdict_function", NULL),
		.for_function = intern(l, from, "verdict_for", NULL),
	};

	if (!code && sentence) {
		l->in.nomem |= !vt_verdict_of_0_1(sentence, &l->job->arena, &verdict);
		verdict.function = intern_text(l, verdict.function);
		verdict.for_function = intern_text(l, verdict.for_function);
	}
	return verdict;
}

static struct vt_waits load_waits(struct load *l, json_t *from)
{
	enum vt_waits_code code = vt_waits_code_of(intern(l, from, "waits_code", NULL));
	const char *sentence = intern(l, from, "waits", NULL);
	struct vt_waits waits = {
		.code = code,
		.call = intern(l, from, "waits_call", NULL),
		.detail = intern(l, from, "waits_detail", NULL),
	};

	if (!code && sentence) {
		l->in.nomem |= !vt_waits_of_0_1(sentence, &l->job->arena, &waits);
		waits.call = intern_text(l, waits.call);
		waits.detail = intern_text(l, waits.detail);
	}
	return waits;
}

static uint32_t load_doing(struct load *l, json_t *from)
{
	uint64_t stack = vt_json_in_need_uint(&l->in, from, "stack");
	struct vt_job_doing doing = {
		.name = intern(l, from, "name", ""),
		.state = load_char(l, from, "state"),
		.verdict = load_verdict(l, from),
		.waits = load_waits(l, from),
		.kernel = intern(l, from, "kernel", NULL),
	};
	bool gil = false;

	/* All unknown names share one text. */
	if (!*doing.name)
		doing.name = vt_job_text(l->job, "", 0);
	vt_json_in_bool(&l->in, from, "main", &doing.is_main);
	vt_json_in_bool(&l->in, from, "idle", &doing.idle);
	vt_json_in_bool(&l->in, from, "python", &doing.has_python);
	vt_json_in_bool(&l->in, from, "deadlock", &doing.deadlock);
	doing.gil = vt_json_in_bool(&l->in, from, "gil", &gil) ? gil : -1;
	if (stack >= l->n_stacks)
		vt_json_in_wrong(&l->in, "stack", "names what does not exist");
	if (l->in.wrong[0])
		return 0;
	doing.stack = l->stacks[stack];
	return vt_job_intern_doing(l->job, &doing);
}

static void load_doings(struct load *l, json_t *root)
{
	json_t *doings = vt_json_in_array(&l->in, root, "doings");
	size_t n = json_array_size(doings);

	l->doings = new_indices(l, n);
	for (size_t i = 0; i < n && !l->in.nomem && !l->job->failed && !l->in.wrong[0]; i++)
		l->doings[i] = load_doing(l, vt_json_in_element(&l->in, doings, i, "doings"));
	l->n_doings = n;
}

/* ---- members ---- */

static const char *role_name(unsigned int i)
{
	return vt_role_name((enum vt_role)i);
}

static void load_label(struct load *l, json_t *from, struct vt_label *label)
{
	if (!has(from, "pid"))
		vt_json_in_wrong(&l->in, "pid", "is missing");
	label->host = intern(l, from, "host", "");
	label->system = intern(l, from, "system", "");
	label->pid = load_pid(l, from, "pid");
	vt_json_in_uint(&l->in, from, "start_ticks", &label->start_ticks);
	label->ppid = load_pid(l, from, "parent");
	label->name = intern(l, from, "name", "");
	label->command = intern(l, from, "command_line", "");
	label->role = (enum vt_role)vt_json_in_word(&l->in, from, "role", role_name, VT_N_ROLES);
	vt_json_in_int(&l->in, from, "rank", 0, MAX_RANK, &label->rank);
	vt_json_in_int(&l->in, from, "local_rank", 0, MAX_RANK, &label->local_rank);
	vt_json_in_int(&l->in, from, "world_size", 0, MAX_RANK, &label->world_size);
	vt_json_in_int(&l->in, from, "local_world_size", 1, MAX_RANK, &label->local_world_size);
	vt_json_in_int(&l->in, from, "worker", 0, MAX_RANK, &label->worker);
	label->of = load_pid(l, from, "of");
	label->container = intern(l, from, "container", "");
	label->pod = intern(l, from, "pod", "");
	label->job = intern(l, from, "job", "");
	label->visible = intern(l, from, "visible_devices", NULL);
	label->in_job = vt_json_in_need_bool(&l->in, from, "in_job");
}

/* Another version may have lines that are not known here, or lack some. */
static uint64_t load_line(struct load *l, json_t *from, const char *name)
{
	return has(from, name) ? load_bytes(l, from, name) : 0;
}

static void load_ledger(struct load *l, json_t *from, struct vt_job_memory *m)
{
	for (unsigned int i = 0; from && i < VT_N_CLAIMERS; i++)
		m->claimed[i] = load_line(l, from, vt_claimer_name(i));
	for (unsigned int kind = 0; from && kind < VT_N_RANGE_KINDS; kind++)
		m->kinds[kind] = load_line(l, from, vt_job_kind_name(kind));
}

static void load_memory(struct load *l, json_t *from, struct vt_member *member)
{
	struct vt_job_memory *m = vt_vec_append(&member->memory);

	if (!m) {
		l->in.nomem = true;
		return;
	}
	*m = (struct vt_job_memory){ .uuid = intern(l, from, "uuid", "") };
	if (!vt_json_in_int(&l->in, from, "ordinal", 0, MAX_DEVICE, &m->ordinal))
		vt_json_in_wrong(&l->in, "ordinal", "is missing");
	m->known = has(from, "reserved_bytes");
	if (m->known) {
		m->reserved = load_bytes(l, from, "reserved_bytes");
		m->allocated = load_bytes(l, from, "allocated_bytes");
		m->cached = load_bytes(l, from, "cached_bytes");
	}
	m->device_known = has(from, "device_total_bytes");
	if (m->device_known) {
		m->total = load_bytes(l, from, "device_total_bytes");
		m->free_bytes = load_bytes(l, from, "device_free_bytes");
	}
	m->ledger_known = has(from, "ledger");
	if (m->ledger_known)
		load_ledger(l, vt_json_in_object(&l->in, from, "ledger"), m);
}

static void load_site(struct load *l, json_t *from, struct vt_member *member)
{
	struct vt_job_site *s = vt_vec_append(&member->sites);

	if (!s) {
		l->in.nomem = true;
		return;
	}
	*s = (struct vt_job_site){ .title = intern(l, from, "title", ""),
				   .bytes = load_bytes(l, from, "bytes"),
				   .blocks = load_bytes(l, from, "blocks") };
}

static const char *owners_state_name(unsigned int i)
{
	return vt_owners_state_name((enum vt_owners_state)i);
}

/* Categories of a newer vramtap are not known here: they are left out. */
static void load_owners(struct load *l, json_t *from, struct vt_job_owners *owners)
{
	json_t *bytes;

	if (!has(from, "owners"))
		return;
	from = vt_json_in_object(&l->in, from, "owners");
	owners->state = (enum vt_owners_state)vt_json_in_word(
		&l->in, from, "state", owners_state_name, VT_N_OWNERS_STATES);
	if (owners->state != VT_OWNERS_READ)
		return;
	owners->ran = vt_json_in_need_bool(&l->in, from, "ran");
	owners->whole = vt_json_in_need_bool(&l->in, from, "whole");
	bytes = vt_json_in_object(&l->in, from, "bytes");
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		const char *category = vt_category_code((enum vt_category)i);

		if (has(bytes, category))
			owners->bytes[i] = load_bytes(l, bytes, category);
	}
}

/* Most of their texts are equal in all ranks. */
static void load_collectives(struct load *l, json_t *from, struct vt_member *member)
{
	struct vt_arena *strings = l->in.strings;

	l->in.strings = l->in.values;
	vt_flight_load(&l->in, from, &member->collectives);
	l->in.strings = strings;
	l->in.nomem |= !vt_job_intern_collectives(l->job, &member->collectives);
}

typedef void load_part(struct load *l, json_t *from, struct vt_member *member);

static void load_parts(struct load *l, json_t *from, const char *key, load_part *part,
		       struct vt_member *member)
{
	json_t *array = vt_json_in_array(&l->in, from, key);

	for (size_t i = 0; i < json_array_size(array) && !l->in.nomem; i++)
		part(l, vt_json_in_element(&l->in, array, i, key), member);
}

static void load_requests(struct load *l, json_t *from, struct vt_job_requests *r)
{
	json_t *requests = vt_json_in_object(&l->in, from, "requests");

	r->known = has(requests, "retries");
	if (r->known) {
		r->retries = load_bytes(l, requests, "retries");
		r->failed = load_bytes(l, requests, "failed");
	}
	if (has(requests, "last_failed_bytes"))
		r->last_failed = load_bytes(l, requests, "last_failed_bytes");
	vt_json_in_bool(&l->in, requests, "waits", &r->waits);
}

static void load_threads(struct load *l, json_t *from, struct vt_member *member)
{
	json_t *tids = vt_json_in_array(&l->in, from, "threads"),
	       *doings = vt_json_in_array(&l->in, from, "threads_do");
	size_t n = json_array_size(tids);

	if (json_array_size(doings) != n) {
		vt_json_in_wrong(&l->in, "threads_do", "is not as long as threads");
		return;
	}
	if (!vt_vec_reserve(&member->threads, n)) {
		l->in.nomem = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t doing = vt_json_in_index(&l->in, doings, i, l->n_doings, "threads_do");
		uint32_t tid = vt_json_in_index(&l->in, tids, i, INT_MAX, "threads");

		if (l->in.wrong[0])
			return;
		member->threads.data[i] =
			(struct vt_job_thread){ .tid = (pid_t)tid, .doing = l->doings[doing] };
	}
	member->threads.n = n;
}

static const char *prefixed(struct load *l, const char *file)
{
	const char *path;

	if (!file || !l->prefix || !*l->prefix)
		return file;
	path = vt_arena_printf(&l->job->arena, "%s/%s", l->prefix, file);
	l->in.nomem |= !path;
	return path;
}

static void load_reading(struct load *l, json_t *from, struct vt_member *m)
{
	bool moved = false;

	m->file = prefixed(l, intern(l, from, "report", NULL));
	m->core = intern(l, from, "core", NULL);
	m->completeness = (enum vt_completeness)vt_json_in_word(
		&l->in, from, "completeness", vt_completeness_name, VT_NOTHING + 1);
	m->error = intern(l, from, "error", NULL);
	m->diag = intern(l, from, "missing", NULL);
	m->headline = intern(l, from, "headline", NULL);
	vt_json_in_real(&l->in, from, "total_ms", &m->total_ms);
	vt_json_in_real(&l->in, from, "stopped_ms", &m->stopped_ms);
	m->have_moment = vt_json_in_uint(&l->in, from, "stopped_at_ns", &m->stopped_ns) &&
			 vt_json_in_uint(&l->in, from, "released_at_ns", &m->released_ns);
	m->process_state = load_char(l, from, "process_state");
	m->moved = vt_json_in_bool(&l->in, from, "moved", &moved) ? moved : -1;
	m->tracer = load_pid(l, from, "tracer");
	m->tracer_name = intern(l, from, "tracer_name", "");
}

static void load_member(struct load *l, json_t *from)
{
	struct vt_member *member = vt_job_new_member(l->job);

	if (!member)
		return;
	load_label(l, from, &member->label);
	load_reading(l, from, member);
	load_parts(l, from, "memory", load_memory, member);
	load_requests(l, from, &member->requests);
	load_parts(l, from, "sites", load_site, member);
	load_owners(l, from, &member->owners);
	load_collectives(l, from, member);
	load_threads(l, from, member);
}

/* ---- the whole job ---- */

static void load_diags(struct load *l, json_t *root)
{
	json_t *diags = vt_json_in_array(&l->in, root, "diagnostics");

	for (size_t i = 0; i < json_array_size(diags) && !l->job->failed; i++) {
		json_t *from = vt_json_in_element(&l->in, diags, i, "diagnostics");
		const char *level = json_string_value(json_object_get(from, "level"));

		vt_job_diag(l->job,
			    level && !strcmp(level, "missing") ? VT_DIAG_MISSING : VT_DIAG_NOTE,
			    intern(l, from, "code", ""), "%s", intern(l, from, "text", ""));
	}
}

static struct vt_error *check_schema(json_t *root)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	json_t *version = json_object_get(root, "schema_version");

	if (!schema || strcmp(schema, VT_JOB_SCHEMA) != 0)
		return vt_error_create(VT_ERR_FORMAT,
				       "it is not the report of a job; vramtap triage writes one");
	if (!json_is_integer(version) || json_integer_value(version) != VT_JOB_SCHEMA_VERSION)
		return vt_error_create(
			VT_ERR_FORMAT,
			"its schema version is %lld, but this vramtap reads only version %d: use the same vramtap on all nodes",
			(long long)json_integer_value(version), VT_JOB_SCHEMA_VERSION);
	return NULL;
}

static struct vt_error *check_members(const struct load *l, json_t *root, json_t *members)
{
	json_t *pid = json_object_get(json_array_get(members, 0), "pid");

	if (!l->only_one)
		return NULL;
	if (json_array_size(members) == 1 &&
	    (!l->pid || (json_is_integer(pid) && json_integer_value(pid) == l->pid)) &&
	    !json_array_size(json_object_get(root, "ras")) &&
	    !json_array_size(json_object_get(root, "usage")))
		return NULL;
	return vt_error_create(VT_ERR_FORMAT, "it speaks of other processes");
}

/* The job is as old as its oldest part. */
static void load_head(struct load *l, json_t *root)
{
	struct timespec when = { 0 };
	struct vt_job *job = l->job;

	if (!*job->tool_version)
		job->tool_version = intern(l, root, "tool_version", "");
	if (has(root, "time"))
		vt_json_in_time(&l->in, root, "time", &when);
	if (when.tv_sec && (!job->when.tv_sec || when.tv_sec < job->when.tv_sec))
		job->when = when;
}

static void load_usages(struct load *l, json_t *root)
{
	json_t *usages = vt_json_in_array(&l->in, root, "usage");

	for (size_t i = 0; i < json_array_size(usages); i++) {
		json_t *from = vt_json_in_element(&l->in, usages, i, "usage");
		struct vt_model_usage usage = { 0 };

		vt_usage_load(&l->in, vt_json_in_object(&l->in, from, "usage"), &usage);
		(void)vt_job_add_usage(l->job, intern(l, from, "host", ""),
				       intern(l, from, "system", ""), &usage);
	}
}

static struct vt_error *load_root(struct load *l, json_t *root)
{
	json_t *members = vt_json_in_array(&l->in, root, "members");

	VT_TRY(check_schema(root));
	VT_TRY(check_members(l, root, members));
	load_head(l, root);
	load_diags(l, root);
	vt_job_load_ras(l->job, &l->in, root, l->prefix);
	load_usages(l, root);
	load_frames(l, root);
	if (!l->in.nomem && !l->job->failed)
		load_stacks(l, root);
	if (!l->in.nomem && !l->job->failed)
		load_doings(l, root);
	for (size_t i = 0;
	     i < json_array_size(members) && !l->in.nomem && !l->job->failed && !l->in.wrong[0];
	     i++)
		load_member(l, vt_json_in_element(&l->in, members, i, "members"));
	if (l->in.nomem || l->job->failed)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	if (l->in.wrong[0])
		return vt_error_create(VT_ERR_FORMAT,
				       "it is damaged, or not written by vramtap: %s", l->in.wrong);
	return NULL;
}

static struct vt_error *load(struct load *l, const char *text, size_t n)
{
	struct vt_arena values = { 0 };
	struct vt_job *job = l->job;
	size_t had = job->members.n, had_diags = job->diags.n, had_ras = job->ras.n,
	       had_usages = job->usages.n;
	const char *had_version = job->tool_version;
	struct timespec had_when = job->when;
	json_t *root = NULL;
	struct vt_error *err;

	l->in = (struct vt_json_in){ .values = &values, .strings = &job->arena };
	err = vt_json_in_parse(&l->in, text, n, &root);
	if (!err)
		err = load_root(l, root);
	vt_arena_deinit(&values);
	/* All or nothing. */
	while (err && job->members.n > had)
		vt_member_deinit(&job->members.data[--job->members.n]);
	while (err && job->ras.n > had_ras)
		vt_ras_deinit(&job->ras.data[--job->ras.n]);
	while (err && job->usages.n > had_usages)
		vt_model_usage_deinit(&job->usages.data[--job->usages.n].usage);
	if (err && job->diags.n > had_diags)
		job->diags.n = had_diags;
	if (err) {
		job->tool_version = had_version;
		job->when = had_when;
	}
	return err;
}

struct vt_error *vt_job_load_text(struct vt_job *job, const char *text, size_t n,
				  const char *prefix)
{
	struct load l = { .job = job, .prefix = prefix };

	return load(&l, text, n);
}

struct vt_error *vt_job_load_one(struct vt_job *job, const char *text, size_t n, pid_t pid)
{
	struct load l = { .job = job, .only_one = true, .pid = pid };

	return load(&l, text, n);
}

struct vt_error *vt_job_load(struct vt_job *job, const char *path, const char *prefix)
{
	struct vt_str text = { 0 };
	struct vt_error *err = vt_json_in_read_regular(path, &text);

	if (!err) {
		err = vt_job_load_text(job, vt_str_get(&text), text.n, prefix);
		err = err ? vt_error_prefix(err, "%s", path) : NULL;
	}
	vt_str_deinit(&text);
	return err;
}
