/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage_json.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 1024
#define MAX_PROCESSES 16384
#define MAX_ORDINAL 1023
/* No device has more; sums of it do not overflow. */
#define MAX_BYTES (UINT64_C(1) << 48)

/* What is a number of 32 bits in a device's health. */
static const struct {
	uint32_t bit;
	const char *key;
	size_t offset;
} numbers[] = {
#define AT(member) offsetof(struct vt_usage_health, member)
	{ VT_HEALTH_REMAPPED, "rows_remapped", AT(rows_remapped) },
	{ VT_HEALTH_TEMPERATURE, "celsius", AT(celsius) },
	{ VT_HEALTH_POWER, "milliwatt", AT(milliwatt) },
	{ VT_HEALTH_POWER_LIMIT, "milliwatt_limit", AT(milliwatt_limit) },
	{ VT_HEALTH_CLOCK, "sm_mhz", AT(sm_mhz) },
	{ VT_HEALTH_CLOCK_LIMIT, "sm_mhz_limit", AT(sm_mhz_limit) },
	{ VT_HEALTH_UTILISATION, "busy_percent", AT(busy_percent) },
	{ VT_HEALTH_UTILISATION, "memory_busy_percent", AT(memory_busy_percent) },
#undef AT
};

#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static const uint32_t *number_in(const struct vt_usage_health *h, size_t i)
{
	return (const uint32_t *)(const void *)((const char *)h + numbers[i].offset);
}

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

static void put_if(struct vt_json *json, const struct vt_usage_health *h, uint32_t bit,
		   const char *key, uint64_t value)
{
	if (h->known & bit)
		vt_json_uint(json, key, value);
	else
		vt_json_null(json, key);
}

static void put_yes(struct vt_json *json, const struct vt_usage_health *h, uint32_t bit,
		    const char *key, bool value)
{
	if (h->known & bit)
		vt_json_bool(json, key, value);
	else
		vt_json_null(json, key);
}

static void put_slow(struct vt_json *json, const struct vt_usage_health *h)
{
	if (!(h->known & VT_HEALTH_SLOW)) {
		vt_json_null(json, "slow");
		return;
	}
	vt_json_array_line(json, "slow");
	for (unsigned int bit = 0; bit < VT_N_SLOW; bit++)
		if (h->slow >> bit & 1)
			vt_json_text(json, NULL, vt_slow_name(bit));
	vt_json_end_array(json);
}

static void put_health(struct vt_json *json, const struct vt_usage_health *h)
{
	if (!h->known) {
		vt_json_null(json, "health");
		return;
	}
	vt_json_object_line(json, "health");
	for (size_t i = 0; i < N_NUMBERS; i++)
		put_if(json, h, numbers[i].bit, numbers[i].key, *number_in(h, i));
	put_if(json, h, VT_HEALTH_ECC_NOW, "ecc_uncorrected", h->ecc_now);
	put_if(json, h, VT_HEALTH_ECC_EVER, "ecc_uncorrected_ever", h->ecc_ever);
	put_yes(json, h, VT_HEALTH_REMAPPED, "remap_pending", h->remap_pending);
	put_yes(json, h, VT_HEALTH_REMAPPED, "remap_failed", h->remap_failed);
	put_yes(json, h, VT_HEALTH_RETIRED, "retire_pending", h->retire_pending);
	put_slow(json, h);
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
	put_health(json, &gpu->health);
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

static const char *text(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	const char *value = vt_json_in_text(in, from, key);

	return value ? value : "";
}

static bool load_bytes(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		       uint64_t *bytes)
{
	bool known = vt_json_in_uint(in, from, key, bytes);

	if (known && *bytes > MAX_BYTES) {
		vt_json_in_wrong(in, key, "is impossible");
		*bytes = 0;
	}
	return known;
}

static void load_process(struct vt_json_in *in, const struct vt_json_value *from, uint32_t gpu,
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

static void load_slow(struct vt_json_in *in, const struct vt_json_value *from,
		      struct vt_usage_health *h)
{
	const struct vt_json_value *slow = vt_json_in_array(in, from, "slow");

	if (!slow)
		return;
	h->known |= VT_HEALTH_SLOW;
	for (size_t i = 0; i < vt_json_count(slow); i++) {
		const char *name = vt_json_string(vt_json_at(slow, i));

		for (unsigned int bit = 0; name && bit < VT_N_SLOW; bit++)
			if (!strcmp(name, vt_slow_name(bit)))
				h->slow |= UINT64_C(1) << bit;
	}
}

static void load_yes(struct vt_json_in *in, const struct vt_json_value *from, uint32_t bit,
		     const char *key, struct vt_usage_health *h, uint32_t *to)
{
	bool yes = false;

	if (vt_json_in_bool(in, from, key, &yes))
		h->known |= bit;
	*to = yes;
}

static void load_health(struct vt_json_in *in, const struct vt_json_value *from,
			struct vt_usage_health *h)
{
	if (!from)
		return;
	for (size_t i = 0; i < N_NUMBERS; i++) {
		int value = 0;

		if (vt_json_in_int(in, from, numbers[i].key, 0, INT_MAX, &value))
			h->known |= numbers[i].bit;
		memcpy((char *)h + numbers[i].offset, &value, sizeof(value));
	}
	if (vt_json_in_uint(in, from, "ecc_uncorrected", &h->ecc_now))
		h->known |= VT_HEALTH_ECC_NOW;
	if (vt_json_in_uint(in, from, "ecc_uncorrected_ever", &h->ecc_ever))
		h->known |= VT_HEALTH_ECC_EVER;
	load_yes(in, from, VT_HEALTH_REMAPPED, "remap_pending", h, &h->remap_pending);
	load_yes(in, from, VT_HEALTH_REMAPPED, "remap_failed", h, &h->remap_failed);
	load_yes(in, from, VT_HEALTH_RETIRED, "retire_pending", h, &h->retire_pending);
	load_slow(in, from, h);
}

static void load_gpu(struct vt_json_in *in, const struct vt_json_value *from,
		     struct vt_model_usage *usage)
{
	struct vt_model_gpu *gpu = vt_vec_append(&usage->gpus);
	const struct vt_json_value *memory = vt_json_in_object(in, from, "memory"),
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
	load_health(in, vt_json_in_object(in, from, "health"), &gpu->health);
	gpu->compared = load_bytes(in, from, "changed_bytes", &gpu->changed_bytes);
	if (vt_json_count(processes) > MAX_PROCESSES - usage->processes.n) {
		vt_json_in_wrong(in, "processes", "are too many");
		return;
	}
	for (size_t i = 0; i < vt_json_count(processes); i++)
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

void vt_usage_load(struct vt_json_in *in, const struct vt_json_value *from,
		   struct vt_model_usage *usage)
{
	const struct vt_json_value *devices = vt_json_in_array(in, from, "devices");

	if (!from)
		return;
	usage->state = vt_json_in_word(in, from, "state", vt_counted_name, VT_N_COUNTED);
	usage->why = text(in, from, "why");
	usage->whole = vt_json_in_need_bool(in, from, "whole");
	usage->foreign = vt_json_in_need_bool(in, from, "foreign");
	vt_json_in_real(in, from, "ms", &usage->ms);
	if (vt_json_count(devices) > MAX_GPUS) {
		vt_json_in_wrong(in, "devices", "are too many");
		return;
	}
	for (size_t i = 0; i < vt_json_count(devices); i++)
		load_gpu(in, vt_json_in_element(in, devices, i, "devices"), usage);
	if (!are_parents_there(usage))
		vt_json_in_wrong(in, "parent", "names no device before it");
	vt_model_usage_account(usage);
}
