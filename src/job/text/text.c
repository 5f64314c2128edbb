/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of a job: the answer first, then the outliers and their places, all stacks as a tree,
 * memory, and the processes that could not be read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/map.h"
#include "job/internal.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_VERDICT_LINES 4
#define MAX_OUTLIERS 4 /* groups with their stacks */
#define MAX_FRAMES 14  /* of each */
#define MAX_INNER 4    /* native ones among them */
#define MAX_UNREAD 8   /* reasons */
#define MAX_DIAGS 8
#define SEPARATOR " · "

/* ---- the head ---- */

static size_t count_hosts(struct vt_line *line, const struct vt_job *job)
{
	struct vt_map hosts = { 0 };
	size_t n;

	for (size_t i = 0; i < job->members.n; i++)
		line->buf.failed |=
			!vt_map_put(&hosts, (uintptr_t)job->members.data[i].label.host, 0);
	n = hosts.n;
	vt_map_deinit(&hosts);
	return n;
}

static size_t count_role(const struct vt_job *job, enum vt_role role)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++)
		n += job->members.data[i].label.role == role && job->members.data[i].label.in_job &&
		     !job->members.data[i].core;
	return n;
}

static size_t count_cores(const struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++)
		n += job->members.data[i].core && job->members.data[i].label.in_job;
	return n;
}

/* Outsiders may come before: they have ranks of their own. */
static const struct vt_label *first_of_job(const struct vt_job *job)
{
	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].label.in_job)
			return &job->members.data[i].label;
	return job->members.n ? &job->members.data[0].label : NULL;
}

/* Otherwise the head would describe only one of several. */
static bool is_one_job(const struct vt_job *job)
{
	const struct vt_label *first = first_of_job(job);

	for (size_t i = 0; i < job->members.n && first->role == VT_ROLE_RANK; i++) {
		const struct vt_label *label = &job->members.data[i].label;

		if (label->role == VT_ROLE_RANK && label->in_job &&
		    strcmp(first->job, label->job) != 0)
			return false;
	}
	return true;
}

/* They are listed because they use a device of the job. */
static size_t count_outside(const struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++)
		n += !job->members.data[i].label.in_job;
	return n;
}

static void add_count(struct vt_str *text, size_t n, const char *one, const char *many)
{
	char number[VT_NUM_MAX];

	if (n)
		vt_str_addf(text, "%s%s %s", text->n ? SEPARATOR : "", vt_format_count(number, n),
			    n == 1 ? one : many);
}

/* Without the program's directory: it is usually Python's, and takes the room of the script. */
static const char *short_command(const char *command)
{
	const char *start = command;

	for (size_t i = 0; command[i] && command[i] != ' '; i++)
		if (command[i] == '/' && command[i + 1] && command[i + 1] != ' ')
			start = command + i + 1;
	return start;
}

/* Of several hosts, the head has their number. */
static void print_where(struct vt_line *line, const struct vt_job *job, bool one)
{
	struct vt_model_where where = { .host = one ? job->members.data[0].label.host : NULL };

	vt_text_where(line, &where, &job->when, job->tool_version);
}

