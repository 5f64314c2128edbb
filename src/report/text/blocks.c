/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: the largest groups of equal ones, and the list of all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "report/text/text.h"

#define MAX_GROUPS 12

const char *vt_text_state(uint8_t state)
{
	static const char *const words[] = {
		[VT_BLOCK_ALLOCATED] = "in use",
		[VT_BLOCK_AWAITING_FREE] = "awaiting free",
		[VT_BLOCK_CACHED] = "cached",
		[VT_BLOCK_UNMAPPED] = "unmapped",
	};

	return state <= VT_BLOCK_UNMAPPED ? words[state] : "unknown";
}

/* Most private blocks are in the large pool: only the small one is named. */
static void format_pool(char *buf, size_t size, bool is_private, bool is_small, bool expandable,
			uint64_t pool)
{
	const char *growth = expandable ? " exp." : "";
	const char *small = is_small ? " small" : "";

	if (!is_private)
		snprintf(buf, size, "%s%s", is_small ? "small" : "large", growth);
	else if (pool == 0)
		snprintf(buf, size, "private%s%s", small, growth);
	else
		snprintf(buf, size, "private %u:%u%s%s", (unsigned int)(pool >> 32),
			 (unsigned int)pool, small, growth);
}

const char *vt_text_pool(char buf[VT_TEXT_MAX], const struct vt_block_rec *b)
{
	format_pool(buf, VT_TEXT_MAX, b->flags & VT_BLOCK_PRIVATE_POOL,
		    b->flags & VT_BLOCK_SMALL_POOL, b->flags & VT_BLOCK_EXPANDABLE, b->pool);
	return buf;
}

const char *vt_text_stream(char buf[VT_TEXT_MAX], uint64_t stream)
{
	if (stream == 0)
		snprintf(buf, VT_TEXT_MAX, "default");
	else
		snprintf(buf, VT_TEXT_MAX, "0x%" PRIx64, stream);
	return buf;
}

/* ---- groups ---- */

enum {
	GPU_COLUMNS = 9, /* "  GPU 10" */
	BYTES_COLUMNS = 10,
	COUNT_COLUMNS = 10,
	STATE_COLUMNS = 15,
};

/* "private 12:0 small exp.", if there is room. */
static int pool_columns(const struct vt_line *line)
{
	return line->columns >= 90 ? 24 : 13;
}

static void print_group(struct vt_line *line, const struct vt_model_group *g, bool with_gpu)
{
	char number[VT_NUM_MAX], text[VT_TEXT_MAX];

	if (with_gpu) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_PLAIN, "GPU %d", g->device);
	}
	vt_line_pad(line, with_gpu ? GPU_COLUMNS : 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, g->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(number, g->blocks), COUNT_COLUMNS);
	vt_line_add(line, VT_DIM, " × ");
	vt_line_right(line, VT_PLAIN, vt_format_size(number, g->size), BYTES_COLUMNS - 1);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_PLAIN, vt_text_state(g->state), STATE_COLUMNS, VT_CUT_END);
	format_pool(text, sizeof(text), g->private_pool, g->small_pool, g->expandable, g->pool);
	vt_line_cell(line, VT_PLAIN, text, pool_columns(line), VT_CUT_END);
	vt_line_add(line, VT_PLAIN, vt_text_stream(text, g->stream));
	vt_line_end(line);
}

static void print_group_head(struct vt_line *line, bool with_gpu)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Largest groups of blocks");
	vt_line_pad(line, (with_gpu ? GPU_COLUMNS : 2) + BYTES_COLUMNS + COUNT_COLUMNS + 3 +
				  BYTES_COLUMNS - 1 + 3);
	vt_line_cell(line, VT_DIM, "state", STATE_COLUMNS, VT_CUT_END);
	vt_line_cell(line, VT_DIM, "pool", pool_columns(line), VT_CUT_END);
	vt_line_add(line, VT_DIM, "stream");
	vt_line_end(line);
}

