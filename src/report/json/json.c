/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for machines. doc/report.schema.json describes every field; a test holds the two
 * together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/doing_json.h"
#include "model/flight.h"
#include "model/faults_json.h"
#include "model/usage_json.h"
#include "json/out.h"
#include "report/json/allocator.h"
#include "report/json/amount.h"
#include "report/json/advice.h"
#include "report/json/ledger.h"
#include "report/json/again.h"
#include "report/json/growth.h"
#include "report/json/host.h"
#include "report/json/jax.h"
#include "report/json/kernels.h"
#include "report/json/streams.h"
#include "report/json/libpools.h"
#include "report/json/owners.h"
#include "report/json/recorder.h"
#include "report/json/report.h"
#include "report/json/where.h"
#include "model/model.h"
#include "report/state_words.h"
#include "report/writer.h"

#define STACKS_SCHEMA "vramtap-stacks"

static void put_state(struct vt_json *json, const char *key, char state)
{
	vt_json_textn(json, key, state ? &state : "?", 1);
}

/* ---- the head ---- */

static void write_process(struct vt_json *json, const struct vt_model_process *p,
			  const struct vt_model_around *around)
{
	vt_json_object(json, "process");
	vt_json_int(json, "pid", p->pid);
	vt_json_name(json, "name", p->name);
	vt_json_name(json, "command_line", p->cmdline);
	vt_json_name(json, "executable", p->exe);
	vt_json_name(json, "user", p->user);
	vt_json_uint(json, "uid", p->uid);
	vt_json_known(json, "own_pid", p->ns_pid > 0 ? p->ns_pid : -1);
	vt_json_name(json, "container", p->container);
	vt_json_name(json, "pod", p->pod);
	vt_json_name(json, "job", p->job);
	vt_json_milli(json, "uptime_s", p->uptime_s);
	vt_json_int(json, "threads", p->n_threads);
	put_state(json, "state", p->state);
	if (p->tracer > 0) {
		vt_json_object_line(json, "tracer");
		vt_json_int(json, "pid", p->tracer);
		vt_json_name(json, "name", p->tracer_name);
		vt_json_end_object(json);
	} else {
		vt_json_null(json, "tracer");
	}
	vt_json_known(json, "rank", p->rank);
	vt_json_known(json, "local_rank", p->local_rank);
	vt_json_known(json, "world_size", p->world_size);
	vt_json_bool(json, "uses_cuda", p->uses_cuda);
	vt_json_around(json, around);
	vt_json_end_object(json);
}

static void write_signal(struct vt_json *json, const struct vt_model_core *core)
{
	if (!core->signal) {
		vt_json_null(json, "signal");
		return;
	}
	vt_json_object_line(json, "signal");
	vt_json_int(json, "number", core->signal);
	vt_json_text(json, "name", core->signal_name);
	vt_json_bool(json, "killed", core->killed);
	vt_json_int(json, "tid", core->signal_tid);
	if (core->have_address)
		vt_json_hex(json, "address", core->address);
	else
		vt_json_null(json, "address");
	vt_json_end_object(json);
}

static void write_core(struct vt_json *json, const struct vt_model_core *core)
{
	vt_json_text(json, "origin", core->path ? "core" : "process");
	if (!core->path) {
		vt_json_null(json, "core");
		return;
	}
	vt_json_object(json, "core");
	vt_json_text(json, "path", core->path);
	vt_json_uint(json, "size_bytes", core->size);
	vt_json_uint(json, "missing_bytes", core->missing_bytes);
	vt_json_uint(json, "read_bytes", core->read_bytes);
	write_signal(json, core);
	vt_json_end_object(json);
}

static void put_cuda_version(struct vt_json *json, const char *key, int version)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
	vt_json_text(json, key, version > 0 ? text : NULL);
}

static void write_versions(struct vt_json *json, const struct vt_model_versions *v)
{
	vt_json_object(json, "versions");
	vt_json_name(json, "pytorch", v->torch);
	vt_json_name(json, "pytorch_layout", v->torch_layout);
	if (v->torch_layout_unknown || (v->torch_layout && *v->torch_layout))
		vt_json_bool(json, "pytorch_layout_known", !v->torch_layout_unknown);
	else
		vt_json_null(json, "pytorch_layout_known");
	vt_json_name(json, "cpython", v->python);
	vt_json_bool(json, "cpython_free_threaded", v->python_free_threaded);
	vt_json_name(json, "driver", v->driver);
	put_cuda_version(json, "cuda_driver", v->cuda_driver);
	put_cuda_version(json, "cuda_runtime", v->cuda_runtime);
	vt_json_end_object(json);
}

