/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a job that was saved as JSON into another one: its interned parts are interned again, and
 * its indices become those of the other job. It is read part by part, in whatever order the parts
 * are: members refer to doings, these to stacks, these to frames, and frames come last. So first
 * each keeps the document's indices; when all of it was read and is right, they are replaced.
 */
#include <limits.h>
#include <string.h>

#include "model/faults_json.h"
#include "model/flight.h"
#include "model/usage_json.h"
#include "model/words_0_1.h"
#include "job/internal.h"
#include "base/cleanup.h"
#include "json/in.h"
#include "json/stream.h"
#include "job/json/json.h"
#include "job/json/seen.h"
#include "job/ras/ras.h"

#define MAX_DEVICE 1023
#define MAX_BYTES (UINT64_C(1) << 50) /* of one process: a job's totals must not overflow */
#define MAX_RANK (1 << 24)
#define UNSEEN_ENOUGH 1024 /* of a section */
#define MOST_LEARNT 4096

struct indices {
	uint32_t *data;
	size_t n, capacity;
};

/* A frame that is known by its bytes, but not yet where it is in the job. */
struct learnt {
	size_t frame; /* index in the document */
	struct vt_seen *seen;
};

/* Large arrays of the document; an element of one refers to those of the one before. */
enum section { FRAMES, STACKS, DOINGS, MEMBERS, N_SECTIONS };

struct load {
	struct vt_json_in in; /* values: of the part that is being read */
	struct vt_json_stream stream;
	struct vt_job *job;
	const char *prefix;
	bool only_one;
	pid_t pid; /* of that member; 0 any */
	/* Of the document: */
	struct vt_arena kept;
	VT_VEC(struct vt_json_value) rest; /* keys and values of what is no section */
	/* Indices in job.frames; VT_NO_INDEX: it waits at the end of these, until it is placed. */
	struct indices frames;
	size_t first_frame; /* that waits: index in job.frames */
	bool placed;
	size_t seen[MEMBERS], unseen[MEMBERS]; /* of the sections before these */
	VT_VEC(struct learnt) learnt;
	struct indices stacks; /* of each: how many frames, and these */
	VT_VEC(struct vt_job_doing) doings;
	size_t first_member; /* index in job.members */
	size_t n_members;
	bool is_other; /* only_one: the member is of another process */
	char wrong[N_SECTIONS][sizeof(((struct vt_json_in *)NULL)->wrong)];
};

/* ---- parts ---- */

static const char *intern(struct load *l, const struct vt_json_value *from, const char *key,
			  const char *otherwise)
{
	const struct vt_json_value *value = vt_json_get(from, key);
	const char *copy;

	if (!value || vt_json_is(value, VT_JSON_NULL))
		return otherwise;
	if (!vt_json_is(value, VT_JSON_STRING)) {
		vt_json_in_wrong(&l->in, key, "is not a text");
		return otherwise;
	}
	copy = vt_job_text(l->job, vt_json_string(value), vt_json_length(value));
	l->in.nomem |= !copy;
	return copy ? copy : otherwise;
}

static const char *intern_text(struct load *l, const char *text)
{
	const char *copy = text && *text ? vt_job_text(l->job, text, strlen(text)) : NULL;

	l->in.nomem |= text && *text && !copy;
	return copy;
}

static char load_char(struct load *l, const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = vt_json_get(from, key);
	const char *text = vt_json_string(value);

	if (vt_json_length(value) == 1 && text[0] > ' ' && text[0] < 0x7f)
		return text[0];
	vt_json_in_wrong(&l->in, key, "is not a letter");
	return '?';
}

static uint64_t load_bytes(struct load *l, const struct vt_json_value *from, const char *key)
{
	uint64_t bytes = vt_json_in_need_uint(&l->in, from, key);

	if (bytes <= MAX_BYTES)
		return bytes;
	vt_json_in_wrong(&l->in, key, "is more than there is");
	return 0;
}

static pid_t load_pid(struct load *l, const struct vt_json_value *from, const char *key)
{
	int pid = 0;

	vt_json_in_int(&l->in, from, key, 0, INT_MAX, &pid);
	return pid;
}

static bool has(const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = vt_json_get(from, key);

	return value && !vt_json_is(value, VT_JSON_NULL);
}