void vt_text_block_groups(struct vt_line *line, const struct vt_model *model)
{
	bool with_gpu = model->allocators.n > 1;
	uint64_t bytes = 0, blocks = 0;
	char size[VT_NUM_MAX], count[VT_NUM_MAX], groups[VT_NUM_MAX];

	if (model->groups.n == 0)
		return;
	print_group_head(line, with_gpu);
	for (size_t i = 0; i < model->groups.n; i++) {
		const struct vt_model_group *g = &model->groups.data[i];

		if (i < MAX_GROUPS) {
			print_group(line, g, with_gpu);
			continue;
		}
		bytes += g->bytes;
		blocks += g->blocks;
	}
	if (model->groups.n <= MAX_GROUPS)
		return;
	vt_line_pad(line, with_gpu ? GPU_COLUMNS : 2);
	vt_line_right(line, VT_DIM, vt_format_size(size, bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, vt_format_count(count, blocks), COUNT_COLUMNS);
	vt_line_addf(line, VT_DIM, "   in %s more groups",
		     vt_format_count(groups, model->groups.n - MAX_GROUPS));
	vt_text_end_title(line, line->hints->all_blocks);
}

/* ---- the largest ---- */

/* Indices of the count largest mapped blocks at most: a heap with the smallest at its top. */
struct largest {
	const struct vt_model *model;
	size_t *blocks;
	size_t n, count;
	size_t mapped; /* all that are mapped */
};

static bool is_larger(const struct vt_model *model, size_t a, size_t b)
{
	uint64_t size_a = model->blocks[a].size, size_b = model->blocks[b].size;

	return size_a != size_b ? size_a > size_b : a < b;
}

/* Down from i, until no child is smaller than its parent. */
static void sink(struct largest *l, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < l->n; i = child) {
		if (child + 1 < l->n && is_larger(l->model, l->blocks[child], l->blocks[child + 1]))
			child++;
		if (!is_larger(l->model, l->blocks[i], l->blocks[child]))
			return;

		size_t block = l->blocks[i];

		l->blocks[i] = l->blocks[child];
		l->blocks[child] = block;
	}
}

static void consider(struct largest *l, size_t block)
{
	l->mapped++;
	if (l->n < l->count) {
		l->blocks[l->n++] = block;
		for (size_t i = l->n / 2; l->n == l->count && i-- > 0;)
			sink(l, i);
	} else if (l->count && is_larger(l->model, block, l->blocks[0])) {
		l->blocks[0] = block;
		sink(l, 0);
	}
}

static int compare_sizes(const void *pa, const void *pb, void *model)
{
	size_t a = *(const size_t *)pa, b = *(const size_t *)pb;

	return a == b ? 0 : is_larger(model, a, b) ? -1 : 1;
}

/* The largest first. False when out of memory. */
static bool find_largest(struct largest *l)
{
	l->count = l->count < l->model->n_blocks ? l->count : l->model->n_blocks;
	l->blocks = calloc(l->count + 1, sizeof(*l->blocks));
	if (!l->blocks)
		return false;
	for (size_t k = 0; k < l->model->allocators.n; k++) {
		const struct vt_model_allocator *a = &l->model->allocators.data[k];

		for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++)
			if (l->model->blocks[i].state != VT_BLOCK_UNMAPPED)
				consider(l, i);
	}
	if (l->n > 1)
		qsort_r(l->blocks, l->n, sizeof(*l->blocks), compare_sizes, (void *)l->model);
	return true;
}

enum {
	ADDRESS_COLUMNS = 15, /* 48 bits and a space */
	SIZE_COLUMNS = 9,
	ASKED_COLUMNS = 10,
	LARGEST_STATE_COLUMNS = 14,
	STREAM_COLUMNS = 15,
};

/* After the GPU's number, where there are several. */
static int address_column(const struct vt_model *model)
{
	return model->allocators.n > 10 ? 5 : model->allocators.n > 1 ? 4 : 2;
}

