/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap watch PID --grow. A look reads the allocator, and the backtraces of its blocks, from
 * outside: no code runs in the process, and no thread is stopped. Only when its blocks are never
 * the same for long enough, a look stops the threads while they are copied. Few looks also read
 * who holds the blocks: these stop the threads, too, for some 10 ms. And few have the driver list
 * what other libraries allocated, by the helper inside: this borrows a thread for less than a
 * millisecond. In a process without PyTorch all looks do, as there is nothing else to compare.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "advise/advise.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/grow_lines.h"
#include "base/progress.h"
#include "cmd/watch.h"
#include "base/format.h"
#include "record/oom_file.h"
#include "report/diff/grown.h"
#include "report/diff/growth.h"
#include "report/html/html.h"
#include "report/diff/keepers.h"
#include "report/state_words.h"
#include "report/text/line.h"
#include "model/place.h"
#include "report/text/text.h"
#include "target/proc.h"

#define BUDGET_NS (2 * VT_NS_PER_S) /* for the blocks of one look to be the same twice */
#define MIN_BUDGET_NS (50 * VT_NS_PER_MS)
#define SLICE_MS 100 /* a signal may come just before we sleep */
#define MAX_SHOWN 20
#define OWNERS_GAP 2      /* looks from one with owners to the next, for the first 5 */
#define OWNERS_GAP_GROW 4 /* later, while something grows; else their number doubles */
#define MAX_OWNERS_FAILED 2
/* Looks from one with a ledger to the next, when there were enough to tell. */
#define LEDGER_GAP 4
#define MAX_LEDGER_FAILED 2

enum {
	PID_COLUMNS = 7,
	TIME_COLUMNS = 8,
	SIZE_COLUMNS = 10,
	CHANGE_COLUMNS = 12,
	LABEL_COLUMNS = 50,
	BLOCKS_COLUMNS = 22,
	MAX_HOW_LINES = 3, /* of what an owner's name is */
};

struct grow {
	const struct vt_watch_options *options;
	int pidfd; /* -1: this kernel has none (before 5.3) */
	struct vt_proc
		proc; /* tells another process with its number apart, where there is no pidfd */
	struct vt_growth sites, sizes, owners, lines;
	struct vt_model model;  /* of the last look that was exact */
	uint64_t looks, failed; /* exact ones, and the others */
	uint64_t first_ns, last_ns;
	uint64_t sites_ns;           /* when backtraces were first there */
	uint64_t first_bytes, bytes; /* in use: of the first look, of the last */
	/* the last looks that were to have these, and how many were, whatever came of it */
	uint64_t owners_at, ledger_at;
	uint64_t owners_asked, ledgers_asked;
	unsigned int owners_failed, ledger_failed;
	uint64_t lines_ns[2]; /* when a ledger was first there, and last */
	bool without_torch;   /* the last look had no allocator of PyTorch */
	double stopped_ms, borrowed_ms;
	uint64_t inside; /* looks that ran code in the process */
	uint64_t on_ns;  /* for how long recording had been on at the last look */
	bool said_unrecorded, said_samples;
	bool said_waits; /* in the last line, for what is not there yet */
	char why[256];   /* of the last look that failed */
};

static bool text_is_shown(const struct grow *g)
{
	return !g->options->then || strcmp(g->options->then, "-") != 0;
}

static bool has_ended(const struct grow *g)
{
	struct pollfd fd = { .fd = g->pidfd, .events = POLLIN };

	return g->pidfd >= 0 ? poll(&fd, 1, 0) > 0 : g->proc.pid && !vt_proc_is_alive(&g->proc);
}

/* ---- a look ---- */

/* A process without PyTorch's allocator has a ledger to compare. */
static bool is_exact(const struct grow *g, const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return false;
	return model->allocators.n > 0 || vt_growth_is_look(&g->lines, model);
}

/* Only then it helps that nothing changes. */
static bool is_unstable(const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].result.result == VT_WALK_UNSTABLE)
			return true;
	return false;
}

/* What a look does besides reading the blocks. */
struct extras {
	bool owners, ledger;
};

static struct vt_error *read_once(const struct grow *g, bool stop, struct extras extras,
				  struct vt_model *model)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = g->options->pid };
	uint64_t budget = g->options->every_ns / 4;
	struct vt_collect_options options = {
		.touch = extras.ledger ? VT_TOUCH_INSIDE :
			 stop          ? VT_TOUCH_STOP :
					 VT_TOUCH_NOTHING,
		.want = VT_WANT_MEMORY,
		.owners = extras.owners,
		.ledger = extras.ledger,
		/*
		 * Only the report that is saved tells it, and that has owners; and the ledger takes
		 * the rest of the process from it.
		 */
		.usage_elsewhere = !extras.owners && !extras.ledger,
		.budget_ns = budget < MIN_BUDGET_NS ? MIN_BUDGET_NS :
			     budget > BUDGET_NS     ? BUDGET_NS :
						      budget,
	};

	vt_model_init(model);
	return vt_collect_report(&subject, &options, model);
}

