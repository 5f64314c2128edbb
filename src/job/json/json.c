/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as JSON. Each frame, stack and doing occurs once and is referred to by its index: a thread
 * is its tid and the index of its doing. Sets of members are ranges of indices. vt_job_load_text()
 * ignores "found": it follows from the rest.
 */
#include <stdio.h>
#include <string.h>

#include "model/doing_json.h"
#include "model/faults_json.h"
#include "model/flight.h"
#include "model/usage_json.h"
#include "job/internal.h"
#include "json/out.h"
#include "job/lines.h"
#include "job/json/json.h"
#include "job/json/parts.h"
#include "job/ras/ras.h"

/* 0: it is not known when. */
static void put_time(struct vt_json *json, const char *key, const struct timespec *when)
{
	if (when->tv_sec)
		vt_json_time(json, key, when);
	else
		vt_json_null(json, key);
}

/* "device" would be its ordinal. */
const char *vt_job_kind_name(unsigned int kind)
{
	return kind == VT_RANGE_DEVICE ? "device_memory" : vt_range_kind_name(kind);
}

static void put_char(struct vt_json *json, const char *key, char c)
{
	vt_json_textn(json, key, &c, 1);
}

static void put_id(struct vt_json *json, const char *key, pid_t pid)
{
	vt_json_known(json, key, pid > 0 ? pid : -1);
}

/* ---- interned parts ---- */

static void put_frames(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "frames");
	for (size_t i = 0; i < job->frames.n; i++) {
		const struct vt_job_frame *f = &job->frames.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "kind", f->kind == VT_FRAME_PYTHON ? "python" : "native");
		vt_json_text(json, "function", f->function);
		if (f->file)
			vt_json_text(json, "file", f->file);
		if (f->line > 0)
			vt_json_int(json, "line", f->line);
		if (f->module)
			vt_json_text(json, "module", f->module);
		if (f->program)
			vt_json_bool(json, "program", true);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_indices(struct vt_json *json, const char *key, const uint32_t *indices, size_t n)
{
	vt_json_array_line(json, key);
	for (size_t i = 0; i < n; i++)
		vt_json_uint(json, NULL, indices[i]);
	vt_json_end_array(json);
}

static void put_stacks(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "stacks");
	for (size_t i = 0; i < job->stacks.n; i++)
		put_indices(json, NULL, job->stacks.data[i].frames, job->stacks.data[i].n);
	vt_json_end_array(json);
}

static void put_flag(struct vt_json *json, const char *key, bool value)
{
	if (value)
		vt_json_bool(json, key, true);
}

static void put_words(struct vt_json *json, const char *key, const char *text)
{
	if (text)
		vt_json_text(json, key, text);
}

static void put_doings(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "doings");
	for (size_t i = 0; i < job->doings.n; i++) {
		const struct vt_job_doing *d = &job->doings.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "name", d->name);
		vt_json_uint(json, "stack", d->stack);
		put_char(json, "state", d->state);
		put_flag(json, "main", d->is_main);
		put_flag(json, "idle", d->idle);
		put_flag(json, "python", d->has_python);
		put_flag(json, "deadlock", d->deadlock);
		if (d->gil >= 0)
			vt_json_bool(json, "gil", d->gil);
		vt_put_verdict(json, &d->verdict);
		vt_put_waits(json, &d->waits, VT_DETAIL_ALL);
		put_words(json, "waits_detail", d->waits.shared);
		if (d->waits.detail != d->waits.shared)
			put_words(json, "waits_own", d->waits.detail);
		put_words(json, "kernel", d->kernel);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* ---- members ---- */

static void put_label(struct vt_json *json, const struct vt_label *l)
{
	vt_json_name(json, "host", l->host);
	vt_json_name(json, "system", l->system);
	vt_json_int(json, "pid", l->pid);
	vt_json_known(json, "start_ticks", l->start_ticks ? (int64_t)l->start_ticks : -1);
	put_id(json, "parent", l->ppid);
	vt_json_name(json, "name", l->name);
	vt_json_name(json, "command_line", l->command);
	vt_json_text(json, "role", vt_role_name(l->role));
	vt_json_known(json, "rank", l->rank);
	vt_json_known(json, "local_rank", l->local_rank);
	vt_json_known(json, "world_size", l->world_size);
	vt_json_known(json, "local_world_size", l->local_world_size > 0 ? l->local_world_size : -1);
	vt_json_known(json, "worker", l->worker);
	put_id(json, "of", l->of);
	vt_json_name(json, "container", l->container);
	vt_json_name(json, "pod", l->pod);
	vt_json_name(json, "job", l->job);
	put_words(json, "visible_devices", l->visible);
	vt_json_bool(json, "in_job", l->in_job);
}

