/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/libpools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/text/text.h"

#define MAX_LABEL 48
#define MAX_GROUPS 8 /* of blocks that are shown */

/* ---- rows ---- */

static void print_used_and_free(const struct vt_table *t, const char *library,
				const struct vt_libpool_sum *sum, uint64_t bytes)
{
	char label[MAX_LABEL];

	snprintf(label, sizeof(label), "in use by %s", library);
	vt_table_row(t, &(struct vt_table_row){ 0, label, sum->used,
						sum->blocks_known ? sum->used_chunks : VT_NO_BLOCKS,
						NULL, false });
	snprintf(label, sizeof(label), "cached by %s", library);
	vt_table_row(t, &(struct vt_table_row){ 0, label, bytes - sum->used,
						sum->chunks_known ? sum->free_chunks : VT_NO_BLOCKS,
						NULL, false });
	if (sum->largest_free)
		vt_table_row(t, &(struct vt_table_row){ 1, "largest hole", sum->largest_free,
							VT_NO_BLOCKS, NULL, false });
	if (bytes > sum->held)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which lost to rounding",
							bytes - sum->held, VT_NO_BLOCKS,
							"the driver gives whole pages", false });
}

static void print_claimed(const struct vt_table *t, const char *library,
			  const struct vt_libpool_sum *sum, const struct vt_model_line *line)
{
	char label[MAX_LABEL], note[2 * VT_NUM_MAX + 48], used[VT_NUM_MAX], held[VT_NUM_MAX];

	if (vt_libpool_sum_is_whole(sum, line->bytes)) {
		print_used_and_free(t, library, sum, line->bytes);
		return;
	}
	snprintf(label, sizeof(label), "held by %s", library);
	snprintf(note, sizeof(note), "its counters say %s, %s in use",
		 vt_format_size(held, sum->held), vt_format_size(used, sum->used));
	vt_table_row(t, &(struct vt_table_row){ 0, label, line->bytes, line->ranges,
						sum->used_known && sum->held_known ? note : NULL,
						true });
}

static void print_communicators(const struct vt_table *t, const struct vt_libpool_sum *sum,
				const struct vt_model_line *line)
{
	char note[VT_NUM_MAX + 32], number[VT_NUM_MAX];

	snprintf(note, sizeof(note), "%s communicator%s", vt_format_count(number, sum->pools),
		 sum->pools == 1 ? "" : "s");
	vt_table_row(t, &(struct vt_table_row){ 0, "held by NCCL", line->bytes, line->ranges, note,
						false });
}

void vt_text_libpool_rows(const struct vt_table *t, const struct vt_model *model,
			  const struct vt_model_ledger_device *d)
{
	for (unsigned int kind = 0; kind < VT_N_LIBPOOL_KINDS; kind++) {
		const struct vt_model_line *line = &d->claimed[VT_CLAIMER_LIBPOOLS + kind];
		uint64_t unmapped = d->unmapped_bytes[VT_CLAIMER_LIBPOOLS + kind];
		const char *library = vt_libpool_library(kind);
		struct vt_libpool_sum sum =
			vt_libpool_sum(model, d->device, kind, VT_LIBPOOLS_CLAIMED);
		char label[MAX_LABEL];

		if (line->ranges && kind == VT_LIBPOOL_NCCL)
			print_communicators(t, &sum, line);
		else if (line->ranges)
			print_claimed(t, library, &sum, line);
		snprintf(label, sizeof(label), "of %s's, without memory", library);
		if (unmapped && model->ledger.whole && !d->moved)
			vt_table_row(t, &(struct vt_table_row){ 1, label, unmapped, VT_NO_BLOCKS,
								"only in its books", true });
	}
}

/* ---- lines ---- */

static void print_peak(struct vt_line *line, const char *library, const struct vt_libpool_sum *sum)
{
	char peak[VT_NUM_MAX], limit[VT_NUM_MAX];

	if (!sum->pools || (!sum->peak_known && !sum->limit_known))
		return;
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "%s:", library);
	if (sum->peak_known)
		vt_line_addf(line, VT_PLAIN, " peak %s in use", vt_format_size(peak, sum->peak));
	if (sum->limit_known)
		vt_line_addf(line, VT_PLAIN, "%s may hold %s", sum->peak_known ? " ·" : "",
			     vt_format_size(limit, sum->limit));
	vt_line_end(line);
}

void vt_text_libpools_beside(struct vt_line *line, const struct vt_model *model, int device)
{
	for (unsigned int kind = 0; kind < VT_N_LIBPOOL_KINDS; kind++) {
		struct vt_libpool_sum sum = vt_libpool_sum(model, device, kind, VT_LIBPOOLS_ALL);

		print_peak(line, vt_libpool_library(kind), &sum);
	}
}

/* ---- without the driver's list ---- */

static void print_cell(struct vt_line *line, bool known, uint64_t bytes, int columns)
{
	char number[VT_NUM_MAX];

	vt_line_right(line, VT_PLAIN, known ? vt_format_size(number, bytes) : "", columns);
}