static void write_timing(struct vt_json *json, const struct vt_model_timing *t)
{
	vt_json_object(json, "timing");
	vt_json_milli(json, "total_ms", t->total_ms);
	vt_json_milli(json, "attach_ms", t->attach_ms);
	vt_json_milli(json, "borrowed_us", t->borrowed_us);
	if (t->borrowed_tid > 0)
		vt_json_int(json, "borrowed_tid", t->borrowed_tid);
	else
		vt_json_null(json, "borrowed_tid");
	vt_json_milli(json, "walk_ms", t->walk_ms);
	vt_json_milli(json, "blocks_read_ms", t->blocks_read_ms);
	vt_json_milli(json, "blocks_stopped_ms", t->blocks_stopped_ms);
	vt_json_milli(json, "gil_wait_ms", t->gil_wait_ms);
	vt_json_milli(json, "gil_held_ms", t->gil_held_ms);
	vt_json_milli(json, "stopped_ms", t->stopped_ms);
	vt_json_milli(json, "stacks_ms", t->stacks_ms);
	vt_json_milli(json, "owners_ms", t->owners_ms);
	vt_json_end_object(json);
}

static void write_diags(struct vt_json *json, const struct vt_model *model)
{
	vt_json_array(json, "diagnostics");
	for (size_t i = 0; i < model->diags.n; i++) {
		const struct vt_diag *d = &model->diags.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "level", d->level == VT_DIAG_MISSING ? "missing" : "note");
		vt_json_text(json, "stage", vt_stage_name(d->stage));
		vt_json_text(json, "code", d->code);
		vt_json_text(json, "text", d->text);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* ---- devices ---- */

/* As nvidia-smi prints it. */
static void put_uuid(struct vt_json *json, const char *key, const uint8_t uuid[16])
{
	char text[48] = "GPU-", *p = text + 4;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		p += snprintf(p, 3, "%02x", uuid[i]);
	}
	vt_json_text(json, key, text);
}

static void write_pools(struct vt_json *json, const struct vt_model_device *d)
{
	if (!d->pools_known) {
		vt_json_null(json, "memory_pools");
		return;
	}
	vt_json_array(json, "memory_pools");
	for (size_t i = 0; i < d->n_pools; i++) {
		const struct vt_model_pool *pool = &d->pools[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "kind", pool->is_current ? "current" : "default");
		vt_json_uint(json, "reserved_bytes", pool->reserved_bytes);
		vt_json_uint(json, "reserved_high_bytes", pool->reserved_high_bytes);
		vt_json_uint(json, "used_bytes", pool->used_bytes);
		vt_json_uint(json, "used_high_bytes", pool->used_high_bytes);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_device(struct vt_json *json, const struct vt_model_device *d)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "ordinal", d->ordinal);
	vt_json_name(json, "name", d->name);
	if (d->have_uuid)
		put_uuid(json, "uuid", d->uuid);
	else
		vt_json_null(json, "uuid");
	vt_json_bool(json, "context_active", d->context_active);
	if (d->context)
		vt_json_hex(json, "context", d->context);
	else
		vt_json_null(json, "context");
	if (d->have_memory) {
		vt_json_object_line(json, "memory");
		vt_json_text(json, "from", d->memory_from);
		vt_json_uint(json, "total_bytes", d->total_bytes);
		vt_json_uint(json, "free_bytes", d->free_bytes);
		vt_json_uint(json, "used_bytes", d->used_bytes);
		vt_json_end_object(json);
	} else {
		vt_json_null(json, "memory");
	}
	vt_json_name(json, "why_no_memory", d->have_memory ? NULL : d->why_no_memory);
	write_pools(json, d);
	if (d->context_threads_known) {
		vt_json_array_line(json, "context_threads");
		for (size_t i = 0; i < d->context_threads.n; i++)
			vt_json_int(json, NULL, d->context_threads.data[i]);
		vt_json_end_array(json);
	} else {
		vt_json_null(json, "context_threads");
	}
	vt_json_end_object(json);
}

static void write_cuda(struct vt_json *json, const struct vt_model *model)
{
	vt_json_object(json, "cuda");
	vt_json_text(json, "method", vt_method_name(model->cuda_method));
	vt_json_array(json, "devices");
	for (size_t i = 0; i < model->devices.n; i++)
		write_device(json, &model->devices.data[i]);
	vt_json_end_array(json);
	vt_usage_put(json, "usage", &model->usage);
	vt_json_end_object(json);
}

