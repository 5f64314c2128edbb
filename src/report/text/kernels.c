/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on the devices, as the CUDA debugger told: a line for each kernel. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "model/cxxname.h"
#include "report/text/text.h"

#define MAX_SHOWN 8  /* kernels */
#define MAX_PLACES 3 /* of a kernel */
#define MAX_LINES 4
#define MAX_NAME 160

/* "net.cu:80", "+0xc0": from the begin of the kernel's code; "0x7f00". */
static void add_place(struct vt_str *text, const struct vt_model_kernel_place *place)
{
	if (place->file && place->line > 0)
		vt_str_addf(text, "%.*s:%d", MAX_NAME, vt_base_name(place->file), place->line);
	else if (place->have_offset)
		vt_str_addf(text, "+0x%" PRIx64, place->offset);
	else
		vt_str_addf(text, "0x%" PRIx64, place->pc);
}

static bool is_same_line(const struct vt_model_kernel_place *a,
			 const struct vt_model_kernel_place *b)
{
	return a->line > 0 && a->line == b->line && vt_same_text(a->file, b->file);
}

/* Instructions of one line count together: 0 threads if an earlier place has counted them. */
static uint64_t threads_of_line(const struct vt_model_kernel_place *places, size_t n, size_t i)
{
	uint64_t threads = places[i].threads;

	for (size_t j = 0; j < n; j++) {
		if (j == i || !is_same_line(&places[i], &places[j]))
			continue;
		if (j < i)
			return 0;
		threads += places[j].threads;
	}
	return threads;
}

/* ": 2,560 threads at spin.cu:5, 2,560 at spin.cu:8" */
static void add_places(const struct vt_line *line, struct vt_str *text,
		       const struct vt_model_kernels *kernels, const struct vt_model_kernel *k)
{
	const struct vt_model_kernel_place *places =
		k->n_places ? &kernels->places.data[k->first_place] : NULL;
	char number[VT_NUM_MAX];
	size_t shown = 0;

	for (size_t i = 0; i < k->n_places; i++) {
		uint64_t threads = threads_of_line(places, k->n_places, i);

		if (!threads)
			continue;
		if (shown == MAX_PLACES) {
			vt_str_add(text, line->ascii ? ", ..." : ", …");
			return;
		}
		vt_str_addf(text, "%s%s%s at ", shown ? ", " : ": ",
			    vt_format_count(number, threads),
			    shown        ? "" :
			    threads == 1 ? " thread" :
					   " threads");
		add_place(text, &places[i]);
		shown++;
	}
}

/*
 * "; made from /tmp/torchinductor_me/ab/cab.py:18", "; made from one of a.py:18, b.py:20": by
 * Triton's cache, which can have more than one of this name.
 */
static void add_sources(const struct vt_line *line, struct vt_str *text,
			const struct vt_model_kernel *k)
{
	bool others = k->more_sources || !k->sources_whole;

	if (!k->n_sources)
		return;
	vt_str_addf(text, "; by Triton's cache made from %s",
		    k->n_sources > 1 ? "one of " :
		    others           ? "maybe " :
				       "");
	for (size_t i = 0; i < k->n_sources; i++)
		vt_str_addf(text, "%s%.*s:%d", i ? ", " : "", MAX_NAME, k->sources[i].file,
			    k->sources[i].line);
	if (k->n_sources > 1 && others)
		vt_str_add(text, line->ascii ? ", ..." : ", …");
}

static void print_kernel(struct vt_line *line, const struct vt_model_kernels *kernels,
			 const struct vt_model_kernel *k)
{
	struct vt_str text = { 0 }, name = { 0 };
	char number[VT_NUM_MAX];
	int column;

	vt_cxx_short_name(&name, k->name, strlen(k->name), line->ascii ? "..." : "…");
	vt_str_addf(&text, "%.*s", MAX_NAME, vt_str_get(&name));
	vt_kernel_add_shape(&text, k->grid_dim, k->block_dim);
	if (k->sms)
		vt_str_addf(&text, " on %s SM%s", vt_format_count(number, k->sms),
			    k->sms == 1 ? "" : "s");
	if (k->status && strcmp(k->status, "Active") != 0)
		vt_str_addf(&text, " (%.32s)", k->status);
	add_places(line, &text, kernels, k);
	add_sources(line, &text, k);
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "GPU %d", k->device);
	vt_line_pad(line, line->width + 2);
	column = line->want;
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), column + 2, MAX_LINES);
	line->buf.failed |= text.failed || name.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&name);
}

static void print_words(struct vt_line *line, enum vt_style style, const char *text)
{
	vt_line_pad(line, 2);
	vt_line_wrap(line, style, text, 4, 2);
}

void vt_text_kernels(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_kernels *kernels = &model->kernels;
	char hint[128], number[VT_NUM_MAX];
	size_t more = kernels->more;

	/* Where there is no answer a note says why. */
	if (kernels->state != VT_KERNELS_TOLD && kernels->state != VT_KERNELS_NONE)
		return;
	/* None: a debugger has the process anyway. */
	if (kernels->debugger)
		snprintf(hint, sizeof(hint), "%.64s held the process for %s",
			 vt_base_name(kernels->debugger), vt_format_ms(number, kernels->took_ms));
	vt_text_title(line, kernels->debugger ? hint : NULL, "What runs on the GPU");
	if (kernels->state == VT_KERNELS_NONE)
		print_words(line, VT_PLAIN, "No kernel of this process ran at that moment.");
	else if (vt_model_has_lost_context(model))
		print_words(line, VT_PLAIN,
			    "The context is lost: these are where the device stopped.");
	for (size_t i = 0; i < kernels->raised.n; i++)
		print_words(line, VT_ALARM, kernels->raised.data[i]);
	for (size_t i = 0; i < kernels->kernels.n; i++) {
		if (i < MAX_SHOWN)
			print_kernel(line, kernels, &kernels->kernels.data[i]);
		else
			more++;
	}
	if (more) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%s more in the JSON report",
			     vt_format_count(number, more));
		vt_line_end(line);
	}
}
