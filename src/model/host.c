/* SPDX-License-Identifier: Apache-2.0 */
/* Whose pinned memory is: the driver's ranges against the libraries' books. */
#include "model/host.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "model/account.h"

const char *vt_shared_kind_name(unsigned int kind)
{
	static const char *const names[VT_N_SHARED_KINDS] = {
		[VT_SHARED_TORCH] = "torch",
		[VT_SHARED_NCCL] = "nccl",
		[VT_SHARED_OTHER] = "other",
	};

	return names[kind < VT_N_SHARED_KINDS ? kind : VT_SHARED_OTHER];
}

/* Memory that a library says is its own. */
struct piece {
	uint64_t start, end;
};

static int compare_pieces(const void *pa, const void *pb)
{
	const struct piece *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

static bool add_piece(struct piece *pieces, size_t *n, uint64_t start, uint64_t size)
{
	uint64_t end;

	if (!size || __builtin_add_overflow(start, size, &end))
		return false;
	pieces[(*n)++] = (struct piece){ start, end };
	return true;
}

static size_t count_pieces(const struct vt_model *model)
{
	size_t n = model->pinned.n_blocks;

	for (size_t i = 0; i < model->libpools.pools.n; i++)
		n += model->libpools.pools.data[i].n_regions;
	return n;
}

/* Fills in what the books have, and lists it. */
static size_t list_pieces(struct vt_model *model, struct piece *pieces)
{
	struct vt_model_host *host = &model->host;
	const struct vt_model_pinned *pinned = &model->pinned;
	size_t n = 0;

	for (size_t i = 0; pinned->sum_known && i < pinned->n_blocks; i++)
		if (add_piece(pieces, &n, pinned->blocks[i].addr, pinned->blocks[i].size))
			host->torch_bytes += pinned->blocks[i].size;
	host->torch_unused_known = pinned->exact;
	host->torch_unused_bytes = pinned->exact ? pinned->states[VT_BLOCK_CACHED].bytes : 0;
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		/* CuPy's SystemMemory is malloc()'s: of the host, but not pinned. */
		bool is_pinned = pool->rec.is_host && pool->rec.kind != VT_LIBPOOL_CUPY;

		for (size_t k = 0; is_pinned && k < pool->n_regions; k++)
			if (add_piece(pieces, &n, pool->regions[k].start, pool->regions[k].size))
				host->libpool_bytes[pool->rec.kind] += pool->regions[k].size;
	}
	if (n)
		qsort(pieces, n, sizeof(*pieces), compare_pieces);
	return n;
}

/* Of the range, what no piece has; *at: pieces before it end before the range. */
static uint64_t uncovered(const struct vt_range_rec *r, const struct piece *pieces, size_t n,
			  size_t *at)
{
	uint64_t from = r->start, end = r->start + r->size, bytes = 0;

	while (*at < n && pieces[*at].end <= from)
		(*at)++;
	for (size_t i = *at; i < n && pieces[i].start < end && from < end; i++) {
		if (pieces[i].start > from)
			bytes += pieces[i].start - from;
		if (pieces[i].end > from)
			from = pieces[i].end;
	}
	return from < end ? bytes + end - from : bytes;
}

static void say_full(struct vt_model *model)
{
	const struct vt_model_host *host = &model->host;
	char used[VT_NUM_MAX], total[VT_NUM_MAX];

	if (vt_host_shm_is_full(host))
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_PINNED, "shm-full",
			"/dev/shm is nearly full: %s of %s; a process that finds no room there, such as a worker of a DataLoader, ends with a bus error",
			vt_format_size(used, host->shm_used_bytes),
			vt_format_size(total, host->shm_total_bytes));
}

/* The ledger's ranges are sorted. Memory that was registered is in the books only. */
bool vt_account_host(struct vt_model *model)
{
	struct vt_model_host *host = &model->host;
	VT_FREE struct piece *pieces = calloc(count_pieces(model) + 1, sizeof(*pieces));
	size_t n, at = 0;

	if (!pieces)
		return false;
	n = list_pieces(model, pieces);
	host->pinned_listed = model->ledger.known && model->ledger.whole;
	for (size_t i = 0; host->pinned_listed && i < model->ledger.ranges.n; i++) {
		const struct vt_range_rec *r = &model->ledger.ranges.data[i].rec;

		if (r->kind == VT_RANGE_HOST)
			host->unattributed_bytes += uncovered(r, pieces, n, &at);
	}
	host->pinned_bytes = host->torch_bytes + host->unattributed_bytes;
	for (int i = 0; i < VT_N_LIBPOOL_KINDS; i++)
		host->pinned_bytes += host->libpool_bytes[i];
	say_full(model);
	return true;
}
