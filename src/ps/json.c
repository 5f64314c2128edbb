/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as JSON. doc/ps.schema.json describes every field; a test keeps both in step. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "json/out.h"
#include "ps/ps.h"
#include "report/json/where.h"

#define SCHEMA "vramtap-ps"
#define SCHEMA_VERSION 1 /* raised when a field goes or changes its meaning */

static void put_bytes(struct vt_json *json, const char *key, bool known, uint64_t bytes)
{
	if (known)
		vt_json_uint(json, key, bytes);
	else
		vt_json_null(json, key);
}

static void put_gpus(struct vt_json *json, const struct vt_ps *ps)
{
	char name[VT_PS_GPU_MAX];

	vt_json_array(json, "devices");
	for (uint32_t i = 0; i < ps->usage.gpus.n; i++) {
		const struct vt_model_gpu *gpu = &ps->usage.gpus.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "device", vt_ps_gpu_name(name, ps, i));
		vt_json_name(json, "uuid", gpu->uuid);
		vt_json_name(json, "pci", gpu->pci);
		vt_json_name(json, "name", gpu->name);
		vt_json_bool(json, "divided", gpu->divided);
		put_bytes(json, "total_bytes", gpu->memory_known, gpu->total_bytes);
		put_bytes(json, "used_bytes", gpu->memory_known, gpu->used_bytes);
		put_bytes(json, "free_bytes", gpu->memory_known,
			  gpu->total_bytes - gpu->used_bytes);
		if (gpu->rest_known)
			vt_json_int(json, "no_process_bytes", gpu->rest_bytes);
		else
			vt_json_null(json, "no_process_bytes");
		vt_json_bool(json, "processes_known", gpu->processes_known);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void put_torch(struct vt_json *json, const struct vt_ps_totals *totals)
{
	bool known = totals->state == VT_PS_TORCH_KNOWN;

	vt_json_object_line(json, "pytorch");
	vt_json_text(json, "state", vt_ps_torch_name(totals->state));
	vt_json_name(json, "version", totals->version);
	put_bytes(json, "reserved_bytes", known, totals->reserved);
	put_bytes(json, "allocated_bytes", known, totals->allocated);
	vt_json_end_object(json);
}

static void put_devices_of(struct vt_json *json, const struct vt_ps *ps,
			   const struct vt_ps_row *row)
{
	char name[VT_PS_GPU_MAX];

	vt_json_array_line(json, "devices");
	for (size_t i = 0; i < row->n_gpus; i++)
		vt_json_text(json, NULL, vt_ps_gpu_name(name, ps, row->gpus[i]));
	vt_json_end_array(json);
	vt_json_array_line(json, "open_minors");
	for (unsigned int i = 0; i < 64; i++)
		if (row->minors >> i & 1)
			vt_json_uint(json, NULL, i);
	vt_json_end_array(json);
}

static void put_row(struct vt_json *json, const struct vt_ps *ps, const struct vt_ps_row *row)
{
	vt_json_object(json, NULL);
	vt_json_known(json, "pid", row->pid ? row->pid : -1);
	vt_json_known(json, "own_pid", row->own_pid > 0 ? row->own_pid : -1);
	vt_json_known(json, "parent", row->ppid > 0 ? row->ppid : -1);
	vt_json_name(json, "user", row->user);
	vt_json_name(json, "name", row->name);
	vt_json_name(json, "command_line", row->command);
	vt_json_name(json, "container", row->container);
	vt_json_name(json, "pod", row->pod);
	vt_json_name(json, "job", row->job);
	vt_json_known(json, "rank", row->rank.rank);
	vt_json_known(json, "local_rank", row->rank.local_rank);
	vt_json_known(json, "world_size", row->rank.world_size);
	vt_json_bool(json, "environment_known", row->launch_known);
	put_devices_of(json, ps, row);
	put_torch(json, &row->torch);
	vt_json_bool(json, "counted", row->counted);
	put_bytes(json, "driver_bytes", row->counted && row->bytes_known, row->bytes);
	vt_json_text(json, "life", vt_counted_life_name(row->life));
	vt_json_text(json, "state", vt_ps_state_name(row));
	vt_json_text(json, "system_call", row->syscall);
	vt_json_name(json, "kernel_function", row->wchan);
	vt_json_known(json, "tracer", row->tracer > 0 ? row->tracer : -1);
	if (row->uptime_s >= 0)
		vt_json_milli(json, "uptime_s", row->uptime_s);
	else
		vt_json_null(json, "uptime_s");
	if (row->still_s >= 0)
		vt_json_milli(json, "still_s", row->still_s);
	else
		vt_json_null(json, "still_s");
	vt_json_bool(json, "holds_nothing", row->holds_nothing);
	vt_json_end_object(json);
}

struct vt_error *vt_ps_write_json(const void *what, const struct vt_writer_options *options,
				  FILE *out)
{
	const struct vt_ps *ps = ((const struct vt_ps_document *)what)->ps;
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	(void)options; /* those are for people; JSON has all processes */
	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_object(json, NULL);
	vt_json_text(json, "schema", SCHEMA);
	vt_json_uint(json, "schema_version", SCHEMA_VERSION);
	vt_json_name(json, "tool_version", ps->tool_version);
	vt_json_time(json, "time", &ps->when);
	vt_json_where(json, &ps->where);
	vt_json_text(json, "completeness", vt_completeness_name(ps->completeness));
	vt_json_milli(json, "took_ms", ps->ms);
	vt_json_uint(json, "all_processes", ps->n_processes);
	vt_json_uint(json, "unseen_processes", ps->unseen);
	vt_json_text(json, "driver_count", vt_counted_name(ps->usage.state));
	vt_json_name(json, "driver_count_why", ps->usage.why);
	vt_json_bool(json, "foreign_pids", ps->usage.foreign);
	put_gpus(json, ps);
	vt_json_array(json, "processes");
	for (size_t i = 0; i < ps->rows.n; i++)
		put_row(json, ps, &ps->rows.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
	return vt_json_finish(json);
}