/* ---- interned parts ---- */

static void add_index(struct load *l, struct indices *indices, size_t index)
{
	uint32_t *added = vt_vec_append(indices);

	if (added)
		*added = (uint32_t)index;
	l->in.nomem |= !added;
}

/* It waits until it is placed. */
static void add_frame(struct load *l, const struct vt_job_frame *frame)
{
	struct vt_job_frame *added = vt_vec_append(&l->job->frames);

	if (added)
		*added = *frame;
	l->in.nomem |= !added;
	add_index(l, &l->frames, VT_NO_INDEX);
}

static void load_frame(struct load *l, const struct vt_json_value *from)
{
	const char *kind = vt_json_string(vt_json_get(from, "kind"));
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
	add_frame(l, &frame);
}

static void add_stack(struct load *l, const uint32_t *frames, size_t n)
{
	if (!vt_vec_reserve(&l->stacks, l->stacks.n + n + 1)) {
		l->in.nomem = true;
		return;
	}
	l->stacks.data[l->stacks.n++] = (uint32_t)n;
	memcpy(&l->stacks.data[l->stacks.n], frames, n * sizeof(*frames));
	l->stacks.n += n;
}

static void load_stack(struct load *l, const struct vt_json_value *array)
{
	size_t n = vt_json_count(array), at = l->stacks.n;

	if (!vt_json_is(array, VT_JSON_ARRAY))
		vt_json_in_wrong(&l->in, "stacks", "has an element that is not an array");
	add_index(l, &l->stacks, n);
	for (size_t i = 0; i < n && !l->in.nomem; i++) {
		uint32_t frame = vt_json_in_index(&l->in, array, i, UINT32_MAX, "stacks");

		/* Those before it are looked at. */
		if (l->in.wrong[0]) {
			l->stacks.data[at] = (uint32_t)i;
			return;
		}
		add_index(l, &l->stacks, frame);
	}
}

/* vramtap 0.1.0 saved sentences only. */
static struct vt_verdict load_verdict(struct load *l, const struct vt_json_value *from)
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

static struct vt_waits load_waits(struct load *l, const struct vt_json_value *from)
{
	enum vt_waits_code code = vt_waits_code_of(intern(l, from, "waits_code", NULL));
	const char *sentence = intern(l, from, "waits", NULL);
	struct vt_waits waits = {
		.code = code,
		.call = intern(l, from, "waits_call", NULL),
		.shared = intern(l, from, "waits_detail", NULL),
		.detail = intern(l, from, "waits_own", NULL),
	};

	if (!code && sentence) {
		l->in.nomem |= !vt_waits_of_0_1(sentence, &l->job->arena, &waits);
		waits.call = intern_text(l, waits.call);
		waits.shared = intern_text(l, waits.detail);
		waits.detail = NULL;
	}
	if (!waits.detail)
		waits.detail = waits.shared;
	return waits;
}

static void add_doing(struct load *l, const struct vt_job_doing *doing)
{
	struct vt_job_doing *added = vt_vec_append(&l->doings);

	if (added)
		*added = *doing;
	l->in.nomem |= !added;
}

static void load_doing(struct load *l, const struct vt_json_value *from)
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
	if (stack >= UINT32_MAX)
		vt_json_in_wrong(&l->in, "stack", "names what does not exist");
	doing.stack = (uint32_t)stack;
	if (!l->in.wrong[0])
		add_doing(l, &doing);
}

/* ---- members ---- */

static const char *role_name(unsigned int i)
{
	return vt_role_name((enum vt_role)i);
}

static void load_label(struct load *l, const struct vt_json_value *from, struct vt_label *label)
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
static uint64_t load_line(struct load *l, const struct vt_json_value *from, const char *name)
{
	return has(from, name) ? load_bytes(l, from, name) : 0;
}

static void load_ledger(struct load *l, const struct vt_json_value *from, struct vt_job_memory *m)
{
	for (unsigned int i = 0; from && i < VT_N_CLAIMERS; i++)
		m->claimed[i] = load_line(l, from, vt_claimer_name(i));
	for (unsigned int kind = 0; from && kind < VT_N_RANGE_KINDS; kind++)
		m->kinds[kind] = load_line(l, from, vt_job_kind_name(kind));
}

static void load_memory(struct load *l, const struct vt_json_value *from, struct vt_member *member)
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

