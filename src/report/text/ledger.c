/* SPDX-License-Identifier: Apache-2.0 */
/* What the process allocated besides PyTorch, and what is in no allocation. */
#include "report/text/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "report/state_words.h"
#include "report/text/libpools.h"
#include "report/text/text.h"

#define MAX_NOTE 128
#define MAX_ROWS VT_N_RANGE_KINDS
#define MAX_RAW 5 /* allocations that are listed where most memory is raw: */
#define MUCH_RAW (UINT64_C(16) << 20)

/* In the list of ranges. */
static const char *const words[VT_N_RANGE_KINDS] = {
	[VT_RANGE_OTHER] = "unknown",         [VT_RANGE_DEVICE] = "cudaMalloc",
	[VT_RANGE_MAPPED] = "cuMemMap",       [VT_RANGE_POOL] = "cudaMallocAsync",
	[VT_RANGE_MANAGED] = "managed",       [VT_RANGE_HOST] = "pinned host",
	[VT_RANGE_DATA] = "data of GPU code", [VT_RANGE_ARRAY] = "array",
	[VT_RANGE_GRAPH] = "CUDA graph",
};

/* ---- the rows of a device ---- */

static void add_note(char note[MAX_NOTE], const struct vt_model_ledger *ledger,
		     const struct vt_model_ledger_device *d, int kind)
{
	char number[VT_NUM_MAX];

	note[0] = 0;
	switch (kind) {
	case VT_RANGE_POOL:
		if (ledger->pools_asked)
			snprintf(note, MAX_NOTE, "%s in use",
				 vt_format_size(number, d->kinds[kind].asked));
		else
			snprintf(note, MAX_NOTE, "in use; what the pools keep is not known");
		break;
	case VT_RANGE_GRAPH:
		if (d->graph_known)
			snprintf(note, MAX_NOTE, "%s in use",
				 vt_format_size(number, d->graph_used_bytes));
		break;
	case VT_RANGE_DATA:
		snprintf(note, MAX_NOTE, "or memory of another process (CUDA IPC)");
		break;
	default:
		break;
	}
}

static void print_kind(const struct vt_table *t, const struct vt_model_ledger *ledger,
		       const struct vt_model_ledger_device *d, int kind)
{
	const struct vt_model_line *line = &d->kinds[kind];
	char note[MAX_NOTE];

	add_note(note, ledger, d, kind);
	vt_table_row(t, &(struct vt_table_row){ 0, vt_range_kind_label((unsigned int)kind),
						line->bytes, line->ranges, note[0] ? note : NULL,
						kind == VT_RANGE_DATA &&
							line->bytes > UINT64_C(64) << 20 });
	if (kind == VT_RANGE_DEVICE && d->recorded.bytes)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which recorded", d->recorded.bytes,
							d->recorded.ranges, NULL, false });
	if (kind == VT_RANGE_MAPPED && d->shareable.bytes)
		vt_table_row(t, &(struct vt_table_row){
					1, "of which made to be shared", d->shareable.bytes,
					d->shareable.ranges,
					d->claimed[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_NCCL].ranges ?
						NULL :
						"as NCCL's buffers are",
					false });
}

/* The largest first. */
static void print_kinds(const struct vt_table *t, const struct vt_model_ledger *ledger,
			const struct vt_model_ledger_device *d)
{
	bool done[VT_N_RANGE_KINDS] = { false };

	for (int i = 0; i < MAX_ROWS; i++) {
		int most = -1;

		for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
			if (!done[kind] && vt_range_is_of_device((uint8_t)kind) &&
			    d->kinds[kind].bytes &&
			    (most < 0 || d->kinds[kind].bytes > d->kinds[most].bytes))
				most = kind;
		if (most < 0)
			return;
		print_kind(t, ledger, d, most);
		done[most] = true;
	}
}

static void print_local_memory(const struct vt_table *t, const struct vt_model_ledger_device *d)
{
	const struct vt_model_local_memory *local = &d->local;
	char note[MAX_NOTE], size[VT_NUM_MAX], threads[VT_NUM_MAX];

	if (!local->known)
		return;
	snprintf(note, sizeof(note), "%s of stack for each of %s threads",
		 vt_format_size(size, local->stack_bytes),
		 vt_format_count(threads, local->multiprocessors * local->threads));
	vt_table_row(t, &(struct vt_table_row){ 1, "of which local memory of kernels", local->bytes,
						VT_NO_BLOCKS, note, false });
}

