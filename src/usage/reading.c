/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what the asker says. It has loaded a foreign library: nothing of it is believed. */
#include "usage/usage.h"

#include <stdio.h>
#include <string.h>

#define MAX_PID 4194304 /* PID_MAX_LIMIT of the kernel */
#define MAX_MIG_ID 64
/* No device has more; sums of it do not overflow. */
#define MAX_BYTES (UINT64_C(1) << 48)

void vt_usage_reading_deinit(struct vt_usage_reading *reading)
{
	vt_vec_deinit(&reading->devices);
	vt_vec_deinit(&reading->processes);
}

static bool refuse(struct vt_usage_reading *reading, const char *what)
{
	reading->outcome = VT_USAGE_NONSENSE;
	reading->what = what;
	reading->devices.n = reading->processes.n = 0;
	return false;
}

static bool is_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (n == size)
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

static bool is_number(uint32_t number, uint32_t limit)
{
	return number == VT_USAGE_NONE || number < limit;
}

static bool add_state(struct vt_usage_reading *reading, const struct vt_usage_record *record)
{
	if (record->state >= VT_N_USAGE_STATES || !is_text(record->name, sizeof(record->name)))
		return refuse(reading, "its state");
	reading->state = (enum vt_usage_state)record->state;
	reading->error = record->error;
	reading->begin_ns = record->at_ns;
	snprintf(reading->driver, sizeof(reading->driver), "%s", record->name);
	return true;
}

static const char *what_is_wrong(const struct vt_usage_reading *reading,
				 const struct vt_usage_record *r)
{
	if (r->device != reading->devices.n || r->device >= VT_USAGE_MAX_DEVICES)
		return "the number of a device";
	if (!is_text(r->uuid, sizeof(r->uuid)) || !is_text(r->pci, sizeof(r->pci)) ||
	    !is_text(r->name, sizeof(r->name)))
		return "the name of a device";
	if ((r->flags & VT_USAGE_IS_MIG) ?
		    r->parent >= reading->devices.n || !reading->devices.data[r->parent].mig_mode :
		    r->parent != VT_USAGE_NONE)
		return "the device of a MIG instance";
	if (!is_number(r->minor, 1u << 20) || !is_number(r->gi, MAX_MIG_ID) ||
	    !is_number(r->ci, MAX_MIG_ID))
		return "the number of a device";
	if (!(r->flags & VT_USAGE_HAS_MEMORY))
		return NULL;
	if (!r->total_bytes || r->total_bytes > MAX_BYTES || r->used_bytes > r->total_bytes ||
	    r->reserved_bytes > r->total_bytes - r->used_bytes)
		return "the memory of a device";
	return NULL;
}

static bool add_device(struct vt_usage_reading *reading, const struct vt_usage_record *r)
{
	const char *what = what_is_wrong(reading, r);
	struct vt_usage_device *device = what ? NULL : vt_vec_append(&reading->devices);

	if (!device)
		return refuse(reading, what ? what : "more than there is memory for");
	*device = (struct vt_usage_device){
		.parent = r->parent,
		.minor = r->minor,
		.gi = r->gi,
		.ci = r->ci,
		.mig_mode = r->flags & VT_USAGE_MIG_MODE,
		.memory_known = r->flags & VT_USAGE_HAS_MEMORY,
		.reserved_known = (r->flags & VT_USAGE_HAS_MEMORY) &&
				  (r->flags & VT_USAGE_HAS_RESERVED),
		.processes_known = r->flags & VT_USAGE_HAS_PROCESSES,
		.memory_error = r->error,
		.processes_error = r->processes_error,
	};
	memcpy(device->uuid, r->uuid, sizeof(device->uuid));
	memcpy(device->pci, r->pci, sizeof(device->pci));
	memcpy(device->name, r->name, sizeof(device->name));
	if (device->memory_known) {
		device->used_bytes = r->used_bytes;
		device->reserved_bytes = device->reserved_known ? r->reserved_bytes : 0;
		device->total_bytes = r->total_bytes - device->reserved_bytes;
	}
	return true;
}

/* Compute and graphics of one process are one number, which both lists have. */
static bool add_process(struct vt_usage_reading *reading, const struct vt_usage_record *r)
{
	const struct vt_usage_device *device;
	struct vt_usage_process *process;

	if (r->device >= reading->devices.n)
		return refuse(reading, "the device of a process");
	device = &reading->devices.data[r->device];
	if (!r->pid || r->pid > MAX_PID || r->bytes > MAX_BYTES ||
	    (device->memory_known && r->bytes > device->total_bytes + device->reserved_bytes))
		return refuse(reading, "the memory of a process");
	for (size_t i = 0; i < reading->processes.n; i++) {
		process = &reading->processes.data[i];
		if (process->device != r->device || process->pid != (pid_t)r->pid ||
		    process->gi != r->gi || process->ci != r->ci)
			continue;
		process->kinds |= r->flags & (VT_USAGE_COMPUTE | VT_USAGE_GRAPHICS | VT_USAGE_MPS);
		process->bytes_known |= r->flags & VT_USAGE_HAS_BYTES;
		if (r->bytes > process->bytes)
			process->bytes = r->bytes;
		return true;
	}
	process = reading->processes.n < VT_USAGE_MAX_PROCESSES ?
			  vt_vec_append(&reading->processes) :
			  NULL;
	if (!process)
		return refuse(reading, "more processes than there can be");
	*process = (struct vt_usage_process){
		.pid = (pid_t)r->pid,
		.device = r->device,
		.gi = r->gi,
		.ci = r->ci,
		.kinds = r->flags & (VT_USAGE_COMPUTE | VT_USAGE_GRAPHICS | VT_USAGE_MPS),
		.bytes_known = r->flags & VT_USAGE_HAS_BYTES,
		.bytes = r->flags & VT_USAGE_HAS_BYTES ? r->bytes : 0,
	};
	return true;
}

/* What belongs to one device is within what it uses; else the two numbers mean different things. */
static bool is_within(const struct vt_usage_reading *reading)
{
	for (size_t d = 0; d < reading->devices.n; d++) {
		const struct vt_usage_device *device = &reading->devices.data[d];
		uint64_t sum = 0;

		for (size_t i = 0; i < reading->processes.n; i++)
			if (reading->processes.data[i].device == d)
				sum += reading->processes.data[i].bytes;
		if (device->memory_known && sum > device->total_bytes + device->reserved_bytes)
			return false;
	}
	return true;
}

bool vt_usage_reading_add(struct vt_usage_reading *reading, const struct vt_usage_record *record,
			  uint32_t number)
{
	if (record->number != number)
		return refuse(reading, "the number of the question");
	reading->outcome = VT_USAGE_LATE;
	switch (record->kind) {
	case VT_USAGE_STATE:
		return add_state(reading, record);
	case VT_USAGE_DEVICE:
		return add_device(reading, record);
	case VT_USAGE_PROCESS:
		return add_process(reading, record);
	case VT_USAGE_END:
		if (!is_within(reading))
			return refuse(reading, "the sum of the processes");
		if (record->error && !reading->state) {
			reading->state = VT_USAGE_FAILED;
			reading->error = record->error;
		}
		if (!reading->begin_ns || record->at_ns < reading->begin_ns)
			return refuse(reading, "its clock");
		reading->end_ns = record->at_ns;
		reading->outcome = VT_USAGE_COMPLETE;
		return false;
	default:
		return refuse(reading, "the kind of a record");
	}
}