static void print_head(struct vt_line *line, const struct vt_job *job)
{
	const struct vt_label *first = first_of_job(job);
	size_t hosts = count_hosts(line, job), ranks = count_role(job, VT_ROLE_RANK);
	bool one = first && is_one_job(job);
	struct vt_str text = { 0 };
	char ms[VT_NUM_MAX];

	if (first && !one)
		vt_str_add(&text, "several jobs, one of them ");
	if (first && *first->job)
		vt_str_addf(&text, "%.64s" SEPARATOR, first->job);
	if (first && *first->command)
		vt_str_addf(&text, "%.200s", short_command(first->command));
	else if (first)
		vt_str_addf(&text, "%.64s", first->name);
	vt_line_add(line, VT_BOLD, vt_str_get(&text));
	vt_line_end(line);
	vt_str_clear(&text);
	add_count(&text, ranks, "rank", "ranks");
	if (one && ranks && first->world_size > 0 && ranks <= (size_t)first->world_size)
		vt_str_addf(&text, " of %s", vt_format_count(ms, (uint64_t)first->world_size));
	add_count(&text, count_cores(job), "core", "cores");
	add_count(&text, count_role(job, VT_ROLE_LOADER), "loader worker", "loader workers");
	add_count(&text, count_role(job, VT_ROLE_CHECKPOINT), "checkpoint writer",
		  "checkpoint writers");
	add_count(&text, count_role(job, VT_ROLE_LAUNCHER), "launcher", "launchers");
	add_count(&text, count_role(job, VT_ROLE_OTHER), "other process", "other processes");
	add_count(&text, count_outside(job), "process outside the job",
		  "processes outside the job");
	add_count(&text, hosts, "host", "hosts");
	if (job->skew_ms >= 0 && job->members.n > 1)
		vt_str_addf(&text, SEPARATOR "stopped within %s of each other%s",
			    vt_format_ms(ms, job->skew_ms), hosts > 1 ? " on each" : "");
	vt_line_wrap(line, VT_DIM, vt_str_get(&text), 2, 3);
	print_where(line, job, hosts == 1);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_verdicts(struct vt_line *line, const struct vt_job *job)
{
	if (job->verdicts.n)
		vt_line_blank(line);
	for (size_t i = 0; i < job->verdicts.n; i++) {
		const struct vt_job_verdict *v = &job->verdicts.data[i];

		vt_line_add(line, VT_ALARM, v->alarm ? "!" : "");
		vt_line_pad(line, 2);
		vt_line_wrap(line, v->alarm ? VT_ALARM : VT_PLAIN, v->text, 4, MAX_VERDICT_LINES);
	}
}

/* ---- frames ---- */

/* The frames of a stack to show, as indices, innermost first. Returns their number. */
static size_t choose_frames(const struct vt_job *job, const struct vt_job_stack *stack,
			    size_t chosen[MAX_FRAMES])
{
	size_t n = 0, native = 0;
	bool python = false;

	for (size_t i = 0; i < stack->n && n < MAX_FRAMES; i++) {
		const struct vt_job_frame *f = &job->frames.data[stack->frames[i]];

		python |= f->kind == VT_FRAME_PYTHON;
		if (f->kind == VT_FRAME_NATIVE && stack->has_python &&
		    (python || !f->function || native++ >= MAX_INNER))
			continue;
		chosen[n++] = i;
	}
	return n;
}

static void print_stack(struct vt_line *line, const struct vt_job *job,
			const struct vt_job_stack *stack)
{
	size_t chosen[MAX_FRAMES], n = choose_frames(job, stack, chosen);
	int function_columns = line->columns * 3 / 7;
	struct vt_str name = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct vt_job_frame *f = &job->frames.data[stack->frames[chosen[i]]];
		const char *where = f->file ? f->file : f->module ? f->module : "";

		vt_line_pad(line, 6);
		vt_str_clear(&name);
		vt_text_job_frame(
			&name, &(struct vt_job_frame){ .kind = f->kind, .function = f->function },
			line->ascii);
		vt_line_cell(line,
			     f->program  ? VT_BOLD :
			     f->function ? VT_PLAIN :
					   VT_DIM,
			     vt_str_get(&name), function_columns, VT_CUT_START);
		vt_line_pad(line, 6 + function_columns + 2);
		vt_str_clear(&name);
		vt_str_add(&name, where);
		if (f->file && f->line > 0)
			vt_str_addf(&name, ":%d", f->line);
		vt_line_cell(line, VT_DIM, vt_str_get(&name), vt_line_room(line), VT_CUT_PATH);
		vt_line_end(line);
	}
	line->buf.failed |= name.failed;
	vt_str_deinit(&name);
}

/* ---- outliers ---- */

