/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage_json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 1024
#define MAX_PROCESSES 16384
#define MAX_ORDINAL 1023
/* No device has more; sums of it do not overflow. */
#define MAX_BYTES (UINT64_C(1) << 48)

/* ---- out ---- */

static void put_process(struct vt_json *json, const struct vt_model_counted *p)
{
	vt_json_object_line(json, NULL);
	vt_json_int(json, "pid", p->pid);
	if (p->ns_pid > 0)
		vt_json_int(json, "own_pid", p->ns_pid);
	vt_json_text(json, "life", vt_counted_life_name(p->life));
	vt_json_bool(json, "ours", p->ours);
	if (p->bytes_known)
		vt_json_uint(json, "bytes", p->bytes);
	else
		vt_json_null(json, "bytes");
	if (p->graphics)
		vt_json_bool(json, "graphics", true);
	if (p->mps)
		vt_json_bool(json, "mps", true);
	vt_json_known(json, "rank", p->rank);
	vt_json_name(json, "name", p->name);
	vt_json_name(json, "command_line", p->command);
	vt_json_name(json, "user", p->user);
	vt_json_name(json, "container", p->container);
	vt_json_name(json, "pod", p->pod);
	vt_json_end_object(json);
}

static void put_memory(struct vt_json *json, const struct vt_model_gpu *gpu)
{
	if (!gpu->memory_known) {
		vt_json_null(json, "memory");
		return;
	}
	vt_json_object_line(json, "memory");
	vt_json_uint(json, "total_bytes", gpu->total_bytes);
	vt_json_uint(json, "used_bytes", gpu->used_bytes);
	if (gpu->reserved_known)
		vt_json_uint(json, "reserved_bytes", gpu->reserved_bytes);
	else
		vt_json_null(json, "reserved_bytes");
	vt_json_end_object(json);
}

static void put_gpu(struct vt_json *json, const struct vt_model_usage *usage,
		    const struct vt_model_gpu *gpu)
{
	vt_json_object(json, NULL);
	vt_json_name(json, "uuid", gpu->uuid);
	vt_json_name(json, "pci", gpu->pci);
	vt_json_name(json, "name", gpu->name);
	vt_json_known(json, "ordinal", gpu->ordinal);
	vt_json_known(json, "parent", gpu->parent);
	vt_json_bool(json, "divided", gpu->divided);
	put_memory(json, gpu);
	if (gpu->compared)
		vt_json_uint(json, "changed_bytes", gpu->changed_bytes);
	else
		vt_json_null(json, "changed_bytes");
	if (gpu->rest_known)
		vt_json_int(json, "no_process_bytes", gpu->rest_bytes);
	else
		vt_json_null(json, "no_process_bytes");
	if (gpu->processes_known) {
		vt_json_array(json, "processes");
		for (size_t i = gpu->first; i < gpu->first + gpu->n; i++)
			put_process(json, &usage->processes.data[i]);
		vt_json_end_array(json);
	} else {
		vt_json_null(json, "processes");
	}
	vt_json_end_object(json);
}