void vt_text_libpools_alone(struct vt_line *line, const struct vt_model *model)
{
	enum { LIBRARY = 8, NAME = 24, BYTES = 11 };
	static const char *const heads[] = { "held", "in use", "peak", "limit" };

	if (!model->libpools.pools.n)
		return;
	vt_text_title(line, NULL, "Memory pools of other libraries, by their own books");
	vt_line_pad(line, 2 + LIBRARY + NAME);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		vt_line_right(line, VT_DIM, heads[i], BYTES);
	vt_line_end(line);
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_libpool_rec *rec = &model->libpools.pools.data[i].rec;

		vt_line_pad(line, 2);
		vt_line_cell(line, VT_PLAIN, vt_libpool_library(rec->kind), LIBRARY, VT_CUT_END);
		vt_line_cell(line, VT_PLAIN, rec->name, NAME, VT_CUT_END);
		print_cell(line, rec->known & VT_LIBPOOL_HELD, rec->held_bytes, BYTES);
		print_cell(line, rec->known & VT_LIBPOOL_USED, rec->used_bytes, BYTES);
		print_cell(line, rec->known & VT_LIBPOOL_PEAK, rec->peak_bytes, BYTES);
		print_cell(line, rec->known & VT_LIBPOOL_LIMIT, rec->limit_bytes, BYTES);
		if (rec->is_host)
			vt_line_add(line, VT_DIM, "  pinned host memory");
		vt_line_end(line);
	}
}

/* ---- what blocks are for ---- */

struct group {
	const char *library, *note; /* "" nothing */
	bool is_held;               /* the note is what holds it */
	uint64_t bytes, count, largest;
};

static int compare_names(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;
	int order = strcmp(a->library, b->library);

	if (!order)
		order = strcmp(a->note, b->note);
	return order ? order : a->is_held - b->is_held;
}

static int compare_bytes(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return compare_names(pa, pb);
}

static size_t count_used(const struct vt_model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < model->libpools.pools.n; i++)
		if (!model->libpools.pools.data[i].rec.is_host)
			n += model->libpools.pools.data[i].used_chunks;
	return n;
}

/* What the library says of it; else the variable that holds it. */
static struct group block_of(const struct vt_model *model, size_t pool, size_t k)
{
	const struct vt_model_libpool *of = &model->libpools.pools.data[pool];
	const struct vt_libpool_chunk *chunk = &of->chunks[k];
	const struct vt_model_array *array =
		vt_model_chunk_owner(model, (uint32_t)pool, (uint32_t)k);
	struct group group = {
		vt_libpool_library(of->rec.kind), "", false, chunk->size, 1, chunk->size
	};

	if (chunk->note) {
		group.note = chunk->note;
	} else if (array) {
		group.note = *array->owner.variable ? array->owner.variable : array->owner.name;
		group.is_held = *group.note;
	}
	return group;
}

static size_t list_blocks(const struct vt_model *model, struct group *groups)
{
	size_t n = 0;

	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		for (size_t k = 0; !pool->rec.is_host && k < pool->n_chunks; k++) {
			if (pool->chunks[k].in_use)
				groups[n++] = block_of(model, i, k);
		}
	}
	return n;
}

static size_t join_equal(struct group *groups, size_t n)
{
	size_t kept = 0;

	qsort(groups, n, sizeof(*groups), compare_names);
	for (size_t i = 0; i < n; i++) {
		struct group *last = kept ? &groups[kept - 1] : NULL;

		if (!last || compare_names(last, &groups[i]) != 0) {
			groups[kept++] = groups[i];
			continue;
		}
		last->bytes += groups[i].bytes;
		last->count++;
		if (groups[i].largest > last->largest)
			last->largest = groups[i].largest;
	}
	qsort(groups, kept, sizeof(*groups), compare_bytes);
	return kept;
}

static void print_group(struct vt_line *line, const struct group *group)
{
	enum { BYTES = 12, COUNT = 10, LARGEST = 14, LIBRARY = 8 };
	char number[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, group->bytes), BYTES - 2);
	vt_line_right(line, VT_PLAIN, vt_format_count(number, group->count), COUNT);
	vt_line_right(line, VT_DIM, vt_format_size(number, group->largest), LARGEST);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_PLAIN, group->library, LIBRARY, VT_CUT_END);
	if (group->is_held)
		vt_line_add(line, VT_DIM, "held by ");
	vt_line_cell(line, *group->note ? VT_PLAIN : VT_DIM,
		     *group->note ? group->note : "not said", vt_line_room(line), VT_CUT_END);
	vt_line_end(line);
}

void vt_text_libpool_blocks(struct vt_line *line, const struct vt_model *model)
{
	size_t n = count_used(model), kept;
	struct group *groups;

	if (!n)
		return;
	groups = malloc(n * sizeof(*groups));
	if (!groups) {
		line->buf.failed = true;
		return;
	}
	kept = join_equal(groups, list_blocks(model, groups));
	vt_text_title(line, "size, blocks, the largest; what for",
		      "What the blocks of other libraries are");
	for (size_t i = 0; i < kept && i < MAX_GROUPS; i++)
		print_group(line, &groups[i]);
	if (kept > MAX_GROUPS) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "and %zu more", kept - MAX_GROUPS);
		vt_line_end(line);
	}
	free(groups);
}