static const char *missing(const struct vt_model *model, enum vt_stage stage)
{
	for (size_t i = 0; i < model->diags.n; i++)
		if (model->diags.data[i].level == VT_DIAG_MISSING &&
		    model->diags.data[i].stage == stage)
			return model->diags.data[i].text;
	return NULL;
}

/* Why a look that was to have a ledger has none that can be compared; NULL: there is no reason. */
static const char *why_no_ledger(const struct vt_model *model)
{
	const char *why = missing(model, VT_STAGE_INJECT);

	why = why ? why : missing(model, VT_STAGE_CUDA);
	if (why)
		return why;
	if (!model->process.uses_cuda)
		return "it does not use CUDA";
	if (!model->ledger.known)
		return "it has no CUDA context";
	return model->ledger.whole ? NULL : "the driver did not list all allocations in time";
}

static void remember_why(struct grow *g, const struct vt_model *model, bool ledger)
{
	const char *state = vt_allocator_state_words(model->torch_state),
		   *why = missing(model, VT_STAGE_TORCH), *no_ledger = NULL;

	if (ledger && !model->allocators.n)
		no_ledger = why_no_ledger(model);
	if (why || !state)
		snprintf(g->why, sizeof(g->why), "%s",
			 why       ? why :
			 no_ledger ? no_ledger :
				     "no allocator of PyTorch was found");
	else
		snprintf(g->why, sizeof(g->why), "PyTorch's allocator is %s%s%s", state,
			 no_ledger ? ", and what else the process allocated cannot be listed: " :
				     "",
			 no_ledger ? no_ledger : "");
}

static bool anything_grows(const struct grow *g)
{
	return vt_growth_most(&g->sites) || vt_growth_most(&g->sizes) || vt_growth_most(&g->owners);
}

static uint64_t number_of_next(const struct grow *g)
{
	return g->looks + g->failed + 1;
}

/*
 * A ledger costs a moment of one thread. Each of the first looks has one, until there are enough to
 * tell, and then every fourth; in a process without PyTorch each.
 */
static bool ledger_is_due(const struct grow *g)
{
	uint64_t now = number_of_next(g);

	if (g->options->read_only || g->ledger_failed >= MAX_LEDGER_FAILED)
		return false;
	return g->without_torch || g->ledgers_asked < VT_GROWTH_LOOKS ||
	       now - g->ledger_at >= LEDGER_GAP;
}

/*
 * Owners cost a stop. They are read at the first look, at every second one until there are enough
 * to tell, or at the next where growth is about to be reported; then seldom, until something grows.
 */
static bool owners_are_due(const struct grow *g)
{
	uint64_t since = number_of_next(g) - g->owners_at;

	if (g->options->no_owners || g->owners_failed >= MAX_OWNERS_FAILED || g->without_torch)
		return false;
	if (!g->owners_asked)
		return true;
	if (g->owners.looks < VT_GROWTH_LOOKS)
		return (g->owners.looks && anything_grows(g)) || since >= OWNERS_GAP;
	return since >= (anything_grows(g) ? OWNERS_GAP_GROW : g->owners_at);
}

/* VT_ERR_GONE: the process ended. */
static struct vt_error *collect_look(struct grow *g, struct extras extras, struct vt_model *model)
{
	struct vt_error *err;

	if (has_ended(g)) { /* another process may have its number by now */
		vt_model_init(model);
		return vt_error_create(VT_ERR_GONE, "the process ended");
	}
	err = read_once(g, extras.owners, extras, model);
	if (!err && !extras.owners && is_unstable(model)) {
		vt_model_deinit(model);
		err = read_once(g, true, (struct extras){ .ledger = extras.ledger }, model);
	}
	g->stopped_ms += err ? 0 : model->timing.stopped_ms;
	g->borrowed_ms += err ? 0 : model->timing.borrowed_us / 1000;
	g->inside += !err && model->timing.borrowed_tid;
	/* Another process may have its number by now. */
	if (!err && has_ended(g))
		err = vt_error_create(VT_ERR_GONE, "the process ended");
	if (err) {
		vt_model_deinit(model);
		vt_model_init(model);
	}
	return err;
}

static uint64_t in_use(const struct vt_model *model)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < model->allocators.n; i++)
		bytes += model->allocators.data[i].allocated_bytes;
	for (size_t i = 0; !model->allocators.n && i < model->ledger.devices.n; i++)
		bytes += model->ledger.devices.data[i].found_bytes;
	return bytes;
}

/* ---- what is printed ---- */

/* Where several processes are watched each line says which it is of. */
static void begin_line(struct vt_line *line, const struct grow *g)
{
	vt_line_init(line, stdout, &g->options->output.writer);
	if (g->options->many)
		vt_line_addf(line, VT_DIM, "%*d  ", PID_COLUMNS, (int)g->options->pid);
}

static void add_clock(struct vt_line *line, const struct timespec *when)
{
	char text[16] = "";
	struct tm tm;

	if (localtime_r(&when->tv_sec, &tm) && !strftime(text, sizeof(text), "%H:%M:%S", &tm))
		text[0] = '\0';
	vt_line_cell(line, VT_PLAIN, text, TIME_COLUMNS, VT_CUT_END);
}

