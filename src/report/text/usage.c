/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses a device, by the kernel driver's count: a line for each, this process first. */
#include <inttypes.h>
#include <string.h>

#include "base/format.h"
#include "report/text/text.h"

enum { MAX_SHOWN = 6, LABEL_COLUMNS = 34, BYTES_COLUMNS = 10, NOTE_GAP = 3 };

/* A note is cut at the end: what tells most comes first. */
static void print_row(struct vt_line *line, enum vt_style style, const char *label, bool known,
		      uint64_t bytes, const char *note)
{
	int columns = line->columns - 2 - BYTES_COLUMNS;
	char number[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_cell(line, style, label, columns < LABEL_COLUMNS ? columns : LABEL_COLUMNS,
		     VT_CUT_END);
	vt_line_right(line, style, known ? vt_format_size(number, bytes) : "?", BYTES_COLUMNS);
	if (*note && vt_line_room(line) > NOTE_GAP + 8) {
		vt_line_pad(line, line->want + NOTE_GAP);
		vt_line_cell(line, VT_DIM, note, vt_line_room(line), VT_CUT_END);
	}
	vt_line_end(line);
}

__attribute__((format(printf, 2, 3))) static void add_fact(struct vt_str *text, const char *format,
							   ...)
{
	va_list args;

	vt_str_add(text, text->n ? ", " : "");
	va_start(args, format);
	vt_str_vaddf(text, format, args);
	va_end(args);
}

/* "alice, rank 3, pod trainer-0: python train.py" */
static void describe(const struct vt_model_counted *p, struct vt_str *note)
{
	static const char *const lives[VT_N_LIVES] = {
		[VT_LIFE_ZOMBIE] = "has ended, but its memory stays",
		[VT_LIFE_GONE] = "is gone, but its memory stays",
	};

	if (lives[p->life])
		add_fact(note, "%s", lives[p->life]);
	if (*p->user)
		add_fact(note, "%.32s", p->user);
	if (p->rank >= 0)
		add_fact(note, "rank %d", p->rank);
	if (*p->pod)
		add_fact(note, "pod %.64s", p->pod);
	if (*p->container)
		add_fact(note, "container %.64s", p->container);
	if (p->ns_pid > 0)
		add_fact(note, "there pid %d", (int)p->ns_pid);
	if (p->graphics)
		add_fact(note, "graphics");
	if (p->mps)
		add_fact(note, "MPS");
	if (*p->command)
		vt_str_addf(note, "%s%s", note->n ? ": " : "", p->command);
}

static void print_process(struct vt_line *line, const struct vt_model_counted *p)
{
	bool alarm = p->life == VT_LIFE_GONE || p->life == VT_LIFE_ZOMBIE;
	struct vt_str label = { 0 }, note = { 0 };

	if (p->ours)
		vt_str_add(&label, "this process");
	else
		vt_str_addf(&label, "pid %d%s%s%s", (int)p->pid, *p->name ? " (" : "", p->name,
			    *p->name ? ")" : "");
	if (!p->ours)
		describe(p, &note);
	print_row(line, alarm ? VT_WARN : VT_PLAIN, vt_str_get(&label), p->bytes_known, p->bytes,
		  vt_str_get(&note));
	line->buf.failed |= label.failed || note.failed;
	vt_str_deinit(&label);
	vt_str_deinit(&note);
}

static void print_more(struct vt_line *line, size_t n, bool known, uint64_t bytes)
{
	struct vt_str label = { 0 };
	char number[VT_NUM_MAX];

	if (!n)
		return;
	vt_str_addf(&label, "%s more process%s", vt_format_count(number, n), n == 1 ? "" : "es");
	print_row(line, VT_PLAIN, vt_str_get(&label), known, bytes, "");
	line->buf.failed |= label.failed;
	vt_str_deinit(&label);
}

static void print_rest(struct vt_line *line, const struct vt_model_usage *usage,
		       const struct vt_model_gpu *gpu)
{
	if (!gpu->rest_known)
		return;
	if (gpu->rest_bytes < 0) {
		vt_line_pad(line, 2);
		vt_line_wrap(
			line, VT_DIM,
			"the processes' figures add up to more than is used: they were counted "
			"while they changed",
			4, 2);
		return;
	}
	print_row(line, VT_PLAIN, usage->whole ? "no process" : "no process seen from here", true,
		  (uint64_t)gpu->rest_bytes,
		  usage->whole ? "managed memory, the driver's own" :
				 "other containers, managed memory, the driver's own");
}

static bool is_anybody_else(const struct vt_model_usage *usage, const struct vt_model_gpu *gpu)
{
	for (size_t i = gpu->first; i < gpu->first + gpu->n; i++)
		if (!usage->processes.data[i].ours)
			return true;
	return false;
}

/* The largest come first in the model, but this process counts most. */
static void print_processes(struct vt_line *line, const struct vt_model_usage *usage,
			    const struct vt_model_gpu *gpu)
{
	const struct vt_model_counted *all = &usage->processes.data[gpu->first];
	uint64_t more_bytes = 0;
	size_t shown = 0, more = 0;
	bool known = true;

	for (size_t i = 0; i < gpu->n; i++)
		if (all[i].ours)
			print_process(line, &all[i]);
	for (size_t i = 0; i < gpu->n; i++) {
		if (all[i].ours)
			continue;
		if (shown < MAX_SHOWN) {
			print_process(line, &all[i]);
			shown++;
			continue;
		}
		more++;
		more_bytes += all[i].bytes;
		known = known && all[i].bytes_known;
	}
	print_more(line, more, known, more_bytes);
}

void vt_text_gpu_processes(struct vt_line *line, const struct vt_model *model,
			   const struct vt_model_gpu *gpu, bool briefly, uint64_t used_bytes)
{
	const struct vt_model_usage *usage = &model->usage;
	char number[VT_NUM_MAX];

	if (!gpu || !gpu->processes_known || (briefly && !is_anybody_else(usage, gpu)))
		return;
	print_processes(line, usage, gpu);
	print_rest(line, usage, gpu);
	if (!gpu->memory_known || gpu->used_bytes == used_bytes)
		return;
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_DIM, "counted at another moment, when %s were used",
		     vt_format_size(number, gpu->used_bytes));
	vt_line_end(line);
}