/* The members that do the same as this one, which must be the first of them; otherwise false. */
static bool gather_same(struct vt_line *line, const struct vt_job *job, size_t first,
			struct vt_job_indices *same)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(job, &job->members.data[first]);

	same->n = 0;
	for (size_t i = 0; i < job->members.n; i++) {
		if (!job->members.data[i].outlier ||
		    vt_job_telling_doing(job, &job->members.data[i]) != doing)
			continue;
		if (i < first && doing)
			return false;
		if (!vt_job_indices_add(same, (uint32_t)i)) {
			line->buf.failed = true;
			return false;
		}
	}
	return doing && same->n;
}

static void print_outlier(struct vt_line *line, const struct vt_job *job,
			  const struct vt_job_indices *same)
{
	const struct vt_member *m = &job->members.data[same->data[0]];
	const struct vt_job_doing *doing = vt_job_telling_doing(job, m);
	struct vt_member_set set = { .members = same->data, .n = same->n };
	struct vt_str text = { 0 };

	vt_line_pad(line, 2);
	vt_text_job_set(job, &set, line->columns / 3, &text);
	vt_line_add(line, VT_WARN, vt_str_get(&text));
	vt_str_clear(&text);
	vt_str_addf(&text, "  pid %d on %.64s, thread %s: ", (int)m->label.pid, m->label.host,
		    doing->name);
	vt_job_add_does(doing, VT_FORM_ALONE, VT_DETAIL_ALL, &text);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 4, 3);
	print_stack(line, job, &job->stacks.data[doing->stack]);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_outliers(struct vt_line *line, const struct vt_job *job)
{
	struct vt_job_indices same = { 0 };
	size_t shown = 0;

	for (size_t i = 0; i < job->members.n && shown < MAX_OUTLIERS; i++) {
		if (!job->members.data[i].outlier || !gather_same(line, job, i, &same))
			continue;
		if (!shown++)
			vt_text_title(line, "innermost frames first", "What differs");
		print_outlier(line, job, &same);
	}
	free(same.data);
}

/* ---- processes that could not be read ---- */

static const char *why_unread(const struct vt_member *m)
{
	return m->error ? m->error : m->diag ? m->diag : "nothing is known about it";
}

/* Members that are incomplete for one reason. */
static void print_reason(struct vt_line *line, const struct vt_job *job, enum vt_completeness level,
			 const struct vt_job_indices *same)
{
	const struct vt_member *m = &job->members.data[same->data[0]];
	struct vt_member_set set = { .members = same->data, .n = same->n };
	bool rank = vt_job_are_ranks(job, &set);
	struct vt_str text = { 0 };

	vt_str_add(&text, !rank ? "" : same->n > 1 ? "ranks " : "rank ");
	vt_job_add_set(job, &set, 60, &text);
	if (same->n == 1 && (rank || (m->label.role == VT_ROLE_LOADER && m->label.in_job)))
		vt_str_addf(&text, ", pid %d on %.64s", (int)m->label.pid, m->label.host);
	vt_str_addf(&text, ": %s", why_unread(m));
	vt_line_add(line, level == VT_NOTHING ? VT_WARN : VT_PLAIN,
		    level == VT_NOTHING ? "!" : "·");
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 4, 3);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static size_t count_complete(const struct vt_job *job, enum vt_completeness completeness)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++)
		n += job->members.data[i].completeness == completeness;
	return n;
}

struct reasons {
	const char *why[MAX_UNREAD];
	struct vt_job_indices members[MAX_UNREAD];
	size_t n, more; /* members for other reasons */
	bool failed;
};

static void add_reason(struct reasons *r, const char *why, uint32_t member)
{
	size_t i = 0;

	while (i < r->n && strcmp(r->why[i], why) != 0)
		i++;
	if (i == MAX_UNREAD) {
		r->more++;
		return;
	}
	r->why[i] = why;
	r->n += i == r->n;
	r->failed |= !vt_job_indices_add(&r->members[i], member);
}