static void print_site_of(struct vt_line *line, const struct vt_model *model, size_t block)
{
	const struct vt_model_trace *trace = vt_model_block_trace(model, block);
	const struct vt_model_frame *title =
		trace && trace->title < trace->n_frames ?
			&model->trace_frames[trace->frames[trace->title]] :
			NULL;
	struct vt_str text = { 0 };

	if (title)
		vt_text_frame_label(line, &text, title);
	if (text.failed)
		line->buf.failed = true;
	if (text.n && vt_line_width(line, vt_str_get(&text)) > vt_line_room(line)) {
		vt_line_end(line);
		vt_line_pad(line, 4);
	}
	vt_line_add(line, VT_DIM, vt_str_get(&text));
	vt_line_end(line);
	vt_str_deinit(&text);
}

static void print_large(struct vt_line *line, const struct vt_model *model, size_t block)
{
	const struct vt_block_rec *b = &model->blocks[block];
	uint64_t asked = vt_block_asked_for(b);
	char number[VT_NUM_MAX], text[VT_TEXT_MAX];

	if (model->allocators.n > 1) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_PLAIN, "%d", b->device);
	}
	vt_line_pad(line, address_column(model));
	vt_line_addf(line, VT_PLAIN, "0x%" PRIx64, b->addr);
	vt_line_pad(line, address_column(model) + ADDRESS_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, b->size), SIZE_COLUMNS);
	vt_line_right(line, VT_DIM, asked ? vt_format_size(number, asked) : "", ASKED_COLUMNS);
	vt_line_pad(line, line->want + 2);
	vt_line_cell(line, VT_PLAIN, vt_text_state(b->state), LARGEST_STATE_COLUMNS, VT_CUT_END);
	vt_line_cell(line, VT_PLAIN, vt_text_pool(text, b), pool_columns(line) - 2, VT_CUT_END);
	vt_line_pad(line, line->want + 1);
	vt_line_cell(line, VT_PLAIN, vt_text_stream(text, b->stream), STREAM_COLUMNS, VT_CUT_END);
	print_site_of(line, model, block);
}

static bool all_exact(const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return false;
	return true;
}

static void print_largest_head(struct vt_line *line, const struct vt_model *model)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Largest blocks");
	if (!all_exact(model)) {
		vt_line_add(line, VT_WARN, ", as far as they could be read");
		vt_line_end(line);
	}
	vt_line_pad(line, address_column(model) + ADDRESS_COLUMNS);
	vt_line_right(line, VT_DIM, "size", SIZE_COLUMNS);
	vt_line_right(line, VT_DIM, "asked for", ASKED_COLUMNS);
	vt_line_pad(line, line->want + 2);
	vt_line_cell(line, VT_DIM, "state", LARGEST_STATE_COLUMNS, VT_CUT_END);
	vt_line_cell(line, VT_DIM, "pool", pool_columns(line) - 1, VT_CUT_END);
	vt_line_add(line, VT_DIM, "stream");
	vt_line_end(line);
}

void vt_text_largest_blocks(struct vt_line *line, const struct vt_model *model, size_t count)
{
	struct largest l = { .model = model, .count = count };
	char number[VT_NUM_MAX];

	if (!find_largest(&l)) {
		line->buf.failed = true;
		return;
	}
	if (l.n > 0)
		print_largest_head(line, model);
	for (size_t i = 0; i < l.n; i++)
		print_large(line, model, l.blocks[i]);
	if (l.n > 0 && l.n < l.mapped) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%s %s more", line->ascii ? "..." : "…",
			     vt_format_count(number, l.mapped - l.n));
		vt_text_end_title(line, line->hints->all_blocks);
	}
	free(l.blocks);
}

/* ---- none ---- */

