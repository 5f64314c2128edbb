/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/format.h"
#include "relieve/words.h"
#include "relieve/write.h"
#include "report/text/line.h"

enum {
	LABEL_COLUMNS = 34,
	NUMBER_COLUMNS = 12,
	INDENT = 2,
	MAX_LINES = 6,
};

static void wrap(struct vt_line *line, enum vt_style style, const struct vt_str *text)
{
	vt_line_wrap(line, style, vt_str_get(text), INDENT, MAX_LINES);
	line->buf.failed |= text->failed;
}

static void add_process(struct vt_str *text, const struct vt_relieve_result *result)
{
	const struct vt_model_process *p = &result->before.process;

	vt_str_addf(text, "%s (%d)", p->name && *p->name ? p->name : "process", (int)p->pid);
}

/* ---- the answer ---- */

static void add_freed(struct vt_str *text, const struct vt_relieve_result *result)
{
	int64_t bytes = vt_relieve_given_back(result);
	const char *owner = result->request.what == VT_RELIEF_TRIM_PINNED ?
				    "pinned memory of PyTorch" :
				    "memory of PyTorch's on the GPU";
	char size[VT_NUM_MAX];

	if (bytes == INT64_MIN)
		vt_str_add(text, "how much it gave back is not known");
	else if (bytes > 0)
		vt_str_addf(text, "there is %s less %s", vt_format_size(size, (uint64_t)bytes),
			    owner);
	else if (bytes < 0)
		vt_str_addf(text, "there is %s more %s now: the program has allocated meanwhile",
			    vt_format_size(size, (uint64_t)-bytes), owner);
	else
		vt_str_addf(text, "there is as much %s as before", owner);
}

static void add_collected(struct vt_str *text, const struct vt_relieve_result *result)
{
	char number[VT_NUM_MAX];
	int64_t freed = vt_relieve_in_use_less(result);

	if (result->answer.collected < 0)
		vt_str_add(text, "Python does not say what it collected");
	else if (!result->answer.collected)
		vt_str_add(
			text,
			"Python found no unreachable objects (or was collecting already: it says "
			"the same then)");
	else
		vt_str_addf(text, "Python found %s unreachable object%s",
			    vt_format_count(number, (uint64_t)result->answer.collected),
			    result->answer.collected == 1 ? "" : "s");
	if (freed == INT64_MIN)
		vt_str_add(text, "; whether less GPU memory is in use is not known");
	else if (freed > 0)
		vt_str_addf(text, "; tensors of %s are gone, which PyTorch keeps in its cache",
			    vt_format_size(number, (uint64_t)freed));
	else
		vt_str_add(text, "; PyTorch has no less in use than before");
}

/* Else the question itself can have had an effect. */
static bool is_harmless(unsigned int why)
{
	return why != VT_RELIEF_CAPTURE_BEGAN && why != VT_RELIEF_CAPTURE_BROKEN;
}

static void add_outcome(struct vt_str *text, const struct vt_relieve_result *result)
{
	const char *call = vt_relieve_call_name(result->request.what);
	char size[VT_NUM_MAX];

	switch (result->outcome) {
	case VT_RELIEVE_REFUSED:
		vt_str_add(text, is_harmless(result->why) ? "Nothing was done: " :
							    "Nothing was called: ");
		vt_relieve_add_why(text, result);
		break;
	case VT_RELIEVE_WOULD:
		vt_str_addf(text, "Nothing was done (--dry-run). Nothing speaks against %s now",
			    call);
		if (vt_relieve_at_most(result) >= 0)
			vt_str_addf(text, ", which would give back %s at most",
				    vt_format_size(size, (uint64_t)vt_relieve_at_most(result)));
		break;
	case VT_RELIEVE_RAISED:
		vt_str_addf(text, "%s raised an exception, which was dropped; ", call);
		add_freed(text, result);
		break;
	case VT_RELIEVE_RUNS:
		vt_str_addf(text,
			    "%s was called and has not returned. It cannot be called back; the "
			    "thread \"vramtap\" in the process is in it",
			    call);
		break;
	case VT_RELIEVE_ENDED:
		vt_str_addf(text, "%s was called, and the process ended before it returned", call);
		break;
	default:
		vt_str_addf(text, "Called %s: ", call);
		if (result->request.what == VT_RELIEF_COLLECT_GARBAGE)
			add_collected(text, result);
		else
			add_freed(text, result);
		break;
	}
}

