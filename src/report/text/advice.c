/* SPDX-License-Identifier: Apache-2.0 */
/* What to do about it, and what to do next. */
#include "report/advice_words.h"
#include "report/text/text.h"

#define MAX_SHOWN 5
#define INDENT 5
#define MAX_LINES 4

static void wrap(struct vt_line *line, enum vt_style style, struct vt_str *text)
{
	line->buf.failed |= text->failed;
	if (text->n > 0) {
		vt_line_pad(line, INDENT);
		vt_line_wrap(line, style, vt_str_get(text), INDENT, MAX_LINES);
	}
	vt_str_deinit(text);
}

static void print_advice(struct vt_line *line, const struct vt_model_advice *advice, size_t number)
{
	struct vt_str verdict = { 0 }, evidence = { 0 }, remedy = { 0 };

	vt_advice_verdict(&verdict, advice);
	vt_str_addf(&verdict, " (%s)", vt_certainty_name(advice->certainty));
	vt_advice_evidence(&evidence, advice);
	vt_advice_remedy(&remedy, advice);
	vt_line_add(line, VT_ALARM, advice->alarm ? "!" : "");
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "%zu.", number);
	wrap(line, advice->alarm ? VT_ALARM : VT_PLAIN, &verdict);
	wrap(line, VT_DIM, &evidence);
	wrap(line, VT_BOLD, &remedy);
}

/*
 * A command is never cut: a part of one may do something else. In gdb, which holds the process, its
 * own commands come next.
 */
void vt_text_next(struct vt_line *line, const struct vt_model *model)
{
	if (line->hints->frames)
		return;
	for (size_t i = 0; i < model->advice.next.n; i++) {
		const struct vt_model_next *next = &model->advice.next.data[i];
		struct vt_str text = { 0 }, purpose = { 0 };

		vt_str_add(&text, next->command ? next->command : next->setting);
		vt_next_purpose(&purpose, next);
		if (purpose.n > 0)
			vt_str_addf(&text, "   (%s)", vt_str_get(&purpose));
		line->buf.failed |= text.failed || purpose.failed;
		vt_line_add(line, VT_BOLD, i ? "" : "Next:");
		vt_line_pad(line, 6);
		vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 6, INT32_MAX);
		vt_str_deinit(&text);
		vt_str_deinit(&purpose);
	}
}

void vt_text_advice_stuck(struct vt_line *line, const struct vt_model *model)
{
	for (size_t i = 0; i < model->advice.items.n; i++) {
		if (model->advice.items.data[i].rule != VT_ADVICE_STUCK)
			continue;
		vt_text_title(line, NULL, "What to do");
		print_advice(line, &model->advice.items.data[i], i + 1);
		vt_line_blank(line);
		vt_text_next(line, model);
		return;
	}
}

void vt_text_advice(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_advices *advice = &model->advice;

	if (!advice->items.n)
		return;
	vt_text_title(line, NULL, "What to do");
	for (size_t i = 0; i < advice->items.n && i < MAX_SHOWN; i++)
		print_advice(line, &advice->items.data[i], i + 1);
	if (advice->items.n > MAX_SHOWN) {
		vt_line_pad(line, INDENT);
		vt_line_addf(line, VT_DIM, "… %zu more in the JSON report",
			     advice->items.n - MAX_SHOWN);
		vt_line_end(line);
	}
}
