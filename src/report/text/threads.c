/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: groups with equal stacks, the most important first; in the full view, every thread with
 * every frame.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "model/cxxname.h"
#include "model/words.h"
#include "base/format.h"
#include "report/text/text.h"

/* Limits of the short view: it tells what it leaves out, and the full view has it. */
#define MAX_GROUPS 12      /* shown, idle ones not counted */
#define MAX_GROUP_LINES 48 /* of frames, all groups; further groups get one line each */
#define MAX_MAIN_LINES 18
#define MAX_PYTHON_LINES 12
#define MAX_NATIVE_LINES 8
#define INNER_NATIVE 5   /* native lines kept where the thread is … */
#define CALLED_NATIVE 4  /* … and where Python called them */
#define TELLING_NATIVE 3 /* and between these, possibly from the user's libraries */
#define MAX_TIDS 4
#define MAX_NAMES 6
#define MAX_LOCALS 12     /* of a frame */
#define MAX_LOCAL_LINES 4 /* of one value, on request */
#define FRAME_INDENT 6
#define LOCAL_INDENT 10
#define HEAD_COLUMN 30

struct view {
	struct vt_line *line;
	const struct vt_model *model;
	bool all;
	int left;       /* columns of function names */
	int lines_left; /* of frames, in the short view */
};

/* ---- frames ---- */

/* The important part of a path: what follows site-packages and the like. */
static const char *short_path(const char *path)
{
	static const char *const roots[] = { "/site-packages/", "/dist-packages/",
					     "/lib/python3." };

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		const char *found = strstr(path, roots[i]);

		if (!found)
			continue;
		found += strlen(roots[i]);
		if (found[-1] == '/')
			return found;
		found = strchr(found, '/');
		return found ? found + 1 : path;
	}
	return path;
}

static void print_function(const struct view *v, const struct vt_model_frame *f)
{
	struct vt_line *line = v->line;
	struct vt_str name = { 0 };

	if (!f->function || !*f->function) {
		vt_line_cell(line, VT_DIM, "??", v->left, VT_CUT_END);
		return;
	}
	if (f->kind == VT_FRAME_PYTHON)
		vt_str_add(&name, f->function);
	else
		/* @ begins a symbol's version. */
		vt_cxx_short_name(&name, f->function, strcspn(f->function, "@"), "…");
	if (f->inlined)
		vt_str_add(&name, " (inlined)");
	/* The end of a qualified name matters most. */
	vt_line_cell(line, vt_model_is_program(f) ? VT_BOLD : VT_PLAIN, vt_str_get(&name), v->left,
		     VT_CUT_START);
	if (name.failed)
		line->buf.failed = true;
	vt_str_deinit(&name);
}

static void print_place(const struct view *v, const struct vt_model_frame *f)
{
	enum vt_style style = f->kind == VT_FRAME_PYTHON ? VT_PLAIN : VT_DIM;
	struct vt_str place = { 0 };

	if (f->file) {
		vt_str_add(&place, v->all ? f->file : short_path(f->file));
		if (f->line > 0)
			vt_str_addf(&place, ":%d", f->line);
	} else if (f->module) {
		vt_str_addf(&place, "%s+0x%" PRIx64, f->module, f->module_offset);
	} else if (f->kind == VT_FRAME_NATIVE) {
		vt_str_addf(&place, "0x%" PRIx64 ", in no file", f->pc);
	}
	vt_line_cell(v->line, style, vt_str_get(&place), vt_line_room(v->line), VT_CUT_PATH);
	if (place.failed)
		v->line->buf.failed = true;
	vt_str_deinit(&place);
}

static void print_locals(const struct view *v, const struct vt_model_frame *f)
{
	size_t shown = v->all || f->n_locals < MAX_LOCALS ? f->n_locals : MAX_LOCALS;

	for (size_t i = 0; f->locals && i < shown; i++) {
		vt_line_pad(v->line, LOCAL_INDENT);
		vt_line_add(v->line, VT_DIM, f->locals[i].name);
		vt_line_add(v->line, VT_DIM, " = ");
		vt_line_cell(v->line, VT_PLAIN, f->locals[i].value ? f->locals[i].value : "?",
			     vt_line_room(v->line), VT_CUT_END);
		vt_line_end(v->line);
	}
	if (f->locals && (shown < f->n_locals || f->locals_cut)) {
		vt_line_pad(v->line, LOCAL_INDENT);
		vt_line_add(v->line, VT_DIM, "…");
		vt_line_end(v->line);
	}
}