/* ---- pinned host memory ---- */

static void put_allocator_state(struct vt_json *json, enum vt_allocator_state state)
{
	vt_json_text(json, "state", vt_allocator_state_words(state));
	vt_json_text(json, "state_code", vt_allocator_state_code(state));
}

static void write_pinned_totals(struct vt_json *json, const struct vt_model_pinned *p)
{
	if (!p->exact) {
		vt_json_null(json, "totals");
		return;
	}
	vt_json_object(json, "totals");
	vt_json_amount(json, "allocated", p->states[VT_BLOCK_ALLOCATED].bytes,
		       p->states[VT_BLOCK_ALLOCATED].blocks);
	vt_json_amount(json, "awaiting_free", p->states[VT_BLOCK_AWAITING_FREE].bytes,
		       p->states[VT_BLOCK_AWAITING_FREE].blocks);
	vt_json_amount(json, "cached", p->states[VT_BLOCK_CACHED].bytes,
		       p->states[VT_BLOCK_CACHED].blocks);
	vt_json_uint(json, "largest_cached_bytes", p->largest_cached);
	vt_json_amount(json, "private_pools", p->private_pools.bytes, p->private_pools.blocks);
	vt_json_end_object(json);
}

static void write_pinned_block(struct vt_json *json, const struct vt_pinned_block *b)
{
	char id[32];

	snprintf(id, sizeof(id), "%" PRIu32 ":%" PRIu32, (uint32_t)(b->pool >> 32),
		 (uint32_t)b->pool);
	vt_json_object_line(json, NULL);
	vt_json_hex(json, "address", b->addr);
	vt_json_uint(json, "bytes", b->size);
	vt_json_text(json, "state", vt_block_state_name(b->state));
	vt_json_uint(json, "events", b->events);
	vt_json_uint(json, "streams", b->streams);
	vt_json_text(json, "private_pool", b->private_pool ? id : NULL);
	vt_json_hex(json, "object", b->object);
	vt_json_end_object(json);
}

/* The details of an allocator that was found. */
static void write_pinned_result(struct vt_json *json, const struct vt_model_pinned *p)
{
	vt_json_text(json, "result", vt_walk_result_name(p->result));
	vt_json_name(json, "why", p->why);
	vt_json_hex(json, "object", p->object);
	if (p->owner_tid > 0)
		vt_json_int(json, "lock_owner_tid", p->owner_tid);
	else
		vt_json_null(json, "lock_owner_tid");
	if (p->counted)
		vt_json_bool(json, "own_totals_agree", true);
	else
		vt_json_null(json, "own_totals_agree");
	vt_json_milli(json, "read_ms", p->read_ms);
}

