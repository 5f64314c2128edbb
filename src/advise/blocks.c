/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of PyTorch's allocator that is neither in use nor free for the next request. */
#include <inttypes.h>
#include <stdio.h>

#include "advise/internal.h"
#include "model/awaiting.h"

/* From which share of the device on something is worth an advice. */
#define WORTH(d) ((d)->total_bytes / 20)

static bool is_wanting(const struct vt_model *model, int device)
{
	return vt_advise_fails_now(model, device) || vt_advise_is_full(model, device);
}

/* Bytes by stream, or by pool; a process with more of them is told of the first ones. */
#define MAX_KEYS 64

struct tally {
	uint64_t keys[MAX_KEYS], bytes[MAX_KEYS];
	size_t n;
};

static void count(struct tally *tally, uint64_t key, uint64_t bytes)
{
	size_t i = 0;

	while (i < tally->n && tally->keys[i] != key)
		i++;
	if (i == MAX_KEYS)
		return;
	if (i == tally->n) {
		tally->keys[i] = key;
		tally->bytes[i] = 0;
		tally->n++;
	}
	tally->bytes[i] += bytes;
}

/*
 * Freed by their owners while another stream may still use them (record_stream): PyTorch waits for
 * an event before it hands them out again.
 */
static void add_stream(struct vt_advise *a, struct vt_model_advice *advice, int device)
{
	const struct vt_model *model = a->model;
	struct tally tally = { .n = 0 };
	char stream[32] = "default";
	size_t most = 0;

	for (size_t i = 0; i < model->groups.n; i++)
		if (model->groups.data[i].device == device &&
		    model->groups.data[i].state == VT_BLOCK_AWAITING_FREE)
			count(&tally, model->groups.data[i].stream, model->groups.data[i].bytes);
	for (size_t i = 1; i < tally.n; i++)
		if (tally.bytes[i] > tally.bytes[most])
			most = i;
	if (!tally.n)
		return;
	if (tally.keys[most])
		snprintf(stream, sizeof(stream), "0x%" PRIx64, tally.keys[most]);
	vt_advise_text(a, advice, "stream", stream);
	vt_advise_number(advice, "stream_bytes", tally.bytes[most]);
}

static uint64_t count_pools(const struct vt_model *model, int device)
{
	struct tally tally = { .n = 0 };

	for (size_t i = 0; i < model->groups.n; i++)
		if (model->groups.data[i].device == device && model->groups.data[i].private_pool)
			count(&tally, model->groups.data[i].pool, model->groups.data[i].bytes);
	return tally.n;
}

/* The stream that most of it waits for. */
static void add_waits(struct vt_advise *a, struct vt_model_advice *advice,
		      const struct vt_model_allocator *allocator)
{
	const struct vt_torch_waits *waits = &allocator->result.waits;
	struct vt_str text = { 0 };

	if (!waits->n)
		return;
	vt_torch_wait_say(&text, &waits->list[0], allocator->device);
	a->failed |= text.failed;
	vt_advise_text(a, advice, "waits_for", vt_str_get(&text));
	vt_advise_number(advice, "waits_for_bytes", waits->list[0].bytes);
	vt_str_deinit(&text);
}

void vt_advise_awaiting(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *allocator = &model->allocators.data[i];
		const struct vt_model_device *d = vt_model_device(model, allocator->device);
		struct vt_model_advice *advice;

		if (!allocator->exact || !d || !d->have_memory ||
		    allocator->awaiting_bytes < WORTH(d) || !is_wanting(model, d->ordinal))
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "awaiting_bytes", allocator->awaiting_bytes);
		vt_advise_number(advice, "awaiting_blocks", allocator->awaiting_blocks);
		add_stream(a, advice, d->ordinal);
		add_waits(a, advice, allocator);
		if (advice)
			advice->alarm = vt_advise_fails_now(model, d->ordinal);
	}
}

/* Each pool keeps what its graphs use while they do not run, and no other request gets it. */
void vt_advise_private_pools(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *allocator = &model->allocators.data[i];
		const struct vt_model_device *d = vt_model_device(model, allocator->device);
		struct vt_model_advice *advice;
		uint64_t pools;

		if (!allocator->exact || !d || !d->have_memory ||
		    allocator->private_cached_bytes < WORTH(d) || !is_wanting(model, d->ordinal))
			continue;
		pools = count_pools(model, d->ordinal);
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "private_bytes", allocator->private_bytes);
		vt_advise_number(advice, "private_cached_bytes", allocator->private_cached_bytes);
		vt_advise_number(advice, "pools", pools);
		if (pools < 2)
			vt_advise_sure(advice, VT_SURE_POSSIBLE);
	}
}

/* Errors that are over: now there is room, and nothing tells what was there at that time. */
void vt_advise_past_oom(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *allocator = &model->allocators.data[i];
		const struct vt_torch_stats *stats = &allocator->result.stats;
		struct vt_model_advice *advice;

		if (!allocator->exact || !allocator->result.have_stats || stats->num_ooms <= 0 ||
		    model->caught.oom || model->ooms.n > 0)
			continue;
		advice = vt_advise_add(a, allocator->device);
		vt_advise_number(advice, "errors", (uint64_t)stats->num_ooms);
		vt_advise_number(advice, "now_bytes", allocator->allocated_bytes);
		if (stats->allocated_bytes.peak > 0)
			vt_advise_number(advice, "peak_bytes",
					 (uint64_t)stats->allocated_bytes.peak);
		if (vt_advise_is_live(model))
			vt_advise_command(a, advice, "vramtap watch %d --on-oom",
					  (int)model->process.pid);
	}
}

/* What makes it take less, where it has such a thing. */
static const char *const library_settings[VT_N_LIBPOOL_KINDS] = {
	[VT_LIBPOOL_XLA] = "XLA_PYTHON_CLIENT_PREALLOCATE=false",
	[VT_LIBPOOL_CUPY] = "cupy.get_default_memory_pool().free_all_blocks()",
};

/* What pools of other libraries have, beside PyTorch. */
void vt_advise_libraries(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->ledger.devices.n; i++) {
		const struct vt_model_ledger_device *l = &model->ledger.devices.data[i];
		const struct vt_model_device *d = vt_model_device(model, l->device);

		if (!d || !d->have_memory || !vt_advise_allocator(model, l->device) ||
		    !vt_advise_was_short(model, l->device))
			continue;
		for (unsigned int kind = 0; kind < VT_N_LIBPOOL_KINDS; kind++) {
			uint64_t bytes = l->claimed[VT_CLAIMER_LIBPOOLS + kind].bytes;
			struct vt_libpool_sum sum;
			struct vt_model_advice *advice;

			if (bytes < d->total_bytes / 10)
				continue;
			sum = vt_libpool_sum(model, l->device, kind, VT_LIBPOOLS_CLAIMED);
			advice = vt_advise_add(a, l->device);
			vt_advise_text(a, advice, "library", vt_libpool_library(kind));
			vt_advise_number(advice, "library_bytes", bytes);
			if (vt_libpool_sum_is_whole(&sum, bytes))
				vt_advise_number(advice, "library_used_bytes", sum.used);
			vt_advise_number(advice, "free_bytes", d->free_bytes);
			if (library_settings[kind])
				vt_advise_setting(a, advice, "%s", library_settings[kind]);
		}
	}
}