void vt_text_frame(struct vt_line *line, const struct vt_model_frame *f, int function_columns)
{
	const struct view v = { .line = line, .all = true, .left = function_columns };

	vt_line_pad(line, FRAME_INDENT);
	print_function(&v, f);
	vt_line_pad(line, FRAME_INDENT + function_columns + 2);
	print_place(&v, f);
	vt_line_end(line);
}

void vt_text_locals(struct vt_line *line, const struct vt_model_frame *f)
{
	for (size_t i = 0; f->locals && i < f->n_locals; i++) {
		vt_line_pad(line, 2);
		vt_line_add(line, VT_BOLD, f->locals[i].name);
		vt_line_add(line, VT_DIM, " = ");
		vt_line_wrap(line, VT_PLAIN, f->locals[i].value ? f->locals[i].value : "?", 6,
			     MAX_LOCAL_LINES);
	}
	if (f->locals && f->locals_cut) {
		vt_line_pad(line, 2);
		vt_line_add(line, VT_DIM, "…");
		vt_line_end(line);
	}
}

static void print_frame(const struct view *v, const struct vt_model_frame *f)
{
	vt_line_pad(v->line, FRAME_INDENT);
	print_function(v, f);
	vt_line_pad(v->line, FRAME_INDENT + v->left + 2);
	print_place(v, f);
	vt_line_end(v->line);
	print_locals(v, f);
}

/* One line of a stack: a frame, or a number of native frames that are left out. */
struct entry {
	size_t frame;   /* the first one */
	size_t skipped; /* 0: the line is the frame itself */
	bool nameless;  /* the skipped ones have no names, and are all in the frame's module */
};

struct entries {
	VT_VEC(struct entry) list;
	bool failed;
};

static void add_entry(struct entries *entries, struct entry entry)
{
	struct entry *added = vt_vec_append(&entries->list);

	if (added)
		*added = entry;
	else
		entries->failed = true;
}

static bool is_nameless(const struct vt_model_frame *f)
{
	return f->kind == VT_FRAME_NATIVE && (!f->function || !*f->function);
}

/*
 * Native frames from i to end, one line each; adjacent frames without names (a driver's) share one
 * line.
 */
static void add_run(struct entries *entries, const struct vt_model_stack *stack, size_t i,
		    size_t end)
{
	while (i < end) {
		size_t next = i + 1;

		while (is_nameless(&stack->frames[i]) && next < end &&
		       is_nameless(&stack->frames[next]) &&
		       vt_same_text(stack->frames[i].module, stack->frames[next].module))
			next++;
		add_entry(entries, (struct entry){ .frame = i,
						   .skipped = next - i > 1 ? next - i : 0,
						   .nameless = true });
		i = next;
	}
}

/* Frames that an entry stands for. */
static size_t entry_frames(const struct entry *entry)
{
	return entry->skipped ? entry->skipped : 1;
}

/* Drops the middle of the entries from start on: about INNER + TELLING + CALLED entries stay. */
static void thin_run(struct entries *entries, const struct vt_model_stack *stack, size_t start)
{
	size_t n = entries->list.n - start, kept = INNER_NATIVE, telling = 0, skipped = 0;
	struct entry *run = &entries->list.data[start];

	if (n <= INNER_NATIVE + CALLED_NATIVE + 1)
		return;
	/* The write position never passes the read position. */
	for (size_t i = INNER_NATIVE; i <= n - CALLED_NATIVE; i++) {
		bool tells = i < n - CALLED_NATIVE && !run[i].skipped && telling < TELLING_NATIVE &&
			     vt_model_is_telling(&stack->frames[run[i].frame]);
		struct entry entry = run[i];

		if (i < n - CALLED_NATIVE && !tells) {
			skipped += entry_frames(&entry);
			continue;
		}
		if (skipped)
			run[kept++] = (struct entry){ .frame = entry.frame - skipped,
						      .skipped = skipped };
		skipped = 0;
		if (tells)
			run[kept++] = entry;
		telling += tells;
	}
	memmove(&run[kept], &run[n - CALLED_NATIVE], CALLED_NATIVE * sizeof(*run));
	entries->list.n = start + kept + CALLED_NATIVE;
}

