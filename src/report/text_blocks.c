/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: the largest groups of equal ones, and the list of all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/format.h"
#include "report/text.h"

#define MAX_GROUPS 12

static const char *state_words(uint8_t state)
{
	static const char *const words[] = {
		[VT_BLOCK_ALLOCATED] = "in use",
		[VT_BLOCK_AWAITING_FREE] = "awaiting free",
		[VT_BLOCK_CACHED] = "cached",
		[VT_BLOCK_UNMAPPED] = "unmapped",
	};

	return state <= VT_BLOCK_UNMAPPED ? words[state] : "unknown";
}

/* Most private blocks are of the large pool: only the small one is named. */
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

static void format_stream(char *buf, size_t size, uint64_t stream)
{
	if (stream == 0)
		snprintf(buf, size, "default");
	else
		snprintf(buf, size, "0x%" PRIx64, stream);
}

/* ---- groups ---- */

enum {
	GPU_COLUMNS = 5,
	BYTES_COLUMNS = 10,
	COUNT_COLUMNS = 10,
	STATE_COLUMNS = 15,
};

/* "private 12:0 small exp." where there is room for it. */
static int pool_columns(const struct vt_line *line)
{
	return line->columns >= 90 ? 24 : 13;
}

static void print_group(struct vt_line *line, const struct vt_model_group *g, bool with_gpu)
{
	char number[VT_NUM_MAX], text[80];

	if (with_gpu) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_PLAIN, "%d", g->device);
	}
	vt_line_pad(line, with_gpu ? GPU_COLUMNS : 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, g->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(number, g->blocks), COUNT_COLUMNS);
	vt_line_add(line, VT_DIM, " × ");
	vt_line_right(line, VT_PLAIN, vt_format_size(number, g->size), BYTES_COLUMNS - 1);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_PLAIN, state_words(g->state), STATE_COLUMNS, VT_CUT_END);
	format_pool(text, sizeof(text), g->private_pool, g->small_pool, g->expandable, g->pool);
	vt_line_cell(line, VT_PLAIN, text, pool_columns(line), VT_CUT_END);
	format_stream(text, sizeof(text), g->stream);
	vt_line_add(line, VT_PLAIN, text);
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
	vt_text_end_title(line, "(--blocks lists all)");
}

/* ---- every block: there may be a million, so this formats into a plain buffer ---- */

#define SIZE_END 33 /* column: an address of 18 characters, indented, and a size fit before it */

struct raw {
	char text[256]; /* all texts that go in are ours and short */
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
	char text[80], size[VT_NUM_MAX];
	uint64_t bytes = 0;

	for (size_t i = first; i < end; i++)
		if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
			bytes += model->blocks[i].size;
	raw_add(&raw, "  ");
	raw_hex(&raw, b->addr);
	raw_size(&raw, vt_format_size(size, bytes));
	raw_add(&raw, "   segment, stream ");
	format_stream(text, sizeof(text), b->stream);
	raw_add(&raw, text);
	raw_add(&raw, ", ");
	format_pool(text, sizeof(text), b->flags & VT_BLOCK_PRIVATE_POOL,
		    b->flags & VT_BLOCK_SMALL_POOL, b->flags & VT_BLOCK_EXPANDABLE, b->pool);
	raw_add(&raw, text);
	vt_line_raw(line, raw.text, raw.n);
}

static void make_harmless(char *text)
{
	for (char *p = text; *p; p++)
		*p = *p >= ' ' && *p < 0x7f ? *p : '?';
}

/* ", 12 min ago by thread 4711 pt_autograd_0": names are of the target, so made harmless. */
static void add_record(struct raw *raw, const struct vt_model_record *record)
{
	char text[VT_NUM_MAX + 64], age[VT_NUM_MAX];

	vt_format_age(age, (double)record->age_ns / (double)VT_NS_PER_S);
	snprintf(text, sizeof(text), ", %s ago by thread %d%s%.32s", age, (int)record->tid, record->thread && *record->thread ? " " : "",
		 record->thread ? record->thread : "");
	make_harmless(text);
	raw_add(raw, text);
}

static void print_block(struct vt_line *line, const struct vt_block_rec *b, const char *site, const struct vt_model_record *record)
{
	struct raw raw = { .n = 0 };
	char size[VT_NUM_MAX], requested[VT_NUM_MAX];

	raw_add(&raw, "    ");
	raw_hex(&raw, b->addr);
	raw_size(&raw, vt_format_size(size, b->size));
	raw_add(&raw, "   ");
	raw_add(&raw, state_words(b->state));
	/* Where rounding added so little that it does not show, it is not worth saying. */
	if (b->requested > 0 && strcmp(vt_format_size(requested, b->requested), size) != 0) {
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

/* "forward attn.py:57" of every site, harmless and in ASCII; NULL when there are none, or no memory for them. */
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
			n = asprintf(&labels[i], "%.80s %.60s", f->function ? f->function : "??", slash ? slash + 1 : file);
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
