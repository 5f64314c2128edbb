/* SPDX-License-Identifier: Apache-2.0 */
/* Where JAX's arrays were made, as JAX told. */
#include "base/format.h"
#include "base/str.h"
#include "model/jax.h"
#include "report/text/text.h"

#define MAX_SITES 10  /* in the short view */
#define MAX_CALLERS 4 /* named after a place */

enum { BYTES = 10, COUNT = 9, DEVICE = 10, PLACE = 44, FUNCTION = 40 };

static void add_frame(const struct vt_line *line, struct vt_str *text,
		      const struct vt_model_frame *f)
{
	if (text->n)
		vt_str_add(text, line->ascii ? " <- " : " ← ");
	vt_text_frame_label(line, text, f);
}

/* "make net.py:20 ← main train.py:80" */
static void add_place(const struct vt_line *line, struct vt_str *text,
		      const struct vt_model_jax_site *site)
{
	size_t n = 0;

	if (site->title == site->n_frames && site->n_frames)
		add_frame(line, text, &site->frames[0]);
	for (size_t i = site->title; i < site->n_frames; i++) {
		if (!vt_model_is_program(&site->frames[i]))
			continue;
		if (n++ > MAX_CALLERS) {
			vt_str_add(text, line->ascii ? " ..." : " …");
			break;
		}
		add_frame(line, text, &site->frames[i]);
	}
	if (!text->n)
		vt_str_add(text, "by no Python code");
}

static void print_site(struct vt_line *line, const struct vt_model_jax_site *site)
{
	struct vt_str place = { 0 };
	char number[VT_NUM_MAX];

	add_place(line, &place, site);
	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, site->bytes), BYTES);
	vt_line_right(line, VT_PLAIN, vt_format_count(number, site->count), COUNT);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_PLAIN, site->is_program ? "program" : site->device, DEVICE,
		     VT_CUT_END);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&place), line->want, 2);
	if (place.failed)
		line->buf.failed = true;
	vt_str_deinit(&place);
}

static void print_frames(struct vt_line *line, const struct vt_model_jax_site *site)
{
	for (size_t i = 0; i < site->n_frames; i++)
		vt_text_frame(line, &site->frames[i], FUNCTION);
}

static void print_rest(struct vt_line *line, const struct vt_model_jax *jax, size_t first)
{
	char number[VT_NUM_MAX], size[VT_NUM_MAX];
	uint64_t bytes = 0;

	for (size_t i = first; i < jax->sites.n; i++)
		bytes += jax->sites.data[i].bytes;
	if (!bytes && !jax->cut)
		return;
	vt_line_pad(line, 2);
	vt_line_right(line, VT_DIM, vt_format_size(size, bytes), BYTES);
	vt_line_pad(line, line->want + COUNT + 3);
	vt_line_addf(line, VT_DIM, "%s more place%s%s",
		     vt_format_count(number, jax->sites.n - first),
		     jax->sites.n - first == 1 ? "" : "s", jax->cut ? ", and more not read" : "");
	vt_line_end(line);
}

void vt_text_jax(struct vt_line *line, const struct vt_model *model, bool all)
{
	const struct vt_model_jax *jax = &model->jax;
	size_t n = all ? jax->sites.n : 0;

	if (!jax->told)
		return;
	vt_text_title(line, "size, how many; where", "Where JAX's arrays and programs were made");
	if (!jax->sites.n) {
		vt_line_pad(line, 2);
		vt_line_add(line, VT_DIM, "JAX has no arrays and no programs.");
		vt_line_end(line);
	}
	/* Programs of the CPU have no size. */
	while (n < jax->sites.n && n < MAX_SITES && jax->sites.data[n].bytes)
		n++;
	for (size_t i = 0; i < n; i++) {
		print_site(line, &jax->sites.data[i]);
		if (all)
			print_frames(line, &jax->sites.data[i]);
	}
	print_rest(line, jax, n);
}
