/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as a table: the devices above, a line for each process. */
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "ps/ps.h"
#include "report/text/line.h"
#include "report/text/text.h"

enum {
	WIDE = 140, /* from here on, more columns and whole words */
	PID_COLUMNS = 7,
	SIZE_COLUMNS = 10,
	NARROW_SIZE_COLUMNS = 9,
	MIN_NOTE_COLUMNS = 8,
	MAX_GPUS_SHOWN = 4,
};

/* What differs with the width. */
struct table {
	struct vt_line *line;
	const struct vt_ps *ps;
	bool wide, noted;
	int user_columns, gpu_columns, size_columns, state_columns, age_columns;
	bool counted; /* who is not in the driver's count has nothing */
};

/* ---- the head ---- */

/* "NVIDIA H100 80GB HBM3": the vendor's name adds nothing. */
static const char *short_name(const struct vt_model_gpu *gpu)
{
	return strncmp(gpu->name, "NVIDIA ", 7) ? gpu->name : gpu->name + 7;
}

static int name_columns(const struct table *t)
{
	int most = t->wide ? 28 : 14, columns = 0;

	for (size_t i = 0; i < t->ps->usage.gpus.n; i++) {
		int width = vt_line_width(t->line, short_name(&t->ps->usage.gpus.data[i]));

		columns = width > columns ? width : columns;
	}
	return columns < most ? columns : most;
}

/* "79.1 of 79.6 GiB used, 512 MiB free"; the first unit only if it differs. */
static void add_memory(struct vt_str *text, const struct vt_model_gpu *gpu)
{
	char used[VT_NUM_MAX], total[VT_NUM_MAX], left[VT_NUM_MAX];
	const char *unit;

	vt_format_size(used, gpu->used_bytes);
	vt_format_size(total, gpu->total_bytes);
	unit = strchr(used, ' ');
	if (unit && strchr(total, ' ') && !strcmp(unit, strchr(total, ' ')))
		used[unit - used] = '\0';
	vt_str_addf(text, "%s of %s used, %s free", used, total,
		    vt_format_size(left, gpu->total_bytes - gpu->used_bytes));
}