static void print_level(struct vt_line *line, const struct vt_job *job, enum vt_completeness level)
{
	struct reasons reasons = { 0 };
	char count[VT_NUM_MAX];

	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].completeness == level)
			add_reason(&reasons, why_unread(&job->members.data[i]), (uint32_t)i);
	for (size_t i = 0; i < reasons.n; i++) {
		if (reasons.members[i].n)
			print_reason(line, job, level, &reasons.members[i]);
		free(reasons.members[i].data);
	}
	if (reasons.more) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(count, reasons.more));
		vt_line_end(line);
	}
	line->buf.failed |= reasons.failed;
}

/* Several nodes may have the same diagnostic. */
static bool is_said_before(const struct vt_job *job, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (job->diags.data[k].level == job->diags.data[i].level &&
		    !strcmp(job->diags.data[k].text, job->diags.data[i].text))
			return true;
	return false;
}

static void print_diags(struct vt_line *line, const struct vt_job *job, enum vt_diag_level level)
{
	size_t n = 0, more = 0;
	char count[VT_NUM_MAX];

	for (size_t i = 0; i < job->diags.n; i++) {
		if (job->diags.data[i].level != level || (n < MAX_DIAGS && is_said_before(job, i)))
			continue;
		if (n++ >= MAX_DIAGS) {
			more++;
			continue;
		}
		vt_line_add(line, VT_PLAIN, level == VT_DIAG_MISSING ? "!" : "·");
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_PLAIN, job->diags.data[i].text, 4, 2);
	}
	if (more) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(count, more));
		vt_line_end(line);
	}
}

static size_t count_missing_parts(const struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->diags.n; i++)
		n += job->diags.data[i].level == VT_DIAG_MISSING;
	return n;
}

static void print_completeness(struct vt_line *line, const struct vt_job *job, size_t nothing,
			       size_t partial, size_t parts)
{
	struct vt_str text = { 0 };

	if (job->completeness == VT_COMPLETE)
		vt_str_add(&text, "Complete.");
	else if (job->completeness == VT_NOTHING)
		vt_str_add(&text, "Nothing could be learned.");
	else if (!nothing && !partial)
		vt_str_add(&text, "Partial: some parts are missing.");
	else
		vt_str_addf(
			&text,
			"Partial: of %zu processes, %zu could not be read and %zu only in part%s.",
			job->members.n, nothing, partial, parts ? "; some parts are missing" : "");
	vt_line_wrap(line,
		     job->completeness == VT_COMPLETE ? VT_PLAIN :
		     job->completeness == VT_NOTHING  ? VT_ALARM :
							VT_WARN,
		     vt_str_get(&text), 0, 2);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_end(struct vt_line *line, const struct vt_job *job)
{
	size_t nothing = count_complete(job, VT_NOTHING), partial = count_complete(job, VT_PARTIAL),
	       parts = count_missing_parts(job);

	if (nothing || partial || job->diags.n)
		vt_text_title(line, NULL, "%s",
			      nothing || partial || parts ? "Not read, or only in part" : "Notes");
	print_level(line, job, VT_NOTHING);
	print_level(line, job, VT_PARTIAL);
	print_diags(line, job, VT_DIAG_MISSING);
	print_diags(line, job, VT_DIAG_NOTE);
	vt_line_blank(line);
	print_completeness(line, job, nothing, partial, parts);
}

struct vt_error *vt_write_job_text(const void *what, const struct vt_writer_options *options,
				   FILE *out)
{
	const struct vt_job *job = what;
	struct vt_line line;

	vt_line_init(&line, out, options);
	print_head(&line, job);
	vt_text_job_chains(&line, job);
	print_verdicts(&line, job);
	vt_text_job_groups(&line, job);
	vt_text_job_faults(&line, job);
	vt_text_job_kernels(&line, job);
	print_outliers(&line, job);
	vt_text_job_tree(&line, job);
	vt_text_job_ras(&line, job);
	vt_text_job_devices(&line, job);
	vt_text_job_imbalance(&line, job);
	vt_text_job_ledger(&line, job);
	vt_text_job_categories(&line, job);
	print_end(&line, job);
	return vt_line_finish(&line);
}
