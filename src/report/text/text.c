/* SPDX-License-Identifier: Apache-2.0 */
/* The text report: the answer first, the evidence below. */
#include "report/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"

#define MAX_DIAGS 20 /* shown of each level; JSON has all */
#define MAX_DIAG_LINES 4
#define SEPARATOR " · "

/* ---- the header ---- */

/* Short facts, separated by dots; a line break never splits a fact. */
struct items {
	struct vt_str texts[12];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add_item(struct items *items, const char *format,
							   ...)
{
	va_list args;

	va_start(args, format);
	vt_str_vaddf(&items->texts[items->n++], format, args);
	va_end(args);
}

static int items_width(struct vt_line *line, const struct items *items)
{
	int width = 0;

	for (size_t i = 0; i < items->n; i++)
		width += vt_line_width(line, vt_str_get(&items->texts[i])) +
			 (i ? (int)strlen(" . ") : 0);
	return width;
}

static void print_items(struct vt_line *line, enum vt_style style, const struct items *items)
{
	for (size_t i = 0; i < items->n; i++) {
		const char *text = vt_str_get(&items->texts[i]);

		if (items->texts[i].failed)
			line->buf.failed = true;
		if (i > 0) {
			if (vt_line_width(line, text) + 3 > vt_line_room(line))
				vt_line_end(line);
			else
				vt_line_add(line, style, SEPARATOR);
		}
		vt_line_add(line, style, text);
	}
	vt_line_end(line);
}

static void free_items(struct items *items)
{
	for (size_t i = 0; i < items->n; i++)
		vt_str_deinit(&items->texts[i]);
	items->n = 0;
}

static bool is_set(const char *text)
{
	return text && *text;
}

static void print_process(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_process *p = &model->process;
	VT_CLEANUP(free_items) struct items items = { 0 };
	const char *command = is_set(p->cmdline) ? p->cmdline : p->name;
	char age[VT_NUM_MAX];

	if (!is_set(command))
		command = "(no command line)";
	if (model->core.path)
		add_item(&items, "core %.200s of pid %d", model->core.path, (int)p->pid);
	else
		add_item(&items, "pid %d", (int)p->pid);
	if (p->rank >= 0 && p->world_size > 0)
		add_item(&items, "rank %d of %d", p->rank, p->world_size);
	else if (p->rank >= 0)
		add_item(&items, "rank %d", p->rank);
	if (p->uptime_s > 0)
		add_item(&items, "up %s", vt_format_age(age, p->uptime_s));
	if (is_set(p->user))
		add_item(&items, "%.64s", p->user);
	if (is_set(p->container))
		add_item(&items, "container %.64s", p->container);
	if (is_set(p->pod))
		add_item(&items, "pod %.64s", p->pod);
	if (p->ns_pid > 0)
		add_item(&items, "there pid %d", (int)p->ns_pid);
	if (is_set(p->job))
		add_item(&items, "job %.64s", p->job);

	int facts = items_width(line, &items);
	int room = line->columns - facts - 3;

	if (vt_line_width(line, command) <= room) {
		vt_line_add(line, VT_BOLD, command);
		vt_line_pad(line, line->columns - facts);
	} else {
		vt_line_add(line, VT_BOLD, command);
		vt_line_end(line);
	}
	print_items(line, VT_PLAIN, &items);
}

static void add_reading(struct items *items, const struct vt_model *model)
{
	const struct vt_model_timing *t = &model->timing;
	bool inside = model->cuda_method == VT_METHOD_INSIDE ||
		      model->torch_method == VT_METHOD_INSIDE;
	struct vt_str *text = &items->texts[items->n];
	char number[VT_NUM_MAX], size[VT_NUM_MAX];
	double stopped_ms = t->stopped_ms + vt_model_streams_stopped_ms(model);

	if (model->core.path) {
		add_item(items, "%s of %s read in %s",
			 vt_format_size(number, model->core.read_bytes),
			 vt_format_size(size, model->core.size),
			 vt_format_ms((char[VT_NUM_MAX]){ 0 }, t->total_ms));
		return;
	}
	add_item(items, "read from %s in %s", inside ? "inside" : "outside",
		 vt_format_ms(number, t->total_ms));
	if (t->borrowed_tid > 0)
		vt_str_addf(text, ", one thread borrowed for %s",
			    vt_format_ms(number, t->borrowed_us / 1000));
	if (model->held_by)
		add_item(items, "held by %s", model->held_by);
	else if (model->no_stop)
		add_item(items, "no thread stopped");
	if (t->gil_held_ms > 0)
		add_item(items, "GIL held for %s", vt_format_ms(number, t->gil_held_ms));
	if (stopped_ms > 0)
		add_item(items, "threads stopped for %s", vt_format_ms(number, stopped_ms));
}

static void print_versions(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_versions *v = &model->versions;
	VT_CLEANUP(free_items) struct items items = { 0 };

	if (is_set(v->torch))
		add_item(&items, "PyTorch %.64s", v->torch);
	if (is_set(v->python))
		add_item(&items, "CPython %.32s%s", v->python,
			 v->python_free_threaded ? " free-threaded" : "");
	if (v->cuda_driver > 0)
		add_item(&items, "CUDA %d.%d", v->cuda_driver / 1000, v->cuda_driver % 1000 / 10);
	if (is_set(v->driver))
		add_item(&items, "driver %.32s", v->driver);
	add_reading(&items, model);
	print_items(line, VT_DIM, &items);
}

static void print_headline(struct vt_line *line, const struct vt_model_headline *h)
{
	vt_line_add(line, VT_ALARM, h->alarm ? "!" : "");
	vt_line_pad(line, 2);
	vt_line_wrap(line, h->alarm ? VT_ALARM : VT_PLAIN, h->text, 4, 3);
}

void vt_text_headlines(struct vt_line *line, const struct vt_model *model)
{
	if (model->headlines.n > 0)
		vt_line_blank(line);
	for (size_t i = 0; i < model->headlines.n; i++)
		print_headline(line, &model->headlines.data[i]);
}

/* ---- the end ---- */

static unsigned int topics_of(const struct vt_diag *diag)
{
	static const unsigned int topics[VT_N_STAGES] = {
		[VT_STAGE_STACKS] = VT_TOPIC_THREADS, [VT_STAGE_PYTHON] = VT_TOPIC_THREADS,
		[VT_STAGE_INJECT] = VT_TOPIC_MEMORY,  [VT_STAGE_CUDA] = VT_TOPIC_MEMORY,
		[VT_STAGE_TORCH] = VT_TOPIC_MEMORY,   [VT_STAGE_LIBPOOLS] = VT_TOPIC_MEMORY,
		[VT_STAGE_PINNED] = VT_TOPIC_MEMORY,  [VT_STAGE_RECORDER] = VT_TOPIC_MEMORY,
		[VT_STAGE_OWNERS] = VT_TOPIC_MEMORY,
	};

	return topics[diag->stage] ? topics[diag->stage] : VT_TOPIC_ALL;
}

static bool is_shown(const struct vt_diag *diag, enum vt_diag_level level, unsigned int topics)
{
	return diag->level == level && (topics_of(diag) & topics);
}

static size_t count_diags(const struct vt_model *model, enum vt_diag_level level,
			  unsigned int topics)
{
	size_t n = 0;

	for (size_t i = 0; i < model->diags.n; i++)
		n += is_shown(&model->diags.data[i], level, topics);
	return n;
}

static void print_level(struct vt_line *line, const struct vt_model *model,
			enum vt_diag_level level, unsigned int topics)
{
	bool missing = level == VT_DIAG_MISSING;
	char number[VT_NUM_MAX];
	size_t n = 0;