/*
 * In a stack with Python frames, the native frames between and outside them are calls of the
 * interpreter to itself: each run of them becomes one line. Native frames inside the innermost
 * Python frame are what it is doing.
 */
static void choose_frames(struct entries *entries, const struct vt_model_stack *stack)
{
	bool seen_python = false;

	for (size_t i = 0; i < stack->n_frames;) {
		size_t end = i, start = entries->list.n;

		while (end < stack->n_frames && stack->frames[end].kind == VT_FRAME_NATIVE)
			end++;
		if (end == i) {
			add_entry(entries, (struct entry){ .frame = i++ });
			seen_python = true;
			continue;
		}
		if (seen_python && end - i > 1) {
			add_entry(entries, (struct entry){ .frame = i, .skipped = end - i });
		} else {
			add_run(entries, stack, i, end);
			if (stack->has_python)
				thin_run(entries, stack, start);
		}
		i = end;
	}
}

static void choose_all(struct entries *entries, const struct vt_model_stack *stack)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		add_entry(entries, (struct entry){ .frame = i });
}

static void print_skipped(const struct view *v, size_t n, size_t python)
{
	char number[VT_NUM_MAX];

	vt_line_pad(v->line, FRAME_INDENT);
	if (python > 0)
		vt_line_addf(v->line, VT_DIM, "… %s more frames, %zu of them Python",
			     vt_format_count(number, n), python);
	else
		vt_line_addf(v->line, VT_DIM, "… %s native frame%s", vt_format_count(number, n),
			     n == 1 ? "" : "s");
	vt_line_end(v->line);
}

/* Several frames of one module without names. */
static void print_nameless(const struct view *v, const struct vt_model_stack *stack,
			   const struct entry *e)
{
	char number[VT_NUM_MAX], text[64];

	snprintf(text, sizeof(text), "?? and %s more without names",
		 vt_format_count(number, e->skipped - 1));
	vt_line_pad(v->line, FRAME_INDENT);
	vt_line_cell(v->line, VT_DIM, text, v->left, VT_CUT_END);
	vt_line_pad(v->line, FRAME_INDENT + v->left + 2);
	print_place(v, &stack->frames[e->frame]);
	vt_line_end(v->line);
}

static void print_entry(const struct view *v, const struct vt_model_stack *stack,
			const struct entry *e)
{
	if (e->skipped == 0)
		print_frame(v, &stack->frames[e->frame]);
	else if (e->nameless)
		print_nameless(v, stack, e);
	else
		print_skipped(v, e->skipped, 0);
}

static void print_entries(const struct view *v, const struct vt_model_stack *stack,
			  const struct entries *entries, size_t max_lines)
{
	size_t n = entries->list.n;
	/* The innermost frames tell where it is stuck, the outermost how it got there. */
	size_t inner = n > max_lines ? (max_lines - 1) * 2 / 3 : n;
	size_t outer = n > max_lines ? max_lines - 1 - inner : 0;
	size_t skipped = 0, python = 0;

	for (size_t i = 0; i < n; i++) {
		const struct entry *e = &entries->list.data[i];

		if (i >= inner && i < n - outer) {
			skipped += entry_frames(e);
			python += !e->skipped && stack->frames[e->frame].kind == VT_FRAME_PYTHON;
			if (i + 1 == n - outer)
				print_skipped(v, skipped, python);
		} else {
			print_entry(v, stack, e);
		}
	}
}

static void print_stack_note(const struct view *v, const char *format, const char *text)
{
	vt_line_pad(v->line, FRAME_INDENT);
	vt_line_addf(v->line, VT_DIM, format, text);
	vt_line_end(v->line);
}

static void print_stack_notes(const struct view *v, const struct vt_model_stack *stack)
{
	if (stack->n_frames == 0 && v->model->view == VT_VIEW_PYTHON && !stack->why)
		print_stack_note(v, "(%s)", "no Python frames");
	if (stack->why && *stack->why)
		print_stack_note(v,
				 stack->n_frames == 0 ? "(no stack: %s)" :
				 stack->has_native || v->model->view == VT_VIEW_PYTHON ?
							"(ends here: %s)" :
							"(no native frames: %s)",
				 stack->why);
	else if (stack->truncated)
		print_stack_note(v, "(%s)", "there are more frames");
	if (stack->merge_uncertain)
		print_stack_note(
			v, "(%s)",
			"where the Python frames belong between the native ones is not known");
}