static void load_site(struct load *l, const struct vt_json_value *from, struct vt_member *member)
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
static void load_owners(struct load *l, const struct vt_json_value *from,
			struct vt_job_owners *owners)
{
	const struct vt_json_value *bytes;

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
static void load_collectives(struct load *l, const struct vt_json_value *from,
			     struct vt_member *member)
{
	struct vt_arena *strings = l->in.strings;

	l->in.strings = l->in.values;
	vt_flight_load(&l->in, from, &member->collectives);
	l->in.strings = strings;
	l->in.nomem |= !vt_job_intern_collectives(l->job, &member->collectives);
}

typedef void load_part(struct load *l, const struct vt_json_value *from, struct vt_member *member);

static void load_parts(struct load *l, const struct vt_json_value *from, const char *key,
		       load_part *part, struct vt_member *member)
{
	const struct vt_json_value *array = vt_json_in_array(&l->in, from, key);

	for (size_t i = 0; i < vt_json_count(array) && !l->in.nomem && !l->in.wrong[0]; i++)
		part(l, vt_json_in_element(&l->in, array, i, key), member);
}

static void load_requests(struct load *l, const struct vt_json_value *from,
			  struct vt_job_requests *r)
{
	const struct vt_json_value *requests = vt_json_in_object(&l->in, from, "requests");