static void print_own_rest(const struct vt_table *t, const struct vt_model_ledger *ledger,
			   const struct vt_model_ledger_device *d)
{
	vt_table_row(t,
		     &(struct vt_table_row){
			     0, "contexts, code of this process", d->own_rest_bytes, VT_NO_BLOCKS,
			     ledger->whole ? "by the kernel driver's count, in no allocation" :
					     "and allocations that could not be listed",
			     !ledger->whole });
	print_local_memory(t, d);
	vt_table_row(t, &(struct vt_table_row){ 0, "this process, all of the above",
						d->found_bytes + d->own_rest_bytes, VT_NO_BLOCKS,
						NULL, false, true });
}

/* As they are listed below the device; by the same count as what is this process's. */
static void print_not_ours(const struct vt_table *t, const struct vt_model *model,
			   const struct vt_model_ledger_device *d)
{
	const struct vt_model_gpu *gpu = vt_model_gpu(&model->usage, d->device);
	uint64_t bytes = d->rest_bytes - d->own_rest_bytes, nobodys;

	if (!gpu || !gpu->rest_known || gpu->rest_bytes < 0 || (uint64_t)gpu->rest_bytes > bytes) {
		vt_table_row(t,
			     &(struct vt_table_row){
				     0, "not of this process", bytes, VT_NO_BLOCKS,
				     "other processes, managed memory, the driver's own", false });
		return;
	}
	nobodys = (uint64_t)gpu->rest_bytes;
	if (bytes > nobodys)
		vt_table_row(t, &(struct vt_table_row){ 0, "other processes", bytes - nobodys,
							VT_NO_BLOCKS, "listed above", false });
	vt_table_row(t, &(struct vt_table_row){
				0, model->usage.whole ? "no process" : "no process seen from here",
				nobodys, VT_NO_BLOCKS, "managed memory, the driver's own", false });
}

/* Managed memory moves between the device and the host; how much is here, nobody tells. */
static void print_rest(const struct vt_table *t, const struct vt_model *model,
		       const struct vt_model_ledger_device *d)
{
	const struct vt_model_ledger *ledger = &model->ledger;
	const struct vt_model_line *managed = &d->kinds[VT_RANGE_MANAGED];
	uint64_t rest = d->rest_bytes - d->own_rest_bytes; /* it is in no process's count */
	uint64_t most = managed->asked < rest ? managed->asked : rest;

	if (d->own_rest_known) {
		print_own_rest(t, ledger, d);
		print_not_ours(t, model, d);
	} else {
		vt_table_row(t, &(struct vt_table_row){
					0, "contexts, code, other processes", d->rest_bytes,
					VT_NO_BLOCKS,
					ledger->whole ? "used, in no allocation of this process" :
							"and allocations that could not be listed",
					!ledger->whole });
		print_local_memory(t, d);
	}
	if (most)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which managed, at most", most,
							managed->ranges, NULL, false });
}

bool vt_text_ledger_rows(const struct vt_table *t, const struct vt_model *model, int device)
{
	const struct vt_model_ledger *ledger = &model->ledger;
	const struct vt_model_ledger_device *d = vt_model_ledger_device(model, device);

	if (!ledger->known || !d || !d->claims_known)
		return false;
	if (d->unmapped_bytes[VT_CLAIMER_PYTORCH] && ledger->whole && !d->moved)
		vt_table_row(t, &(struct vt_table_row){ 1, "of PyTorch's, without memory",
							d->unmapped_bytes[VT_CLAIMER_PYTORCH],
							VT_NO_BLOCKS, "only in PyTorch's books",
							true });
	vt_text_libpool_rows(t, model, d);
	print_kinds(t, ledger, d);
	if (d->rest_known)
		print_rest(t, model, d);
	return true;
}