	for (size_t i = 0; i < model->diags.n; i++) {
		const struct vt_diag *diag = &model->diags.data[i];

		if (!is_shown(diag, level, topics) || ++n > MAX_DIAGS)
			continue;
		vt_line_add(line, missing ? VT_WARN : VT_PLAIN, missing ? "!" : "·");
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_PLAIN, diag->text, 2, MAX_DIAG_LINES);
	}
	if (n > MAX_DIAGS) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(number, n - MAX_DIAGS));
		vt_line_end(line);
	}
}

static void print_diags(struct vt_line *line, const struct vt_model *model, unsigned int topics)
{
	size_t missing = count_diags(model, VT_DIAG_MISSING, topics);

	if (missing + count_diags(model, VT_DIAG_NOTE, topics) == 0)
		return;
	vt_text_title(line, NULL, "%s", missing > 0 ? "Missing, and notes" : "Notes");
	print_level(line, model, VT_DIAG_MISSING, topics);
	print_level(line, model, VT_DIAG_NOTE, topics);
}

/* Missing parts elsewhere count, too: a partial report must never look complete. */
static void print_partial(struct vt_line *line, const struct vt_model *model, unsigned int topics)
{
	size_t missing = count_diags(model, VT_DIAG_MISSING, topics);
	size_t elsewhere = count_diags(model, VT_DIAG_MISSING, VT_TOPIC_ALL) - missing;

	if (missing == 0 && elsewhere == 0)
		vt_line_add(line, VT_WARN, "Partial: vramtap ran out of memory.");
	else if (missing == 0)
		vt_line_addf(line, VT_WARN, "Partial: something about %s is missing.",
			     topics == VT_TOPIC_MEMORY ? "threads" : "memory");
	else if (missing == 1)
		vt_line_add(line, VT_WARN, "Partial: one thing is missing, see above.");
	else
		vt_line_addf(line, VT_WARN, "Partial: %zu things are missing, see above.", missing);
}

