/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as text: the answer first, then the changes on each device, then the places. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/diff/diff.h"
#include "base/format.h"
#include "model/place.h"
#include "report/text/text.h"

#define MAX_GONE 3   /* owners that are shown although there are too many */
#define MAX_TRACES 8 /* of a site; JSON has all */

enum {
	MAX_LABEL_COLUMNS = 50,
	SIZE_COLUMNS = 10,
	CHANGE_COLUMNS = 11,
	BLOCKS_COLUMNS = 18,
	FRAME_INDENT = 6,
	MAX_HOW_LINES = 3, /* of what an owner's name is */
	MAX_FUNCTION_COLUMNS = 60,
};

struct table {
	struct vt_line *line;
	const struct vt_diff *diff;
	const struct vt_diff_options *what;
	int label_columns;
};

/* ---- the head ---- */

static void add_process(struct vt_str *text, const struct vt_model *model)
{
	const struct vt_model_process *p = &model->process;

	vt_str_addf(text, "pid %d", (int)p->pid);
	if (p->rank >= 0)
		vt_str_addf(text, ", rank %d", p->rank);
	if (p->rank >= 0 && p->world_size > 0)
		vt_str_addf(text, " of %d", p->world_size);
	if (p->name && *p->name)
		vt_str_addf(text, " (%.64s)", p->name);
}

static void add_time(struct vt_str *text, const struct timespec *when)
{
	char buf[64];
	struct tm tm;

	if (gmtime_r(&when->tv_sec, &tm) && strftime(buf, sizeof(buf), "%Y-%m-%d %H:%M:%S", &tm))
		vt_str_add(text, buf);
}

static void add_host(struct vt_str *text, const struct vt_model *model)
{
	if (model->where.host && *model->where.host)
		vt_str_addf(text, " on %.64s", model->where.host);
}

