/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else uses the devices. NVML answers a process of its own while the report is made; it may
 * hang with the device, so the report waits for it at the end, and not for long. What it says of
 * the devices stands in where the process itself was not asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "collect/usage.h"
#include "target/processes.h"

/* From its start: loading NVML takes 15 ms, and longer where there are many devices. */
#define ANSWER_NS (1 * VT_NS_PER_S)
/* For the first answer to be older than the blocks: worth a short wait if nothing else asks. */
#define FIRST_NS (10 * VT_NS_PER_MS)

struct vt_collect_usage {
	struct vt_usage *asker; /* NULL: it could not be started */
	uint64_t deadline_ns;
	struct vt_usage_reading first;
	bool have_first;
	uint64_t begin_ns, end_ns; /* when the blocks were read from outside */
};

static bool has_driver(struct vt_collect *c)
{
	size_t index = 0;

	return vt_modules_by_name(&c->target.modules, "libcuda.so", &index) != NULL;
}

void vt_collect_usage_begin(struct vt_collect *c)
{
	uint64_t minors = 0;

	if ((!c->target.live && !c->target.held) || c->options->usage_elsewhere || !has_driver(c))
		return;
	c->usage = calloc(1, sizeof(*c->usage));
	if (!c->usage)
		return;
	/* A device that it has not opened may sleep, and a question would wake it up. */
	(void)vt_devices_open(c->model->process.pid, &minors);
	c->usage->asker = vt_usage_start(minors, true);
	c->usage->deadline_ns = vt_now_ns() + ANSWER_NS;
}

static void take_first(struct vt_collect_usage *u, uint64_t deadline_ns)
{
	if (!u->asker || u->have_first)
		return;
	vt_usage_take(u->asker, deadline_ns, &u->first);
	u->have_first = u->first.outcome == VT_USAGE_COMPLETE && !u->first.state;
}

void vt_collect_usage_before(struct vt_collect *c)
{
	if (!c->usage)
		return;
	if (!c->model->devices.n) /* only NVML tells of them */
		take_first(c->usage, vt_now_ns() + FIRST_NS);
	c->usage->begin_ns = vt_now_ns();
}

void vt_collect_usage_after(struct vt_collect *c)
{
	if (!c->usage)
		return;
	c->usage->end_ns = vt_now_ns();
	if (c->usage->asker)
		vt_usage_ask(c->usage->asker);
}

/* ---- which device it is in the process ---- */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				      -1;
}

/* "GPU-8f2e1c34-...", "MIG-..." */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	size_t n = 0;

	text = strchr(text, '-');
	for (text = text ? text + 1 : ""; n < 16; text += 2) {
		text += *text == '-';
		if (digit(text[0]) < 0 || digit(text[1]) < 0)
			return false;
		uuid[n++] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
	}
	return !*text;
}

static void number_by_uuid(struct vt_model *model)
{
	for (size_t i = 0; i < model->usage.gpus.n; i++) {
		struct vt_model_gpu *gpu = &model->usage.gpus.data[i];
		uint8_t uuid[16];

		for (size_t k = 0; k < model->devices.n && parse_uuid(gpu->uuid, uuid); k++) {
			struct vt_model_device *d = &model->devices.data[k];

			if (d->have_uuid && !memcmp(d->uuid, uuid, sizeof(uuid)))
				gpu->ordinal = d->ordinal;
		}
	}
}

/* PyTorch's only allocator that holds memory; NULL when there are several, or none. */
static const struct vt_model_allocator *only_allocator(const struct vt_model *model)
{
	const struct vt_model_allocator *only = NULL;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		if (a->n_blocks && only)
			return NULL;
		if (a->n_blocks)
			only = a;
	}
	return only;
}

static struct vt_model_gpu *only_gpu(struct vt_model_usage *usage)
{
	struct vt_model_gpu *only = NULL;

