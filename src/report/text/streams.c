/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams have unfinished work: a line for each that may have; the idle ones as a count. */
#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"
#include "report/text/text.h"

#define MAX_SHOWN 12
#define MAX_LATER 4 /* below further looks; the part of the streams has them all */
enum {
	NAME_COLUMN = 9,
	NAME_COLUMNS = 25,
	STATE_COLUMN = NAME_COLUMN + NAME_COLUMNS + 1,
	STATE_COLUMNS = 21,
	HANDLE_COLUMN = STATE_COLUMN + STATE_COLUMNS + 1,
	BYTES_COLUMN = HANDLE_COLUMN + 15, /* in 80 columns there is room for the size alone */
};

void vt_text_stream_name(struct vt_str *text, const struct vt_model_stream *stream)
{
	switch (stream->kind) {
	case VT_STREAM_IS_DEFAULT:
		vt_str_add(text, "default stream");
		return;
	case VT_STREAM_IS_POOL:
		vt_str_addf(text, "PyTorch stream %u", stream->number);
		if (stream->nccl)
			vt_str_add(text, ", NCCL's");
		else if (stream->priority)
			vt_str_addf(text, ", priority %d", stream->priority);
		return;
	default:
		vt_str_add(text,
			   stream->handle == 2 ? "threads' default streams" : "another stream");
	}
}

/* How it began tells; it need not have been asked the first time. */
static const char *moving_word(const struct vt_model_stream *stream)
{
	bool busy = false, idle = false, busy_first = false;

	for (size_t i = 0; i < VT_STREAM_LOOKS; i++) {
		busy_first = busy_first || (!idle && stream->doing[i] == VT_STREAM_DOES_BUSY);
		busy = busy || stream->doing[i] == VT_STREAM_DOES_BUSY;
		idle = idle || stream->doing[i] == VT_STREAM_DOES_IDLE;
	}
	return !idle ? "busy, moving" : busy_first ? "busy, then idle" : "idle, then busy";
}

void vt_text_stream_doing(struct vt_str *text, const struct vt_model_stream *stream)
{
	static const char *const words[VT_N_STREAM_STATES] = {
		[VT_STREAM_UNKNOWN_STATE] = "not asked",
		[VT_STREAM_IDLE_STATE] = "idle",
		[VT_STREAM_BUSY_STATE] = "busy both times",
		[VT_STREAM_BUSY_ONCE_STATE] = "busy",
		[VT_STREAM_CAPTURING_STATE] = "captures a CUDA graph",
	};

	if (stream->error)
		vt_str_addf(text, "CUDA error %d", stream->error);
	else if (stream->state == VT_STREAM_MOVING_STATE)
		vt_str_add(text, moving_word(stream));
	else if (stream->state == VT_STREAM_BUSY_STATE &&
		 stream->doing[VT_STREAM_LATER] == VT_STREAM_DOES_BUSY)
		vt_str_add(text, "busy each time");
	else
		vt_str_add(text, words[stream->state]);
}

/*
 * PyTorch looks whether they are over when it is asked for memory. A stream that was idle the
 * second time or later, after the blocks were read, has done all that they waited for.
 */