static void print_stack(struct view *v, const struct vt_model_stack *stack, size_t max_lines)
{
	struct entries entries = { 0 };

	if (v->all)
		choose_all(&entries, stack);
	else
		choose_frames(&entries, stack);
	print_entries(v, stack, &entries, v->all ? SIZE_MAX : max_lines);
	print_stack_notes(v, stack);
	v->lines_left -= (int)(entries.list.n < max_lines ? entries.list.n : max_lines);
	if (entries.failed)
		v->line->buf.failed = true;
	vt_vec_deinit(&entries.list);
}

/* ---- the line above the frames ---- */

static const char *state_word(char state)
{
	static const struct {
		char state;
		const char *word;
	} words[] = {
		{ 'R', "running" },
		{ 'S', "sleeping" },
		{ 'D', "in uninterruptible sleep" },
		{ 'T', "stopped" },
		{ 't', "stopped by a tracer" },
		{ 'Z', "ended (zombie)" },
		{ 'X', "ended" },
		{ 'I', "idle in the kernel" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].state == state)
			return words[i].word;
	return NULL;
}

/* What all threads of a group have in common; NULL and 0 if they differ. */
struct common {
	const struct vt_model_thread *first;
	size_t n;
	char state;
	const char *name, *syscall;
	struct vt_waits waits; /* NONE where they differ */
};

static struct common find_common(const struct vt_model *model, const struct vt_model_thread *first,
				 size_t n)
{
	struct common c = {
		.first = first,
		.n = n,
		.state = first->state,
		.name = first->name,
		.waits = first->waits,
		.syscall = first->syscall,
	};
	const struct vt_model_thread *t = first;

	for (size_t i = 1; i < n && t->next_in_group != VT_NO_THREAD; i++) {
		t = &model->threads.data[t->next_in_group];
		c.state = t->state == c.state ? c.state : 0;
		c.name = vt_same_text(t->name, c.name) ? c.name : NULL;
		c.waits = vt_waits_equal(&t->waits, &c.waits) ? c.waits : (struct vt_waits){ 0 };
		c.syscall = vt_same_text(t->syscall, c.syscall) ? c.syscall : NULL;
	}
	return c;
}

static bool is_named(const struct vt_model_thread *t)
{
	return t->name && *t->name;
}

static const char *thread_name(const struct vt_model_thread *t)
{
	return is_named(t) ? t->name : "?";
}

static void add_fact(struct vt_str *text, const char *fact)
{
	if (!fact || !*fact)
		return;
	vt_str_add(text, text->n ? " · " : "");
	vt_str_add(text, fact);
}

static void add_facts(const struct view *v, struct vt_str *text, const struct common *c)
{
	const struct vt_model_thread *t = c->first;

	if (t->is_main)
		add_fact(text, "main thread");
	if (t->deadlock)
		add_fact(text, "in a deadlock");
	if (t->gil == 1)
		add_fact(text, "holds the GIL");
	if (t->verdict.code)
		vt_str_add(text, text->n ? " · " : "");
	vt_words_verdict(text, &t->verdict, VT_FORM_ALONE);
	/* "running on CPU 3" says it already. */
	if (c->waits.code != VT_WAITS_RUNNING)
		add_fact(text, state_word(c->state));
	if (c->waits.code)
		vt_str_add(text, text->n ? ", " : "");
	vt_words_waits(text, &c->waits, VT_FORM_ALONE, VT_DETAIL_ALL);
	if (!c->waits.code && c->syscall)
		vt_str_addf(text, "%sin %s", text->n ? " " : "", c->syscall);
	if (v->all && t->cpu >= 0 && c->state != 'R')
		vt_str_addf(text, "%slast on CPU %d", text->n ? " · " : "", t->cpu);
}

static void add_tids(struct vt_str *text, const struct vt_model *model, const struct common *c)
{
	const struct vt_model_thread *t = c->first;

	vt_str_addf(text, "%stids %d", text->n ? " · " : "", (int)t->tid);
	for (size_t i = 1; i < c->n && t->next_in_group != VT_NO_THREAD; i++) {
		t = &model->threads.data[t->next_in_group];
		if (i == MAX_TIDS) {
			vt_str_add(text, ", …");
			break;
		}
		vt_str_addf(text, ", %d", (int)t->tid);
	}
}