static const char *why_no_allocator(const struct vt_model *model)
{
	static const char *const reasons[VT_N_ALLOCATOR_STATES] = {
		[VT_ALLOCATOR_UNKNOWN] =
			"It is not known which allocator PyTorch uses: there are no blocks to show.",
		[VT_ALLOCATOR_NOT_LOADED] =
			"This process uses CUDA, but PyTorch's CUDA allocator is not loaded: no blocks.",
		[VT_ALLOCATOR_NOT_INITIALISED] =
			"PyTorch has not used CUDA in this process yet: there are no blocks.",
		[VT_ALLOCATOR_NATIVE] =
			"PyTorch's allocator has no devices yet: there are no blocks.",
		[VT_ALLOCATOR_INHERITED] =
			"PyTorch's allocator is the parent's, copied by fork(): this process holds no blocks.",
		[VT_ALLOCATOR_ASYNC] =
			"PyTorch takes its memory from cudaMallocAsync: the driver has no list of blocks.",
		[VT_ALLOCATOR_PLUGGABLE] =
			"PyTorch uses the program's own allocator (CUDAPluggableAllocator): its blocks are not known.",
		[VT_ALLOCATOR_REFUSED] =
			"PyTorch's allocator is not shown: its layout is not understood.",
	};

	if (!model->process.uses_cuda)
		return "This process does not use CUDA: libcuda is not mapped.";
	return reasons[model->torch_state];
}

void vt_text_no_allocator(struct vt_line *line, const struct vt_model *model)
{
	if (model->allocators.n == 0)
		vt_line_wrap(line, VT_PLAIN, why_no_allocator(model), 0, 3);
}

void vt_text_no_blocks(struct vt_line *line, const struct vt_model *model)
{
	vt_text_no_allocator(line, model);
	if (model->allocators.n > 0 && model->groups.n == 0 && all_exact(model))
		vt_line_wrap(line, VT_PLAIN,
			     "PyTorch's allocator holds no memory: there are no blocks.", 0, 2);
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		if (a->exact)
			continue;
		vt_line_addf(line, VT_WARN, "GPU %d: %s", a->device, vt_text_why_inexact(a));
		vt_line_end(line);
	}
}

/* ---- every block: there may be a million, so this formats into a plain buffer ---- */

#define SIZE_END 33 /* column: an address of 18 characters, indented, and a size fit before it */

struct raw {
	char text[256]; /* all its texts are ours and short */
	size_t n;
};

static void raw_add(struct raw *raw, const char *text)
{
	while (*text && raw->n < sizeof(raw->text) - 1)
		raw->text[raw->n++] = *text++;
}

static void raw_pad(struct raw *raw, size_t column)
{
	while (raw->n < column)
		raw->text[raw->n++] = ' ';
}

static void raw_hex(struct raw *raw, uint64_t value)
{
	raw->n += vt_put_hex(raw->text + raw->n, value);
}

/* Right-aligned so that it ends at SIZE_END. */
static void raw_size(struct raw *raw, const char *size)
{
	raw_pad(raw, SIZE_END - strlen(size));
	raw_add(raw, size);
}

static void print_segment(struct vt_line *line, const struct vt_model *model, size_t first,
			  size_t end)
{
	const struct vt_block_rec *b = &model->blocks[first];
	struct raw raw = { .n = 0 };
	char text[VT_TEXT_MAX], size[VT_NUM_MAX];
	uint64_t bytes = 0;

	for (size_t i = first; i < end; i++)
		if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
			bytes += model->blocks[i].size;
	raw_add(&raw, "  ");
	raw_hex(&raw, b->addr);
	raw_size(&raw, vt_format_size(size, bytes));
	raw_add(&raw, "   segment, stream ");
	raw_add(&raw, vt_text_stream(text, b->stream));
	raw_add(&raw, ", ");
	raw_add(&raw, vt_text_pool(text, b));
	vt_line_raw(line, raw.text, raw.n);
}

static void make_harmless(char *text)
{
	for (char *p = text; *p; p++)
		*p = *p >= ' ' && *p < 0x7f ? *p : '?';
}