static void print_answer(struct vt_line *line, const struct vt_relieve_result *result)
{
	bool good = result->outcome == VT_RELIEVE_DONE || result->outcome == VT_RELIEVE_WOULD;
	struct vt_str text = { 0 };

	add_process(&text, result);
	vt_line_add(line, VT_BOLD, vt_str_get(&text));
	vt_line_end(line);
	vt_str_clear(&text);
	add_outcome(&text, result);
	vt_str_add(&text, ".");
	vt_line_pad(line, INDENT);
	wrap(line, good ? VT_PLAIN : VT_WARN, &text);
	vt_str_deinit(&text);
}

static void print_remedy(struct vt_line *line, const struct vt_relieve_result *result)
{
	const char *remedy = vt_relieve_remedy(result->why);
	struct vt_str text = { 0 };

	if (result->outcome == VT_RELIEVE_REFUSED && remedy)
		vt_str_addf(&text, "Next: %s.", remedy);
	if (result->outcome == VT_RELIEVE_DONE &&
	    result->request.what == VT_RELIEF_COLLECT_GARBAGE &&
	    vt_relieve_in_use_less(result) != INT64_MIN)
		vt_str_addf(&text,
			    "Next: vramtap relieve %d --empty-cache gives what is cached "
			    "back to the GPU.",
			    (int)result->before.process.pid);
	if (*vt_str_get(&text)) {
		vt_line_pad(line, INDENT);
		wrap(line, VT_PLAIN, &text);
	}
	vt_str_deinit(&text);
}

/* ---- before and after ---- */

static void print_title(struct vt_line *line, const char *title)
{
	vt_line_blank(line);
	vt_line_cell(line, VT_BOLD, title, LABEL_COLUMNS, VT_CUT_END);
	vt_line_right(line, VT_DIM, "before", NUMBER_COLUMNS);
	vt_line_right(line, VT_DIM, "after", NUMBER_COLUMNS);
	vt_line_right(line, VT_DIM, "change", NUMBER_COLUMNS);
	vt_line_end(line);
}

static void print_row(struct vt_line *line, const char *label, uint64_t before, uint64_t after)
{
	enum vt_style style = before == after ? VT_DIM : VT_PLAIN;
	char number[VT_NUM_MAX];

	vt_line_pad(line, INDENT);
	vt_line_cell(line, style, label, LABEL_COLUMNS - INDENT, VT_CUT_END);
	vt_line_right(line, style, vt_format_size(number, before), NUMBER_COLUMNS);
	vt_line_right(line, style, vt_format_size(number, after), NUMBER_COLUMNS);
	vt_line_right(line, style, vt_format_change(number, (int64_t)(after - before)),
		      NUMBER_COLUMNS);
	vt_line_end(line);
}

static void print_part(struct vt_line *line, const char *label, const struct vt_diff_device *d,
		       enum vt_diff_part part)
{
	if (d->known[part])
		print_row(line, label, d->parts[part].before.bytes, d->parts[part].after.bytes);
}

static void print_reserved(struct vt_line *line, const struct vt_diff_device *d)
{
	uint64_t before = 0, after = 0;

	for (int part = VT_DIFF_ALLOCATED; part <= VT_DIFF_CACHED; part++) {
		if (!d->known[part])
			return;
		before += d->parts[part].before.bytes;
		after += d->parts[part].after.bytes;
	}
	print_row(line, "reserved by PyTorch in all", before, after);
}

/* Of what is not PyTorch's, only what changed. */
static void print_lines(struct vt_line *line, const struct vt_diff_device *d)
{
	for (unsigned int i = 0; i < VT_N_DIFF_LINES; i++)
		if (i != VT_DIFF_LINE_KINDS + VT_RANGE_HOST && d->line_known[i] &&
		    vt_diff_bytes(&d->lines[i]))
			print_row(line, vt_diff_line_label(i), d->lines[i].before.bytes,
				  d->lines[i].after.bytes);
}