static enum vt_style bullet_style(const struct vt_model_thread *t)
{
	if (t->deadlock || t->state == 'D' || t->state == 'T' || t->state == 't' || t->state == 'Z')
		return VT_ALARM;
	return t->verdict.code ? VT_WARN : VT_PLAIN;
}

static void print_thread_head(const struct view *v, const struct common *c)
{
	const struct vt_model_thread *t = c->first;
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX];

	vt_line_pad(v->line, 2);
	vt_line_add(v->line, bullet_style(t), t->idle && !t->is_main ? "○" : "●");
	vt_line_pad(v->line, 4);
	if (c->n == 1 && !is_named(t)) /* a core has no names */
		vt_line_addf(v->line, VT_BOLD, "%d", (int)t->tid);
	else if (c->n == 1)
		vt_line_addf(v->line, VT_BOLD, "%d %.64s", (int)t->tid, thread_name(t));
	else if (!is_named(t) && c->name)
		vt_line_addf(v->line, VT_BOLD, "%s threads", vt_format_count(number, c->n));
	else
		vt_line_addf(v->line, VT_BOLD, "%s × %.64s%s", vt_format_count(number, c->n),
			     thread_name(t), c->name ? "" : " …");
	vt_line_pad(v->line, v->line->want < HEAD_COLUMN - 1 ? HEAD_COLUMN : v->line->want + 2);
	add_facts(v, &text, c);
	if (c->n > 1)
		add_tids(&text, v->model, c);
	vt_line_wrap(v->line, VT_PLAIN, vt_str_get(&text), HEAD_COLUMN, 3);
	if (text.failed)
		v->line->buf.failed = true;
	vt_str_deinit(&text);
}

/* ---- idle threads: number and owners ---- */

struct names {
	struct {
		const char *name;
		size_t len; /* without the number at its end */
		size_t n;
	} kinds[MAX_NAMES];
	size_t n_kinds;
	size_t others; /* threads of further kinds */
};

static size_t length_without_number(const char *name)
{
	size_t len = strlen(name);

	while (len > 1 && name[len - 1] >= '0' && name[len - 1] <= '9')
		len--;
	return len;
}

static void count_name(struct names *names, const char *name)
{
	size_t len = length_without_number(name);

	for (size_t i = 0; i < names->n_kinds; i++) {
		if (names->kinds[i].len == len && !memcmp(names->kinds[i].name, name, len)) {
			names->kinds[i].n++;
			return;
		}
	}
	if (names->n_kinds == MAX_NAMES) {
		names->others++;
		return;
	}
	names->kinds[names->n_kinds].name = name;
	names->kinds[names->n_kinds].len = len;
	names->kinds[names->n_kinds].n = 1;
	names->n_kinds++;
}

static void print_idle(const struct view *v)
{
	const struct vt_model *model = v->model;
	struct names names = { 0 };
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX];
	size_t n = 0;

	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];

		if (!model->thread_groups.data[t->group].idle)
			continue;
		n++;
		if (is_named(t))
			count_name(&names, t->name);
		else
			names.others++;
	}
	if (n == 0)
		return;
	vt_str_addf(&text, "%s thread%s idle in thread pools%s", vt_format_count(number, n),
		    n == 1 ? "" : "s", names.n_kinds ? ": " : "");
	for (size_t i = 0; i < names.n_kinds; i++) {
		const char *name = names.kinds[i].name;

		vt_str_add(&text, i ? ", " : "");
		vt_str_addn(&text, name, names.kinds[i].len);
		if (name[names.kinds[i].len])
			vt_str_add(&text, "*");
		if (names.kinds[i].n > 1)
			vt_str_addf(&text, " ×%zu", names.kinds[i].n);
	}
	if (names.others > 0 && names.n_kinds > 0)
		vt_str_addf(&text, ", and %zu more", names.others);
	vt_line_pad(v->line, 2);
	vt_line_add(v->line, VT_PLAIN, "○");
	vt_line_pad(v->line, 4);
	vt_line_wrap(v->line, VT_PLAIN, vt_str_get(&text), 6, 3);
	if (text.failed)
		v->line->buf.failed = true;
	vt_str_deinit(&text);
}

/* ---- the section ---- */