static void write_no_pinned(struct vt_json *json)
{
	static const char *const keys[] = { "result",           "why",
					    "object",           "lock_owner_tid",
					    "own_totals_agree", "read_ms" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		vt_json_null(json, keys[i]);
}

static void write_pinned(struct vt_json *json, const struct vt_model_pinned *p)
{
	vt_json_object(json, "pinned_host_memory");
	put_allocator_state(json, p->state);
	if (p->object)
		write_pinned_result(json, p);
	else
		write_no_pinned(json);
	if (p->sum_known)
		vt_json_amount(json, "all", p->total.bytes, p->total.blocks);
	else
		vt_json_null(json, "all");
	write_pinned_totals(json, p);
	vt_json_array(json, "blocks");
	for (size_t i = 0; i < p->n_blocks; i++)
		write_pinned_block(json, &p->blocks[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

/* ---- threads ---- */

static void write_locals(struct vt_json *json, const struct vt_model_frame *f)
{
	if (!f->locals) {
		vt_json_null(json, "locals");
		return;
	}
	vt_json_object_line(json, "locals");
	vt_json_bool(json, "cut", f->locals_cut);
	vt_json_array_line(json, "variables");
	for (size_t i = 0; i < f->n_locals; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "name", f->locals[i].name);
		vt_json_text(json, "value", f->locals[i].value);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_frame(struct vt_json *json, const struct vt_model_frame *f)
{
	bool python = f->kind == VT_FRAME_PYTHON;

	vt_json_object_line(json, NULL);
	vt_json_text(json, "kind", python ? "python" : "native");
	vt_json_name(json, "function", f->function);
	vt_json_name(json, "file", f->file);
	if (f->line > 0)
		vt_json_int(json, "line", f->line);
	else
		vt_json_null(json, "line");
	if (python) {
		vt_json_bool(json, "program", vt_model_is_program(f));
		write_locals(json, f);
	} else {
		vt_json_bool(json, "telling", vt_model_is_telling(f));
		vt_json_bool(json, "inlined", f->inlined);
		vt_json_name(json, "module", f->module);
		vt_json_name(json, "build_id", f->build_id);
		vt_json_hex(json, "pc", f->pc);
		if (f->module)
			vt_json_hex(json, "module_offset", f->module_offset);
		else
			vt_json_null(json, "module_offset");
	}
	vt_json_end_object(json);
}

static void write_stack(struct vt_json *json, const struct vt_model_stack *s)
{
	vt_json_object(json, "stack");
	vt_json_bool(json, "truncated", s->truncated);
	vt_json_bool(json, "merge_uncertain", s->merge_uncertain);
	vt_json_name(json, "why", s->why);
	vt_json_array(json, "frames");
	for (size_t i = 0; i < s->n_frames; i++)
		write_frame(json, &s->frames[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_thread(struct vt_json *json, const struct vt_model *model,
			 const struct vt_model_thread *t)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "tid", t->tid);
	vt_json_name(json, "name", t->name);
	put_state(json, "state", t->state);
	vt_json_known(json, "cpu", t->cpu);
	vt_json_bool(json, "main", t->is_main);
	vt_json_text(json, "taken", vt_taken_name(t->taken));
	vt_json_bool(json, "python", t->has_python);
	if (t->gil < 0)
		vt_json_null(json, "holds_gil");
	else
		vt_json_bool(json, "holds_gil", t->gil == 1);
	vt_json_bool(json, "idle", t->idle);
	vt_json_name(json, "wchan", t->wchan);
	if (t->n_kernel) {
		vt_json_array_line(json, "kernel_stack");
		for (size_t i = 0; i < t->n_kernel; i++)
			vt_json_text(json, NULL, t->kernel[i]);
		vt_json_end_array(json);
	} else {
		vt_json_null(json, "kernel_stack");
	}
	vt_json_name(json, "syscall", t->syscall);
	vt_put_waits(json, &t->waits, VT_DETAIL_ALL);
	if (!t->waits.code) {
		vt_json_null(json, "waits");
		vt_json_null(json, "waits_code");
	}
	if (t->waits_for > 0)
		vt_json_int(json, "waits_for_tid", t->waits_for);
	else
		vt_json_null(json, "waits_for_tid");
	if (t->waits_address)
		vt_json_hex(json, "waits_address", t->waits_address);
	else
		vt_json_null(json, "waits_address");
	vt_json_bool(json, "deadlock", t->deadlock);
	vt_put_verdict(json, &t->verdict);
	if (!t->verdict.code) {
		vt_json_null(json, "verdict");
		vt_json_null(json, "verdict_code");
	}
	if (t->group < model->thread_groups.n)
		vt_json_uint(json, "group", t->group);
	else
		vt_json_null(json, "group");
	write_stack(json, &t->stack);
	vt_json_end_object(json);
}

static void write_task(struct vt_json *json, const struct vt_model_task *t)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "name", t->name);
	vt_json_text(json, "state", vt_task_state_name(t->state));
	if (t->tid > 0)
		vt_json_int(json, "tid", t->tid);
	else
		vt_json_null(json, "tid");
	vt_json_name(json, "awaits", t->awaits);
	vt_json_array_line(json, "waits_for");
	for (size_t i = 0; i < t->n_waits_for; i++)
		vt_json_uint(json, NULL, t->waits_for[i]);
	vt_json_end_array(json);
	write_stack(json, &t->stack);
	vt_json_end_object(json);
}

static void write_tasks(struct vt_json *json, const struct vt_model_tasks *tasks)
{
	if (!tasks->used) {
		vt_json_null(json, "tasks");
		return;
	}
	vt_json_object(json, "tasks");
	vt_json_name(json, "why", tasks->why);
	vt_json_bool(json, "exact", tasks->exact);
	vt_json_bool(json, "cut", tasks->cut);
	vt_json_array(json, "tasks");
	for (size_t i = 0; i < tasks->tasks.n; i++)
		write_task(json, &tasks->tasks.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_threads(struct vt_json *json, const struct vt_model *model)
{
	vt_json_text(json, "view", vt_view_name(model->view));
	vt_json_bool(json, "stacks_coherent", model->stacks_coherent);
	vt_json_text(json, "gil",
		     vt_model_gil_holder(model)  ? "held" :
		     vt_model_gil_is_free(model) ? "free" :
						   NULL);
	vt_json_array(json, "threads");
	for (size_t i = 0; i < model->threads.n; i++)
		write_thread(json, model, &model->threads.data[i]);
	vt_json_end_array(json);
}

static void write_thread_groups(struct vt_json *json, const struct vt_model *model)
{
	vt_json_array(json, "thread_groups");
	for (size_t i = 0; i < model->thread_groups.n; i++) {
		const struct vt_model_thread_group *g = &model->thread_groups.data[i];

		vt_json_object_line(json, NULL);
		vt_json_bool(json, "idle", g->idle);
		vt_json_array_line(json, "tids");
		for (size_t t = g->first_thread; t != VT_NO_THREAD;
		     t = model->threads.data[t].next_in_group)
			vt_json_int(json, NULL, model->threads.data[t].tid);
		vt_json_end_array(json);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

/* ---- recorded backtraces ---- */

static void write_trace(struct vt_json *json, const struct vt_model_trace *t)
{
	vt_json_object_line(json, NULL);
	vt_json_text(json, "source", vt_trace_source_name(t->source));
	vt_json_amount_and_largest(json, t->bytes, t->blocks, t->largest);
	vt_json_ages(json, &t->ages);
	if (t->title < t->n_frames)
		vt_json_uint(json, "title", t->frames[t->title]);
	else
		vt_json_null(json, "title");
	vt_json_bool(json, "merge_uncertain", t->merge_uncertain);
	vt_json_bool(json, "python_cut", t->python_cut);
	vt_json_bool(json, "native_cut", t->native_cut);
	vt_json_bool(json, "native_guess", t->native_guess);
	vt_json_array_line(json, "frames");
	for (size_t i = 0; i < t->n_frames; i++)
		vt_json_uint(json, NULL, t->frames[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_site(struct vt_json *json, const struct vt_model *model,
		       const struct vt_model_site *site)
{
	vt_json_object_line(json, NULL);
	vt_json_amount_and_largest(json, site->bytes, site->blocks, site->largest);
	vt_json_ages(json, &site->ages);
	if (site->title)
		vt_json_uint(json, "title", (uint64_t)(site->title - model->trace_frames));
	else
		vt_json_null(json, "title");
	vt_json_array_line(json, "backtraces");
	for (size_t t = site->first_trace; t != VT_NO_TRACE; t = model->traces.data[t].next_in_site)
		vt_json_uint(json, NULL, t);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_backtraces(struct vt_json *json, const struct vt_model *model)
{
	if (!model->block_traces) {
		vt_json_null(json, "recorded");
		return;
	}
	vt_json_object(json, "recorded");
	vt_json_array(json, "sites");
	for (size_t i = 0; i < model->sites.n; i++)
		write_site(json, model, &model->sites.data[i]);
	vt_json_end_array(json);
	vt_json_object(json, "without");
	for (size_t i = 0; i < VT_N_UNTRACED; i++)
		vt_json_amount(json, vt_json_untraced_key((enum vt_untraced)i),
			       model->untraced[i].bytes, model->untraced[i].blocks);
	vt_json_end_object(json);
	vt_json_array(json, "backtraces");
	for (size_t i = 0; i < model->traces.n; i++)
		write_trace(json, &model->traces.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "frames");
	for (size_t i = 0; i < model->n_trace_frames; i++)
		write_frame(json, &model->trace_frames[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_torch(struct vt_json *json, const struct vt_model *model,
			const struct vt_json_blocks *blocks)
{
	vt_json_object(json, "pytorch");
	vt_json_text(json, "method", vt_method_name(model->torch_method));
	put_allocator_state(json, model->torch_state);
	vt_json_array(json, "allocators");
	for (size_t i = 0; i < model->allocators.n; i++)
		vt_json_allocator(json, model, &model->allocators.data[i], blocks);
	vt_json_end_array(json);
	write_pinned(json, &model->pinned);
	write_backtraces(json, model);
	vt_flight_put(json, &model->collectives);
	vt_json_end_object(json);
}

/* ---- the event that the report was made for ---- */

static void write_caught(struct vt_json *json, const struct vt_model_caught *c)
{
	if (!c->first) {
		vt_json_null(json, "caught");
		return;
	}
	vt_json_object(json, "caught");
	vt_json_uint(json, "first", c->first);
	vt_json_uint(json, "last", c->last);
	vt_json_text(json, "verdict", vt_oom_verdict_name(c->verdict));
	vt_json_uint(json, "needed_bytes", c->needed_bytes);
	vt_json_uint(json, "segment_bytes", c->segment_bytes);
	vt_json_object_line(json, "holes");
	vt_json_amount_and_largest(json, c->holes.bytes, c->holes.blocks, c->largest_hole);
	vt_json_uint(json, "segments", c->hole_segments);
	vt_json_hex(json, "largest_stream", c->largest_hole_stream);
	vt_json_end_object(json);
	vt_json_uint(json, "held_bytes", c->held_bytes);
	if (c->others_known)
		vt_json_uint(json, "others_bytes", c->others_bytes);
	else
		vt_json_null(json, "others_bytes");
	if (c->limit_bytes)
		vt_json_uint(json, "limit_bytes", c->limit_bytes);
	else
		vt_json_null(json, "limit_bytes");
	vt_json_text(json, "message", c->message);
	vt_json_end_object(json);
}

static void begin_document(struct vt_json *json, const char *schema, const char *tool_version,
			   const struct timespec *when)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "schema", schema);
	vt_json_uint(json, "schema_version", VT_REPORT_SCHEMA_VERSION);
	vt_json_name(json, "tool_version", tool_version);
	vt_json_time(json, "time", when);
}

/* What every document has about a process. */
static void write_summary(struct vt_json *json, const struct vt_model *model)
{
	vt_json_where(json, &model->where);
	vt_json_text(json, "completeness", vt_completeness_name(model->completeness));
	vt_json_headlines(json, model->headlines.data, model->headlines.n);
	vt_json_advice(json, model);
	write_diags(json, model);
	write_core(json, &model->core);
	vt_json_text(json, "held_by", model->held_by);
	write_process(json, &model->process, &model->around);
	write_versions(json, &model->versions);
	write_timing(json, &model->timing);
}

void vt_json_report(struct vt_json *json, const struct vt_model *model,
		    const struct vt_writer_options *options, const struct vt_json_blocks *blocks)
{
	begin_document(json, VT_REPORT_SCHEMA, model->tool_version, &model->when);
	write_summary(json, model);
	write_cuda(json, model);
	vt_faults_put(json, "faults", model);
	vt_json_libpools(json, model);
	vt_json_jax(json, model);
	vt_json_kernels(json, model);
	vt_json_streams(json, model);
	vt_json_ledger(json, model);
	vt_json_again(json, &model->again);
	vt_json_growth(json, model);
	vt_json_host(json, model);
	write_threads(json, model);
	write_thread_groups(json, model);
	write_tasks(json, &model->tasks);
	write_torch(json, model, blocks);
	vt_json_owners(json, model, options);
	vt_json_recorder(json, model);
	write_caught(json, &model->caught);
	if (blocks->rest)
		blocks->rest(json, model);
	vt_json_end_object(json);
}

struct vt_error *vt_write_report_json(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_report(json, what, options, &vt_json_blocks_plain);
	return vt_json_finish(json);
}

/* ---- vramtap stacks ---- */

static void write_stacks_result(struct vt_json *json, const struct vt_stacks_result *result)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "pid", result->pid);
	if (result->err) {
		vt_json_object_line(json, "error");
		vt_json_text(json, "code", vt_error_code_name(result->err->code));
		vt_json_text(json, "text", result->err->message);
		vt_json_end_object(json);
		vt_json_end_object(json);
		return;
	}
	vt_json_null(json, "error");
	vt_json_time(json, "time", &result->model->when);
	write_summary(json, result->model);
	vt_json_again(json, &result->model->again);
	write_threads(json, result->model);
	write_thread_groups(json, result->model);
	write_tasks(json, &result->model->tasks);
	vt_json_end_object(json);
}

struct vt_error *vt_write_stacks_json(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	const struct vt_stacks_document *document = what;
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	(void)options; /* those are for people */
	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	begin_document(json, STACKS_SCHEMA, document->tool_version, &document->when);
	vt_json_array(json, "processes");
	for (size_t i = 0; i < document->n; i++)
		write_stacks_result(json, &document->results[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
	return vt_json_finish(json);
}