static void print_head(const struct table *t)
{
	const struct vt_diff *diff = t->diff;
	struct vt_str text = { 0 };
	char age[VT_NUM_MAX];

	if (diff->why_other) {
		vt_str_addf(&text,
			    "Two processes, because %s: differences are not growth. The first is ",
			    diff->why_other);
		add_process(&text, diff->before);
		add_host(&text, diff->before);
		vt_str_add(&text, " at ");
		add_time(&text, &diff->before->when);
		vt_str_add(&text, " UTC, the second ");
		add_process(&text, diff->after);
		add_host(&text, diff->after);
		vt_str_add(&text, " at ");
	} else {
		add_process(&text, diff->after);
		add_host(&text, diff->after);
		vt_str_addf(&text, ": %s, from ", vt_format_age(age, fabs(diff->seconds)));
		add_time(&text, &diff->before->when);
		vt_str_add(&text, " to ");
	}
	add_time(&text, &diff->after->when);
	vt_str_add(&text, " UTC");
	if (!diff->why_other && diff->seconds < 0)
		vt_str_add(&text, ": backwards, the first report is the later one");
	vt_line_wrap(t->line, diff->why_other || diff->seconds < 0 ? VT_WARN : VT_BOLD,
		     vt_str_get(&text), 2, 4);
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_headlines(const struct table *t)
{
	vt_line_blank(t->line);
	for (size_t i = 0; i < t->diff->headlines.n; i++) {
		const struct vt_model_headline *h = &t->diff->headlines.data[i];

		vt_line_add(t->line, VT_ALARM, h->alarm ? "!" : "");
		vt_line_pad(t->line, 2);
		vt_line_wrap(t->line, h->alarm ? VT_ALARM : VT_PLAIN, h->text, 4, 4);
	}
}

/* ---- rows ---- */

static enum vt_style style_of(const struct vt_diff_amount *a)
{
	return vt_diff_bytes(a) > 0 ? VT_PLAIN : VT_DIM;
}

static void print_amounts(const struct table *t, enum vt_style style,
			  const struct vt_diff_amount *a)
{
	char number[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX], blocks[2 * VT_NUM_MAX + 8];

	vt_line_right(t->line, style, vt_format_size(number, a->before.bytes), SIZE_COLUMNS);
	vt_line_right(t->line, style, vt_format_size(number, a->after.bytes), SIZE_COLUMNS);
	vt_line_right(t->line, style, vt_format_change(number, vt_diff_bytes(a)), CHANGE_COLUMNS);
	if (a->before.blocks || a->after.blocks) {
		snprintf(blocks, sizeof(blocks), "%s %s %s",
			 vt_format_count(before, a->before.blocks), t->line->ascii ? "->" : "→",
			 vt_format_count(after, a->after.blocks));
		vt_line_right(t->line, style, blocks, BLOCKS_COLUMNS);
	}
	vt_line_end(t->line);
}

static void print_row(const struct table *t, const char *label, const struct vt_diff_amount *a)
{
	vt_line_pad(t->line, 2);
	vt_line_cell(t->line, style_of(a), label, t->label_columns, VT_CUT_END);
	print_amounts(t, style_of(a), a);
}

static void print_title(const struct table *t, const char *title, const char *hint)
{
	vt_line_blank(t->line);
	vt_line_cell(t->line, VT_BOLD, title, t->label_columns + 2, VT_CUT_END);
	vt_line_right(t->line, VT_DIM, "before", SIZE_COLUMNS);
	vt_line_right(t->line, VT_DIM, "after", SIZE_COLUMNS);
	vt_line_right(t->line, VT_DIM, "change", CHANGE_COLUMNS);
	vt_line_right(t->line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_text_end_title(t->line, hint);
}

/* ---- devices ---- */

static bool is_changed(const struct vt_diff_device *d, enum vt_diff_part part)
{
	return d->known[part] &&
	       (vt_diff_bytes(&d->parts[part]) || vt_diff_blocks(&d->parts[part]));
}

static bool line_is_changed(const struct vt_diff_device *d, unsigned int line)
{
	return d->line_known[line] &&
	       (vt_diff_bytes(&d->lines[line]) || vt_diff_blocks(&d->lines[line]));
}

/* Of what is not PyTorch's: the most changed first. */
static void print_lines(const struct table *t, const struct vt_diff_device *d)
{
	bool done[VT_N_DIFF_LINES] = { false };

	for (unsigned int n = 0; n < VT_N_DIFF_LINES; n++) {
		int most = -1;

		for (unsigned int i = 0; i < VT_N_DIFF_LINES; i++)
			if (!done[i] && line_is_changed(d, i) &&
			    (most < 0 || llabs(vt_diff_bytes(&d->lines[i])) >
						 llabs(vt_diff_bytes(&d->lines[most]))))
				most = (int)i;
		if (most < 0)
			return;
		print_row(t, vt_diff_line_label((unsigned int)most), &d->lines[most]);
		done[most] = true;
	}
}

static void print_device(const struct table *t, const struct vt_diff_device *d)
{
	static const char *const labels[VT_N_DIFF_PARTS] = {
		[VT_DIFF_ALLOCATED] = "in use by PyTorch",
		[VT_DIFF_AWAITING] = "awaiting free",
		[VT_DIFF_CACHED] = "cached by PyTorch",
		[VT_DIFF_OTHER] = "everything else",
		[VT_DIFF_FREE] = "free",
	};
	bool any = false;
	char title[32];

	for (int i = 0; i < VT_N_DIFF_PARTS; i++)
		any |= is_changed(d, i);
	for (unsigned int i = 0; i < VT_N_DIFF_LINES; i++)
		any |= line_is_changed(d, i);
	if (!any)
		return;
	snprintf(title, sizeof(title), "GPU %d", d->ordinal);
	print_title(t, title, NULL);
	for (int i = 0; i < VT_N_DIFF_PARTS; i++) {
		if (i == VT_DIFF_OTHER)
			print_lines(t, d);
		if (is_changed(d, i) && !(i == VT_DIFF_OTHER && d->has_lines))
			print_row(t, labels[i], &d->parts[i]);
	}
}

/* ---- sites ---- */

static void print_frames(const struct table *t, const struct vt_diff_trace *trace)
{
	int most = (t->line->columns - FRAME_INDENT) / 2, columns = 0;

	most = most > MAX_FUNCTION_COLUMNS ? MAX_FUNCTION_COLUMNS : most;
	for (size_t i = 0; i < trace->trace->n_frames; i++) {
		struct vt_str name = { 0 };
		int width;

		vt_place_add_function(&name, &trace->model->trace_frames[trace->trace->frames[i]],
				      t->line->ascii);
		width = vt_line_width(t->line, vt_str_get(&name));
		columns = width > columns ? width : columns;
		vt_str_deinit(&name);
	}
	for (size_t i = 0; i < trace->trace->n_frames; i++)
		vt_text_frame(t->line, &trace->model->trace_frames[trace->trace->frames[i]],
			      columns > most ? most : columns);
}

static void print_trace(const struct table *t, const struct vt_diff_trace *trace)
{
	char change[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX], kept[VT_NUM_MAX];
	const struct vt_diff_amount *a = &trace->amount;

	vt_line_pad(t->line, 4);
	vt_line_addf(t->line, VT_DIM, "%s, %s %s %s blocks",
		     vt_format_change(change, vt_diff_bytes(a)),
		     vt_format_count(before, a->before.blocks), t->line->ascii ? "->" : "→",
		     vt_format_count(after, a->after.blocks));
	if (t->diff->kept_known)
		vt_line_addf(t->line, VT_DIM, ", of which %s %s",
			     vt_format_count(kept, trace->kept.blocks),
			     trace->kept.blocks == 1 ? "is where it was" : "are where they were");
	vt_line_end(t->line);
	print_frames(t, trace);
}

static void print_traces(const struct table *t, const struct vt_diff_site *site)
{
	char number[VT_NUM_MAX];
	size_t n = 0;

	for (size_t i = site->first_trace; i != VT_NO_TRACE && n < MAX_TRACES;
	     i = t->diff->traces.data[i].next_in_site, n++)
		print_trace(t, &t->diff->traces.data[i]);
	if (n == site->n_traces)
		return;
	vt_line_pad(t->line, 4);
	vt_line_addf(t->line, VT_DIM, "%s %s more backtrace%s in the JSON",
		     t->line->ascii ? "..." : "…", vt_format_count(number, site->n_traces - n),
		     site->n_traces - n == 1 ? "" : "s");
	vt_line_end(t->line);
}

/*
 * For a place that grew: the fate of its earlier blocks, which tells a leak from a change of sizes.
 */
static void print_fate(const struct table *t, const struct vt_diff_site *site)
{
	uint64_t had = site->amount.before.blocks, kept = site->kept.blocks;
	const char *there = t->diff->kept_certain ? "still there" : "where they were";
	char number[VT_NUM_MAX], all[VT_NUM_MAX], age[VT_NUM_MAX];

	if (!t->diff->kept_known || vt_diff_bytes(&site->amount) <= 0 || !had || kept > had ||
	    site->unsure)
		return;
	vt_line_pad(t->line, 4);
	if (!kept)
		vt_line_add(t->line, VT_DIM, "what it had before was freed");
	else if (kept == had)
		vt_line_addf(t->line, VT_DIM, "%s that it had before %s %s",
			     had == 1 ? "the block" : "all blocks", had == 1 ? "is" : "are",
			     had == 1 && !t->diff->kept_certain ? "where it was" : there);
	else
		vt_line_addf(t->line, VT_DIM, "%s of the %s blocks that it had before are %s",
			     vt_format_count(number, kept), vt_format_count(all, had), there);
	if (site->ages.oldest_ns != VT_NO_AGE)
		vt_line_addf(t->line, VT_DIM, "; the oldest is %s old",
			     vt_format_age(age,
					   (double)site->ages.oldest_ns / (double)VT_NS_PER_S));
	vt_line_end(t->line);
}

static void print_site(const struct table *t, const struct vt_diff_site *site)
{
	vt_line_pad(t->line, 2);
	vt_text_site(t->line, site->title, t->label_columns);
	print_amounts(t, style_of(&site->amount), &site->amount);
	print_fate(t, site);
	if (t->what->traces)
		print_traces(t, site);
}

static bool is_unchanged(const struct vt_diff_amount *a)
{
	return !vt_diff_bytes(a) && !vt_diff_blocks(a);
}

/* The most grown from the start of the list, the most shrunk from its end. */
static size_t count_changed(const struct vt_diff *diff)
{
	size_t n = 0;

	for (size_t i = 0; i < diff->sites.n; i++)
		n += !is_unchanged(&diff->sites.data[i].amount);
	return n;
}

static void add_amount(struct vt_diff_amount *to, const struct vt_diff_amount *a)
{
	to->before.bytes += a->before.bytes;
	to->before.blocks += a->before.blocks;
	to->after.bytes += a->after.bytes;
	to->after.blocks += a->after.blocks;
}

/* what: "places" or "sizes" */
static void print_rest(const struct table *t, const struct vt_diff_amount *rest, size_t n,
		       const char *which, const char *what)
{
	char label[64], number[VT_NUM_MAX];

	if (!n)
		return;
	snprintf(label, sizeof(label), "%s %s %.*s", vt_format_count(number, n), which,
		 (int)strlen(what) - (n == 1), what);
	vt_line_pad(t->line, 2);
	vt_line_cell(t->line, VT_DIM, label, t->label_columns, VT_CUT_END);
	print_amounts(t, VT_DIM, rest);
}

static void print_untraced(const struct table *t)
{
	static const char *const labels[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] = "[older than the recording]",
		[VT_UNTRACED_CHANGED] = "[changed while they were read]",
		[VT_UNTRACED_UNREADABLE] = "[backtrace not readable]",
		[VT_UNTRACED_SAMPLED] = "[no sample, or older]",
		[VT_UNTRACED_NO_STACK] = "[recorded without backtrace]",
		[VT_UNTRACED_UNSEEN] = "[not seen by the recorder]",
	};

	for (size_t i = 0; i < VT_N_UNTRACED; i++)
		if (t->diff->untraced[i].before.blocks || t->diff->untraced[i].after.blocks)
			print_row(t, labels[i], &t->diff->untraced[i]);
}

static void print_sites(const struct table *t)
{
	const struct vt_diff *diff = t->diff;
	struct vt_diff_amount rest = { { 0, 0 }, { 0, 0 } }, same = { { 0, 0 }, { 0, 0 } };
	size_t changed = count_changed(diff), limit = t->what->limit ? t->what->limit : SIZE_MAX,
	       shown = 0, n_rest = 0, n_same = 0;
	bool one_side = diff->sites_compared == VT_DIFF_SITES_AFTER ||
			diff->sites_compared == VT_DIFF_SITES_BEFORE;

	if (!diff->sites.n || one_side)
		return;
	print_title(t, "Allocated by",
		    changed > limit ? "(--limit=0 shows all)" :
		    t->what->traces ? NULL :
				      "(--traces: with backtraces)");
	for (size_t i = 0; i < diff->sites.n; i++) {
		const struct vt_diff_site *site = &diff->sites.data[i];

		if (is_unchanged(&site->amount)) {
			add_amount(&same, &site->amount);
			n_same++;
		} else if (shown < limit) {
			print_site(t, site);
			shown++;
		} else {
			add_amount(&rest, &site->amount);
			n_rest++;
		}
	}
	print_rest(t, &rest, n_rest, "more", "places");
	print_rest(t, &same, n_same, "unchanged", "places");
	print_untraced(t);
}

/* ---- owners ---- */

static void print_categories(const struct table *t)
{
	bool title = false;

	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		const struct vt_diff_amount *a = &t->diff->categories[i];

		if (is_unchanged(a))
			continue;
		if (!title)
			print_title(t, "What the blocks in use are", NULL);
		title = true;
		print_row(t, vt_category_words((enum vt_category)i), a);
	}
}