static void print_completeness(struct vt_line *line, const struct vt_model *model,
			       unsigned int topics)
{
	vt_line_blank(line);
	switch (model->completeness) {
	case VT_COMPLETE:
		vt_line_add(line, VT_PLAIN, "Complete.");
		break;
	case VT_PARTIAL:
		print_partial(line, model, topics);
		break;
	case VT_NOTHING:
		vt_line_add(line, VT_ALARM, "Nothing could be learned: see above.");
		break;
	}
}

/* How to get the same as data. */
static void print_json(struct vt_line *line, const struct vt_model *model, const char *command)
{
	if (line->hints->json)
		vt_line_addf(line, VT_DIM, " JSON: %s", line->hints->json);
	else if (model->core.path)
		vt_line_addf(line, VT_DIM, " JSON: vramtap %s --json - --core %s", command,
			     model->core.path);
	else
		vt_line_addf(line, VT_DIM, " JSON: vramtap %s --json - %d", command,
			     (int)model->process.pid);
	vt_line_end(line);
}

void vt_text_head(struct vt_line *line, const struct vt_model *model)
{
	print_process(line, model);
	print_versions(line, model);
	vt_text_where(line, &model->where, &model->when, model->tool_version);
}

void vt_text_end(struct vt_line *line, const struct vt_model *model, unsigned int topics,
		 const char *command)
{
	print_diags(line, model, topics);
	print_completeness(line, model, topics);
	print_json(line, model, command);
	vt_text_next(line, model);
}

void vt_text_missing(struct vt_line *line, const struct vt_model *model, unsigned int topics)
{
	if (model->completeness == VT_COMPLETE)
		return;
	if (count_diags(model, VT_DIAG_MISSING, topics) > 0)
		vt_text_title(line, NULL, "Missing");
	print_level(line, model, VT_DIAG_MISSING, topics);
	print_completeness(line, model, topics);
	vt_line_end(line);
}

struct vt_error *vt_write_report_text(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	const struct vt_model *model = what;
	struct vt_line line;

	vt_line_init(&line, out, options);
	vt_text_head(&line, model);
	vt_text_devices(&line, model);
	vt_text_headlines(&line, model);
	vt_text_advice(&line, model);
	vt_text_faults(&line, model);
	vt_text_caught(&line, model);
	vt_text_kernels(&line, model);
	vt_text_streams(&line, model);
	vt_text_memory(&line, model);
	if (options->map)
		vt_text_map(&line, model);
	if (!options->all_ranges)
		vt_text_raw_ranges(&line, model);
	vt_text_host(&line, model);
	vt_text_pinned(&line, model);
	vt_text_collectives(&line, model);
	vt_text_launches(&line, model);
	vt_text_ooms(&line, model);
	vt_text_owners(&line, model, options);
	vt_text_sites(&line, model, options->all_sites);
	if (options->all_sites && model->sites.n == 0) {
		vt_line_blank(&line);
		vt_text_no_sites(&line, model);
	}
	vt_text_jax(&line, model, options->all_sites);
	vt_text_driver(&line, model);
	vt_text_block_groups(&line, model);
	vt_text_again(&line, model);
	vt_text_threads(&line, model, options->threads);
	vt_text_tasks(&line, model, options->threads);
	if (options->all_blocks) {
		vt_text_all_blocks(&line, model);
		vt_text_pinned_blocks(&line, model);
	}
	if (options->all_ranges)
		vt_text_ranges(&line, model);
	vt_text_end(&line, model, VT_TOPIC_ALL, "report");
	return vt_line_finish(&line);
}

struct vt_error *vt_write_stacks_text(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	const struct vt_model *model = what;
	struct vt_line line;

	vt_line_init(&line, out, options);
	vt_text_head(&line, model);
	vt_text_headlines(&line, model);
	vt_text_advice(&line, model);
	vt_text_again(&line, model);
	vt_text_threads(&line, model, options->threads);
	vt_text_tasks(&line, model, options->threads);
	vt_text_end(&line, model, VT_TOPIC_ALL, "stacks");
	return vt_line_finish(&line);
}

struct vt_error *vt_write_again_text(const void *what, const struct vt_writer_options *options,
				     FILE *out)
{
	const struct vt_model *model = what;
	struct vt_line line;

	vt_line_init(&line, out, options);
	line.top = false; /* below another text */
	for (size_t i = 0; i < model->headlines.n; i++) {
		const struct vt_model_headline *h = &model->headlines.data[i];

		if (strcmp(h->code, "again") != 0)
			continue;
		vt_line_blank(&line);
		print_headline(&line, h);
	}
	vt_text_again(&line, model);
	vt_text_advice_stuck(&line, model);
	return vt_line_finish(&line);
}