	for (size_t i = 0; i < usage->gpus.n; i++) {
		struct vt_model_gpu *gpu = &usage->gpus.data[i];

		if (!gpu->processes_known && !gpu->divided)
			return NULL; /* it may be on that one */
		if (gpu->ours_known && gpu->is_ours && only)
			return NULL;
		if (gpu->ours_known && gpu->is_ours)
			only = gpu;
	}
	return only;
}

/*
 * From outside, CUDA's number of a device is not known. A process that uses one device has all of
 * its memory there.
 */
static void number_the_only(struct vt_model *model)
{
	const struct vt_model_allocator *a = only_allocator(model);
	struct vt_model_gpu *gpu = only_gpu(&model->usage);
	uint64_t held = 0;

	if (!a || !gpu)
		return;
	for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++)
		if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
			held += model->blocks[i].size;
	if (held <= gpu->ours_bytes)
		gpu->ordinal = a->device;
}

static bool is_of_one_moment(const struct vt_collect_usage *u, const struct vt_model_usage *usage,
			     const struct vt_model_gpu *gpu)
{
	return u->have_first && u->first.end_ns <= u->begin_ns && usage->begin_ns >= u->end_ns &&
	       gpu->compared && !gpu->changed_bytes;
}

static void add_device(struct vt_collect *c, const struct vt_model_gpu *gpu)
{
	struct vt_model_device *device = vt_vec_append(&c->model->devices);

	if (!device)
		return; /* it remains among those of the usage */
	*device = (struct vt_model_device){
		.ordinal = gpu->ordinal,
		.name = gpu->name,
		.context_active = true, /* the kernel counts memory for it */
		.have_memory = gpu->memory_known,
		.memory_from = "NVML",
		.memory_counted = true,
		.memory_moved = !is_of_one_moment(c->usage, &c->model->usage, gpu),
		.total_bytes = gpu->total_bytes,
		.used_bytes = gpu->used_bytes,
		.free_bytes = gpu->total_bytes - gpu->used_bytes,
		.why_no_memory = gpu->memory_known ? NULL : "NVML does not tell",
	};
	device->have_uuid = parse_uuid(gpu->uuid, device->uuid);
}

static void number_devices(struct vt_collect *c)
{
	struct vt_model_usage *usage = &c->model->usage;

	if (c->model->devices.n) {
		number_by_uuid(c->model);
		return;
	}
	number_the_only(c->model);
	for (size_t i = 0; i < usage->gpus.n; i++) {
		if (usage->gpus.data[i].ordinal < 0)
			continue;
		c->model->cuda_method = VT_METHOD_OUTSIDE;
		add_device(c, &usage->gpus.data[i]);
	}
}

/* ---- the end ---- */

static void say(struct vt_collect *c)
{
	const struct vt_model_usage *usage = &c->model->usage;

	if (usage->state == VT_COUNTED_LATE || usage->state == VT_COUNTED_REFUSED)
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "usage-unknown",
			      "who else uses the devices is not known: %s", usage->why);
}

void vt_collect_usage_finish(struct vt_collect *c)
{
	struct vt_model_usage *usage = &c->model->usage;
	struct vt_collect_usage *u = c->usage;
	uint64_t now = vt_now_ns();

	if (!u)
		return;
	if (!u->end_ns) /* the blocks were read in passes, and are by now */
		vt_collect_usage_after(c);
	take_first(u, u->deadline_ns);
	if (u->have_first || !u->asker) {
		vt_collect_count(u->asker, u->deadline_ns, u->have_first ? &u->first : NULL,
				 c->model->process.pid, &c->model->arena, usage);
	} else {
		vt_collect_count_none(&u->first, &c->model->arena, usage);
	}
	if (usage->state == VT_COUNTED_READ)
		number_devices(c);
	say(c);
	usage->ms = (double)(vt_now_ns() - now) / VT_NS_PER_MS;
}

void vt_collect_usage_deinit(struct vt_collect *c)
{
	if (!c->usage)
		return;
	vt_usage_stop(c->usage->asker);
	vt_usage_reading_deinit(&c->usage->first);
	free(c->usage);
}