void vt_text_ledger_beside(struct vt_line *line, const struct vt_model *model, int device)
{
	if (vt_model_ledger_device(model, device))
		vt_text_libpools_beside(line, model, device);
}

/* ---- a process without PyTorch's allocator ---- */

static void print_unknown(const struct vt_table *t)
{
	vt_line_pad(t->line, 2);
	vt_line_wrap(t->line, VT_WARN,
		     "whose the memory is, is not known: PyTorch's blocks could not be read", 4, 2);
	if (t->device)
		vt_table_row(t, &(struct vt_table_row){ 0, "used by all processes",
							t->device->used_bytes, VT_NO_BLOCKS, NULL,
							false });
}

static void print_device(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_ledger_device *d)
{
	const struct vt_model_device *device = vt_model_device(model, d->device);
	struct vt_table t = vt_table(line, device);
	char number[VT_NUM_MAX];
	uint64_t ranges = 0;

	for (size_t i = 0; i < model->ledger.ranges.n; i++) {
		const struct vt_range_rec *rec = &model->ledger.ranges.data[i].rec;

		ranges += rec->device == d->device && vt_range_is_of_device(rec->kind);
	}
	vt_line_blank(line);
	vt_line_addf(line, VT_BOLD, "Memory of GPU %d", d->device);
	vt_line_addf(line, VT_DIM, ", %s allocation%s", vt_format_count(number, ranges),
		     ranges == 1 ? "" : "s");
	vt_line_pad(line, 2 + t.label_columns);
	vt_line_right(line, VT_DIM, "size", VT_TABLE_BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, "blocks", VT_TABLE_BLOCKS_COLUMNS);
	vt_line_right(line, VT_DIM, t.device ? "of GPU" : "", VT_TABLE_SHARE_COLUMNS);
	vt_line_end(line);
	if (!vt_text_ledger_rows(&t, model, d->device))
		print_unknown(&t);
	if (t.device)
		vt_table_row(&t, &(struct vt_table_row){ 0, "free", t.device->free_bytes,
							 VT_NO_BLOCKS, NULL, false });
	vt_text_ledger_beside(line, model, d->device);
}

bool vt_text_ledger(struct vt_line *line, const struct vt_model *model)
{
	if (!model->ledger.known)
		return false;
	for (size_t i = 0; i < model->ledger.devices.n; i++)
		print_device(line, model, &model->ledger.devices.data[i]);
	return true;
}

/* ---- every range ---- */

enum {
	ADDRESS_COLUMNS = 18,
	SIZE_COLUMNS = 11,
	GPU_COLUMNS = 5,
	KIND_COLUMNS = 18,
};

struct listed {
	const struct vt_model_range *range;
};

static int compare_sizes(const void *pa, const void *pb)
{
	const struct vt_model_range *a = ((const struct listed *)pa)->range;
	const struct vt_model_range *b = ((const struct listed *)pb)->range;

	if (a->rec.size != b->rec.size)
		return a->rec.size < b->rec.size ? 1 : -1;
	return (a->rec.start > b->rec.start) - (a->rec.start < b->rec.start);
}

static const struct vt_model_frame *place_of(const struct vt_model *model,
					     const struct vt_model_range *range)
{
	const struct vt_model_trace *trace;
	uint32_t index;

	if (range->recorded == VT_NOT_RECORDED)
		return NULL;
	index = model->driver_blocks.data[range->recorded].trace;
	if (VT_IS_UNTRACED(index) || index >= model->traces.n)
		return NULL;
	trace = &model->traces.data[index];
	return trace->title < trace->n_frames ? &model->trace_frames[trace->frames[trace->title]] :
						NULL;
}

static void add_whose(struct vt_line *line, const struct vt_model *model,
		      const struct vt_model_range *range)
{
	const struct vt_model_frame *place = place_of(model, range);
	bool counts = range->rec.kind == VT_RANGE_DEVICE || range->rec.kind == VT_RANGE_MAPPED;

	if (range->claimed_bytes)
		vt_line_addf(line, VT_PLAIN, "%s%s",
			     range->claimed_bytes == range->rec.size ? "" : "partly ",
			     vt_claimer_label(range->claimer));
	else if (place)
		vt_text_site(line, place, vt_line_room(line));
	else if (counts && !range->counted_bytes)
		vt_line_add(line, VT_DIM, "shares the memory of another line");
	else if (range->rec.exportable)
		vt_line_add(line, VT_DIM, "made to be shared");
}

