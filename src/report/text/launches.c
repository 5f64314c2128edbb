/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams were given and is not known to have ended. Which of several launches it is that
 * hangs is not known, so none is called that: the oldest come first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "model/stream_deadlock.h"
#include "model/stream_waits.h"
#include "report/text/text.h"

enum { MAX_STREAMS = 8, FIRST = 4, LAST = 1, INDENT = 4, MAX_LINES = 2 };

static const char *age(char buf[VT_NUM_MAX], uint64_t ns)
{
	return vt_format_age(buf, (double)ns / (double)VT_NS_PER_S);
}

static void add_dim(struct vt_str *text, const uint32_t dim[3])
{
	vt_str_addf(text, "%" PRIu32, dim[0]);
	if (dim[1] != 1 || dim[2] != 1)
		vt_str_addf(text, "x%" PRIu32, dim[1]);
	if (dim[2] != 1)
		vt_str_addf(text, "x%" PRIu32, dim[2]);
}

static void add_what(struct vt_str *text, const struct vt_model_launch *l)
{
	switch (l->kind) {
	case VT_LAUNCHED_KERNEL:
		if (l->name)
			vt_str_add(text, l->name);
		else
			vt_str_addf(text, "kernel %#" PRIx64 " without a name", l->what);
		vt_str_add(text, ", grid ");
		add_dim(text, l->grid);
		vt_str_add(text, ", block ");
		add_dim(text, l->block);
		return;
	case VT_LAUNCHED_GRAPH:
		vt_str_addf(text, "graph %#" PRIx64, l->what);
		return;
	case VT_LAUNCHED_HOST:
		if (l->name)
			vt_str_addf(text, "host function %s", l->name);
		else
			vt_str_addf(text, "host function %#" PRIx64, l->what);
		return;
	case VT_LAUNCHED_WAIT_EVENT:
		vt_str_addf(text, "wait for event %#" PRIx64, l->what);
		return;
	default:
		vt_str_add(text, l->there_known && !vt_wait_ends_with(l, l->there) ?
					 "wait for a value that is not there yet: " :
					 "wait for a value: ");
		vt_wait_say(text, l);
	}
}

/* Launches one after the other that differ in nothing but their number are one row. */
static bool are_alike(const struct vt_model_launch *a, const struct vt_model_launch *b)
{
	return a->kind == b->kind && a->fate == b->fate && a->what == b->what &&
	       a->name == b->name && a->value == b->value && a->compare == b->compare &&
	       a->trace == b->trace && a->tid == b->tid &&
	       !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
	       !memcmp(a->block, b->block, sizeof(a->block));
}

struct row {
	const struct vt_model_launch *first;
	uint64_t times;
};

static void add_where(struct vt_line *line, const struct vt_model *model, const struct row *row,
		      struct vt_str *text)
{
	const struct vt_model_launch *l = row->first;
	const struct vt_model_frame *title = vt_model_trace_title(model, l->trace);
	char number[VT_NUM_MAX], ago[VT_NUM_MAX];

	if (row->times > 1)
		vt_str_addf(text, "%s times, the first %s ago", vt_format_count(number, row->times),
			    age(ago, l->age_ns));
	else
		vt_str_addf(text, "%s ago", age(ago, l->age_ns));
	if (title) {
		vt_str_add(text, ", in ");
		vt_text_frame_label(line, text, title);
	}
	vt_str_addf(text, ", thread %d", (int)l->tid);
	if (l->thread && *l->thread)
		vt_str_addf(text, " (%s)", l->thread);
	if (l->fate == VT_LAUNCH_FATE_CALLED)
		vt_str_add(text, "; the call has not returned");
}

/* Of a deadlock: what would end the wait. */
static void print_ending(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_launch_stream *s)
{
	const struct vt_model_frame *place = vt_model_trace_title(model, s->ends_it->trace);
	struct vt_str text = { 0 };

	vt_str_add(&text, "likely a deadlock: only ");
	vt_launch_stream_say(&text, model, vt_stream_waited_for(model, s));
	vt_str_add(&text,
		   s->ends_it->kind == VT_LAUNCHED_WRITE_VALUE ? " writes that" : " records that");
	if (place) {
		vt_str_add(&text, ", in ");
		vt_text_frame_label(line, &text, place);
	}
	vt_str_add(&text, ", after its own wait");
	vt_line_pad(line, INDENT + 2);
	vt_line_wrap(line, VT_ALARM, vt_str_get(&text), INDENT + 2, MAX_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_row(struct vt_line *line, const struct vt_model *model,
		      const struct vt_model_launch_stream *s, const struct row *row)
{
	struct vt_str text = { 0 }, where = { 0 };

	add_what(&text, row->first);
	vt_line_pad(line, INDENT);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), INDENT + 2, MAX_LINES);
	add_where(line, model, row, &where);
	vt_line_pad(line, INDENT + 2);
	vt_line_wrap(line, VT_DIM, vt_str_get(&where), INDENT + 2, MAX_LINES);
	line->buf.failed |= text.failed || where.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&where);
	if (row->first == s->stuck)
		print_ending(line, model, s);
}

