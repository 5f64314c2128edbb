/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that the members use, each with all who hold memory of it. */
#include <stdlib.h>
#include <string.h>

#include "report/job_parts.h"

struct holder {
	uint32_t member;
	uint64_t bytes;
};

struct device {
	struct vt_job_device device;
	const struct vt_member *asked; /* whose total and free were taken: the one that was looked at last */
	VT_VEC(struct holder) holders;
};

struct devices {
	VT_VEC(struct device) list;
	struct vt_map by_key; /* index in list */
};

/* By its uuid; without one by its number on the host. Both texts are interned, or "". */
static uint64_t key_of(const struct vt_member *member, const struct vt_job_memory *memory)
{
	if (*memory->uuid)
		return (uintptr_t)memory->uuid;
	return vt_job_mix((uintptr_t)member->label.host, (uint64_t)memory->ordinal + 1);
}

static bool is_later(const struct vt_member *member, const struct vt_member *than)
{
	return !than || (member->have_moment && member->released_ns > than->released_ns);
}

static bool add_holder(struct devices *devices, const struct vt_member *member, uint32_t index,
		       const struct vt_job_memory *memory)
{
	uint64_t key = key_of(member, memory), *found = vt_map_get(&devices->by_key, key);
	struct device *device;
	struct holder *holder;

	if (!found) {
		device = vt_vec_append(&devices->list);
		if (!device || !vt_map_put(&devices->by_key, key, devices->list.n - 1)) {
			devices->list.n -= device != NULL;
			return false;
		}
		*device = (struct device){
			.device = { .host = member->label.host, .uuid = memory->uuid, .ordinal = memory->ordinal }
		};
	} else {
		device = &devices->list.data[*found];
	}
	holder = vt_vec_append(&device->holders);
	if (!holder)
		return false;
	*holder = (struct holder){ .member = index, .bytes = memory->known ? memory->reserved : 0 };
	if (memory->device_known && is_later(member, device->asked)) {
		device->asked = member;
		device->device.known = true;
		device->device.total = memory->total;
		device->device.free_bytes = memory->free_bytes;
	}
	return true;
}

static int compare_holders(const void *pa, const void *pb)
{
	const struct holder *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->member < b->member ? -1 : a->member > b->member;
}

static bool finish(struct vt_job *job, struct device *device)
{
	struct vt_job_device *d = vt_vec_append(&job->devices);
	uint32_t *members = vt_arena_alloc(&job->arena, (device->holders.n + 1) * sizeof(*members));
	uint64_t held = 0, used;

	if (!d || !members) {
		job->devices.n -= d != NULL;
		return false;
	}
	qsort(device->holders.data, device->holders.n, sizeof(*device->holders.data), compare_holders);
	for (size_t i = 0; i < device->holders.n; i++) {
		members[i] = device->holders.data[i].member;
		held += device->holders.data[i].bytes;
	}
	*d = device->device;
	d->holders = (struct vt_member_set){ .members = members, .n = device->holders.n };
	used = d->total > d->free_bytes ? d->total - d->free_bytes : 0;
	d->outside = d->known && used > held ? used - held : 0;
	return true;
}

static int compare_devices(const void *pa, const void *pb)
{
	const struct vt_job_device *a = pa, *b = pb;
	int order = strcmp(a->host, b->host);

	if (order)
		return order;
	if (a->ordinal != b->ordinal)
		return a->ordinal < b->ordinal ? -1 : 1;
	return strcmp(a->uuid, b->uuid);
}

bool vt_job_build_devices(struct vt_job *job)
{
	struct devices devices = { 0 };
	bool ok = true;

	for (size_t i = 0; i < job->members.n && ok; i++) {
		const struct vt_member *member = &job->members.data[i];

		/* A core's memory was released with the process. */
		for (size_t m = 0; m < member->memory.n && ok && !member->core; m++)
			ok = add_holder(&devices, member, (uint32_t)i, &member->memory.data[m]);
	}
	for (size_t i = 0; i < devices.list.n; i++) {
		ok = ok && finish(job, &devices.list.data[i]);
		vt_vec_deinit(&devices.list.data[i].holders);
	}
	if (job->devices.n)
		qsort(job->devices.data, job->devices.n, sizeof(*job->devices.data), compare_devices);
	vt_vec_deinit(&devices.list);
	vt_map_deinit(&devices.by_key);
	return ok;
}
