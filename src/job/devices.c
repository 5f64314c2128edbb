/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that the members use, each with all its holders. CUDA's number for a device in a
 * process says little: with CUDA_VISIBLE_DEVICES each rank has its own number 0. The uuid
 * identifies a device, but only the driver knows it (--inject); otherwise the entry of that
 * variable for the number does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/internal.h"

#define UUID_LENGTH 40 /* "GPU-8f2e1c34-…"; the variable may have a prefix of it */
#define UUID_SHOWN 12

struct holder {
	uint32_t member, memory;
	uint64_t bytes;
};

struct device {
	struct vt_job_device device;
	const char *word;              /* from the variable, if nothing else is known; NULL */
	size_t n_assumed;              /* ranks matched by the number only */
	const struct vt_member *asked; /* the holder that was read last: has total and free */
	VT_VEC(struct holder) holders;
};

struct devices {
	struct vt_job *job;
	VT_VEC(struct device) list;
	struct vt_map by_key; /* index in list */
	/* by number: the uuid (an interned text), or 0 when there are several */
	struct vt_map uuids;
};

/* ---- which device it is ---- */

/* What is known; uuid and word are interned. */
struct identity {
	const char *uuid; /* "" */
	const char *word; /* NULL */
	int number;       /* -1 */
};

/* The nth entry of the list, from 0; its length, 0 when there is none. */
static size_t entry_of(const char *list, int nth, const char **entry)
{
	for (; nth > 0 && *list; nth--)
		list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',');
	list += strspn(list, " ");
	*entry = list;
	return strcspn(list, ", ");
}

static bool identify(struct vt_job *job, const struct vt_member *member,
		     const struct vt_job_memory *memory, struct identity *identity)
{
	const char *entry = NULL;
	size_t n = member->label.visible ?
			   entry_of(member->label.visible, memory->ordinal, &entry) :
			   0;

	*identity = (struct identity){ .uuid = memory->uuid,
				       .number = member->label.visible ? -1 : memory->ordinal };
	if (!n)
		return true;
	if (n < 5 && strspn(entry, "0123456789") >= n) {
		identity->number = (int)strtol(entry, NULL, 10);
		return true;
	}
	identity->word = vt_job_text(job, entry, n);
	if (identity->word && !*identity->uuid && n == UUID_LENGTH && !strncmp(entry, "GPU-", 4))
		identity->uuid = identity->word;
	return identity->word;
}

/* Numbers belong to a host; containers may have others. */
static uint64_t number_key(const struct vt_member *member, int number)
{
	uint64_t container = *member->label.container ? (uintptr_t)member->label.container : 0;

	return vt_job_mix(vt_job_mix((uintptr_t)member->label.host, container),
			  (uint64_t)number + 1);
}

static uint64_t key_of(const struct vt_member *member, const struct vt_job_memory *memory,
		       const struct identity *identity)
{
	if (*identity->uuid)
		return (uintptr_t)identity->uuid;
	if (identity->number >= 0)
		return number_key(member, identity->number);
	if (identity->word)
		return vt_job_mix((uintptr_t)member->label.host, (uintptr_t)identity->word);
	/* Its list has no such entry, so it changed the list itself: the device is its own. */
	return vt_job_mix(number_key(member, memory->ordinal), (uint64_t)member->label.pid);
}

/* What others know about a number helps if the uuid is unknown. */
static bool learn(struct devices *devices, const struct vt_member *member,
		  const struct vt_job_memory *memory)
{
	struct identity identity;
	const uint64_t *known;
	uint64_t key;

	if (!identify(devices->job, member, memory, &identity))
		return false;
	if (!*identity.uuid || identity.number < 0)
		return true;
	key = number_key(member, identity.number);
	known = vt_map_get(&devices->uuids, key);
	return vt_map_put(&devices->uuids, key,
			  known && *known != (uintptr_t)identity.uuid ? 0 :
									(uintptr_t)identity.uuid);
}

static void look_up(const struct devices *devices, const struct vt_member *member,
		    struct identity *identity)
{
	const uint64_t *known = NULL;

	if (!*identity->uuid && identity->number >= 0)
		known = vt_map_get(&devices->uuids, number_key(member, identity->number));
	if (known && *known)
		/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
		identity->uuid = (const char *)(uintptr_t)*known;
}

/* ---- holders ---- */

static bool is_later(const struct vt_member *member, const struct vt_member *than)
{
	return !than || (member->have_moment && member->released_ns > than->released_ns);
}

static struct device *find_device(struct devices *devices, const struct vt_member *member,
				  const struct vt_job_memory *memory,
				  const struct identity *identity)
{
	uint64_t key = key_of(member, memory, identity), *found = vt_map_get(&devices->by_key, key);
	struct device *device;

	if (found) {
		device = &devices->list.data[*found];
		if (device->device.ordinal != identity->number)
			device->device.ordinal = -1;
		return device;
	}
	device = vt_vec_append(&devices->list);
	if (!device || !vt_map_put(&devices->by_key, key, devices->list.n - 1)) {
		devices->list.n -= device != NULL;
		return NULL;
	}
	*device = (struct device){ .device = { .host = member->label.host,
					       .container = member->label.container,
					       .uuid = identity->uuid,
					       .ordinal = identity->number },
				   .word = identity->word };
	return device;
}