static void add_label(struct vt_line *line, const struct vt_growth *growth,
		      const struct vt_growth_source *place, struct vt_str *text)
{
	if (growth->by == VT_GROWTH_BY_SIZE) {
		vt_grown_add_size(text, place);
	} else if (!place->title) {
		vt_str_add(text, "(a thread that ran no Python)");
	} else {
		vt_place_add_function(text, place->title, line->ascii);
		vt_str_add(text, " ");
		vt_place_add_where(text, place->title);
	}
}

static const struct vt_growth *telling(const struct grow *g)
{
	return g->sites.looks ? &g->sites : &g->sizes;
}

static struct vt_error *print_title(const struct grow *g)
{
	struct vt_line line;

	if (!text_is_shown(g))
		return NULL;
	begin_line(&line, g);
	/* Times below are without a date. */
	if (!g->options->many)
		vt_text_where(&line, &g->model.where, &g->model.when, g->model.tool_version);
	vt_line_cell(&line, VT_DIM, "time", TIME_COLUMNS, VT_CUT_END);
	vt_line_right(&line, VT_DIM, g->without_torch ? "allocated" : "in use", SIZE_COLUMNS + 1);
	vt_line_right(&line, VT_DIM, "change", CHANGE_COLUMNS);
	vt_line_right(&line, VT_DIM, "in all", CHANGE_COLUMNS);
	vt_line_add(&line, VT_DIM, "  grows, or rose most");
	vt_line_end(&line);
	return vt_line_finish(&line);
}

static void add_owner_growth(struct vt_str *text, const struct vt_growth_source *owner)
{
	const char *title = vt_keeper_title(owner->variable, owner->category);

	vt_str_add(text, title);
	vt_keeper_add_growth(text, owner->first.blocks, owner->last.blocks, vt_growth_grown(owner));
}

/* The variable that only grows, before the place that allocates. */
static bool add_owner(struct vt_line *line, const struct grow *g)
{
	const struct vt_growth_source *owner = vt_growth_most(&g->owners);
	struct vt_str text = { 0 };

	if (!owner)
		return false;
	vt_str_add(&text, "  ");
	add_owner_growth(&text, owner);
	vt_line_add(line, VT_BOLD, vt_str_get(&text));
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
	return true;
}

/* What is not PyTorch's; without PyTorch there is nothing else to name. */
static bool add_ledger_line(struct vt_line *line, const struct grow *g)
{
	const struct vt_growth_source *most = vt_growth_most(&g->lines);
	const struct vt_growth_source *latest =
		!most && g->without_torch ? vt_grow_latest_line(&g->lines) : NULL;
	struct vt_str text = { 0 };

	if (!most && !latest)
		return false;
	vt_str_add(&text, "  ");
	if (most)
		vt_grow_add_line(&text, most, vt_growth_grown(most));
	else
		vt_grow_add_line(&text, latest, latest->change);
	vt_str_add(&text, most ? " in all" : "");
	vt_line_add(line, most ? VT_BOLD : VT_DIM, vt_str_get(&text));
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
	return most;
}