static void add_gil(struct vt_str *title, const struct vt_model *model)
{
	const struct vt_model_thread *holder = vt_model_gil_holder(model);

	if (holder)
		vt_str_addf(title, "; the GIL is held by %d", (int)holder->tid);
	else if (vt_model_gil_is_free(model))
		vt_str_add(title, "; the GIL is free");
}

static bool any_stack(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].stack.n_frames > 0)
			return true;
	return false;
}

static void print_title(struct vt_line *line, const struct vt_model *model, bool all)
{
	struct vt_str title = { 0 };
	char number[VT_NUM_MAX], groups[VT_NUM_MAX];
	size_t n_groups = model->thread_groups.n;

	vt_str_addf(&title, "   %s", vt_format_count(number, model->threads.n));
	if (!all && n_groups > 0 && n_groups < model->threads.n)
		vt_str_addf(&title, " in %s group%s", vt_format_count(groups, n_groups),
			    n_groups == 1 ? "" : "s");
	add_gil(&title, model);
	if (!model->stacks_coherent && model->threads.n > 1 && any_stack(model))
		vt_str_add(&title, "; stacks not of one instant");
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Threads");
	vt_line_add(line, VT_PLAIN, vt_str_get(&title));
	vt_text_end_title(line, all ? NULL : line->hints->all_threads);
	if (title.failed)
		line->buf.failed = true;
	vt_str_deinit(&title);
}

static size_t stack_budget(const struct view *v, const struct vt_model_thread *t)
{
	size_t most = t->is_main          ? MAX_MAIN_LINES :
		      t->stack.has_python ? MAX_PYTHON_LINES :
					    MAX_NATIVE_LINES;

	if (v->lines_left <= 0)
		return 0;
	return most;
}

/* "in the kernel: futex_wait < do_futex < …", without the offsets. */
static void print_kernel(const struct view *v, const struct vt_model_thread *t)
{
	struct vt_str text = { 0 };

	if (t->n_kernel == 0 && !t->wchan)
		return;
	vt_str_add(&text, "in the kernel: ");
	for (size_t i = 0; i < t->n_kernel; i++) {
		vt_str_add(&text, i ? " < " : "");
		vt_str_addn(&text, t->kernel[i], strcspn(t->kernel[i], "+"));
	}
	if (t->n_kernel == 0)
		vt_str_add(&text, t->wchan);
	vt_line_pad(v->line, FRAME_INDENT);
	vt_line_wrap(v->line, VT_DIM, vt_str_get(&text), FRAME_INDENT + 2, 4);
	if (text.failed)
		v->line->buf.failed = true;
	vt_str_deinit(&text);
}

static void print_groups(struct view *v)
{
	const struct vt_model *model = v->model;
	char number[VT_NUM_MAX];
	size_t shown = 0, hidden = 0;

	for (size_t i = 0; i < model->thread_groups.n; i++) {
		const struct vt_model_thread_group *g = &model->thread_groups.data[i];
		const struct vt_model_thread *t = &model->threads.data[g->first_thread];
		struct common c;
		size_t budget;

		if (g->idle)
			continue;
		if (shown++ >= MAX_GROUPS) {
			hidden += g->n_threads;
			continue;
		}
		c = find_common(model, t, g->n_threads);
		print_thread_head(v, &c);
		if (t->state == 'D')
			print_kernel(v, t);
		budget = stack_budget(v, t);
		if (budget > 0)
			print_stack(v, &t->stack, budget);
	}
	if (hidden > 0) {
		vt_line_pad(v->line, 4);
		vt_line_addf(v->line, VT_DIM, "… %s more threads", vt_format_count(number, hidden));
		vt_line_end(v->line);
	}
	print_idle(v);
}

static bool is_shown(const struct vt_model_thread *t, enum vt_threads_shown shown)
{
	switch (shown) {
	case VT_THREADS_PYTHON:
		return t->has_python;
	case VT_THREADS_MAIN:
		return t->is_main;
	default:
		return true;
	}
}

static void print_each(struct view *v, enum vt_threads_shown shown)
{
	for (size_t i = 0; i < v->model->threads.n; i++) {
		struct common c = find_common(v->model, &v->model->threads.data[i], 1);

		if (!is_shown(c.first, shown))
			continue;
		print_thread_head(v, &c);
		print_kernel(v, c.first);
		print_stack(v, &c.first->stack, SIZE_MAX);
	}
}

static int function_columns(const struct vt_line *line)
{
	return (line->columns - FRAME_INDENT) * 45 / 100;
}