static void print_waits(struct vt_line *line, const struct vt_model_stream *stream)
{
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX], size[VT_NUM_MAX];
	bool one = stream->awaiting_blocks == 1;

	if (!stream->awaiting_blocks)
		return;
	vt_str_addf(&text, "%s block%s (%s) that %s freed ",
		    vt_format_count(number, stream->awaiting_blocks), one ? "" : "s",
		    vt_format_size(size, stream->awaiting_bytes), one ? "was" : "were");
	if (stream->doing[1] == VT_STREAM_DOES_IDLE ||
	    stream->doing[VT_STREAM_LATER] == VT_STREAM_DOES_IDLE)
		vt_str_addf(&text, "waited for its work, which is over; PyTorch sees that at its "
				   "next allocation");
	else
		vt_str_addf(&text, "wait%s for its work%s", one ? "s" : "",
			    stream->state == VT_STREAM_BUSY_STATE ?
				    one ? "; it cannot be used again until that is done" :
					  "; they cannot be used again until it is done" :
				    "");
	vt_line_pad(line, NAME_COLUMN + 2);
	vt_line_wrap(line, VT_DIM, vt_str_get(&text), NAME_COLUMN + 2, 2);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_stream(struct vt_line *line, const struct vt_model_stream *stream, bool names_gpu)
{
	struct vt_str name = { 0 }, doing = { 0 };
	bool busy = stream->state == VT_STREAM_BUSY_STATE ||
		    stream->state == VT_STREAM_BUSY_ONCE_STATE;
	char size[VT_NUM_MAX];

	vt_text_stream_name(&name, stream);
	vt_text_stream_doing(&doing, stream);
	vt_line_pad(line, 2);
	if (names_gpu)
		vt_line_addf(line, VT_PLAIN, "GPU %d", stream->device);
	vt_line_pad(line, NAME_COLUMN);
	vt_line_cell(line, VT_PLAIN, vt_str_get(&name), NAME_COLUMNS, VT_CUT_END);
	vt_line_pad(line, STATE_COLUMN);
	vt_line_cell(line,
		     stream->error ? VT_ALARM :
		     busy          ? VT_WARN :
				     VT_PLAIN,
		     vt_str_get(&doing), STATE_COLUMNS, VT_CUT_END);
	if (stream->handle > 2) {
		vt_line_pad(line, HANDLE_COLUMN);
		vt_line_addf(line, VT_DIM, "0x%" PRIx64, stream->handle);
	}
	if (stream->bytes) {
		vt_format_size(size, stream->bytes);
		vt_line_pad(line, BYTES_COLUMN);
		vt_line_addf(line, VT_DIM, vt_line_room(line) < 16 ? "%s" : "%s in use", size);
	}
	vt_line_end(line);
	line->buf.failed |= name.failed || doing.failed;
	vt_str_deinit(&name);
	vt_str_deinit(&doing);
	print_waits(line, stream);
}

/* Why it was not asked at that moment; NULL: it was. */
static const char *why_not(const struct vt_model_streams_look *look)
{
	static const char *const words[VT_N_STREAMS_LOOKS] = {
		[VT_STREAMS_IN_DRIVER] =
			"a thread was, or may have been, inside the CUDA driver at each try",
		[VT_STREAMS_NOT_STOPPED] = "not all threads could be stopped at once",
		[VT_STREAMS_LATE] = "the CUDA driver did not answer within 5 ms",
		[VT_STREAMS_REFUSED] = "the CUDA driver cannot be asked without harm",
		[VT_STREAMS_NO_HELPER] = "vramtap's thread in the process had ended",
		[VT_STREAMS_NOT_INSIDE] = "vramtap could not get inside the process again",
	};

	return words[look->look];
}

static void print_why_later(struct vt_line *line, const struct vt_model_streams_look *later)
{
	char text[192];

	if (!why_not(later))
		return;
	snprintf(text, sizeof(text), "After the last look they could not be asked: %s.",
		 why_not(later));
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM, text, 2, 3);
}

static void print_why(struct vt_line *line, const struct vt_model_streams *streams)
{
	const char *first = why_not(&streams->looks[0]), *second = why_not(&streams->looks[1]);
	char text[192];

	print_why_later(line, &streams->looks[VT_STREAM_LATER]);
	if (!first && !second)
		return;
	if (first == second)
		snprintf(text, sizeof(text), "They could not be asked: %s.", first);
	else
		snprintf(text, sizeof(text), "They could not be asked %s: %s%s%s.",
			 first && second ? "" :
			 first           ? "the first time" :
					   "a second time",
			 first ? first : second, first && second ? "; later " : "",
			 first && second ? second : "");
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM, text, 2, 3);
}

/* Streams that have, or may have, unfinished work, or that blocks wait for, are shown by name. */
static bool is_shown(const struct vt_model_stream *stream)
{
	if (stream->awaiting_blocks)
		return true;
	return stream->state != VT_STREAM_IDLE_STATE &&
	       (stream->state != VT_STREAM_UNKNOWN_STATE || stream->error ||
		stream->kind == VT_STREAM_IS_EXTERNAL);
}

static size_t count_other_idle(const struct vt_model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < model->streams.list.n; i++) {
		const struct vt_model_stream *stream = &model->streams.list.data[i];

		n += stream->state == VT_STREAM_IDLE_STATE && !is_shown(stream);
	}
	return n;
}