static void add_place(struct vt_line *line, const struct grow *g)
{
	const struct vt_growth *growth = telling(g);
	const struct vt_growth_source *most = vt_growth_most(growth),
				      *place = most ? most : vt_growth_latest(growth);
	bool owner = add_owner(line, g), outside = add_ledger_line(line, g);
	char number[VT_NUM_MAX];
	struct vt_str text = { 0 };

	if (g->without_torch || (owner && growth->by == VT_GROWTH_BY_SIZE) || (outside && !most))
		return;
	if (!place || growth->looks < 2)
		return;
	vt_str_add(&text, "  ");
	add_label(line, growth, place, &text);
	vt_str_addf(&text, " %s",
		    vt_format_change(number, most ? vt_growth_grown(place) : place->change));
	if (most)
		vt_str_add(&text, " in all");
	vt_line_add(line, most ? VT_BOLD : VT_DIM, vt_str_get(&text));
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static struct vt_error *print_look(const struct grow *g, const struct vt_model *model,
				   uint64_t before)
{
	char number[VT_NUM_MAX];
	struct vt_line line;

	if (!text_is_shown(g))
		return NULL;
	begin_line(&line, g);
	add_clock(&line, &model->when);
	vt_line_right(&line, VT_PLAIN, vt_format_size(number, g->bytes), SIZE_COLUMNS + 1);
	if (g->looks > 1) {
		vt_line_right(&line, VT_PLAIN,
			      vt_format_change(number, (int64_t)(g->bytes - before)),
			      CHANGE_COLUMNS);
		vt_line_right(&line, VT_PLAIN,
			      vt_format_change(number, (int64_t)(g->bytes - g->first_bytes)),
			      CHANGE_COLUMNS);
		add_place(&line, g);
	}
	vt_line_end(&line);
	return vt_line_finish(&line);
}

/* A line that is not a look. */
static struct vt_error *say(const struct grow *g, enum vt_style style, const char *text)
{
	struct vt_line line;

	if (!text_is_shown(g))
		return NULL;
	begin_line(&line, g);
	vt_line_wrap(&line, style, text, 2, 6);
	return vt_line_finish(&line);
}

/* It may come: that is no failure, and said once. */
static bool is_not_there_yet(const struct vt_model *model)
{
	return !model->allocators.n && (model->torch_state == VT_ALLOCATOR_NOT_LOADED ||
					model->torch_state == VT_ALLOCATOR_NOT_INITIALISED);
}

static struct vt_error *print_failed(struct grow *g, const struct vt_model *model)
{
	bool waits = is_not_there_yet(model);
	struct vt_line line;

	if (!text_is_shown(g) || (waits && g->said_waits))
		return NULL;
	g->said_waits = waits;
	begin_line(&line, g);
	add_clock(&line, &model->when);
	vt_line_add(&line, VT_WARN, waits ? "  waiting, nothing to compare yet: " : "  not read: ");
	vt_line_add(&line, VT_PLAIN, g->why);
	vt_line_end(&line);
	return vt_line_finish(&line);
}

/* ---- the summary ---- */

static double hours(const struct grow *g)
{
	return (double)(g->last_ns - (g->sites.looks ? g->sites_ns : g->first_ns)) / VT_NS_PER_S /
	       3600;
}

static double line_seconds(const struct grow *g)
{
	return (double)(g->lines_ns[1] - g->lines_ns[0]) / VT_NS_PER_S;
}

static void print_place(struct vt_line *line, const struct grow *g,
			const struct vt_growth_source *place, int label_columns)
{
	char number[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX], blocks[2 * VT_NUM_MAX + 16];
	int64_t grown = vt_growth_grown(place);
	struct vt_str text = { 0 };

	vt_line_pad(line, 2);
	if (telling(g)->by == VT_GROWTH_BY_SITE) {
		vt_text_site(line, place->title, label_columns);
	} else {
		vt_grown_add_size(&text, place);
		vt_line_cell(line, VT_BOLD, vt_str_get(&text), label_columns, VT_CUT_END);
	}
	vt_line_right(line, VT_PLAIN, vt_format_change(number, grown), CHANGE_COLUMNS);
	vt_line_right(line, VT_PLAIN,
		      hours(g) > 0 ? vt_format_change(number, (int64_t)((double)grown / hours(g))) :
				     "",
		      CHANGE_COLUMNS);
	snprintf(blocks, sizeof(blocks), "%s %s %s", vt_format_count(before, place->first.blocks),
		 line->ascii ? "->" : "→", vt_format_count(after, place->last.blocks));
	vt_line_right(line, VT_PLAIN, blocks, BLOCKS_COLUMNS);
	vt_line_end(line);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static int columns_of_labels(const struct vt_line *line)
{
	int columns = line->columns - 2 - 2 * CHANGE_COLUMNS - BLOCKS_COLUMNS;

	return columns > LABEL_COLUMNS ? LABEL_COLUMNS : columns < 12 ? 12 : columns;
}

static void print_places(struct vt_line *line, const struct grow *g, const size_t *order, size_t n)
{
	int label_columns = columns_of_labels(line);

	vt_line_cell(line, VT_BOLD,
		     telling(g)->by == VT_GROWTH_BY_SITE ? "Grows, allocated by" : "Grows",
		     label_columns + 2, VT_CUT_END);
	vt_line_right(line, VT_DIM, "change", CHANGE_COLUMNS);
	vt_line_right(line, VT_DIM, "an hour", CHANGE_COLUMNS);
	vt_line_right(line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < n && i < MAX_SHOWN; i++)
		print_place(line, g, &telling(g)->sources.data[order[i]], label_columns);
	if (n > MAX_SHOWN) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%zu more", n - MAX_SHOWN);
		vt_line_end(line);
	}
	vt_line_blank(line);
}

/* ---- owners ---- */

static void print_owner(struct vt_line *line, const struct vt_growth_source *owner,
			int label_columns)
{
	char number[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX],
		tensors[2 * VT_NUM_MAX + 16];
	struct vt_str text = { 0 };

	vt_line_pad(line, 2);
	vt_line_cell(line, VT_BOLD, vt_keeper_title(owner->variable, owner->category),
		     label_columns, VT_CUT_END);
	vt_line_right(line, VT_PLAIN, vt_format_change(number, vt_growth_grown(owner)),
		      CHANGE_COLUMNS);
	snprintf(tensors, sizeof(tensors), "%s %s %s", vt_format_count(before, owner->first.blocks),
		 line->ascii ? "->" : "→", vt_format_count(after, owner->last.blocks));
	vt_line_right(line, VT_PLAIN, tensors, CHANGE_COLUMNS + BLOCKS_COLUMNS);
	vt_line_end(line);
	vt_keeper_add_how(&text, owner->variable, owner->path, owner->category, owner->certain);
	vt_line_pad(line, 4);
	vt_line_wrap(line, VT_DIM, vt_str_get(&text), 6, MAX_HOW_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static struct vt_error *print_owners(struct vt_line *line, const struct grow *g, size_t *n_growing)
{
	const struct vt_growth *growth = &g->owners;
	VT_FREE size_t *order = malloc((growth->sources.n + 1) * sizeof(*order));
	int columns = columns_of_labels(line);

	if (!order)
		return &vt_enomem;
	*n_growing = vt_growth_order(growth, order);
	if (!*n_growing || !text_is_shown(g))
		return NULL;
	vt_line_blank(line);
	vt_line_cell(line, VT_BOLD, "Grows, held by", columns + 2, VT_CUT_END);
	vt_line_right(line, VT_DIM, "change", CHANGE_COLUMNS);
	vt_line_right(line, VT_DIM, "tensors", CHANGE_COLUMNS + BLOCKS_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < *n_growing && i < MAX_SHOWN; i++)
		print_owner(line, &growth->sources.data[order[i]], columns);
	if (*n_growing > MAX_SHOWN) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%zu more", *n_growing - MAX_SHOWN);
		vt_line_end(line);
	}
	return NULL;
}

/* The answer, of what grew most. */
static void add_owners_verdict(const struct grow *g, size_t n, struct vt_str *text)
{
	const struct vt_growth_source *owner = vt_growth_most(&g->owners);

	if (!n || !owner)
		return;
	add_owner_growth(text, owner);
	vt_str_addf(text, ": it never shrank in %zu looks at owners",
		    g->owners.looks - owner->born + 1);
	if (n > 1)
		vt_str_addf(text, ", and %zu more variable%s", n - 1, n == 2 ? " grows" : "s grow");
	vt_str_add(text, ". ");
}

static void add_nothing_outside(const struct grow *g, struct vt_str *text)
{
	if (g->lines.looks < VT_GROWTH_LOOKS)
		vt_str_addf(text, "Too few looks to find growth: %zu of at least %d.",
			    g->lines.looks, VT_GROWTH_LOOKS);
	else
		vt_str_add(
			text,
			"Nothing grows: no kind of memory is allocated again and again without being freed.");
}

static void add_verdict(const struct grow *g, size_t n, size_t n_others, struct vt_str *text)
{
	const char *what = telling(g)->by == VT_GROWTH_BY_SITE ? "place" : "size";

	if (!n && n_others)
		return;
	if (!telling(g)->looks) {
		add_nothing_outside(g, text);
		return;
	}
	if (n)
		vt_str_addf(text,
			    "%zu %s%s: memory is allocated there again and again, and not freed.",
			    n, what, n == 1 ? " grows" : "s grow");
	else if (telling(g)->looks < VT_GROWTH_LOOKS)
		vt_str_addf(text, "Too few looks to find growth: %zu of at least %d.",
			    telling(g)->looks, VT_GROWTH_LOOKS);
	else
		vt_str_addf(text, "Nothing grows: no place keeps allocating without freeing%s.",
			    g->lines.looks < VT_GROWTH_LOOKS ?
				    "" :
				    ", and no memory outside PyTorch does");
}

static bool any_replaced(const struct vt_growth *growth)
{
	for (size_t i = 0; i < growth->sources.n; i++)
		if (vt_growth_is_growing(growth, &growth->sources.data[i]) &&
		    growth->sources.data[i].replaced)
			return true;
	return false;
}

static void add_cost(const struct grow *g, struct vt_str *text)
{
	char now[VT_NUM_MAX], change[VT_NUM_MAX], age[VT_NUM_MAX], ms[VT_NUM_MAX];

	vt_str_addf(text, "%s%s %s, %s in %s; %" PRIu64 " looks",
		    text->n && vt_str_get(text)[text->n - 1] != ' ' ? " " : "",
		    g->without_torch ? "Allocated" : "In use", vt_format_size(now, g->bytes),
		    vt_format_change(change, (int64_t)(g->bytes - g->first_bytes)),
		    vt_format_age(age, (double)(g->last_ns - g->first_ns) / VT_NS_PER_S),
		    g->looks + g->failed);
	if (g->failed)
		vt_str_addf(text, ", of which %" PRIu64 " failed", g->failed);
	if (g->stopped_ms > 0)
		vt_str_addf(text, ", threads were stopped for %s in all.",
			    vt_format_ms(ms, g->stopped_ms));
	else
		vt_str_add(text, ", no thread was stopped.");
	if (any_replaced(telling(g)))
		vt_str_add(
			text,
			" Memory that replaced blocks without a backtrace does not count as growth.");
	if (g->inside)
		vt_str_addf(text,
			    " For the list of all allocations a thread was borrowed in %" PRIu64
			    " looks, for %s in all.",
			    g->inside, vt_format_ms(ms, g->borrowed_ms));
	if (g->lines.looks && g->lines.looks < VT_GROWTH_LOOKS && !g->without_torch)
		vt_str_addf(
			text,
			" Memory outside PyTorch could be compared in %zu looks only, of at least %d.",
			g->lines.looks, VT_GROWTH_LOOKS);
	if (telling(g)->cut)
		vt_str_addf(text, " Only the first %d places were tracked.", VT_GROWTH_MAX_SOURCES);
}

static struct vt_error *summarise(const struct grow *g, size_t *n_growing)
{
	const struct vt_growth *growth = telling(g);
	VT_FREE size_t *order = malloc((growth->sources.n + 1) * sizeof(*order));
	VT_FREE size_t *line_order = malloc((g->lines.sources.n + 1) * sizeof(*line_order));
	size_t n_places, n_lines, n_owners = 0;
	struct vt_str text = { 0 };
	struct vt_line line;

	if (!order || !line_order)
		return &vt_enomem;
	n_places = vt_growth_order(growth, order);
	n_lines = vt_growth_order(&g->lines, line_order);
	vt_line_init(&line, stdout, &g->options->output.writer);
	VT_TRY(print_owners(&line, g, &n_owners));
	*n_growing = n_places + n_owners + n_lines;
	if (!text_is_shown(g))
		return NULL;
	vt_grow_print_lines(&line, &g->lines, line_order, n_lines, columns_of_labels(&line),
			    line_seconds(g));
	vt_line_blank(&line);
	add_owners_verdict(g, n_owners, &text);
	vt_grow_add_lines_verdict(&text, &g->lines, n_lines, line_seconds(g),
				  g->model.recorder.state == VT_RECORDING_ON ? 0 : g->options->pid);
	add_verdict(g, n_places, n_owners + n_lines, &text);
	add_cost(g, &text);
	if (n_places)
		print_places(&line, g, order, n_places);
	vt_line_wrap(&line, *n_growing ? VT_BOLD : VT_PLAIN, vt_str_get(&text), 2, 6);
	line.buf.failed |= text.failed;
	vt_str_deinit(&text);
	return vt_line_finish(&line);
}

/* ---- the whole ---- */

/* What nobody recorded can still be told apart by size. */
static struct vt_error *say_unrecorded(struct grow *g)
{
	if (g->said_unrecorded || g->model.block_traces || g->without_torch)
		return NULL;
	g->said_unrecorded = true;
	return say(
		g, VT_WARN,
		"No backtraces are recorded, so blocks are told apart by size only. To record them: vramtap record PID on, or torch.cuda.memory._record_memory_history() in the program.");
}

/* They are not read again: each time costs a stop. */
static struct vt_error *say_no_owners(const struct grow *g, const struct vt_model *model)
{
	const struct vt_model_owners *owners = &model->owners;
	const char *bound = vt_owners_bound_words(owners->bound);
	struct vt_error *err;
	struct vt_str text = { 0 };

	vt_str_add(&text, "Variables are not compared: ");
	if (owners->state != VT_OWNERS_READ)
		vt_str_add(&text, vt_owners_state_words(owners->state));
	else if (owners->whole)
		vt_str_add(&text, "the process ran while they were read");
	else
		vt_str_addf(&text, "not all objects were read%s%s", bound ? ", as " : "",
			    bound ? bound : "");
	vt_str_add(&text, ".");
	err = text.failed ? &vt_enomem : say(g, VT_WARN, vt_str_get(&text));
	vt_str_deinit(&text);
	return err;
}

/* Nor is it asked for again: it would fail in the same way. */
static struct vt_error *say_no_ledger(const struct grow *g, const struct vt_model *model)
{
	const char *why = why_no_ledger(model);
	struct vt_error *err;
	struct vt_str text = { 0 };

	if (!model->allocators.n) /* print_failed() says it */
		return NULL;
	vt_str_addf(&text, "Memory outside PyTorch is not compared: %s.",
		    why ? why : "it could not be listed");
	err = text.failed ? &vt_enomem : say(g, VT_WARN, vt_str_get(&text));
	vt_str_deinit(&text);
	return err;
}

/* What small blocks have is known of some of them alone, and of fewer when the rate is raised. */
static struct vt_error *say_samples(struct grow *g)
{
	if (g->said_samples || !g->model.recorder.sample_now_bytes)
		return NULL;
	g->said_samples = true;
	return say(
		g, VT_WARN,
		"The recorder samples small blocks: places are compared by recorded blocks only, and slow growth may be missed.");
}

/* What was recorded is gone, and places begin at 0 again. */
static struct vt_error *begin_anew(struct grow *g)
{
	uint64_t on_ns = g->model.recorder.on_ns;
	bool anew = on_ns < g->on_ns && g->sites.looks;

	g->on_ns = on_ns;
	if (!anew)
		return NULL;
	vt_growth_deinit(&g->sites);
	vt_growth_init(&g->sites, VT_GROWTH_BY_SITE);
	return say(g, VT_WARN, "Recording was off for a while: tracking of places starts again.");
}

/* PyTorch has come: what is summed is another thing now. */
static void begin_sum(struct grow *g, uint64_t *before)
{
	bool without = !g->model.allocators.n;

	if (g->looks > 1 && without != g->without_torch)
		*before = g->first_bytes = g->bytes;
	g->without_torch = without;
}

static bool add_look(struct grow *g)
{
	bool ok = true;

	if (vt_growth_is_look(&g->sizes, &g->model))
		ok = vt_growth_add(&g->sizes, &g->model);
	if (ok && vt_growth_is_look(&g->sites, &g->model)) {
		if (!g->sites.looks)
			g->sites_ns = g->last_ns;
		ok = vt_growth_add(&g->sites, &g->model);
	}
	if (ok && vt_growth_is_look(&g->owners, &g->model)) {
		ok = vt_growth_add(&g->owners, &g->model);
	}
	if (ok && vt_growth_is_look(&g->lines, &g->model)) {
		g->lines_ns[1] = g->last_ns;
		g->lines_ns[0] = g->lines.looks ? g->lines_ns[0] : g->last_ns;
		ok = vt_growth_add(&g->lines, &g->model);
	}
	return ok;
}

static struct vt_error *take_look(struct grow *g, struct extras extras, struct vt_model *model)
{
	uint64_t before = g->bytes;

	if (!is_exact(g, model)) {
		g->failed++;
		/* the next one has a ledger, which can tell of a process without PyTorch */
		g->without_torch = g->without_torch || (!g->looks && !model->allocators.n);
		remember_why(g, model, extras.ledger);
		return print_failed(g, model);
	}
	vt_model_deinit(&g->model);
	g->model = *model;
	vt_model_init(model);
	g->looks++;
	g->last_ns = vt_now_ns();
	g->bytes = in_use(&g->model);
	if (g->looks == 1) {
		g->first_ns = g->last_ns;
		g->first_bytes = g->bytes;
	}
	begin_sum(g, &before);
	VT_TRY(begin_anew(g));
	if (!add_look(g))
		return &vt_enomem;
	VT_TRY(say_unrecorded(g));
	VT_TRY(say_samples(g));
	if (g->looks == 1)
		VT_TRY(print_title(g));
	return print_look(g, &g->model, before);
}

/* Until then, or the process ends, or the user wants to end it. */
static void sleep_until(const struct grow *g, uint64_t then_ns)
{
	struct pollfd fd = { .fd = g->pidfd, .events = POLLIN };

	while (!vt_watch_ended()) {
		uint64_t now = vt_now_ns();
		int ms = now >= then_ns ? 0 :
			 then_ns - now > SLICE_MS * VT_NS_PER_MS ?
					  SLICE_MS :
					  (int)((then_ns - now) / VT_NS_PER_MS) + 1;

		if (!ms || poll(&fd, 1, ms) > 0)
			return;
	}
}

/* So that the report that is saved has owners, and a ledger. */
static struct vt_error *look_again(struct grow *g)
{
	struct extras extras = {
		.owners = !g->options->no_owners && g->owners_failed < MAX_OWNERS_FAILED &&
			  !g->without_torch,
		.ledger = !g->options->read_only && g->ledger_failed < MAX_LEDGER_FAILED,
	};
	struct vt_model model;
	struct vt_error *err;

	if ((!g->options->then && !g->options->html) || !g->looks ||
	    ((!extras.owners || g->model.owners.state == VT_OWNERS_READ) &&
	     (!extras.ledger || g->model.ledger.known)))
		return NULL;
	err = collect_look(g, extras, &model);
	if (!err)
		err = take_look(g, extras, &model);
	vt_model_deinit(&model);
	vt_error_catch(&err, VT_ERR_GONE);
	return err;
}

/* What is asked for costs a stop, or a thread, whether or not it can be compared then. */
static void count_asked(struct grow *g, struct extras extras)
{
	if (extras.owners)
		g->owners_at = number_of_next(g);
	if (extras.ledger)
		g->ledger_at = number_of_next(g);
	g->owners_asked += extras.owners;
	g->ledgers_asked += extras.ledger;
}

/* A ledger that is there but of two moments fails for once only. */
static struct vt_error *count_failed(struct grow *g, struct extras extras,
				     const struct vt_model *model)
{
	if (extras.owners && model->allocators.n)
		g->owners_failed = vt_growth_has_owners(model) ? 0 : g->owners_failed + 1;
	if (extras.owners && model->allocators.n && g->owners_failed == MAX_OWNERS_FAILED)
		VT_TRY(say_no_owners(g, model));
	if (extras.ledger && model->allocators.n)
		g->ledger_failed = model->ledger.known ? 0 : g->ledger_failed + 1;
	if (extras.ledger && model->allocators.n && g->ledger_failed == MAX_LEDGER_FAILED)
		return say_no_ledger(g, model);
	return NULL;
}

static struct vt_error *watch(struct grow *g)
{
	uint64_t start = vt_now_ns(), next = start,
		 end = g->options->timeout_ns ? start + g->options->timeout_ns : UINT64_MAX;

	while (!vt_watch_ended()) {
		struct vt_model model;
		struct vt_error *err;
		struct extras extras = { owners_are_due(g), ledger_is_due(g) };

		count_asked(g, extras);
		err = collect_look(g, extras, &model);
		if (!err)
			err = count_failed(g, extras, &model);
		if (!err)
			err = take_look(g, extras, &model);
		vt_model_deinit(&model);
		if (g->looks && vt_error_catch(&err, VT_ERR_GONE))
			return say(g, VT_PLAIN, "The process ended.");
		if (err)
			return err;
		/*
		 * A look that took longer than the interval does not make the next ones more
		 * frequent.
		 */
		next = next + g->options->every_ns > vt_now_ns() ?
			       next + g->options->every_ns :
			       vt_now_ns() + g->options->every_ns;
		if (next > end) {
			sleep_until(g, end);
			return look_again(g);
		}
		sleep_until(g, next);
	}
	return look_again(g);
}

static bool fill_growth(struct grow *g)
{
	struct vt_model_growth *growth = &g->model.growth;

	growth->known = true;
	growth->looks = g->looks;
	growth->failed = g->failed;
	growth->line_looks = g->lines.looks;
	growth->owner_looks = g->owners.looks;
	growth->seconds = (double)(g->last_ns - g->first_ns) / VT_NS_PER_S;
	growth->line_seconds = line_seconds(g);
	return vt_grown_take(&g->model, &g->lines) && vt_grown_take(&g->model, telling(g)) &&
	       vt_grown_take(&g->model, &g->owners) &&
	       vt_grown_take_course(&g->model, &g->owners) &&
	       vt_grown_take_course(&g->model, telling(g)) &&
	       vt_grown_take_course(&g->model, &g->lines);
}

/* Of the last look, and of what grew in all of them. */
static struct vt_error *print_advice(const struct grow *g)
{
	struct vt_line line;

	if (!text_is_shown(g))
		return NULL;
	vt_line_init(&line, stdout, &g->options->output.writer);
	line.top = false;
	vt_text_advice(&line, &g->model);
	return vt_line_finish(&line);
}

/* With --on-oom the file is for errors. */
static struct vt_error *save(const struct grow *g)
{
	const struct vt_watch_options *options = g->options;
	const struct vt_oom_file file = { .pattern = options->then,
					  .pid = options->pid,
					  .add_pid = true,
					  .text = options->output.writer };
	struct vt_oom_saved saved = { 0 };
	struct vt_error *err;

	if (options->html && !options->on_oom)
		VT_TRY(vt_output_file(&options->output, vt_write_report_html, &g->model,
				      options->html));
	if (!options->then || options->on_oom)
		return NULL;
	if (!options->many)
		return vt_output_file(&options->output, vt_write_report_json, &g->model,
				      options->then);
	err = vt_oom_save(&file, &g->model, &saved);
	if (saved.instead)
		vt_exit_with(saved.instead);
	vt_oom_saved_deinit(&saved);
	return err;
}

/* Whose summary it is, where there are several. */
static struct vt_error *print_heading(const struct grow *g)
{
	struct vt_line line;

	if (!g->options->many)
		return NULL;
	vt_line_init(&line, stdout, &g->options->output.writer);
	vt_line_blank(&line);
	vt_line_addf(&line, VT_BOLD, "%s (%d)", g->model.process.name, (int)g->options->pid);
	vt_line_end(&line);
	return vt_line_finish(&line);
}

static struct vt_error *print_summary(struct grow *g, size_t *n_growing)
{
	VT_TRY(print_heading(g));
	VT_TRY(summarise(g, n_growing));
	if (!fill_growth(g) || !vt_advise(&g->model))
		return &vt_enomem;
	return print_advice(g);
}

static struct vt_error *finish(struct grow *g, size_t *n_growing)
{
	struct vt_error *err;

	if (!g->looks)
		return vt_error_create(VT_ERR_NOTFOUND, "process %d: nothing could be learned: %s",
				       (int)g->options->pid,
				       g->why[0] ? g->why : "interrupted before the first look");
	vt_watchers_lock(g->options->output_lock);
	err = print_summary(g, n_growing);
	vt_watchers_unlock(g->options->output_lock);
	return err ? err : save(g);
}

int vt_watch_grow(struct vt_watch_options *options)
{
	struct grow g = { .options = options,
			  .pidfd = (int)syscall(SYS_pidfd_open, options->pid, 0) };
	size_t n_growing = 0;
	int status;

	vt_model_init(&g.model);
	vt_growth_init(&g.sites, VT_GROWTH_BY_SITE);
	vt_growth_init(&g.sizes, VT_GROWTH_BY_SIZE);
	vt_growth_init(&g.owners, VT_GROWTH_BY_OWNER);
	vt_growth_init(&g.lines, VT_GROWTH_BY_LINE);
	vt_progress_enable(false);
	vt_watch_catch_signals();
	if (g.pidfd < 0)
		vt_error_destroy(vt_proc_init(&g.proc, options->pid));

	VT_ERROR struct vt_error *err = watch(&g);

	if (!err)
		err = finish(&g, &n_growing);
	if (err)
		status = vt_exit_with(err);
	else
		status = !n_growing ? VT_EXIT_NO_EVENT :
			 g.failed   ? VT_EXIT_PARTIAL :
				      VT_EXIT_COMPLETE;
	if (g.pidfd >= 0)
		close(g.pidfd);
	vt_proc_deinit(&g.proc);
	vt_growth_deinit(&g.sites);
	vt_growth_deinit(&g.sizes);
	vt_growth_deinit(&g.owners);
	vt_growth_deinit(&g.lines);
	vt_model_deinit(&g.model);
	return status;
}
