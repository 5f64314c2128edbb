/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a profile of memory, and what of the devices' used memory is not, in words. */
#include <inttypes.h>

#include "base/format.h"
#include "report/profile/building.h"
#include "report/state_words.h"

/* "GPU 0: not here: 1.20 GiB (1288490188 bytes) cached by PyTorch" */
static void say(struct vt_building *b, int device, bool here, uint64_t bytes, const char *what)
{
	char size[VT_NUM_MAX];

	if (bytes)
		vt_profile_comment(b->profile, "GPU %d: %s%s (%" PRIu64 " bytes) %s", device,
				   here ? "" : "not here: ", vt_format_size(size, bytes), bytes,
				   what);
}

static void say_torch(struct vt_building *b, const struct vt_model_allocator *a)
{
	if (!a->exact) {
		vt_profile_comment(b->profile,
				   "GPU %d: not here: PyTorch's blocks, which could not be read as "
				   "they were at one moment",
				   a->device);
		return;
	}
	say(b, a->device, true, a->allocated_bytes, "in use by PyTorch");
	say(b, a->device, false, a->awaiting_bytes,
	    "freed, that PyTorch keeps until another stream is done with it");
	say(b, a->device, false, a->cached_bytes, "cached by PyTorch");
}

/* What of a library's memory is in no sample. */
static void say_library(struct vt_building *b, const struct vt_model_ledger_device *d,
			unsigned int kind)
{
	const struct vt_model_line *line = &d->claimed[VT_CLAIMER_LIBPOOLS + kind];
	struct vt_libpool_sum sum = vt_libpool_sum(b->model, d->device, kind, VT_LIBPOOLS_CLAIMED);
	bool whole = vt_libpool_sum_is_whole(&sum, line->bytes);
	char what[128];

	if (!line->bytes || kind == VT_LIBPOOL_NCCL)
		return;
	snprintf(what, sizeof(what),
		 whole ? "cached by %s" : "held by %s, of which nobody knows how much is in use",
		 vt_libpool_library(kind));
	say(b, d->device, false, whole ? line->bytes - sum.used : line->bytes, what);
}

static void say_kept(struct vt_building *b, const struct vt_model_ledger_device *d, int kind,
		     const char *what)
{
	const struct vt_model_line *line = &d->kinds[kind];

	if (line->bytes > line->asked)
		say(b, d->device, false, line->bytes - line->asked, what);
}

static void say_listed(struct vt_building *b, const struct vt_model_ledger_device *d)
{
	if (!d->claims_known) {
		vt_profile_comment(b->profile,
				   "GPU %d: not here: memory of other libraries, which cannot be "
				   "told from PyTorch's",
				   d->device);
		return;
	}
	for (unsigned int kind = 0; kind < VT_N_LIBPOOL_KINDS; kind++)
		say_library(b, d, kind);
	say_kept(b, d, VT_RANGE_POOL, "kept by the driver's pools");
	say_kept(b, d, VT_RANGE_GRAPH, "kept by the driver for CUDA graphs");
	if (d->own_rest_known)
		say(b, d->device, false, d->own_rest_bytes, "of contexts and code of this process");
	else if (d->rest_known)
		say(b, d->device, false, d->rest_bytes,
		    "of contexts, of code and of other processes");
	say(b, d->device, false, d->kinds[VT_RANGE_MANAGED].asked,
	    "of managed memory, which may be on the host");
}

/* Without the driver's list: pools whose blocks are not known. */
static void say_unlisted(struct vt_building *b)
{
	const struct vt_model *model = b->model;
	char what[128];

	if (model->process.uses_cuda)
		vt_profile_comment(b->profile,
				   "The driver was not asked: memory of other libraries is here "
				   "only as far as they keep books, or it was recorded");
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		snprintf(what, sizeof(what), "held by %s, of which nobody knows how much is in use",
			 vt_libpool_library(pool->rec.kind));
		if (!pool->rec.is_host && !pool->n_chunks && (pool->rec.known & VT_LIBPOOL_HELD))
			say(b, pool->device, false, pool->rec.held_bytes, what);
	}
}

static void say_owners(struct vt_building *b)
{
	const struct vt_model_owners *owners = &b->model->owners;

	if (!b->has_torch)
		return;
	if (owners->state != VT_OWNERS_READ)
		vt_profile_comment(b->profile, "Blocks have no owners: %s",
				   vt_owners_state_words(owners->state));
	else if (!owners->whole)
		vt_profile_comment(b->profile, "Owners may be missing: not all objects were read");
}

void vt_building_comments(struct vt_building *b)
{
	const struct vt_model *model = b->model;

	vt_profile_comment(b->profile, "%s: memory in use on devices, of process %d on %s",
			   vt_texts_get(&b->profile->texts, b->profile->tool), model->process.pid,
			   model->where.host && *model->where.host ? model->where.host :
								     "an unknown host");
	for (size_t i = 0; i < model->allocators.n; i++)
		say_torch(b, &model->allocators.data[i]);
	for (size_t i = 0; i < model->ledger.devices.n && model->ledger.known; i++)
		say_listed(b, &model->ledger.devices.data[i]);
	if (!model->ledger.known)
		say_unlisted(b);
	if (model->pinned.sum_known && model->pinned.total.bytes)
		vt_profile_comment(b->profile,
				   "Not here: pinned memory of the host (%" PRIu64
				   " bytes of PyTorch's)",
				   model->pinned.total.bytes);
	if (b->has_torch && !model->block_traces && model->owners.state == VT_OWNERS_READ)
		vt_profile_comment(b->profile,
				   "No backtraces are recorded: stacks are the ways to the owners");
	say_owners(b);
	if (model->completeness != VT_COMPLETE)
		vt_profile_comment(b->profile, "The report is partial; vramtap report says why");
}