/* ---- one thread ---- */

/* "> #3  " of a Python frame, the selected one with the mark. */
static void print_number(struct vt_line *line, size_t number, bool selected, int columns)
{
	char text[32];

	snprintf(text, sizeof(text), "#%zu", number);
	vt_line_pad(line, 2);
	vt_line_cell(line, VT_BOLD, selected ? ">" : "", 2, VT_CUT_END);
	vt_line_cell(line, selected ? VT_BOLD : VT_PLAIN, text, columns, VT_CUT_END);
}

static int number_columns(const struct vt_model_stack *stack)
{
	size_t n = 0;
	int columns = 3;

	for (size_t i = 0; i < stack->n_frames; i++)
		n += stack->frames[i].kind == VT_FRAME_PYTHON;
	for (; n > 10; n /= 10)
		columns++;
	return columns;
}

void vt_text_thread(struct vt_line *line, const struct vt_model *model,
		    const struct vt_model_thread *t, size_t selected)
{
	const struct view v = {
		.line = line, .model = model, .all = true, .left = function_columns(line)
	};
	const struct common c = find_common(model, t, 1);
	int numbers = number_columns(&t->stack);
	size_t number = 0;

	print_thread_head(&v, &c);
	print_kernel(&v, t);
	for (size_t i = 0; i < t->stack.n_frames; i++) {
		const struct vt_model_frame *f = &t->stack.frames[i];

		if (f->kind == VT_FRAME_PYTHON) {
			print_number(line, number, number == selected, numbers);
			number++;
		}
		vt_line_pad(line, 4 + numbers + 1);
		print_function(&v, f);
		vt_line_pad(line, 4 + numbers + 1 + v.left + 2);
		print_place(&v, f);
		vt_line_end(line);
	}
	print_stack_notes(&v, &t->stack);
	if (number == 0 || !line->hints->frames)
		return;
	vt_line_pad(line, 4 + numbers + 1);
	vt_line_add(line, VT_DIM, line->hints->frames);
	vt_line_end(line);
}

void vt_text_stack(struct vt_line *line, const struct vt_model *model,
		   const struct vt_model_stack *stack, bool all, size_t most)
{
	int left = function_columns(line);
	struct view v = {
		.line = line,
		.model = model,
		.all = all,
		.left = left < 56 || all ? left : 56,
	};

	print_stack(&v, stack, most);
}

/* ---- all threads ---- */

/* It waits for the device, or gives it work. */
static bool is_in_cuda(const struct vt_model_thread *t)
{
	return t->verdict.code == VT_VERDICT_COLLECTIVE_NCCL ||
	       (t->verdict.code == VT_VERDICT_IN_FUNCTION && vt_verdict_is_in(&t->verdict, "cu"));
}

void vt_text_threads_in_cuda(struct vt_line *line, const struct vt_model *model)
{
	int left = function_columns(line);
	struct view v = {
		.line = line,
		.model = model,
		.left = left < 56 ? left : 56,
		.lines_left = MAX_GROUP_LINES,
	};
	size_t shown = 0;

	for (size_t i = 0; i < model->threads.n && shown < MAX_GROUPS; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];
		const struct common c = find_common(model, t, 1);

		if (!is_in_cuda(t))
			continue;
		if (!shown++)
			vt_text_title(line, line->hints->all_threads, "Threads in CUDA");
		print_thread_head(&v, &c);
		print_stack(&v, &t->stack, MAX_MAIN_LINES);
	}
	if (shown || !model->threads.n)
		return;
	vt_line_blank(line);
	vt_line_add(line, VT_PLAIN, "No thread of the process waits in CUDA.");
	vt_line_end(line);
}

void vt_text_threads(struct vt_line *line, const struct vt_model *model,
		     enum vt_threads_shown shown)
{
	bool all = shown != VT_THREADS_GROUPS;
	int left = function_columns(line);
	struct view v = {
		.line = line,
		.model = model,
		.all = all,
		.left = left < 56 || all ? left : 56,
		.lines_left = MAX_GROUP_LINES,
	};

	if (model->threads.n == 0)
		return;
	print_title(line, model, all);
	/* Without groups (out of memory) every thread is shown by itself. */
	if (all || model->thread_groups.n == 0)
		print_each(&v, shown);
	else
		print_groups(&v);
}