	r->known = has(requests, "retries");
	if (r->known) {
		r->retries = load_bytes(l, requests, "retries");
		r->failed = load_bytes(l, requests, "failed");
	}
	if (has(requests, "last_failed_bytes"))
		r->last_failed = load_bytes(l, requests, "last_failed_bytes");
	vt_json_in_bool(&l->in, requests, "waits", &r->waits);
}

static void load_threads(struct load *l, const struct vt_json_value *from, struct vt_member *member)
{
	const struct vt_json_value *tids = vt_json_in_array(&l->in, from, "threads"),
				   *doings = vt_json_in_array(&l->in, from, "threads_do");
	size_t n = vt_json_count(tids);

	if (vt_json_count(doings) != n) {
		vt_json_in_wrong(&l->in, "threads_do", "is not as long as threads");
		return;
	}
	if (!vt_vec_reserve(&member->threads, n)) {
		l->in.nomem = true;
		return;
	}
	for (size_t i = 0; i < n && !l->in.wrong[0]; i++) {
		uint32_t doing = vt_json_in_index(&l->in, doings, i, UINT32_MAX, "threads_do");
		bool is_doing = !l->in.wrong[0];
		uint32_t tid = vt_json_in_index(&l->in, tids, i, INT_MAX, "threads");

		member->threads.data[i] =
			(struct vt_job_thread){ .tid = (pid_t)tid, .doing = doing };
		member->threads.n += is_doing;
	}
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

static void load_reading(struct load *l, const struct vt_json_value *from, struct vt_member *m)
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

static void load_dim(struct load *l, const struct vt_json_value *from, const char *key,
		     uint32_t dim[3])
{
	const struct vt_json_value *array = vt_json_in_array(&l->in, from, key);

	if (array && vt_json_count(array) != 3)
		vt_json_in_wrong(&l->in, key, "has not three numbers");
	for (size_t i = 0; i < vt_json_count(array) && i < 3; i++)
		dim[i] = vt_json_in_index(&l->in, array, i, UINT32_MAX, key);
}

static void load_kernel(struct load *l, const struct vt_json_value *from, struct vt_member *member)
{
	struct vt_job_kernel *k = vt_vec_append(&member->kernels.list);
	int sms = 0;

	if (!k) {
		l->in.nomem = true;
		return;
	}
	*k = (struct vt_job_kernel){ .name = intern(l, from, "name", NULL),
				     .file = intern(l, from, "file", NULL) };
	if (!k->name)
		k->name = vt_job_text(l->job, "", 0);
	l->in.nomem |= !k->name;
	vt_json_in_int(&l->in, from, "device", 0, MAX_DEVICE, &k->device);
	vt_json_in_int(&l->in, from, "sms", 0, INT_MAX, &sms);
	vt_json_in_int(&l->in, from, "line", 0, INT_MAX, &k->line);
	k->sms = (unsigned int)sms;
	load_dim(l, from, "grid_dim", k->grid_dim);
	load_dim(l, from, "block_dim", k->block_dim);
}

static void load_raised(struct load *l, const struct vt_json_value *kernels,
			struct vt_member *member)
{
	const struct vt_json_value *array = vt_json_in_array(&l->in, kernels, "exceptions");

	for (size_t i = 0; i < vt_json_count(array) && i < VT_KERNELS_MAX_RAISED; i++) {
		const char *text = vt_json_string(vt_json_at(array, i)),
			   **added = vt_vec_append(&member->kernels.raised);

		if (!text)
			vt_json_in_wrong(&l->in, "exceptions", "has what is not a text");
		if (added)
			*added = vt_job_text(l->job, text ? text : "", text ? strlen(text) : 0);
		l->in.nomem |= !added || !*added;
		if (l->in.nomem)
			return;
	}
}

static const char *kernels_state_name(unsigned int i)
{
	const char *name = vt_kernels_state_name(i);

	return name ? name : "";
}

/* Missing: it was not asked. */
static void load_kernels(struct load *l, const struct vt_json_value *from, struct vt_member *member)
{
	struct vt_job_kernels *kernels = &member->kernels;
	const struct vt_json_value *object = vt_json_in_object(&l->in, from, "kernels");
	uint64_t more = 0;

	if (!object)
		return;
	kernels->state = (enum vt_kernels_state)vt_json_in_word(
		&l->in, object, "state", kernels_state_name, VT_N_KERNELS_STATES);
	kernels->why = intern(l, object, "why", NULL);
	vt_json_in_real(&l->in, object, "took_ms", &kernels->took_ms);
	load_parts(l, object, "kernels", load_kernel, member);
	vt_json_in_uint(&l->in, object, "more", &more);
	kernels->more = more > INT_MAX ? INT_MAX : (size_t)more;
	load_raised(l, object, member);
}

static const char *lost_name(unsigned int i)
{
	const char *name = vt_context_lost_name(i);

	return name ? name : "";
}

/* Missing: as far as is known, it is not. */
static void load_lost(struct load *l, const struct vt_json_value *from, struct vt_member *member)
{
	int code = 0;

	if (!has(from, "context_lost"))
		return;
	member->lost = (enum vt_context_lost)vt_json_in_word(&l->in, from, "context_lost",
							     lost_name, VT_N_CONTEXTS_LOST);
	vt_json_in_int(&l->in, from, "context_lost_by", 1, INT_MAX, &code);
	member->lost_by = (uint32_t)code;
}

static void load_member(struct load *l, const struct vt_json_value *from)
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
	load_kernels(l, from, member);
	load_lost(l, from, member);
	load_threads(l, from, member);
}

/* ---- what is no section ---- */

static void load_diags(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *diags = vt_json_in_array(&l->in, root, "diagnostics");

	for (size_t i = 0; i < vt_json_count(diags) && !l->job->failed; i++) {
		const struct vt_json_value *from =
			vt_json_in_element(&l->in, diags, i, "diagnostics");
		const char *level = vt_json_string(vt_json_get(from, "level"));

		vt_job_diag(l->job,
			    level && !strcmp(level, "missing") ? VT_DIAG_MISSING : VT_DIAG_NOTE,
			    intern(l, from, "code", ""), "%s", intern(l, from, "text", ""));
	}
}

static struct vt_error *check_schema(const struct vt_json_value *root)
{
	const char *schema = vt_json_string(vt_json_get(root, "schema"));
	const struct vt_json_value *version = vt_json_get(root, "schema_version");