/* What follows from it and the kernel driver's count is there for readers. */
static void put_ledger(struct vt_json *json, const struct vt_job_memory *memory)
{
	uint64_t found = vt_job_memory_found(memory);

	if (memory->ledger_known) {
		vt_json_object(json, "ledger");
		for (unsigned int i = 0; i < VT_N_CLAIMERS; i++)
			vt_json_uint(json, vt_claimer_name(i), memory->claimed[i]);
		for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
			vt_json_uint(json, vt_job_kind_name(kind), memory->kinds[kind]);
		vt_json_end_object(json);
	}
	if (!memory->counted)
		return;
	vt_json_uint(json, "counted_bytes", memory->counted_bytes);
	if (memory->ledger_known && memory->counted_bytes >= found)
		vt_json_uint(json, "rest_bytes", memory->counted_bytes - found);
	if (memory->known && memory->counted_bytes >= memory->reserved)
		vt_json_uint(json, "not_pytorch_bytes", memory->counted_bytes - memory->reserved);
}

static void put_memory(struct vt_json *json, const struct vt_member *m)
{
	vt_json_array(json, "memory");
	for (size_t i = 0; i < m->memory.n; i++) {
		const struct vt_job_memory *memory = &m->memory.data[i];

		vt_json_object_line(json, NULL);
		vt_json_int(json, "ordinal", memory->ordinal);
		vt_json_name(json, "uuid", memory->uuid);
		if (memory->known) {
			vt_json_uint(json, "reserved_bytes", memory->reserved);
			vt_json_uint(json, "allocated_bytes", memory->allocated);
			vt_json_uint(json, "cached_bytes", memory->cached);
		}
		if (memory->device_known) {
			vt_json_uint(json, "device_total_bytes", memory->total);
			vt_json_uint(json, "device_free_bytes", memory->free_bytes);
		}
		put_ledger(json, memory);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_sites(struct vt_json *json, const struct vt_member *m)
{
	vt_json_array(json, "sites");
	for (size_t i = 0; i < m->sites.n; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "title", m->sites.data[i].title);
		vt_json_uint(json, "bytes", m->sites.data[i].bytes);
		vt_json_uint(json, "blocks", m->sites.data[i].blocks);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* Nothing if they were not looked for. */
static void put_owners(struct vt_json *json, const struct vt_job_owners *owners)
{
	if (owners->state == VT_OWNERS_OFF)
		return;
	vt_json_object(json, "owners");
	vt_json_text(json, "state", vt_owners_state_name(owners->state));
	if (owners->state == VT_OWNERS_READ) {
		vt_json_bool(json, "ran", owners->ran);
		vt_json_bool(json, "whole", owners->whole);
		vt_json_object_line(json, "bytes");
		for (size_t i = 0; i < VT_N_CATEGORIES; i++)
			if (owners->bytes[i])
				vt_json_uint(json, vt_category_code((enum vt_category)i),
					     owners->bytes[i]);
		vt_json_end_object(json);
	}
	vt_json_end_object(json);
}

static void put_requests(struct vt_json *json, const struct vt_job_requests *r)
{
	vt_json_object_line(json, "requests");
	if (r->known) {
		vt_json_uint(json, "retries", r->retries);
		vt_json_uint(json, "failed", r->failed);
	}
	if (r->last_failed)
		vt_json_uint(json, "last_failed_bytes", r->last_failed);
	vt_json_bool(json, "waits", r->waits);
	vt_json_end_object(json);
}

static void put_lost(struct vt_json *json, const struct vt_member *m)
{
	if (m->lost == VT_CONTEXT_NOT_LOST)
		return;
	vt_json_text(json, "context_lost", vt_context_lost_name(m->lost));
	vt_json_known(json, "context_lost_by", m->lost_by ? (int64_t)m->lost_by : -1);
}

static void put_threads(struct vt_json *json, const struct vt_member *m)
{
	vt_json_array_line(json, "threads");
	for (size_t i = 0; i < m->threads.n; i++)
		vt_json_int(json, NULL, m->threads.data[i].tid);
	vt_json_end_array(json);
	vt_json_array_line(json, "threads_do");
	for (size_t i = 0; i < m->threads.n; i++)
		vt_json_uint(json, NULL, m->threads.data[i].doing);
	vt_json_end_array(json);
}

static void put_member(struct vt_json *json, const struct vt_member *m)
{
	vt_json_object(json, NULL);
	put_label(json, &m->label);
	vt_json_text(json, "report", m->file);
	vt_json_text(json, "core", m->core);
	vt_json_text(json, "completeness", vt_completeness_name(m->completeness));
	vt_json_text(json, "error", m->error);
	vt_json_text(json, "missing", m->diag);
	vt_json_text(json, "headline", m->headline);
	vt_json_milli(json, "total_ms", m->total_ms);
	vt_json_milli(json, "stopped_ms", m->stopped_ms);
	if (m->have_moment) {
		vt_json_uint(json, "stopped_at_ns", m->stopped_ns);
		vt_json_uint(json, "released_at_ns", m->released_ns);
	}
	put_char(json, "process_state", m->process_state);
	if (m->moved >= 0)
		vt_json_bool(json, "moved", m->moved);
	put_id(json, "tracer", m->tracer);
	vt_json_name(json, "tracer_name", m->tracer_name);
	put_memory(json, m);
	put_requests(json, &m->requests);
	put_sites(json, m);
	put_owners(json, &m->owners);
	vt_flight_put(json, &m->collectives);
	vt_job_put_kernels(json, &m->kernels);
	put_lost(json, m);
	put_threads(json, m);
	vt_json_text(json, "does", vt_job_state_name(m->state));
	vt_json_text(json, "operation", m->operation);
	vt_json_bool(json, "outlier", m->outlier);
	vt_json_end_object(json);
}

static void put_members(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "members");
	for (size_t i = 0; i < job->members.n; i++)
		put_member(json, &job->members.data[i]);
	vt_json_end_array(json);
}

static void put_diags(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "diagnostics");
	for (size_t i = 0; i < job->diags.n; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "level",
			     job->diags.data[i].level == VT_DIAG_MISSING ? "missing" : "note");
		vt_json_text(json, "code", job->diags.data[i].code);
		vt_json_text(json, "text", job->diags.data[i].text);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_usages(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "usage");
	for (size_t i = 0; i < job->usages.n; i++) {
		vt_json_object(json, NULL);
		vt_json_name(json, "host", job->usages.data[i].host);
		vt_json_name(json, "system", job->usages.data[i].system);
		vt_usage_put(json, "usage", &job->usages.data[i].usage);
		vt_faults_put_log(json, "faults", &job->usages.data[i].faults);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* ---- findings ---- */

static void put_verdicts(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "verdicts");
	for (size_t i = 0; i < job->verdicts.n; i++) {
		const struct vt_job_verdict *v = &job->verdicts.data[i];

		vt_json_object(json, NULL);
		vt_json_text(json, "code", vt_finding_name(v->code));
		vt_json_bool(json, "alarm", v->alarm);
		vt_json_text(json, "text", v->text);
		vt_job_put_set(json, "members", &v->members);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_tree(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "tree");
	for (size_t i = 0; i < job->tree.n; i++) {
		const struct vt_job_node *node = &job->tree.data[i];

		vt_json_object(json, NULL);
		vt_json_text(json, "role", vt_role_name(node->role));
		vt_json_bool(json, "main_threads", node->of_main);
		vt_json_known(json, "parent",
			      node->parent == VT_NO_NODE ? -1 : (int64_t)node->parent);
		put_indices(json, "frames", node->frames, node->n_frames);
		vt_json_text(json, "does", node->does);
		vt_job_put_set(json, "members", &node->members);
		vt_json_uint(json, "threads", node->threads);
		vt_json_bool(json, "outlier", node->outlier);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* What each holder has, in their order. */
static void put_counted(struct vt_json *json, const struct vt_job_device *d)
{
	if (!d->gpu)
		return;
	vt_json_array_line(json, "holders_bytes");
	for (size_t i = 0; i < d->holders.n; i++)
		if (d->held[i].counted)
			vt_json_uint(json, NULL, d->held[i].bytes);
		else
			vt_json_null(json, NULL);
	vt_json_end_array(json);
}

static void put_devices(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "devices");
	for (size_t i = 0; i < job->devices.n; i++) {
		const struct vt_job_device *d = &job->devices.data[i];

		vt_json_object(json, NULL);
		vt_json_name(json, "host", d->host);
		vt_json_text(json, "name", d->name);
		vt_json_known(json, "ordinal", d->ordinal);
		vt_json_name(json, "uuid", d->uuid);
		put_flag(json, "assumed", d->assumed);
		if (d->known) {
			vt_json_uint(json, "total_bytes", d->total);
			vt_json_uint(json, "free_bytes", d->free_bytes);
			vt_json_uint(json, "outside_bytes", d->outside);
		}
		if (d->gpu && d->gpu->rest_known)
			vt_json_int(json, "no_process_bytes", d->gpu->rest_bytes);
		/* their order tells */
		put_indices(json, "holders", d->holders.members, d->holders.n);
		put_counted(json, d);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_found(struct vt_json *json, const struct vt_job *job)
{
	vt_json_object(json, "found");
	vt_json_text(json, "completeness", vt_completeness_name(job->completeness));
	if (job->skew_ms >= 0)
		vt_json_milli(json, "skew_ms", job->skew_ms);
	else
		vt_json_null(json, "skew_ms");
	vt_job_put_chains(json, job);
	put_verdicts(json, job);
	put_devices(json, job);
	vt_job_put_faults(json, job);
	put_tree(json, job);
	vt_json_end_object(json);
}

struct vt_error *vt_write_job_json(const void *what, const struct vt_writer_options *options,
				   FILE *out)
{
	const struct vt_job *job = what;
	struct vt_json json;

	vt_json_init(&json, out);
	json.compact = options->compact;
	vt_json_object(&json, NULL);
	vt_json_text(&json, "schema", VT_JOB_SCHEMA);
	vt_json_int(&json, "schema_version", VT_JOB_SCHEMA_VERSION);
	vt_json_name(&json, "tool_version", job->tool_version);
	put_time(&json, "time", &job->when);
	put_found(&json, job);
	put_diags(&json, job);
	vt_job_put_ras(&json, job);
	put_usages(&json, job);
	put_members(&json, job);
	put_doings(&json, job);
	put_stacks(&json, job);
	put_frames(&json, job);
	vt_json_end_object(&json);
	return vt_json_finish(&json);
}