void vt_usage_put(struct vt_json *json, const char *key, const struct vt_model_usage *usage)
{
	vt_json_object(json, key);
	vt_json_text(json, "state", vt_counted_name(usage->state));
	vt_json_name(json, "why", usage->why);
	vt_json_bool(json, "whole", usage->whole);
	vt_json_bool(json, "foreign", usage->foreign);
	vt_json_milli(json, "ms", usage->ms);
	vt_json_array(json, "devices");
	for (size_t i = 0; i < usage->gpus.n; i++)
		put_gpu(json, usage, &usage->gpus.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

/* ---- in ---- */

static const char *text(struct vt_json_in *in, json_t *from, const char *key)
{
	const char *value = vt_json_in_text(in, from, key);

	return value ? value : "";
}

static bool load_bytes(struct vt_json_in *in, json_t *from, const char *key, uint64_t *bytes)
{
	bool known = vt_json_in_uint(in, from, key, bytes);

	if (known && *bytes > MAX_BYTES) {
		vt_json_in_wrong(in, key, "is impossible");
		*bytes = 0;
	}
	return known;
}

static void load_process(struct vt_json_in *in, json_t *from, uint32_t gpu,
			 struct vt_model_usage *usage)
{
	struct vt_model_counted *p = vt_vec_append(&usage->processes);
	int pid = 0, ns_pid = 0;

	if (!p) {
		in->nomem = true;
		return;
	}
	*p = (struct vt_model_counted){
		.gpu = gpu,
		.rank = -1,
		.name = text(in, from, "name"),
		.command = text(in, from, "command_line"),
		.user = text(in, from, "user"),
		.container = text(in, from, "container"),
		.pod = text(in, from, "pod"),
	};
	if (!vt_json_in_int(in, from, "pid", 1, INT_MAX, &pid))
		vt_json_in_wrong(in, "pid", "is missing");
	vt_json_in_int(in, from, "own_pid", 1, INT_MAX, &ns_pid);
	vt_json_in_int(in, from, "rank", 0, INT_MAX, &p->rank);
	p->pid = pid;
	p->ns_pid = ns_pid;
	p->life = vt_json_in_word(in, from, "life", vt_counted_life_name, VT_N_LIVES);
	p->ours = vt_json_in_need_bool(in, from, "ours");
	p->bytes_known = load_bytes(in, from, "bytes", &p->bytes);
	vt_json_in_bool(in, from, "graphics", &p->graphics);
	vt_json_in_bool(in, from, "mps", &p->mps);
}

static void load_gpu(struct vt_json_in *in, json_t *from, struct vt_model_usage *usage)
{
	struct vt_model_gpu *gpu = vt_vec_append(&usage->gpus);
	json_t *memory = vt_json_in_object(in, from, "memory"),
	       *processes = vt_json_in_array(in, from, "processes");

	if (!gpu) {
		in->nomem = true;
		return;
	}
	*gpu = (struct vt_model_gpu){
		.uuid = text(in, from, "uuid"),
		.pci = text(in, from, "pci"),
		.name = text(in, from, "name"),
		.ordinal = -1,
		.parent = -1,
		.divided = vt_json_in_need_bool(in, from, "divided"),
		.memory_known = memory,
		.processes_known = processes,
	};
	vt_json_in_int(in, from, "ordinal", 0, MAX_ORDINAL, &gpu->ordinal);
	vt_json_in_int(in, from, "parent", 0, MAX_GPUS - 1, &gpu->parent);
	if (memory && (!load_bytes(in, memory, "total_bytes", &gpu->total_bytes) ||
		       !load_bytes(in, memory, "used_bytes", &gpu->used_bytes) ||
		       gpu->used_bytes > gpu->total_bytes))
		vt_json_in_wrong(in, "memory", "makes no sense");
	gpu->reserved_known = memory &&
			      load_bytes(in, memory, "reserved_bytes", &gpu->reserved_bytes);
	gpu->compared = load_bytes(in, from, "changed_bytes", &gpu->changed_bytes);
	if (json_array_size(processes) > MAX_PROCESSES - usage->processes.n) {
		vt_json_in_wrong(in, "processes", "are too many");
		return;
	}
	for (size_t i = 0; i < json_array_size(processes); i++)
		load_process(in, vt_json_in_element(in, processes, i, "processes"),
			     (uint32_t)(usage->gpus.n - 1), usage);
}

static bool are_parents_there(const struct vt_model_usage *usage)
{
	for (size_t i = 0; i < usage->gpus.n; i++)
		if (usage->gpus.data[i].parent >= (int)i)
			return false;
	return true;
}

void vt_usage_load(struct vt_json_in *in, json_t *from, struct vt_model_usage *usage)
{
	json_t *devices = vt_json_in_array(in, from, "devices");

	if (!from)
		return;
	usage->state = vt_json_in_word(in, from, "state", vt_counted_name, VT_N_COUNTED);
	usage->why = text(in, from, "why");
	usage->whole = vt_json_in_need_bool(in, from, "whole");
	usage->foreign = vt_json_in_need_bool(in, from, "foreign");
	vt_json_in_real(in, from, "ms", &usage->ms);
	if (json_array_size(devices) > MAX_GPUS) {
		vt_json_in_wrong(in, "devices", "are too many");
		return;
	}
	for (size_t i = 0; i < json_array_size(devices); i++)
		load_gpu(in, vt_json_in_element(in, devices, i, "devices"), usage);
	if (!are_parents_there(usage))
		vt_json_in_wrong(in, "parent", "names no device before it");
	vt_model_usage_account(usage);
}