static void print_owner(const struct table *t, const struct vt_diff_owner *o)
{
	char before[VT_NUM_MAX], after[VT_NUM_MAX], renamed[VT_NUM_MAX];
	struct vt_str text = { 0 };

	print_row(t, vt_keeper_title(o->variable, o->category), &o->amount);
	if (!o->amount.after.blocks)
		vt_str_add(&text, "gone: ");
	else if (!o->amount.before.blocks)
		vt_str_add(&text, "new: ");
	vt_keeper_add_how(&text, o->variable, o->path, o->category, o->certain);
	if (o->amount.before.blocks && o->amount.after.blocks &&
	    o->tensors_before != o->tensors_after &&
	    (o->tensors_before != o->amount.before.blocks ||
	     o->tensors_after != o->amount.after.blocks))
		vt_str_addf(&text, ", %s %s %s tensors", vt_format_count(before, o->tensors_before),
			    t->line->ascii ? "->" : "→", vt_format_count(after, o->tensors_after));
	if (o->renamed.blocks)
		vt_str_addf(&text, "; %s may have had another name before",
			    vt_format_count(renamed, o->renamed.blocks));
	vt_line_pad(t->line, 4);
	vt_line_wrap(t->line, VT_DIM, vt_str_get(&text), 6, MAX_HOW_LINES);
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* The last ones shrank most. */
static bool is_shown(const struct vt_diff *diff, size_t i, size_t changed, size_t limit)
{
	bool gone = !diff->owners.data[i].amount.after.blocks;

	return changed < limit || (gone && diff->owners.n - i <= MAX_GONE);
}

static void print_owners(const struct table *t)
{
	const struct vt_diff *diff = t->diff;
	struct vt_diff_amount rest = { { 0, 0 }, { 0, 0 } }, same = { { 0, 0 }, { 0, 0 } };
	size_t limit = t->what->limit ? t->what->limit : SIZE_MAX, n = 0, n_rest = 0, n_same = 0;

	for (size_t i = 0; i < diff->owners.n; i++) {
		const struct vt_diff_owner *o = &diff->owners.data[i];

		if (is_unchanged(&o->amount)) {
			add_amount(&same, &o->amount);
			n_same++;
		} else if (is_shown(diff, i, n, limit)) {
			if (!n++)
				print_title(t, "Held by", NULL);
			print_owner(t, o);
		} else {
			add_amount(&rest, &o->amount);
			n_rest++;
		}
	}
	if (!n)
		return;
	print_rest(t, &rest, n_rest, "more", "owners");
	print_rest(t, &same, n_same, "unchanged", "owners");
}

/* ---- groups: without backtraces ---- */

static void print_groups(const struct table *t)
{
	const struct vt_diff *diff = t->diff;
	size_t limit = t->what->limit ? t->what->limit : SIZE_MAX, shown = 0, n_rest = 0;
	struct vt_diff_amount rest = { { 0, 0 }, { 0, 0 } };
	bool title = false;

	if (diff->sites_compared == VT_DIFF_SITES_COMPARED)
		return;
	for (size_t i = 0; i < diff->groups.n; i++) {
		const struct vt_diff_group *g = &diff->groups.data[i];
		char label[96], size[VT_NUM_MAX], stream[48] = "";

		if (is_unchanged(&g->amount))
			continue;
		if (shown++ >= limit) {
			add_amount(&rest, &g->amount);
			n_rest++;
			continue;
		}
		if (!title)
			print_title(t, "Blocks in use of", NULL);
		title = true;
		if (g->stream)
			snprintf(stream, sizeof(stream), " on stream 0x%llx",
				 (unsigned long long)g->stream);
		if (diff->devices.n > 1)
			snprintf(label, sizeof(label), "GPU %d: %s%s", g->device,
				 vt_format_size(size, g->size), stream);
		else
			snprintf(label, sizeof(label), "%s%s", vt_format_size(size, g->size),
				 stream);
		print_row(t, label, &g->amount);
	}
	print_rest(t, &rest, n_rest, "more", "sizes");
}

/* ---- the driver's ---- */

static void print_driver(const struct table *t)
{
	bool title = false;

	for (size_t i = 0; i < t->diff->driver.n; i++) {
		const struct vt_diff_driver *d = &t->diff->driver.data[i];
		char label[160];

		if (is_unchanged(&d->amount))
			continue;
		if (!title)
			print_title(t, "Outside PyTorch's allocator", NULL);
		title = true;
		snprintf(label, sizeof(label), "%.100s, %.20s",
			 d->group->library ? d->group->library : "unknown library",
			 vt_driver_kind_name(d->group->kind));
		if (t->diff->devices.n > 1 && d->group->device >= 0)
			snprintf(label + strlen(label), sizeof(label) - strlen(label), " GPU %d",
				 d->group->device);
		print_row(t, label, &d->amount);
	}
}

/* ---- the end ---- */

/* What makes a block look like the one that was there before. */
static const char *why_kept(const struct vt_diff *diff)
{
	if (diff->kept_certain)
		return "was there before and has not been freed";
	if (!diff->kept_traced)
		return "is where it was, in blocks of the same sizes: not freed since, or handed out again in the same way";
	if (diff->kept_traced < diff->kept.blocks)
		return "is where it was, by the same backtraces where there are any: not freed since, or handed out again in the same way";
	return "is where it was, by the same backtraces: not freed since, or handed out again in the same way";
}

static void print_kept(const struct table *t)
{
	char size[VT_NUM_MAX], blocks[VT_NUM_MAX];
	struct vt_str text = { 0 };

	if (!t->diff->kept_known || !t->diff->kept.blocks)
		return;
	vt_str_addf(&text, "%s in %s block%s %s.", vt_format_size(size, t->diff->kept.bytes),
		    vt_format_count(blocks, t->diff->kept.blocks),
		    t->diff->kept.blocks == 1 ? "" : "s", why_kept(t->diff));
	vt_line_blank(t->line);
	vt_line_wrap(t->line, VT_DIM, vt_str_get(&text), 2, 3);
	t->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_notes(const struct table *t)
{
	static const char *const which[] = { "first", "second" };

	if (t->diff->notes.n || t->diff->before->completeness || t->diff->after->completeness)
		vt_text_title(t->line, NULL, "Notes");
	for (size_t i = 0; i < t->diff->notes.n; i++) {
		const struct vt_diag *d = &t->diff->notes.data[i];

		vt_line_add(t->line, d->level == VT_DIAG_MISSING ? VT_WARN : VT_PLAIN,
			    d->level == VT_DIAG_MISSING ? "!" : "·");
		vt_line_pad(t->line, 2);
		vt_line_wrap(t->line, VT_PLAIN, d->text, 2, 4);
	}
	for (int i = 0; i < 2; i++) {
		const struct vt_model *model = i ? t->diff->after : t->diff->before;

		for (size_t d = 0; d < model->diags.n; d++) {
			struct vt_str text = { 0 };

			if (model->diags.data[d].level != VT_DIAG_MISSING)
				continue;
			vt_str_addf(&text, "the %s report is partial: %s", which[i],
				    model->diags.data[d].text);
			vt_line_add(t->line, VT_WARN, "!");
			vt_line_pad(t->line, 2);
			vt_line_wrap(t->line, VT_PLAIN, vt_str_get(&text), 2, 3);
			t->line->buf.failed |= text.failed;
			vt_str_deinit(&text);
		}
	}
}

struct vt_error *vt_diff_write_text(const struct vt_diff *diff, const struct vt_diff_options *what,
				    const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;
	struct table t = { .line = &line, .diff = diff, .what = what };

	vt_line_init(&line, out, options);
	t.label_columns = line.columns - 2 - 2 * SIZE_COLUMNS - CHANGE_COLUMNS - BLOCKS_COLUMNS;
	t.label_columns = t.label_columns > MAX_LABEL_COLUMNS ? MAX_LABEL_COLUMNS :
			  t.label_columns < 12                ? 12 :
								t.label_columns;
	print_head(&t);
	print_headlines(&t);
	for (size_t i = 0; i < diff->devices.n; i++)
		print_device(&t, &diff->devices.data[i]);
	print_categories(&t);
	print_owners(&t);
	print_sites(&t);
	print_groups(&t);
	print_driver(&t);
	print_kept(&t);
	print_notes(&t);
	return vt_line_finish(&line);
}
