/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The out-of-memory error that a report was made for: the request, the available memory, and the
 * stack.
 */
#include <stdio.h>
#include <string.h>

#include "model/account.h"
#include "base/format.h"
#include "report/text/text.h"

#define LABEL_COLUMNS 14
#define MAX_FUNCTION_COLUMNS 50
#define FACT_LINES 3
#define MESSAGE_LINES 8

static void print_fact(struct vt_line *line, const char *label, const char *text)
{
	vt_line_pad(line, 2);
	vt_line_add(line, VT_DIM, label);
	vt_line_pad(line, 2 + LABEL_COLUMNS);
	vt_line_wrap(line, VT_PLAIN, text, 2 + LABEL_COLUMNS, FACT_LINES);
}

static void print_request(struct vt_line *line, const struct vt_model_oom *oom)
{
	char text[256], size[VT_NUM_MAX], bytes[VT_NUM_MAX];

	snprintf(text, sizeof(text), "%s (%s bytes), by thread %d%s%.64s%s",
		 vt_format_size(size, oom->requested), vt_format_count(bytes, oom->requested),
		 (int)oom->tid, oom->thread && *oom->thread ? " (" : "",
		 oom->thread ? oom->thread : "", oom->thread && *oom->thread ? ")" : "");
	print_fact(line, "asked for", text);
}

static void print_device(struct vt_line *line, const struct vt_model_oom *oom)
{
	char text[128], free_text[VT_NUM_MAX], total[VT_NUM_MAX];

	if (!oom->total_bytes)
		return;
	snprintf(text, sizeof(text), "%s free of %s", vt_format_size(free_text, oom->free_bytes),
		 vt_format_size(total, oom->total_bytes));
	print_fact(line, "on the device", text);
}

static void print_pytorch(struct vt_line *line, const struct vt_model_caught *c)
{
	char text[320], held[VT_NUM_MAX], cached[VT_NUM_MAX], pieces[VT_NUM_MAX],
		segments[VT_NUM_MAX], largest[VT_NUM_MAX];

	if (c->verdict == VT_OOM_UNDECIDED)
		return;
	if (!c->holes.blocks)
		snprintf(text, sizeof(text), "%s in use, no cached block fits such a request",
			 vt_format_size(held, c->held_bytes));
	else
		snprintf(text, sizeof(text),
			 "%s in use, %s cached in %s free block%s of %s segment%s, the largest %s",
			 vt_format_size(held, c->held_bytes),
			 vt_format_size(cached, c->holes.bytes),
			 vt_format_count(pieces, c->holes.blocks), c->holes.blocks == 1 ? "" : "s",
			 vt_format_count(segments, c->hole_segments),
			 c->hole_segments == 1 ? "" : "s",
			 vt_format_size(largest, c->largest_hole));
	print_fact(line, "PyTorch", text);
	if (c->others_known)
		print_fact(line, "others", vt_format_size(held, c->others_bytes));
}

static void print_needed(struct vt_line *line, const struct vt_model_caught *c)
{
	char text[160], block[VT_NUM_MAX], segment[VT_NUM_MAX];

	if (!c->needed_bytes)
		return;
	snprintf(text, sizeof(text), "a free block of %s, or %s of the device for a new segment",
		 vt_format_size(block, c->needed_bytes), vt_format_size(segment, c->segment_bytes));
	print_fact(line, "needed", text);
}

/* Word for word: it is what the program's log has, and what people search for. */
static void print_message(struct vt_line *line, const struct vt_model_caught *c)
{
	char limit[VT_NUM_MAX], text[64];

	if (c->limit_bytes) {
		snprintf(text, sizeof(text), "PyTorch may use %s of the device",
			 vt_format_size(limit, c->limit_bytes));
		print_fact(line, "limit", text);
	}
	if (!c->message)
		return;
	vt_line_pad(line, 2);
	vt_line_add(line, VT_DIM, "PyTorch says");
	vt_line_pad(line, 2 + LABEL_COLUMNS);
	vt_line_wrap(line, VT_PLAIN, c->message, 2 + LABEL_COLUMNS, MESSAGE_LINES);
}

static void print_wait(struct vt_line *line, const struct vt_model_oom *oom)
{
	char text[64];

	if (oom->waited_ns > 1)
		print_fact(line, "kept for", vt_format_ms(text, (double)oom->waited_ns / 1e6));
}

/* Its stack is among the threads' then. */
static bool has_thread(const struct vt_model *model, pid_t tid)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].tid == tid)
			return model->threads.data[i].stack.n_frames > 0;
	return false;
}

static bool says_where(const struct vt_model_frame *f)
{
	return vt_model_is_program(f) || vt_model_is_telling(f);
}

/* Frames that tell the place; all of them, if the thread's stack is not known. */
static void print_frames(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_oom *oom)
{
	const struct vt_model_trace *trace =
		oom->trace < model->traces.n ? &model->traces.data[oom->trace] : NULL;
	bool briefly = trace && has_thread(model, oom->tid) && vt_oom_place(model, oom);
	int columns = line->columns / 2;
	char text[96];

	if (!trace)
		return;
	columns = columns > MAX_FUNCTION_COLUMNS ? MAX_FUNCTION_COLUMNS : columns;
	for (size_t i = 0; i < trace->n_frames; i++) {
		const struct vt_model_frame *f = &model->trace_frames[trace->frames[i]];

		if (!vt_oom_is_ours(f) && (!briefly || says_where(f)))
			vt_text_frame(line, f, columns);
	}
	if (!briefly)
		return;
	snprintf(text, sizeof(text), "all frames: thread %d below", (int)oom->tid);
	vt_line_pad(line, 6);
	vt_line_add(line, VT_DIM, text);
	vt_line_end(line);
}

void vt_text_caught(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_caught *c = &model->caught;

	if (!c->oom)
		return;
	if (c->oom->device >= 0)
		vt_text_title(line, NULL, "Out of memory on GPU %d", c->oom->device);
	else
		vt_text_title(line, NULL, "Out of memory");
	print_request(line, c->oom);
	print_needed(line, c);
	print_device(line, c->oom);
	print_pytorch(line, c);
	print_message(line, c);
	print_wait(line, c->oom);
	print_frames(line, model, c->oom);
}