static bool add_holder(struct devices *devices, uint32_t index, uint32_t m)
{
	const struct vt_member *member = &devices->job->members.data[index];
	const struct vt_job_memory *memory = &member->memory.data[m];
	struct identity identity;
	struct device *device;
	struct holder *holder;

	if (!identify(devices->job, member, memory, &identity))
		return false;
	look_up(devices, member, &identity);
	device = find_device(devices, member, memory, &identity);
	holder = device ? vt_vec_append(&device->holders) : NULL;
	if (!holder)
		return false;
	*holder = (struct holder){ .member = index,
				   .memory = m,
				   .bytes = memory->known ? memory->reserved : 0 };
	device->n_assumed += !*identity.uuid && !member->label.visible &&
			     member->label.role == VT_ROLE_RANK;
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

/* ---- names ---- */

/* A number that two devices of a host share does not tell them apart. */
static bool drop_shared_numbers(struct devices *devices)
{
	struct vt_map seen = { 0 };
	bool ok = true;

	for (size_t i = 0; i < devices->list.n && ok; i++) {
		struct vt_job_device *d = &devices->list.data[i].device;
		uint64_t key = vt_job_mix((uintptr_t)d->host, (uint64_t)d->ordinal + 1), *other;

		if (d->ordinal < 0)
			continue;
		other = vt_map_get(&seen, key);
		if (other)
			devices->list.data[*other].device.shared = d->shared = true;
		else
			ok = vt_map_put(&seen, key, i);
	}
	vt_map_deinit(&seen);
	return ok;
}

static const char *name_of(struct vt_job *job, const struct device *device)
{
	const struct vt_job_device *d = &device->device;
	char name[96];

	if (d->ordinal >= 0 && !d->shared)
		snprintf(name, sizeof(name), "GPU %d", d->ordinal);
	else if (*d->uuid)
		snprintf(name, sizeof(name), "%.*s", UUID_SHOWN, d->uuid);
	else if (device->word)
		snprintf(name, sizeof(name), "%.*s",
			 strlen(device->word) == UUID_LENGTH ? UUID_SHOWN : UUID_LENGTH,
			 device->word);
	else if (d->ordinal >= 0 && *d->container)
		snprintf(name, sizeof(name), "GPU %d in %.12s", d->ordinal, d->container);
	else
		snprintf(name, sizeof(name), "GPU ?");
	return vt_job_text(job, name, strlen(name));
}

static bool finish(struct vt_job *job, struct device *device)
{
	struct vt_job_device *d = vt_vec_append(&job->devices);
	uint32_t *members =
		vt_arena_alloc(&job->arena, 2 * (device->holders.n + 1) * sizeof(*members));
	const char *name = name_of(job, device);
	uint64_t held = 0, used;

	if (!d || !members || !name) {
		job->devices.n -= d != NULL;
		return false;
	}
	qsort(device->holders.data, device->holders.n, sizeof(*device->holders.data),
	      compare_holders);
	*d = device->device;
	d->memories = members + device->holders.n;
	for (size_t i = 0; i < device->holders.n; i++) {
		members[i] = device->holders.data[i].member;
		members[device->holders.n + i] = device->holders.data[i].memory;
		held += device->holders.data[i].bytes;
	}
	d->name = name;
	d->ordinal = d->shared ? -1 : d->ordinal;
	d->assumed = device->n_assumed > 1;
	d->holders = (struct vt_member_set){ .members = members, .n = device->holders.n };
	used = d->total > d->free_bytes ? d->total - d->free_bytes : 0;
	d->outside = d->known && used > held ? used - held : 0;
	return true;
}

/* Those without a number last. */
static int compare_devices(const void *pa, const void *pb)
{
	const struct vt_job_device *a = pa, *b = pb;
	int order = strcmp(a->host, b->host);

	if (order)
		return order;
	if (a->ordinal != b->ordinal)
		return (unsigned int)a->ordinal < (unsigned int)b->ordinal ? -1 : 1;
	order = strcmp(a->uuid, b->uuid);
	return order ? order : strcmp(a->name, b->name);
}

/* Builds each device that a member uses. A core's memory was released with the process. */
static bool for_each_memory(struct devices *devices, bool last)
{
	struct vt_job *job = devices->job;
	bool ok = true;

	for (size_t i = 0; i < job->members.n && ok; i++) {
		const struct vt_member *member = &job->members.data[i];

		for (size_t m = 0; m < member->memory.n && ok && !member->core; m++)
			ok = last ? add_holder(devices, (uint32_t)i, (uint32_t)m) :
				    learn(devices, member, &member->memory.data[m]);
	}
	return ok;
}

bool vt_job_build_devices(struct vt_job *job)
{
	struct devices devices = { .job = job };
	bool ok = for_each_memory(&devices, false) && for_each_memory(&devices, true) &&
		  drop_shared_numbers(&devices);

	for (size_t i = 0; i < devices.list.n; i++) {
		ok = ok && finish(job, &devices.list.data[i]);
		vt_vec_deinit(&devices.list.data[i].holders);
	}
	if (job->devices.n)
		qsort(job->devices.data, job->devices.n, sizeof(*job->devices.data),
		      compare_devices);
	vt_vec_deinit(&devices.list);
	vt_map_deinit(&devices.by_key);
	vt_map_deinit(&devices.uuids);
	return ok;
}