	if (!schema || strcmp(schema, VT_JOB_SCHEMA) != 0)
		return vt_error_create(VT_ERR_FORMAT,
				       "it is not the report of a job; vramtap triage writes one");
	if (!vt_json_is(version, VT_JSON_INTEGER) ||
	    vt_json_integer(version) != VT_JOB_SCHEMA_VERSION)
		return vt_error_create(
			VT_ERR_FORMAT,
			"its schema version is %lld, but this vramtap reads only version %d: use the same vramtap on all nodes",
			(long long)vt_json_integer(version), VT_JOB_SCHEMA_VERSION);
	return NULL;
}

static struct vt_error *check_members(const struct load *l, const struct vt_json_value *root)
{
	if (!l->only_one)
		return NULL;
	if (l->n_members == 1 && !l->is_other && !vt_json_count(vt_json_get(root, "ras")) &&
	    !vt_json_count(vt_json_get(root, "usage")))
		return NULL;
	return vt_error_create(VT_ERR_FORMAT, "it speaks of other processes");
}

/* The job is as old as its oldest part. */
static void load_head(struct load *l, const struct vt_json_value *root)
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

static void load_usages(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *usages = vt_json_in_array(&l->in, root, "usage");

	for (size_t i = 0; i < vt_json_count(usages); i++) {
		const struct vt_json_value *from = vt_json_in_element(&l->in, usages, i, "usage");
		struct vt_model_usage usage = { 0 };
		struct vt_model_faults faults = { .why = "" };

		vt_usage_load(&l->in, vt_json_in_object(&l->in, from, "usage"), &usage);
		vt_faults_load(&l->in, vt_json_in_object(&l->in, from, "faults"), &faults);
		(void)vt_job_add_usage(l->job, intern(l, from, "host", ""),
				       intern(l, from, "system", ""), &usage, &faults);
	}
}

/* ---- the parts, as they come ---- */

static bool is_stopped(const struct load *l)
{
	return l->in.wrong[0] || l->in.nomem || l->job->failed;
}

static const struct {
	const char *key;
	void (*load)(struct load *l, const struct vt_json_value *from);
	bool of_objects;
	enum vt_seen_kind seen; /* unused for members: each is another one */
} sections[N_SECTIONS] = {
	[FRAMES] = { "frames", load_frame, true, VT_SEEN_FRAME },
	[STACKS] = { "stacks", load_stack, false, VT_SEEN_STACK },
	[DOINGS] = { "doings", load_doing, true, VT_SEEN_DOING },
	[MEMBERS] = { "members", load_member, true, VT_N_SEEN },
};

/* Whether the member that was read last is wanted; it is only counted otherwise. */
static bool is_wanted(struct load *l, const struct vt_json_value *from)
{
	const struct vt_json_value *pid = vt_json_get(from, "pid");

	if (!l->only_one)
		return true;
	l->is_other |= l->pid &&
		       (!vt_json_is(pid, VT_JSON_INTEGER) || vt_json_integer(pid) != l->pid);
	return l->n_members == 1 && !l->is_other;
}

/* False: it is wrong, or is not wanted. */
static bool read_element(struct load *l, enum section section)
{
	const struct vt_json_value *from = vt_json_stream_part(&l->stream, NULL);

	l->n_members += section == MEMBERS;
	if (!from || is_stopped(l) || (section == MEMBERS && !is_wanted(l, from)))
		return false;
	if (sections[section].of_objects && !vt_json_is(from, VT_JSON_OBJECT))
		vt_json_in_wrong(&l->in, sections[section].key,
				 "has an element that is not an object");
	sections[section].load(l, from);
	return !is_stopped(l);
}

/* ---- what was seen before, byte for byte ---- */

/* Of one large document nothing is there twice. */
static bool is_worth_a_look(const struct load *l, enum section section)
{
	return l->unseen[section] < l->seen[section] + UNSEEN_ENOUGH && !is_stopped(l);
}

/* What was just added; stack: where it is in l->stacks. */
static bool keep_seen(const struct load *l, enum section section, size_t stack,
		      struct vt_seen *seen)
{
	switch (section) {
	case FRAMES:
		seen->frame = l->job->frames.data[l->job->frames.n - 1];
		return true;
	case STACKS:
		seen->stack.n = l->stacks.data[stack];
		if (seen->stack.n > VT_SEEN_FRAMES)
			return false;
		memcpy(seen->stack.frames, &l->stacks.data[stack + 1],
		       seen->stack.n * sizeof(*seen->stack.frames));
		return true;
	default:
		seen->doing = l->doings.data[l->doings.n - 1];
		return true;
	}
}

/* Reading it may move its bytes, so they are copied before. */
static void read_unseen(struct load *l, enum section section, const char *bytes, size_t n,
			uint64_t hash)
{
	struct vt_seen *seen = bytes ? vt_job_seen_add(l->job, sections[section].seen, hash, n) :
				       NULL;
	size_t cost = vt_json_stream_cost(&l->stream), stack = l->stacks.n;

	l->unseen[section]++;
	if (seen)
		memcpy(seen->bytes, bytes, n);
	if (read_element(l, section) && seen && keep_seen(l, section, stack, seen)) {
		seen->n = (uint32_t)n;
		seen->cost = (uint32_t)(vt_json_stream_cost(&l->stream) - cost);
	}
}

/* Where it is in the job is remembered when it is placed. */
static void learn(struct load *l, struct vt_seen *seen)
{
	struct learnt *added = l->learnt.n < MOST_LEARNT ? vt_vec_append(&l->learnt) : NULL;

	if (added)
		*added = (struct learnt){ .frame = l->frames.n, .seen = seen };
}

static void add_seen_frame(struct load *l, struct vt_seen *seen)
{
	if (seen->index != VT_NO_INDEX) {
		add_index(l, &l->frames, seen->index);
		return;
	}
	learn(l, seen);
	add_frame(l, &seen->frame);
}

static void add_seen(struct load *l, enum section section, struct vt_seen *seen)
{
	if (section == FRAMES)
		add_seen_frame(l, seen);
	else if (section == STACKS)
		add_stack(l, seen->stack.frames, seen->stack.n);
	else
		add_doing(l, &seen->doing);
}

/* What it was when the same bytes came behind the same ones before. */
static struct vt_seen *expected(struct load *l, enum section section)
{
	size_t n;
	const char *bytes = is_stopped(l) ? NULL : vt_json_stream_ahead(&l->stream, &n);

