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
#include "base/hash.h"
#include "base/map.h"

#define UUID_LENGTH 40 /* "GPU-8f2e1c34-…"; the variable may have a prefix of it */
#define UUID_SHOWN 12

struct holder {
	uint32_t member;
	struct vt_job_held held;
	uint64_t bytes; /* of the best figure */
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

	return vt_hash_mix(vt_hash_mix((uintptr_t)member->label.host, container),
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
		return vt_hash_mix((uintptr_t)member->label.host, (uintptr_t)identity->word);
	/* Its list has no such entry, so it changed the list itself: the device is its own. */
	return vt_hash_mix(number_key(member, memory->ordinal), (uint64_t)member->label.pid);
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
				   .held = { .memory = m },
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
		uint64_t key = vt_hash_mix((uintptr_t)d->host, (uint64_t)d->ordinal + 1), *other;

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

/*
 * The two readings of NVML are before all processes were read and after: the count is that of the
 * lists only if nothing has changed in between.
 */
static void tell_member(struct vt_job *job, const struct device *device,
			const struct holder *holder)
{
	const struct vt_model_gpu *gpu = device->device.gpu;
	struct vt_job_memory *memory;

	if (!gpu || !gpu->compared || gpu->changed_bytes || !holder->held.counted ||
	    holder->held.memory == VT_NO_MEMORY)
		return;
	memory = &job->members.data[holder->member].memory.data[holder->held.memory];
	memory->counted = true;
	memory->counted_bytes = holder->held.bytes;
}

static bool finish(struct vt_job *job, struct device *device)
{
	struct vt_job_device *d = vt_vec_append(&job->devices);
	uint32_t *members = vt_arena_alloc(&job->arena, (device->holders.n + 1) * sizeof(*members));
	struct vt_job_held *of_each =
		vt_arena_alloc(&job->arena, (device->holders.n + 1) * sizeof(*of_each));
	const char *name = name_of(job, device);
	uint64_t held = 0, used;

	if (!d || !members || !of_each || !name) {
		job->devices.n -= d != NULL;
		return false;
	}
	qsort(device->holders.data, device->holders.n, sizeof(*device->holders.data),
	      compare_holders);
	*d = device->device;
	d->held = of_each;
	for (size_t i = 0; i < device->holders.n; i++) {
		members[i] = device->holders.data[i].member;
		of_each[i] = device->holders.data[i].held;
		held += device->holders.data[i].bytes;
		tell_member(job, device, &device->holders.data[i]);
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

/* ---- the kernel driver's count ---- */

static bool is_of(const struct vt_job_usage *usage, const struct vt_member *member)
{
	return !member->core && !strcmp(member->label.host, usage->host) &&
	       !strcmp(member->label.system, usage->system);
}

/* Texts of both are of one form, but for the instances of MIG: CUDA says "GPU-" there, too. */
static const char *uuid_of(struct vt_job *job, const struct vt_model_gpu *gpu)
{
	const char *uuid = vt_job_copy(job, gpu->uuid), *cuda;
	char text[96];

	if (!uuid || strncmp(uuid, "MIG-", 4))
		return uuid;
	snprintf(text, sizeof(text), "GPU-%.90s", uuid + 4);
	cuda = vt_job_copy(job, text);
	for (size_t i = 0; cuda && i < job->members.n; i++)
		for (size_t m = 0; m < job->members.data[i].memory.n; m++)
			if (job->members.data[i].memory.data[m].uuid == cuda)
				return cuda;
	return uuid;
}

/* The only device that the process is on; NULL when it is on several, or on none. */
static const struct vt_model_gpu *only_gpu(const struct vt_model_usage *usage, pid_t pid)
{
	const struct vt_model_gpu *only = NULL;

	for (size_t i = 0; i < usage->processes.n; i++) {
		const struct vt_model_counted *p = &usage->processes.data[i];

		if (p->pid != pid || p->life == VT_LIFE_UNKNOWN || p->life == VT_LIFE_GONE)
			continue;
		if (only && only != &usage->gpus.data[p->gpu])
			return NULL;
		only = &usage->gpus.data[p->gpu];
	}
	return only;
}

static bool is_all_known(const struct vt_model_usage *usage)
{
	for (size_t i = 0; i < usage->gpus.n; i++)
		if (!usage->gpus.data[i].processes_known && !usage->gpus.data[i].divided)
			return false;
	return usage->gpus.n && !usage->foreign;
}

/* A process that is on one device, and has memory of one device, has it there. */
static bool name_by_usage(struct vt_job *job)
{
	for (size_t u = 0; u < job->usages.n; u++) {
		const struct vt_job_usage *usage = &job->usages.data[u];

		for (size_t i = 0; i < job->members.n && is_all_known(&usage->usage); i++) {
			struct vt_member *m = &job->members.data[i];
			const struct vt_model_gpu *gpu = NULL;

			if (is_of(usage, m) && m->memory.n == 1 && !*m->memory.data[0].uuid)
				gpu = only_gpu(&usage->usage, m->label.pid);
			if (!gpu || !*gpu->uuid)
				continue;
			m->memory.data[0].uuid = uuid_of(job, gpu);
			if (!m->memory.data[0].uuid)
				return false;
		}
	}
	return true;
}

static uint32_t find_member(const struct vt_job *job, const struct vt_job_usage *usage,
			    const struct vt_model_counted *p)
{
	for (size_t i = 0; i < job->members.n && p->life != VT_LIFE_UNKNOWN; i++)
		if (job->members.data[i].label.pid == p->pid && is_of(usage, &job->members.data[i]))
			return (uint32_t)i;
	return VT_NO_INDEX;
}

/* It is one of the job's if a process of the job is on it. */
static struct device *device_of(struct devices *devices, const struct vt_job_usage *usage,
				const struct vt_model_gpu *gpu, bool of_job)
{
	const char *uuid = uuid_of(devices->job, gpu);
	uint64_t *found = uuid ? vt_map_get(&devices->by_key, (uintptr_t)uuid) : NULL;
	struct device *device;

	if (found)
		return &devices->list.data[*found];
	if (!of_job || !uuid || !*uuid)
		return NULL;
	device = vt_vec_append(&devices->list);
	if (!device || !vt_map_put(&devices->by_key, (uintptr_t)uuid, devices->list.n - 1)) {
		devices->list.n -= device != NULL;
		devices->job->failed = true;
		return NULL;
	}
	*device = (struct device){
		.device = { .host = usage->host, .container = "", .uuid = uuid, .ordinal = -1 }
	};
	return device;
}

static bool add_count(struct device *device, uint32_t member, const struct vt_model_counted *p)
{
	struct holder *holder = NULL;

	for (size_t i = 0; i < device->holders.n; i++)
		if (device->holders.data[i].member == member)
			holder = &device->holders.data[i];
	if (!holder) {
		holder = vt_vec_append(&device->holders);
		if (!holder)
			return false;
		*holder = (struct holder){ .member = member, .held = { .memory = VT_NO_MEMORY } };
	}
	holder->held.listed = true;
	if (p->bytes_known) {
		holder->held.counted = true;
		holder->held.bytes += p->bytes;
		holder->bytes = holder->held.bytes;
	}
	return true;
}

static bool add_gpu(struct devices *devices, const struct vt_job_usage *usage,
		    const struct vt_model_gpu *gpu)
{
	const struct vt_model_counted *all = &usage->usage.processes.data[gpu->first];
	struct vt_job *job = devices->job;
	struct device *device;
	bool of_job = false;

	for (size_t i = 0; i < gpu->n && !of_job; i++) {
		uint32_t member = find_member(job, usage, &all[i]);

		of_job = member != VT_NO_INDEX && job->members.data[member].label.in_job;
	}
	device = device_of(devices, usage, gpu, of_job);
	if (!device || device->device.gpu)
		return !job->failed;
	device->device.usage = &usage->usage;
	device->device.gpu = gpu;
	if (gpu->memory_known) {
		device->device.known = true;
		device->device.total = gpu->total_bytes;
		device->device.free_bytes = gpu->total_bytes - gpu->used_bytes;
	}
	for (size_t i = 0; i < gpu->n; i++) {
		uint32_t member = find_member(job, usage, &all[i]);

		if (member != VT_NO_INDEX && !add_count(device, member, &all[i]))
			return false;
	}
	return true;
}

/* They are all of one moment, and count what no library of the process tells. */
static bool add_usages(struct devices *devices)
{
	for (size_t u = 0; u < devices->job->usages.n; u++) {
		const struct vt_job_usage *usage = &devices->job->usages.data[u];

		for (size_t i = 0; i < usage->usage.gpus.n; i++)
			if (usage->usage.gpus.data[i].processes_known &&
			    !add_gpu(devices, usage, &usage->usage.gpus.data[i]))
				return false;
	}
	return true;
}

bool vt_job_build_devices(struct vt_job *job)
{
	struct devices devices = { .job = job };
	bool ok = name_by_usage(job) && for_each_memory(&devices, false) &&
		  for_each_memory(&devices, true) && add_usages(&devices) &&
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