/* Of PyTorch's, or a change: a device that the process does not use is left out. */
static bool has_something(const struct vt_diff_device *d)
{
	for (int part = VT_DIFF_ALLOCATED; part <= VT_DIFF_CACHED; part++)
		if (d->known[part] && (d->parts[part].before.bytes || d->parts[part].after.bytes))
			return true;
	return d->known[VT_DIFF_FREE];
}

static void print_device(struct vt_line *line, const struct vt_diff_device *d)
{
	char title[32];

	if (!has_something(d))
		return;
	snprintf(title, sizeof(title), "GPU %d", d->ordinal);
	print_title(line, title);
	print_part(line, "in use by PyTorch", d, VT_DIFF_ALLOCATED);
	if (d->parts[VT_DIFF_AWAITING].before.bytes || d->parts[VT_DIFF_AWAITING].after.bytes)
		print_part(line, "awaiting free", d, VT_DIFF_AWAITING);
	print_part(line, "cached by PyTorch", d, VT_DIFF_CACHED);
	print_reserved(line, d);
	print_lines(line, d);
	print_part(line, "free on the device", d, VT_DIFF_FREE);
}

static void print_pinned(struct vt_line *line, const struct vt_relieve_result *result)
{
	const struct vt_model_pinned *before = &result->before.pinned;
	const struct vt_model_pinned *after = &result->after.pinned;

	if (!before->sum_known || !after->sum_known)
		return;
	if (before->total.bytes == after->total.bytes &&
	    result->request.what != VT_RELIEF_TRIM_PINNED)
		return;
	print_title(line, "Pinned memory of the host");
	if (before->exact && after->exact)
		print_row(line, "kept by PyTorch for reuse", before->states[VT_BLOCK_CACHED].bytes,
			  after->states[VT_BLOCK_CACHED].bytes);
	print_row(line, "PyTorch's in all", before->total.bytes, after->total.bytes);
}

static void print_change(struct vt_line *line, const struct vt_relieve_result *result)
{
	struct vt_str text = { 0 };

	if (result->have_after) {
		for (size_t i = 0; i < result->diff.devices.n; i++)
			print_device(line, &result->diff.devices.data[i]);
		print_pinned(line, result);
		return;
	}
	if (!*result->no_after)
		return;
	vt_str_addf(&text, "What there is now is not known: %s", result->no_after);
	vt_line_pad(line, INDENT);
	wrap(line, VT_WARN, &text);
	vt_str_deinit(&text);
}

/* ---- what it cost ---- */

static void print_cost(struct vt_line *line, const struct vt_relieve_result *result)
{
	struct vt_str text = { 0 };
	char time[VT_NUM_MAX];

	vt_line_blank(line);
	if (result->answer.stage >= VT_RELIEF_RETURNED)
		vt_str_addf(&text, "The call took %s. ",
			    vt_format_ms(time, (double)result->answer.call_ns / 1e6));
	if (result->answer.asked_gpu)
		vt_str_addf(&text, "The work of the GPU had come to an end after %s. ",
			    vt_format_ms(time, (double)result->answer.gpu_wait_ns / 1e6));
	else if (result->request.what == VT_RELIEF_COLLECT_GARBAGE)
		vt_str_add(&text, "The GPU was not asked whether it hangs. ");
	if (result->have_after)
		vt_str_add(&text, "The program ran between the two looks: not every difference is "
				  "the call's. ");
	vt_str_addf(&text, "%s: %s.",
		    result->outcome == VT_RELIEVE_WOULD ? "What it would cost" : "What it costs",
		    vt_relieve_cost(result->request.what));
	vt_line_pad(line, INDENT);
	wrap(line, VT_DIM, &text);
	vt_str_deinit(&text);
}

struct vt_error *vt_relieve_write_text(const void *what, const struct vt_writer_options *options,
				       FILE *out)
{
	const struct vt_relieve_result *result = what;
	struct vt_line line;

	vt_line_init(&line, out, options);
	print_answer(&line, result);
	print_change(&line, result);
	if (result->outcome != VT_RELIEVE_REFUSED)
		print_cost(&line, result);
	print_remedy(&line, result);
	return vt_line_finish(&line);
}