static void print_range(struct vt_line *line, const struct vt_model *model,
			const struct vt_model_range *range)
{
	char number[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "0x%" PRIx64, range->rec.start);
	vt_line_pad(line, 2 + ADDRESS_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, range->rec.size), SIZE_COLUMNS);
	snprintf(number, sizeof(number), "%d", range->rec.device);
	vt_line_right(line, VT_PLAIN, range->rec.kind == VT_RANGE_HOST ? "" : number, GPU_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_PLAIN, words[range->rec.kind], KIND_COLUMNS, VT_CUT_END);
	add_whose(line, model, range);
	vt_line_end(line);
}

/* Most of what the process has allocated on it is in no library's books. */
static bool is_mostly_raw(const struct vt_model_ledger_device *d)
{
	uint64_t raw = d->kinds[VT_RANGE_DEVICE].bytes + d->kinds[VT_RANGE_MAPPED].bytes;

	return d->claims_known && raw >= MUCH_RAW && raw > d->found_bytes / 2;
}

static bool is_raw_one(const struct vt_model *model, const struct vt_model_range *range)
{
	const struct vt_model_ledger_device *d = vt_model_ledger_device(model, range->rec.device);

	return (range->rec.kind == VT_RANGE_DEVICE || range->rec.kind == VT_RANGE_MAPPED) &&
	       !range->claimed_bytes && d && is_mostly_raw(d);
}

/* Those of the ledger that are shown, the largest first; NULL when out of memory. */
static struct listed *sort_ranges(const struct vt_model *model, bool raw, size_t *n)
{
	const struct vt_model_ledger *ledger = &model->ledger;
	struct listed *sorted = malloc((ledger->ranges.n + 1) * sizeof(*sorted));

	*n = 0;
	for (size_t i = 0; sorted && i < ledger->ranges.n; i++)
		if (!raw || is_raw_one(model, &ledger->ranges.data[i]))
			sorted[(*n)++].range = &ledger->ranges.data[i];
	if (*n)
		qsort(sorted, *n, sizeof(*sorted), compare_sizes);
	return sorted;
}

static void print_ranges(struct vt_line *line, const struct vt_model *model,
			 const struct listed *sorted, size_t n)
{
	vt_line_pad(line, 2);
	vt_line_add(line, VT_DIM, "address");
	vt_line_pad(line, 2 + ADDRESS_COLUMNS);
	vt_line_right(line, VT_DIM, "size", SIZE_COLUMNS);
	vt_line_right(line, VT_DIM, "GPU", GPU_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_DIM, "kind", KIND_COLUMNS, VT_CUT_END);
	vt_line_add(line, VT_DIM, "whose");
	vt_line_end(line);
	for (size_t i = 0; i < n; i++)
		print_range(line, model, sorted[i].range);
}

void vt_text_ranges(struct vt_line *line, const struct vt_model *model)
{
	struct listed *sorted;
	size_t n;

	if (!model->ledger.known)
		return;
	vt_text_title(line, NULL, "Allocations of the driver, the largest first");
	sorted = sort_ranges(model, false, &n);
	line->buf.failed |= !sorted;
	print_ranges(line, model, sorted, n);
	free(sorted);
}

void vt_text_raw_ranges(struct vt_line *line, const struct vt_model *model)
{
	char count[VT_NUM_MAX];
	struct listed *sorted;
	size_t n;

	if (!model->ledger.known)
		return;
	sorted = sort_ranges(model, true, &n);
	line->buf.failed |= !sorted;
	if (n) {
		vt_text_title(line, n > MAX_RAW ? "--ranges lists all" : NULL,
			      "%s%s raw allocation%s", n > MAX_RAW ? "The largest of " : "",
			      vt_format_count(count, n), n == 1 ? "" : "s");
		print_ranges(line, model, sorted, n < MAX_RAW ? n : MAX_RAW);
	}
	free(sorted);
}
