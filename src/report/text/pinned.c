/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: a table like those of the devices, and the list of all blocks. */
#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"
#include "report/text/text.h"

enum {
	MAX_LABEL_COLUMNS = 34, /* as in the tables of the devices, which come before this one */
	BYTES_COLUMNS = 10,
	BLOCKS_COLUMNS = 11,
	NOTE_GAP = 3,
};

static const char title[] = "Pinned host memory";

static int label_columns(const struct vt_line *line)
{
	int columns = line->columns - 2 - BYTES_COLUMNS - BLOCKS_COLUMNS;

	return columns < MAX_LABEL_COLUMNS ? columns : MAX_LABEL_COLUMNS;
}

/* depth 1: a part of the row above. blocks 0: no number. A note that does not fit is left out. */
static void print_row(struct vt_line *line, int depth, const char *label, uint64_t bytes,
		      uint64_t blocks, const char *note)
{
	enum vt_style style = depth ? VT_DIM : VT_PLAIN;
	char number[VT_NUM_MAX];

	vt_line_pad(line, 2 + depth * 2);
	vt_line_cell(line, style, label, label_columns(line) - depth * 2, VT_CUT_END);
	vt_line_right(line, style, vt_format_size(number, bytes), BYTES_COLUMNS);
	vt_line_right(line, style, blocks ? vt_format_count(number, blocks) : "", BLOCKS_COLUMNS);
	if (note && vt_line_width(line, note) + NOTE_GAP <= vt_line_room(line)) {
		vt_line_pad(line, line->want + NOTE_GAP);
		vt_line_add(line, VT_DIM, note);
	}
	vt_line_end(line);
}

static void print_amount(struct vt_line *line, int depth, const char *label,
			 const struct vt_model_amount *amount, const char *note)
{
	if (amount->blocks)
		print_row(line, depth, label, amount->bytes, amount->blocks, note);
}

static void print_head(struct vt_line *line)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, title);
	vt_line_add(line, VT_DIM, line->columns >= 64 ? " of PyTorch" : "");
	vt_line_pad(line, 2 + label_columns(line));
	vt_line_right(line, VT_DIM, "size", BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_line_end(line);
}

void vt_text_pinned(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_pinned *p = &model->pinned;

	if (!p->sum_known || !p->total.blocks)
		return; /* nothing to show, or a diagnostic says why */
	print_head(line);
	if (!p->exact) {
		print_amount(line, 0, "in all", &p->total, "how much is in use is not known");
		return;
	}
	print_amount(line, 0, "in use", &p->states[VT_BLOCK_ALLOCATED],
		     "host memory, in no total above");
	print_amount(line, 0, "awaiting free", &p->states[VT_BLOCK_AWAITING_FREE],
		     "freed, in use by a stream");
	print_amount(line, 0, "cached", &p->states[VT_BLOCK_CACHED],
		     "not in use; kept for the next tensor");
	if (p->states[VT_BLOCK_CACHED].blocks > 1)
		print_row(line, 1, "largest", p->largest_cached, 0, NULL);
	print_amount(line, 0, "in private pools, all states", &p->private_pools, "CUDA graphs");
}

static void print_block(struct vt_line *line, const struct vt_pinned_block *b)
{
	static const char *const words[] = {
		[VT_BLOCK_ALLOCATED] = "in use",
		[VT_BLOCK_AWAITING_FREE] = "awaiting free",
		[VT_BLOCK_CACHED] = "cached",
	};
	char text[200], size[VT_NUM_MAX], address[VT_NUM_MAX], pool[48] = "", waits[80] = "";
	int n;

	snprintf(address, sizeof(address), "0x%" PRIx64, b->addr);
	if (b->private_pool)
		snprintf(pool, sizeof(pool), ", private %u:%u", (unsigned int)(b->pool >> 32),
			 (unsigned int)b->pool);
	if (b->events)
		snprintf(waits, sizeof(waits), ", %" PRIu32 " event%s pending", b->events,
			 b->events == 1 ? "" : "s");
	else if (b->streams)
		snprintf(waits, sizeof(waits), ", used by %" PRIu32 " stream%s", b->streams,
			 b->streams == 1 ? "" : "s");
	/* the columns of the devices' blocks */
	n = snprintf(text, sizeof(text), "    %-18s %10s   %s%s%s", address,
		     vt_format_size(size, b->size), words[b->state], waits, pool);
	vt_line_raw(line, text, n > 0 ? (size_t)n : 0);
}

void vt_text_pinned_blocks(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_pinned *p = &model->pinned;

	if (!p->n_blocks)
		return;
	vt_text_title(line, NULL,
		      p->exact ? "Blocks of pinned host memory" :
				 "Blocks of pinned host memory, as far as they could be read");
	for (size_t i = 0; i < p->n_blocks; i++)
		print_block(line, &p->blocks[i]);
}
