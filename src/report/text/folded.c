/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "model/place.h"

/* ';' ends a frame, and a line break the line: both are written as \xNN, like all unsafe bytes. */
static void add_escaped(struct vt_str *line, const char *text)
{
	for (size_t n; *text; text += n) {
		n = strcspn(text, ";");
		vt_str_add_escaped(line, text, n);
		if (text[n] == ';') {
			vt_str_add(line, "\\x3b");
			n++;
		}
	}
}

/* "Attention.forward (attn.py:57)" */
static void add_frame(struct vt_str *line, struct vt_str *scratch, const struct vt_model_frame *f)
{
	size_t n;

	vt_str_clear(scratch);
	vt_place_add_function(scratch, f, true);
	n = scratch->n;
	vt_str_add(scratch, " (");
	vt_place_add_where(scratch, f);
	if (scratch->n > n + 2)
		vt_str_add(scratch, ")");
	else if (scratch->data)
		scratch->data[scratch->n = n] = '\0'; /* its place is unknown */
	add_escaped(line, vt_str_get(scratch));
	line->failed |= scratch->failed;
}

static bool put_line(struct vt_str *line, uint64_t bytes, FILE *out)
{
	vt_str_addf(line, " %" PRIu64 "\n", bytes);
	return !line->failed && fwrite(line->data, 1, line->n, out) == line->n;
}

static bool put_trace(const struct vt_model *model, const struct vt_model_trace *t,
		      struct vt_str *line, struct vt_str *scratch, FILE *out)
{
	vt_str_clear(line);
	for (size_t i = t->n_frames; i-- > 0;) {
		add_frame(line, scratch, &model->trace_frames[t->frames[i]]);
		if (i > 0)
			vt_str_add(line, ";");
	}
	if (!t->n_frames)
		vt_str_add(line, "[a thread that ran no Python]");
	return put_line(line, t->bytes, out);
}

static bool put_untraced(const struct vt_model *model, struct vt_str *line, FILE *out)
{
	static const char *const labels[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] = "[older than the recording]",
		[VT_UNTRACED_CHANGED] = "[no backtrace: changed while it was read]",
		[VT_UNTRACED_UNREADABLE] = "[no backtrace: not readable]",
		[VT_UNTRACED_SAMPLED] = "[no backtrace: no sample, or older than the recording]",
		[VT_UNTRACED_NO_STACK] = "[no backtrace: recorded without one]",
		[VT_UNTRACED_UNSEEN] =
			"[no backtrace: not allocated through the allocator's functions]",
	};

	for (size_t i = 0; i < VT_N_UNTRACED; i++) {
		if (!model->untraced[i].bytes)
			continue;
		vt_str_clear(line);
		vt_str_add(line, labels[i]);
		if (!put_line(line, model->untraced[i].bytes, out))
			return false;
	}
	return true;
}

/* Without any recording, one line has all allocated bytes. */
static bool put_unrecorded(const struct vt_model *model, struct vt_str *line, FILE *out)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < model->allocators.n; i++)
		bytes += model->allocators.data[i].exact ?
				 model->allocators.data[i].allocated_bytes :
				 0;
	vt_str_clear(line);
	vt_str_add(line, "[no backtrace: nothing is recorded]");
	return !bytes || put_line(line, bytes, out);
}

struct vt_error *vt_write_report_folded(const void *what, const struct vt_writer_options *options,
					FILE *out)
{
	const struct vt_model *model = what;
	struct vt_str line = { 0 }, scratch = { 0 };
	bool ok = true, nomem;
	int errnum;

	(void)options; /* options are for text */
	errno = 0;
	for (size_t i = 0; i < model->traces.n && ok; i++)
		if (model->traces.data[i].bytes)
			ok = put_trace(model, &model->traces.data[i], &line, &scratch, out);
	if (ok)
		ok = model->block_traces ? put_untraced(model, &line, out) :
					   put_unrecorded(model, &line, out);
	ok = ok && !fflush(out);
	errnum = errno ? errno : EIO;
	nomem = line.failed;
	vt_str_deinit(&line);
	vt_str_deinit(&scratch);
	if (ok)
		return NULL;
	return nomem ? &vt_enomem : vt_error_create_os(errnum, "cannot write the report");
}