	return bytes ? vt_job_seen_next(l->job, sections[section].seen, bytes, n) : NULL;
}

static void read_common(struct load *l, enum section section)
{
	struct vt_seen *seen = expected(l, section);
	const char *bytes = NULL;
	size_t n = 0;
	uint64_t hash = 0;

	if (!seen && is_worth_a_look(l, section))
		bytes = vt_json_stream_flat(&l->stream, &n);
	if (bytes)
		seen = vt_job_seen_find(l->job, sections[section].seen, bytes, n, &hash);
	if (!seen) {
		read_unseen(l, section, bytes, n, hash);
		return;
	}
	l->seen[section]++;
	vt_json_stream_pass(&l->stream, seen->n, seen->cost);
	add_seen(l, section, seen);
}

/* ---- sections ---- */

/* The first thing wrong in it is kept, however its sections are ordered. */
static void read_section(struct load *l, enum section section)
{
	const struct vt_json_value *other;

	l->in.wrong[0] = '\0';
	if (vt_json_stream_enter(&l->stream, VT_JSON_ARRAY)) {
		while (vt_json_stream_next(&l->stream))
			if (section == MEMBERS)
				read_element(l, section);
			else
				read_common(l, section);
	} else {
		other = vt_json_stream_part(&l->stream, NULL);
		if (other && !vt_json_is(other, VT_JSON_NULL))
			vt_json_in_wrong(&l->in, sections[section].key, "is not an array");
	}
	memcpy(l->wrong[section], l->in.wrong, sizeof(l->in.wrong));
}

static void keep_part(struct load *l, const char *key)
{
	const struct vt_json_value *value = vt_json_stream_part(&l->stream, &l->kept);
	bool ok = value && vt_vec_reserve(&l->rest, l->rest.n + 2);

	if (ok) {
		l->rest.data[l->rest.n++] = (struct vt_json_value){ .text = key,
								    .n = (uint32_t)strlen(key),
								    .type = VT_JSON_STRING };
		l->rest.data[l->rest.n++] = *value;
	}
	l->in.nomem |= value && !ok;
}

static void read_part(struct load *l)
{
	static const char *const kept[] = { "schema", "schema_version", "tool_version",
					    "time",   "diagnostics",    "ras",
					    "usage" };

	for (unsigned int i = 0; i < N_SECTIONS; i++)
		if (!strcmp(l->stream.key, sections[i].key)) {
			read_section(l, (enum section)i);
			return;
		}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strcmp(l->stream.key, kept[i])) {
			keep_part(l, kept[i]);
			return;
		}
	vt_json_stream_skip(&l->stream); /* above all "found" */
}

static struct vt_error *read_parts(struct load *l)
{
	if (vt_json_stream_enter(&l->stream, VT_JSON_OBJECT))
		while (vt_json_stream_next(&l->stream))
			read_part(l);
	else
		vt_json_stream_skip(&l->stream);
	return vt_json_stream_end(&l->stream);
}