static void print_gpu(const struct table *t, uint32_t index)
{
	const struct vt_model_gpu *gpu = &t->ps->usage.gpus.data[index];
	struct vt_model_device device = { .ordinal = -1 };
	char number[VT_PS_GPU_MAX], rest[VT_NUM_MAX], id[VT_TEXT_MAX];
	bool beside;
	struct vt_str text = { 0 };

	vt_line_addf(t->line, VT_BOLD, "GPU %s", vt_ps_gpu_name(number, t->ps, index));
	vt_line_pad(t->line, t->ps->usage.gpus.n > 10 ? 9 : 7);
	vt_line_cell(t->line, VT_PLAIN, short_name(gpu), name_columns(t), VT_CUT_END);
	vt_line_pad(t->line, t->line->want + 2);
	if (gpu->divided)
		vt_str_add(&text, "divided by MIG");
	else if (!gpu->memory_known)
		vt_str_add(&text, "memory not known");
	else
		add_memory(&text, gpu);
	vt_line_add(t->line,
		    gpu->memory_known &&
				    gpu->total_bytes - gpu->used_bytes < gpu->total_bytes / 50 ?
			    VT_ALARM :
			    VT_PLAIN,
		    vt_str_get(&text));
	vt_str_clear(&text);
	if (gpu->rest_known && gpu->rest_bytes > 0)
		/* In a container, the processes of others are not seen. */
		vt_str_addf(&text, "%s %s", t->ps->usage.whole ? "nobody's" : "not seen",
			    vt_format_size(rest, (uint64_t)gpu->rest_bytes));
	else if (!gpu->divided && !gpu->processes_known)
		vt_str_add(&text, "its processes are not known");
	beside = vt_line_width(t->line, vt_str_get(&text)) + 3 <= vt_line_room(t->line);
	if (text.n && beside)
		vt_line_addf(t->line, VT_PLAIN, " · %s", vt_str_get(&text));
	vt_text_gpu_id(id, &device, gpu, false);
	if (*id && (int)strlen(id) + 3 <= vt_line_room(t->line)) {
		vt_line_pad(t->line, t->line->want + 3);
		vt_line_add(t->line, VT_DIM, id);
	}
	vt_line_end(t->line);
	if (text.n && !beside) {
		vt_line_pad(t->line, 7);
		vt_line_add(t->line, VT_PLAIN, vt_str_get(&text));
		vt_line_end(t->line);
	}
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_head(const struct table *t)
{
	const struct vt_ps *ps = t->ps;

	vt_text_where(t->line, &ps->where, &ps->when, ps->tool_version);
	if (ps->usage.gpus.n)
		vt_line_blank(t->line);
	for (uint32_t i = 0; i < ps->usage.gpus.n; i++)
		print_gpu(t, i);
	vt_line_blank(t->line);
}

/* ---- a process ---- */

/* "12s", "38m", "23h", "9d": for a narrow column. */
static const char *short_age(char buf[VT_NUM_MAX], double seconds)
{
	unsigned long s = seconds < 1e10 ? (unsigned long)seconds : 0;

	if (s < 100)
		snprintf(buf, VT_NUM_MAX, "%lus", s);
	else if (s < 6000)
		snprintf(buf, VT_NUM_MAX, "%lum", s / 60);
	else if (s < 48 * 3600)
		snprintf(buf, VT_NUM_MAX, "%luh", s / 3600);
	else
		snprintf(buf, VT_NUM_MAX, "%lud", s / 86400);
	return buf;
}

static void add_gpus(const struct table *t, const struct vt_ps_row *row, struct vt_str *text)
{
	char name[VT_PS_GPU_MAX];

	for (size_t i = 0; i < row->n_gpus && i < MAX_GPUS_SHOWN; i++)
		vt_str_addf(text, "%s%s", i ? "," : "", vt_ps_gpu_name(name, t->ps, row->gpus[i]));
	if (row->n_gpus > MAX_GPUS_SHOWN)
		vt_str_addf(text, ",+%zu", row->n_gpus - MAX_GPUS_SHOWN);
	if (!row->n_gpus)
		vt_str_add(text, row->holds_nothing || t->counted ? "-" : "?");
}

static void print_torch(const struct table *t, const struct vt_ps_row *row, bool reserved)
{
	char number[VT_NUM_MAX];

	if (row->torch.state == VT_PS_TORCH_KNOWN && row->torch.object)
		vt_line_right(t->line, VT_PLAIN,
			      vt_format_size(number,
					     reserved ? row->torch.reserved : row->torch.allocated),
			      t->size_columns);
	else
		vt_line_right(t->line, VT_DIM,
			      vt_ps_torch_is_known(&row->torch) ||
					      row->torch.state == VT_PS_TORCH_GONE ?
				      "-" :
				      "?",
			      t->size_columns);
}

/* "-": the kernel driver counts nothing for it; "?": that is not known. */
static void print_counted(const struct table *t, const struct vt_ps_row *row)
{
	char number[VT_NUM_MAX];
	bool none = !row->counted && t->counted;

	vt_line_right(t->line, row->counted && row->bytes_known ? VT_PLAIN : VT_DIM,
		      row->counted && row->bytes_known ? vt_format_size(number, row->bytes) :
		      none                             ? "-" :
							 "?",
		      t->size_columns);
}

static void add_state(const struct table *t, const struct vt_ps_row *row, struct vt_str *text)
{
	const char *in = row->syscall ? row->syscall : row->wchan;
	char age[VT_NUM_MAX];

	if (!row->pid)
		vt_str_add(text, "?");
	else if (row->state == 'D' && !t->wide)
		vt_str_addf(text, "D%s%s", *in ? " in " : "", in);
	else if (row->state == 'S' && *in)
		vt_str_addf(text, "%sin %s", t->wide ? "sleeping " : "", in);
	else if (row->state == 'D' && *in)
		vt_str_addf(text, "uninterruptible in %s", in);
	else
		vt_str_add(text, vt_ps_state_name(row));
	if (row->still_s >= 1)
		vt_str_addf(text, ", %s",
			    t->wide ? vt_format_age(age, row->still_s) :
				      short_age(age, row->still_s));
}

static enum vt_style style_of(const struct vt_ps_row *row)
{
	return row->life == VT_LIFE_GONE || row->life == VT_LIFE_ZOMBIE ? VT_ALARM :
	       strchr("DTtZ", row->state)                               ? VT_WARN :
									  VT_PLAIN;
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

/* Without the directory of the program. */
static const char *short_command(const char *command)
{
	const char *start = command;

	for (size_t i = 0; command[i] && command[i] != ' '; i++)
		if (command[i] == '/' && command[i + 1] && command[i + 1] != ' ')
			start = command + i + 1;
	return start;
}

static void add_who(const struct vt_ps_row *row, struct vt_str *text)
{
	const char *command = *row->command ? short_command(row->command) : row->name;

	if (row->life == VT_LIFE_GONE || row->life == VT_LIFE_ZOMBIE)
		add_fact(text, "it has ended, but its memory stays");
	if (!row->pid)
		add_fact(text, "NVML does not tell its number here");
	if (row->rank.rank >= 0 && row->rank.world_size > 0)
		add_fact(text, "rank %d/%d", row->rank.rank, row->rank.world_size);
	else if (row->rank.rank >= 0)
		add_fact(text, "rank %d", row->rank.rank);
	if (*row->job)
		add_fact(text, "%.48s", row->job);
	if (*row->pod)
		add_fact(text, "pod %.64s", row->pod);
	if (*row->container)
		add_fact(text, "container %.64s", row->container);
	if (row->own_pid > 0)
		add_fact(text, "there pid %d", (int)row->own_pid);
	if (row->torch.state == VT_PS_TORCH_INHERITED)
		add_fact(text, row->ppid > 1 ? "forked from %d" : "forked", (int)row->ppid);
	if (*command)
		vt_str_addf(text, "%s%s", text->n ? ": " : "", command);
}

static void print_cell(const struct table *t, enum vt_style style, const char *text, int columns)
{
	vt_line_pad(t->line, t->line->want + 1);
	vt_line_cell(t->line, style, text, columns, VT_CUT_END);
}

static void print_row(const struct table *t, const struct vt_ps_row *row)
{
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX];

	snprintf(number, sizeof(number), "%d", (int)row->pid);
	vt_line_right(t->line, VT_BOLD, row->pid ? number : "?", PID_COLUMNS);
	print_cell(t, VT_PLAIN, *row->user ? row->user : "?", t->user_columns);
	add_gpus(t, row, &text);
	print_cell(t, VT_PLAIN, vt_str_get(&text), t->gpu_columns);
	print_torch(t, row, true);
	if (t->wide)
		print_torch(t, row, false);
	print_counted(t, row);
	vt_str_clear(&text);
	add_state(t, row, &text);
	print_cell(t, style_of(row), vt_str_get(&text), t->state_columns);
	if (row->uptime_s >= 0)
		vt_line_right(t->line, VT_PLAIN,
			      t->wide ? vt_format_age(number, row->uptime_s) :
					short_age(number, row->uptime_s),
			      t->age_columns);
	else
		vt_line_right(t->line, VT_DIM, "?", t->age_columns);
	vt_str_clear(&text);
	add_who(row, &text);
	vt_line_pad(t->line, t->line->want + 2);
	if (vt_line_room(t->line) >= MIN_NOTE_COLUMNS)
		vt_line_cell(t->line, VT_PLAIN, vt_str_get(&text), vt_line_room(t->line),
			     VT_CUT_END);
	vt_line_end(t->line);
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_titles(const struct table *t)
{
	vt_line_right(t->line, VT_DIM, "PID", PID_COLUMNS);
	print_cell(t, VT_DIM, "USER", t->user_columns);
	print_cell(t, VT_DIM, "GPU", t->gpu_columns);
	vt_line_right(t->line, VT_DIM, "PYTORCH", t->size_columns);
	if (t->wide)
		vt_line_right(t->line, VT_DIM, "IN USE", t->size_columns);
	vt_line_right(t->line, VT_DIM, "DRIVER", t->size_columns);
	print_cell(t, VT_DIM, "STATE", t->state_columns);
	vt_line_right(t->line, VT_DIM, "UP", t->age_columns);
	vt_line_pad(t->line, t->line->want + 2);
	vt_line_add(t->line, VT_DIM, "WHO");
	vt_line_end(t->line);
}

/* ---- notes ---- */

__attribute__((format(printf, 3, 4))) static void note(struct table *t, bool missing,
						       const char *format, ...)
{
	struct vt_str text = { 0 };
	va_list args;

	if (!t->noted)
		vt_line_blank(t->line);
	t->noted = true;
	va_start(args, format);
	vt_str_vaddf(&text, format, args);
	va_end(args);
	vt_line_add(t->line, missing ? VT_WARN : VT_PLAIN, missing ? "!" : "·");
	vt_line_pad(t->line, 2);
	vt_line_wrap(t->line, VT_PLAIN, vt_str_get(&text), 2, 4);
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_unknown(struct table *t)
{
	static const char *const why[VT_N_PS_TORCH] = {
		[VT_PS_TORCH_ASYNC] = "it uses cudaMallocAsync: only the driver knows",
		[VT_PS_TORCH_REFUSED] =
			"its allocator is not understood, or was in the middle of a change",
		[VT_PS_TORCH_DENIED] = "this user may not read that process: try sudo",
		[VT_PS_TORCH_LATE] = "reading that process blocks, or takes too long",
	};
	size_t counts[VT_N_PS_TORCH] = { 0 };
	char number[VT_NUM_MAX];

	for (size_t i = 0; i < t->ps->rows.n; i++)
		counts[t->ps->rows.data[i].torch.state] += t->ps->rows.data[i].pid != 0;
	for (int i = 0; i < VT_N_PS_TORCH; i++)
		if (why[i] && counts[i])
			note(t, true, "PYTORCH is not known of %s process%s: %s",
			     vt_format_count(number, counts[i]), counts[i] == 1 ? "" : "es",
			     why[i]);
}

static void print_usage(struct table *t)
{
	const struct vt_model_usage *usage = &t->ps->usage;

	if (usage->state == VT_COUNTED_NO_NVML)
		note(t, true,
		     "DRIVER is not known: there is no libnvidia-ml.so.1 here, which tells it");
	else if (usage->state != VT_COUNTED_READ)
		note(t, true, "DRIVER is not known%s%s", *usage->why ? ": " : "", usage->why);
	else if (usage->foreign)
		note(t, true,
		     "this driver tells the numbers of another pid namespace: whose memory is whose is not known here");
}

static void print_notes(struct table *t, const struct vt_ps_document *document)
{
	const struct vt_ps *ps = t->ps;
	char number[VT_NUM_MAX];

	print_unknown(t);
	print_usage(t);
	if (ps->dropped)
		note(t, true, "only the first %zu processes are here: there are more", ps->rows.n);
	if (ps->unseen)
		note(t, ps->completeness != VT_COMPLETE,
		     "this user may not look at %s processes of others: those among them that hold memory are listed only by the driver's count",
		     vt_format_count(number, ps->unseen));
	if (ps->idle && !document->all)
		note(t, false,
		     "%s more process%s the driver's library loaded and hold%s no memory: --all shows %s",
		     vt_format_count(number, ps->idle), ps->idle == 1 ? " has" : "es have",
		     ps->idle == 1 ? "s" : "", ps->idle == 1 ? "it" : "them");
}

struct vt_error *vt_ps_write_text(const void *what, const struct vt_writer_options *options,
				  FILE *out)
{
	const struct vt_ps_document *document = what;
	struct vt_line line;
	struct table t = { .line = &line, .ps = document->ps };
	size_t shown = 0;

	vt_line_init(&line, out, options);
	t.wide = line.columns >= WIDE;
	t.counted = vt_ps_all_counted(t.ps);
	t.size_columns = t.wide ? SIZE_COLUMNS : NARROW_SIZE_COLUMNS;
	t.user_columns = t.wide ? 12 : 8;
	t.gpu_columns = t.wide ? 6 : 3;
	t.state_columns = t.wide ? 28 : 13;
	t.age_columns = t.wide ? 13 : 5;
	print_head(&t);
	for (size_t i = 0; i < t.ps->rows.n; i++) {
		if (t.ps->rows.data[i].holds_nothing && !document->all)
			continue;
		if (!shown++)
			print_titles(&t);
		print_row(&t, &t.ps->rows.data[i]);
	}
	if (!shown) {
		vt_line_add(&line, VT_PLAIN, "No process here uses CUDA, as far as can be seen.");
		vt_line_end(&line);
	}
	print_notes(&t, document);
	return vt_line_finish(&line);
}
