/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_oom.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "record/oom_file.h"

/* By then the program has printed its exception; at its end it is said at once. */
#define QUIET_NS (500 * VT_NS_PER_MS)
/* Of one process: a program that tries sizes until one fits would fill the disk. */
#define MAX_REPORTS 20

struct vt_error *vt_run_oom_begin(struct vt_run_oom *oom, const struct vt_record_target *target)
{
	const char *name = target->process.proc.name;
	struct vt_str who = { 0 };

	vt_str_add_escaped(&who, name, strlen(name));
	vt_str_addf(&who, " (%d)", (int)target->process.proc.pid);
	snprintf(oom->who, sizeof(oom->who), "%s", vt_str_get(&who));
	vt_str_deinit(&who);
	oom->caught.pid = target->process.proc.pid;
	oom->caught.collect.want = VT_WANT_ALL;
	return vt_catch_begin(&oom->caught, target);
}

static void add_line(struct vt_str *text, const struct vt_run_oom *oom, const char *line)
{
	vt_str_addf(text, "vramtap: %s: ", oom->who);
	vt_str_add_escaped(text, line, strlen(line));
	vt_str_add(text, "\n");
}

/* What was asked for, and why there was not as much. */
static void add_cause(struct vt_str *text, const struct vt_run_oom *oom,
		      const struct vt_model *model)
{
	for (size_t i = 0; i < model->headlines.n && i < 2; i++)
		if (i == 0 || model->caught.verdict != VT_OOM_UNDECIDED)
			add_line(text, oom, model->headlines.data[i].text);
}

static void add_saved(struct vt_str *text, const struct vt_run_oom *oom,
		      const struct vt_oom_saved *saved)
{
	struct vt_str line = { 0 };

	if (saved->instead)
		add_line(text, oom, saved->instead->message);
	vt_str_addf(&line, "the report of that moment is %s", saved->json);
	if (saved->text)
		vt_str_addf(&line, "; to read it: less %s", saved->text);
	add_line(text, oom, vt_str_get(&line));
	vt_str_deinit(&line);
}

/* One write, so that the program's own lines do not come between. */
static void print(const struct vt_str *text)
{
	fwrite(vt_str_get(text), 1, text->n, stderr);
	fflush(stderr);
}

/* A traceback is printed in many pieces. */
static void print_later(struct vt_run_oom *oom, const struct vt_str *text)
{
	if (!oom->pending.n)
		oom->say_ns = vt_now_ns() + QUIET_NS;
	vt_str_addn(&oom->pending, vt_str_get(text), text->n);
}

static void print_pending(struct vt_run_oom *oom)
{
	if (oom->pending.n)
		print(&oom->pending);
	vt_str_clear(&oom->pending);
}

void vt_run_oom_end(struct vt_run_oom *oom)
{
	vt_catch_end(&oom->caught);
	oom->ended = true;
	print_pending(oom);
	vt_str_deinit(&oom->pending);
}

static void save(struct vt_run_oom *oom, const struct vt_model *model)
{
	const struct vt_oom_file file = {
		.pattern = oom->pattern,
		.pid = oom->caught.pid,
		.add_pid = __atomic_load_n(oom->processes, __ATOMIC_RELAXED) > 1,
		.with_text = true,
		/* whoever reads it has another terminal */
		.text = { .ascii = true },
	};
	struct vt_oom_saved saved = { 0 };
	struct vt_error *err = vt_oom_save(&file, model, &saved);
	struct vt_str text = { 0 };

	add_cause(&text, oom, model);
	if (err) {
		err = vt_error_prefix(err, "the report of that moment is not saved");
		add_line(&text, oom, err->message);
	} else {
		add_saved(&text, oom, &saved);
	}
	print_later(oom, &text);
	vt_str_deinit(&text);
	vt_error_destroy(err);
	vt_oom_saved_deinit(&saved);
}

static void say_error(struct vt_run_oom *oom, const struct vt_error *err)
{
	struct vt_str text = { 0 };

	add_line(&text, oom, err->message);
	print_later(oom, &text);
	vt_str_deinit(&text);
}

/* That the process has ended is no news. */
static void give_up(struct vt_run_oom *oom, const struct vt_error *err)
{
	if (err->code != VT_ERR_GONE)
		say_error(oom, err);
	vt_run_oom_end(oom);
}

static void give_up_after_many(struct vt_run_oom *oom)
{
	struct vt_str text = { 0 };

	vt_str_addf(&text, "vramtap: %s: further errors are not saved: there were %d\n", oom->who,
		    MAX_REPORTS);
	print_later(oom, &text);
	vt_str_deinit(&text);
	vt_run_oom_end(oom);
}

void vt_run_oom_look(struct vt_run_oom *oom)
{
	struct vt_model model;
	bool caught;

	if (vt_deadline_passed(oom->say_ns))
		print_pending(oom);
	if (oom->ended)
		return;
	vt_model_init(&model);

	struct vt_error *why = NULL;
	struct vt_error *err = vt_catch_look(&oom->caught, &model, &caught, &why);

	if (caught && why) {
		why = vt_error_prefix(why, "ran out of memory, and nothing could be learned");
		say_error(oom, why);
	} else if (caught) {
		save(oom, &model);
	}
	if (err)
		give_up(oom, err);
	else if (oom->caught.n_caught == MAX_REPORTS)
		give_up_after_many(oom);
	vt_model_deinit(&model);
	vt_error_destroy(why);
	vt_error_destroy(err);
}