static void print_rest(struct vt_line *line, const struct vt_model *model, size_t shown,
		       size_t more)
{
	size_t idle = count_other_idle(model);
	char number[VT_NUM_MAX];

	if (more) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%s more in the JSON report",
			     vt_format_count(number, more));
		vt_line_end(line);
	}
	if (!idle)
		return;
	vt_line_pad(line, 2);
	if (shown)
		vt_line_addf(line, VT_PLAIN, "%s other%s idle", vt_format_count(number, idle),
			     idle == 1 ? " is" : "s are");
	else if (idle == 1)
		vt_line_add(line, VT_PLAIN, "The one stream that can be asked is idle");
	else
		vt_line_addf(line, VT_PLAIN, "All %s streams that can be asked are idle",
			     vt_format_count(number, idle));
	vt_line_end(line);
}

/* More work may have been given in between. */
static void print_busy(struct vt_line *line, const struct vt_model *model)
{
	if (!vt_model_streams_count(model, VT_STREAM_BUSY_STATE))
		return;
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM,
		     model->streams.n_asked > 2 ?
			     "Busy each time: the work that was unfinished need not be the same." :
			     "Busy both times: the work that was unfinished need not be the same.",
		     2, 2);
}

/* Whoever makes a stream has its handle: that of all there are none is busy is never known. */
static void print_limits(struct vt_line *line, const struct vt_model_streams *streams)
{
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM,
		     streams->pool_unknown ?
			     "Others are not known, nor are PyTorch's: its libc10_cuda.so has no "
			     "symbol table." :
			     "Streams that programs and other libraries make are not known.",
		     2, 2);
}

static bool are_all_idle(const struct vt_model_streams *streams)
{
	for (size_t i = 0; i < streams->list.n; i++)
		if (is_shown(&streams->list.data[i]))
			return false;
	return streams->apart_ns && !streams->pool_unknown;
}

void vt_text_streams(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_streams *streams = &model->streams;
	size_t shown = 0, more = 0, idle = vt_model_streams_count(model, VT_STREAM_IDLE_STATE);
	char hint[96] = "", number[VT_NUM_MAX];
	int device = -1;

	if (!streams->wanted)
		return;
	if (streams->apart_ns)
		snprintf(hint, sizeof(hint),
			 streams->n_asked > 2 ? "asked three times in %s" : "asked twice, %s apart",
			 vt_format_ms(number, (double)streams->apart_ns / 1e6));
	if (idle && are_all_idle(streams)) {
		vt_text_title(line, hint, "Streams   %s%s that can be asked %s idle",
			      idle > 1 ? "all " : "the one",
			      idle > 1 ? vt_format_count(number, idle) : "",
			      idle > 1 ? "are" : "is");
		return;
	}
	vt_text_title(line, *hint ? hint : NULL, "Streams");
	for (size_t i = 0; i < streams->list.n; i++) {
		const struct vt_model_stream *stream = &streams->list.data[i];

		if (!is_shown(stream))
			continue;
		if (shown == MAX_SHOWN) {
			more++;
			continue;
		}
		print_stream(line, stream, stream->device != device);
		device = stream->device;
		shown++;
	}
	print_rest(line, model, shown, more);
	print_busy(line, model);
	print_why(line, streams);
	print_limits(line, streams);
}

/* ---- below further looks ---- */

static void say_later(struct vt_str *text, const struct vt_model_streams *streams,
		      const struct vt_model_stream *stream)
{
	char number[VT_NUM_MAX];

	vt_stream_say(text, stream);
	vt_str_add(text, ": ");
	vt_text_stream_doing(text, stream);
	vt_str_addf(text, ", asked %u times in %.1f s", streams->n_asked,
		    (double)streams->apart_ns / 1e9);
	if (!stream->ended_known)
		return;
	if (stream->ended)
		vt_str_addf(text, "; between the looks %s of its launches ended",
			    vt_format_count(number, stream->ended));
	else
		vt_str_add(text, "; none of its launches is known to have ended between the looks");
}

void vt_text_streams_later(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_streams *streams = &model->streams;
	const struct vt_model_streams_look *later = &streams->looks[VT_STREAM_LATER];
	size_t shown = 0;

	if (!later->look)
		return;
	for (size_t i = 0; i < streams->list.n && shown < MAX_LATER; i++) {
		const struct vt_model_stream *stream = &streams->list.data[i];
		struct vt_str text = { 0 };

		if (stream->doing[VT_STREAM_LATER] == VT_STREAM_DOES_NOT_ASKED ||
		    stream->state == VT_STREAM_IDLE_STATE)
			continue;
		say_later(&text, streams, stream);
		vt_line_pad(line, 4);
		vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 6, 3);
		line->buf.failed |= text.failed;
		vt_str_deinit(&text);
		shown++;
	}
	print_why_later(line, later);
}