/* ---- the document's indices become the job's ---- */

static void check_index(struct load *l, uint32_t index, size_t n, const char *key)
{
	if (index >= n)
		vt_json_in_wrong(&l->in, key, "names what does not exist");
}

/* Returns how many there are. */
static size_t check_stacks(struct load *l)
{
	size_t stacks = 0, n;

	for (size_t at = 0; at < l->stacks.n; at += n, stacks++) {
		n = l->stacks.data[at++];
		for (size_t i = 0; i < n; i++)
			check_index(l, l->stacks.data[at + i], l->frames.n, "stacks");
	}
	return stacks;
}

static void check_member(struct load *l, const struct vt_member *member)
{
	for (size_t i = 0; i < member->threads.n; i++)
		check_index(l, member->threads.data[i].doing, l->doings.n, "threads_do");
}

/* What was wrong with a section comes behind what is wrong with the part of it that was read. */
static void add_wrong(struct load *l, enum section section)
{
	if (!l->in.wrong[0])
		memcpy(l->in.wrong, l->wrong[section], sizeof(l->in.wrong));
}

/* The first thing wrong is that of the order of sections. */
static void check_sections(struct load *l)
{
	size_t stacks;

	add_wrong(l, FRAMES);
	stacks = check_stacks(l);
	add_wrong(l, STACKS);
	for (size_t i = 0; i < l->doings.n; i++)
		check_index(l, l->doings.data[i].stack, stacks, "stack");
	add_wrong(l, DOINGS);
	for (size_t i = l->first_member; i < l->job->members.n; i++)
		check_member(l, &l->job->members.data[i]);
	add_wrong(l, MEMBERS);
}

/* They are in the job now, unless other bytes took their place. */
static void remember_places(struct load *l)
{
	for (size_t i = 0; i < l->learnt.n; i++) {
		struct vt_seen *seen = l->learnt.data[i].seen;
		uint32_t index = l->frames.data[l->learnt.data[i].frame];

		if (vt_job_same_frame(&seen->frame, &l->job->frames.data[index]))
			seen->index = index;
	}
}

static void place_frames(struct load *l)
{
	struct vt_job *job = l->job;
	size_t waiting = l->first_frame;

	/* Each moves towards the front, or is known and leaves its place to the next. */
	job->frames.n = l->first_frame;
	l->placed = true;
	for (size_t i = 0; i < l->frames.n && !is_stopped(l); i++)
		if (l->frames.data[i] == VT_NO_INDEX) {
			struct vt_job_frame frame = job->frames.data[waiting++];

			l->frames.data[i] = vt_job_intern_frame(job, &frame);
		}
	if (!is_stopped(l))
		remember_places(l);
}

/* This and the next one add to the job what the document has, and where that is to placed. */
static void place_stacks(struct load *l, struct indices *placed)
{
	size_t n;

	for (size_t at = 0; at < l->stacks.n && !is_stopped(l); at += n) {
		n = l->stacks.data[at++];
		for (size_t i = 0; i < n; i++)
			l->stacks.data[at + i] = l->frames.data[l->stacks.data[at + i]];
		add_index(l, placed, vt_job_intern_stack(l->job, &l->stacks.data[at], n));
	}
	vt_vec_deinit(&l->stacks);
	vt_vec_deinit(&l->frames);
}

static void place_doings(struct load *l, const struct indices *stacks, struct indices *placed)
{
	for (size_t i = 0; i < l->doings.n && !is_stopped(l); i++) {
		struct vt_job_doing *doing = &l->doings.data[i];

		doing->stack = stacks->data[doing->stack];
		add_index(l, placed, vt_job_intern_doing(l->job, doing));
	}
	vt_vec_deinit(&l->doings);
}

static void place_members(struct load *l, const struct indices *doings)
{
	for (size_t i = l->first_member; i < l->job->members.n && !is_stopped(l); i++) {
		struct vt_member *member = &l->job->members.data[i];

		for (size_t k = 0; k < member->threads.n; k++)
			member->threads.data[k].doing = doings->data[member->threads.data[k].doing];
	}
}