/* ", 12 min ago by thread 4711 pt_autograd_0": names come from the target and are made harmless. */
static void add_record(struct raw *raw, const struct vt_model_record *record)
{
	char text[VT_NUM_MAX + 64], age[VT_NUM_MAX];

	vt_format_age(age, (double)record->age_ns / (double)VT_NS_PER_S);
	snprintf(text, sizeof(text), ", %s ago by thread %d%s%.32s", age, (int)record->tid,
		 record->thread && *record->thread ? " " : "",
		 record->thread ? record->thread : "");
	make_harmless(text);
	raw_add(raw, text);
}

static void print_block(struct vt_line *line, const struct vt_block_rec *b, const char *site,
			const struct vt_model_record *record)
{
	struct raw raw = { .n = 0 };
	char size[VT_NUM_MAX], requested[VT_NUM_MAX];
	uint64_t asked = vt_block_asked_for(b);

	raw_add(&raw, "    ");
	raw_hex(&raw, b->addr);
	raw_size(&raw, vt_format_size(size, b->size));
	raw_add(&raw, "   ");
	raw_add(&raw, vt_text_state(b->state));
	/* Rounding that is too small to show is not mentioned. */
	if (asked > 0 && strcmp(vt_format_size(requested, asked), size) != 0) {
		raw_add(&raw, ", asked for ");
		raw_add(&raw, requested);
	}
	if (site) {
		raw_add(&raw, ", ");
		raw_add(&raw, site);
	}
	if (record)
		add_record(&raw, record);
	vt_line_raw(line, raw.text, raw.n);
}

/*
 * "forward attn.py:57" of every site, harmless and in ASCII; NULL when there are none, or no memory
 * for them.
 */
static char **make_labels(const struct vt_model *model)
{
	char **labels = model->sites.n ? calloc(model->sites.n, sizeof(*labels)) : NULL;

	for (size_t i = 0; labels && i < model->sites.n; i++) {
		const struct vt_model_frame *f = model->sites.data[i].title;
		const char *file = f && f->file ? f->file : f && f->module ? f->module : "";
		const char *slash = strrchr(file, '/');
		int n = -1;

		if (f && f->file)
			n = asprintf(&labels[i], "%.80s %.60s:%d", f->function ? f->function : "??",
				     slash ? slash + 1 : file, f->line);
		else if (f)
			n = asprintf(&labels[i], "%.80s %.60s", f->function ? f->function : "??",
				     slash ? slash + 1 : file);
		if (n < 0)
			labels[i] = NULL;
		if (labels[i])
			make_harmless(labels[i]);
	}
	return labels;
}

static const char *label_of(const struct vt_model *model, char **labels, size_t block)
{
	const struct vt_model_trace *trace = vt_model_block_trace(model, block);

	return labels && trace && trace->site < model->sites.n ? labels[trace->site] : NULL;
}

static void free_labels(char **labels, const struct vt_model *model)
{
	for (size_t i = 0; labels && i < model->sites.n; i++)
		free(labels[i]);
	free(labels);
}

void vt_text_all_blocks(struct vt_line *line, const struct vt_model *model)
{
	char **labels = make_labels(model);

	for (size_t k = 0; k < model->allocators.n; k++) {
		const struct vt_model_allocator *a = &model->allocators.data[k];
		size_t end = a->first_block + a->n_blocks, next;

		if (a->n_blocks == 0)
			continue;
		vt_text_title(line, NULL,
			      a->exact ? "Blocks of GPU %d" :
					 "Blocks of GPU %d, as far as they could be read",
			      a->device);
		for (size_t i = a->first_block; i < end; i = next) {
			next = vt_model_segment_end(model, i, end);
			print_segment(line, model, i, next);
			for (size_t b = i; b < next; b++)
				print_block(line, &model->blocks[b], label_of(model, labels, b),
					    vt_model_block_record(model, b));
		}
	}
	free_labels(labels, model);
}