/* The row that begins at or after launch *i, which goes behind it; false: there is none. */
static bool next_row(const struct vt_model_launch_stream *s, size_t *i, struct row *row)
{
	while (*i < s->n && !vt_launch_may_run(&s->launches[*i]))
		++*i;
	if (*i == s->n)
		return false;
	*row = (struct row){ &s->launches[*i], 0 };
	while (*i < s->n && are_alike(row->first, &s->launches[*i]) &&
	       (!row->times || &s->launches[*i] != s->stuck)) {
		row->times++;
		++*i;
	}
	return true;
}

static void print_more(struct vt_line *line, uint64_t n)
{
	char count[VT_NUM_MAX];

	vt_line_pad(line, INDENT);
	vt_line_addf(line, VT_DIM, "%s more launches", vt_format_count(count, n));
	vt_line_end(line);
}

/* The first of those that may run, and the last; and the one of a deadlock. */
static void print_launches(struct vt_line *line, const struct vt_model *model,
			   const struct vt_model_launch_stream *s)
{
	size_t n = 0, at = 0;
	uint64_t hidden = 0;
	struct row row;

	for (size_t i = 0; next_row(s, &i, &row);)
		n++;
	for (size_t i = 0; next_row(s, &i, &row); at++) {
		bool hides = n > FIRST + LAST + 1 && at >= FIRST && at + LAST < n &&
			     row.first != s->stuck;

		if (hides)
			hidden += row.times;
		else if (hidden)
			print_more(line, hidden);
		if (hides)
			continue;
		hidden = 0;
		print_row(line, model, s, &row);
	}
}

/* Each time that it was asked, the driver said that the stream has nothing left to do. */
static bool is_idle(const struct vt_model *model, const struct vt_model_launch_stream *s)
{
	const struct vt_model_stream *stream = vt_launch_stream_asked(model, s);

	return stream && !stream->error && stream->state == VT_STREAM_IDLE_STATE;
}

static void add_stream(struct vt_str *text, const struct vt_model *model,
		       const struct vt_model_launch_stream *s)
{
	const struct vt_model_stream *stream = vt_launch_stream_asked(model, s);

	if (s->device >= 0)
		vt_str_addf(text, "GPU %d, ", s->device);
	if (stream)
		vt_text_stream_name(text, stream);
	else if (!s->handle)
		vt_str_add(text, "default stream");
	else if (s->tid)
		vt_str_addf(text, "default stream of thread %d", (int)s->tid);
	else
		vt_str_add(text, "stream");
	if (s->handle > 2)
		vt_str_addf(text, " %#" PRIx64, s->handle);
	if (stream && stream->state != VT_STREAM_UNKNOWN_STATE) {
		vt_str_add(text, ", ");
		vt_text_stream_doing(text, stream);
	}
}

static void print_stream(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_launch_stream *s)
{
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX], total[VT_NUM_MAX];

	add_stream(&text, model, s);
	if (s->may_run == 1)
		vt_str_addf(&text, ": of %s launches, only this one is not known to have ended",
			    vt_format_count(total, s->total));
	else
		vt_str_addf(&text, ": of %s launches, %s are not known to have ended",
			    vt_format_count(total, s->total), vt_format_count(number, s->may_run));
	if (s->not_kept)
		vt_str_addf(&text, " (%s without a record)", vt_format_count(number, s->not_kept));
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 2, MAX_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
	print_launches(line, model, s);
}

/* The driver may know more than the recorder, which has to see a wait. */
static void print_rest(struct vt_line *line, size_t more, size_t idle, size_t ended)
{
	if (more) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%zu more streams in the JSON report", more);
		vt_line_end(line);
	}
	if (idle) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%zu stream%s idle when the driver was asked", idle,
			     idle == 1 ? " was" : "s were");
		vt_line_end(line);
	}
	if (ended) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "on %zu stream%s all that was launched has ended", ended,
			     ended == 1 ? "" : "s");
		vt_line_end(line);
	}
}

/* The list may lack what hangs: then none of those in it does. */
static void print_not_seen(struct vt_line *line, uint64_t lost, bool waits)
{
	char count[VT_NUM_MAX];

	if (lost) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%s more have no record: no room for their streams",
			     vt_format_count(count, lost));
		vt_line_end(line);
	}
	if (waits) {
		vt_line_pad(line, 2);
		vt_line_wrap(
			line, VT_DIM,
			"not seen, and perhaps what runs: launches before the recording, of libraries with a CUDA runtime of their own, or loaded later",
			2, MAX_LINES);
	}
}

void vt_text_launches(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_launches *launches = &model->launches;
	char total[VT_NUM_MAX], on[VT_NUM_MAX];
	size_t shown = 0, idle = 0, ended = 0, waiting = 0;

	if (!launches->known)
		return;
	vt_text_title(line, NULL, "Launches: %s recorded in %s",
		      vt_format_count(total, launches->total), age(on, model->recorder.on_ns));
	for (size_t i = 0; i < launches->streams.n; i++) {
		const struct vt_model_launch_stream *s = &launches->streams.data[i];
		bool waits = s->may_run && !is_idle(model, s);

		waiting += waits;
		idle += s->may_run && !waits;
		ended += !s->may_run;
		if (waits && shown++ < MAX_STREAMS)
			print_stream(line, model, s);
	}
	print_rest(line, waiting > MAX_STREAMS ? waiting - MAX_STREAMS : 0, idle, ended);
	print_not_seen(line, launches->lost, waiting);
}