/* All of it was checked; but memory may be short. */
static void place_sections(struct load *l)
{
	struct indices stacks = { 0 }, doings = { 0 };

	place_frames(l);
	place_stacks(l, &stacks);
	place_doings(l, &stacks, &doings);
	vt_vec_deinit(&stacks);
	place_members(l, &doings);
	vt_vec_deinit(&doings);
}

/* ---- the whole job ---- */

static struct vt_error *load_root(struct load *l, const struct vt_json_value *root)
{
	if (l->in.nomem || l->job->failed)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	VT_TRY(check_schema(root));
	VT_TRY(check_members(l, root));
	l->in.wrong[0] = '\0';
	load_head(l, root);
	load_diags(l, root);
	vt_job_load_ras(l->job, &l->in, root, l->prefix);
	load_usages(l, root);
	check_sections(l);
	if (!is_stopped(l))
		place_sections(l);
	if (l->in.nomem || l->job->failed)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	if (l->in.wrong[0])
		return vt_error_create(VT_ERR_FORMAT,
				       "it is damaged, or not written by vramtap: %s", l->in.wrong);
	return NULL;
}

static struct vt_error *load_document(struct load *l)
{
	struct vt_json_value root = { .type = VT_JSON_OBJECT };

	VT_TRY(read_parts(l));
	root.parts = l->rest.data;
	root.n = (uint32_t)(l->rest.n / 2);
	return load_root(l, &root);
}

static void deinit(struct load *l)
{
	vt_json_stream_deinit(&l->stream);
	vt_arena_deinit(&l->kept);
	vt_vec_deinit(&l->rest);
	vt_vec_deinit(&l->frames);
	vt_vec_deinit(&l->learnt);
	vt_vec_deinit(&l->stacks);
	vt_vec_deinit(&l->doings);
}

/* The stream was begun; in any case it ends here. */
static struct vt_error *load(struct load *l)
{
	struct vt_job *job = l->job;
	size_t had = job->members.n, had_diags = job->diags.n, had_ras = job->ras.n,
	       had_usages = job->usages.n;
	const char *had_version = job->tool_version;
	struct timespec had_when = job->when;
	struct vt_error *err;

	l->in = (struct vt_json_in){ .values = &l->stream.part, .strings = &job->arena };
	l->first_member = had;
	l->first_frame = job->frames.n;
	err = load_document(l);
	deinit(l);
	/* All or nothing. */
	if (!l->placed)
		job->frames.n = l->first_frame;
	while (err && job->members.n > had)
		vt_member_deinit(&job->members.data[--job->members.n]);
	if (err) {
		vt_vec_trim(&job->members);
		vt_vec_trim(&job->frames);
	}
	while (err && job->ras.n > had_ras)
		vt_ras_deinit(&job->ras.data[--job->ras.n]);
	while (err && job->usages.n > had_usages)
		vt_job_usage_deinit(&job->usages.data[--job->usages.n]);
	if (err && job->diags.n > had_diags)
		job->diags.n = had_diags;
	if (err) {
		job->tool_version = had_version;
		job->when = had_when;
	}
	return err;
}

static struct vt_error *load_text(struct load *l, const char *text, size_t n)
{
	if (vt_json_stream_init_text(&l->stream, text, n))
		return load(l);
	deinit(l);
	return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
}

struct vt_error *vt_job_load_text(struct vt_job *job, const char *text, size_t n,
				  const char *prefix)
{
	struct load l = { .job = job, .prefix = prefix };

	return load_text(&l, text, n);
}

struct vt_error *vt_job_load_one(struct vt_job *job, const char *text, size_t n, pid_t pid)
{
	struct load l = { .job = job, .only_one = true, .pid = pid };

	return load_text(&l, text, n);
}

static struct vt_error *load_file(struct load *l, int fd)
{
	if (vt_json_stream_init_file(&l->stream, fd))
		return load(l);
	deinit(l);
	return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
}

struct vt_error *vt_job_load(struct vt_job *job, const char *path, const char *prefix)
{
	struct load l = { .job = job, .prefix = prefix };
	VT_CLOSE int fd = -1;
	struct vt_error *err;

	VT_TRY(vt_json_in_open_regular(path, &fd));
	err = load_file(&l, fd);
	return err ? vt_error_prefix(err, "%s", path) : NULL;
}
