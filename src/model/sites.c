/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks were allocated. Recorded backtraces that share the innermost frame of the program
 * itself become one site. The sites and the blocks without a backtrace add up to what is allocated;
 * otherwise there are no sites.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "model/account.h"
#include "model/place.h"

static bool contains_any(const char *text, const char *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(text, parts[i]))
			return true;
	return false;
}

#define CONTAINS_ANY(text, parts) contains_any(text, parts, sizeof(parts) / sizeof((parts)[0]))

/*
 * Python code from PyTorch, JAX, the standard library or a compiler: it carried out a request, but
 * did not make it. A model library tells more than the script that runs it, so other packages count
 * as the program.
 */
static bool is_framework(const struct vt_model_frame *f)
{
	static const char *const torch[] = {
		"-packages/torch/",  "/torch/nn/",
		"/torch/optim/",     "/torch/autograd/",
		"/torch/utils/",     "/torch/cuda/",
		"/torch/_",          "/torch/distributed/",
		"/torch/fx/",        "/torch/functional.py",
		"torchinductor_",    "<eval_with_key>",
		"<frozen ",          "-packages/jax/",
		"-packages/jaxlib/", "/jax/_src/",
	};

	if (!f->file)
		return false;
	return CONTAINS_ANY(f->file, torch) ||
	       (strstr(f->file, "/lib/python3") && !strstr(f->file, "-packages/"));
}

bool vt_model_is_program(const struct vt_model_frame *frame)
{
	return frame->kind == VT_FRAME_PYTHON && !is_framework(frame);
}

/*
 * Without a Python frame, the title is the innermost frame of the best rank; among operators, the
 * outermost, because the program called it.
 */
enum rank { OWN_LIBRARY, BACKWARD, OPERATOR, OTHER, ALLOCATION };

/* C++ that every allocation goes through. */
static bool is_allocation(const struct vt_model_frame *f)
{
	static const char *const names[] = {
		"_Unwind_",
		"__cxa_",
		"torch::unwind::",
		"torch::CapturedTraceback",
		"torch::cuda::",
		"c10::",
		"at::detail::empty_",
		"at::native::empty_",
		"at::_ops::empty",
		"at::empty",
		"at::(anonymous namespace)::empty",
		"at::(anonymous namespace)::wrapper",
	};

	return !f->function || !*f->function || (f->module && !strncmp(f->module, "libc10", 6)) ||
	       CONTAINS_ANY(f->function, names);
}

static enum rank rank_of(const struct vt_model_frame *f)
{
	size_t n = f->function ? strlen(f->function) : 0;

	if (vt_model_is_telling(f))
		return OWN_LIBRARY;
	if (n && strstr(f->function, "torch::autograd::generated::") && n > 7 &&
	    !strcmp(f->function + n - 7, "::apply"))
		return BACKWARD;
	if (n && strstr(f->function, "at::_ops::") && n > 6 &&
	    !strcmp(f->function + n - 6, "::call"))
		return OPERATOR;
	return is_allocation(f) ? ALLOCATION : OTHER;
}

static size_t find_native_title(const struct vt_model *model, const struct vt_model_trace *t)
{
	enum rank best = ALLOCATION;
	size_t title = 0;

	for (size_t i = 0; i < t->n_frames; i++) {
		enum rank rank = rank_of(&model->trace_frames[t->frames[i]]);

		if (rank < best || (rank == best && rank == OPERATOR)) {
			best = rank;
			title = i;
		}
	}
	return title; /* of no frames: one after the last */
}

static size_t find_title(const struct vt_model *model, const struct vt_model_trace *t)
{
	size_t python = t->n_frames;

	for (size_t i = 0; i < t->n_frames; i++) {
		const struct vt_model_frame *f = &model->trace_frames[t->frames[i]];

		if (vt_model_is_program(f))
			return i;
		if (f->kind == VT_FRAME_PYTHON && python == t->n_frames)
			python = i;
	}
	return python < t->n_frames ? python : find_native_title(model, t);
}

/* ---- totals ---- */

static bool check_frames(const struct vt_model *model)
{
	for (size_t i = 0; i < model->traces.n; i++)
		for (size_t k = 0; k < model->traces.data[i].n_frames; k++)
			if (model->traces.data[i].frames[k] >= model->n_trace_frames)
				return false;
	return true;
}

/* False when a block has a trace that does not exist. */
static bool sum_allocator(struct vt_model *model, const struct vt_model_allocator *a)
{
	for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++) {
		const struct vt_block_rec *b = &model->blocks[i];
		uint32_t trace = model->block_traces[i];

		if (b->state != VT_BLOCK_ALLOCATED)
			continue;
		if (VT_IS_UNTRACED(trace)) {
			model->untraced[UINT32_MAX - trace].bytes += b->size;
			model->untraced[UINT32_MAX - trace].blocks++;
			continue;
		}
		if (trace >= model->traces.n)
			return false;

		struct vt_model_trace *t = &model->traces.data[trace];
		const struct vt_model_record *record = vt_model_block_record(model, i);

		t->bytes += b->size;
		t->blocks++;
		if (record)
			vt_add_age(&t->ages, record->age_ns);
		t->largest = b->size > t->largest ? b->size : t->largest;
	}
	return true;
}

static bool add_up(const struct vt_model *model)
{
	uint64_t bytes = 0, blocks = 0;

	for (size_t i = 0; i < model->allocators.n; i++) {
		bytes -= model->allocators.data[i].allocated_bytes;
		blocks -= model->allocators.data[i].allocated_blocks;
	}
	for (size_t i = 0; i < VT_N_UNTRACED; i++) {
		bytes += model->untraced[i].bytes;
		blocks += model->untraced[i].blocks;
	}
	for (size_t i = 0; i < model->sites.n; i++) {
		bytes += model->sites.data[i].bytes;
		blocks += model->sites.data[i].blocks;
	}
	return bytes == 0 && blocks == 0;
}

/* ---- sites ---- */

static const struct vt_model_frame *title_of(const struct vt_model *model,
					     const struct vt_model_trace *t)
{
	return t->title < t->n_frames ? &model->trace_frames[t->frames[t->title]] : NULL;
}

const struct vt_model_frame *vt_model_trace_title(const struct vt_model *model, uint32_t trace)
{
	const struct vt_model_trace *t = trace < model->traces.n ? &model->traces.data[trace] :
								   NULL;

	return t && t->title < t->n_frames && t->frames[t->title] < model->n_trace_frames ?
		       &model->trace_frames[t->frames[t->title]] :
		       NULL;
}

/* Finds the site of a title, or makes it. Linear probing among sites with the same hash. */
static struct vt_model_site *site_of(struct vt_model *model, struct vt_map *index,
				     const struct vt_model_frame *title)
{
	struct vt_model_site *added;
	uint64_t hash = vt_place_hash(title);
	const uint64_t *known;

	for (; (known = vt_map_get(index, hash)) != NULL; hash++)
		if (vt_place_equal(model->sites.data[*known].title, title))
			return &model->sites.data[*known];
	added = vt_vec_append(&model->sites);
	if (!added || !vt_map_put(index, hash, model->sites.n - 1))
		return NULL;
	*added = (struct vt_model_site){ .title = title,
					 .first_trace = VT_NO_TRACE,
					 .ages = VT_NO_AGES };
	return added;
}

#define COMPARE(x, y)                              \
	do {                                       \
		if ((x) != (y))                    \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* Indices of traces, the smallest first: each is put before those that are already in its site. */
static int compare_traces(const void *pa, const void *pb, void *data)
{
	const struct vt_model *model = data;
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	COMPARE(model->traces.data[a].bytes, model->traces.data[b].bytes);
	COMPARE(b, a);
	return 0;
}

static int compare_sites(const void *pa, const void *pb)
{
	const struct vt_model_site *a = pa, *b = pb;

	COMPARE(b->bytes, a->bytes);
	COMPARE(b->blocks, a->blocks);
	COMPARE(a->first_trace, b->first_trace);
	return 0;
}

static bool make_sites(struct vt_model *model)
{
	VT_FREE uint32_t *order = malloc((model->traces.n + 1) * sizeof(*order));
	struct vt_map index = { 0 };
	size_t n = 0;
	bool ok = order;

	for (uint32_t i = 0; ok && i < model->traces.n; i++)
		if (model->traces.data[i].blocks)
			order[n++] = i;
	if (n > 1)
		qsort_r(order, n, sizeof(*order), compare_traces, model);
	for (size_t i = 0; ok && i < n; i++) {
		struct vt_model_trace *t = &model->traces.data[order[i]];
		struct vt_model_site *site = site_of(model, &index, title_of(model, t));

		ok = site;
		if (!ok)
			break;
		t->next_in_site = site->first_trace;
		site->first_trace = order[i];
		site->n_traces++;
		site->bytes += t->bytes;
		site->blocks += t->blocks;
		site->largest = t->largest > site->largest ? t->largest : site->largest;
		vt_add_ages(&site->ages, &t->ages);
	}
	vt_map_deinit(&index);
	if (!ok)
		return false;
	if (model->sites.n > 1)
		qsort(model->sites.data, model->sites.n, sizeof(*model->sites.data), compare_sites);
	for (size_t i = 0; i < model->sites.n; i++)
		for (size_t t = model->sites.data[i].first_trace; t != VT_NO_TRACE;
		     t = model->traces.data[t].next_in_site)
			model->traces.data[t].site = i;
	return true;
}

/* Half of the sites would be wrong numbers. */
static void forget_sites(struct vt_model *model)
{
	model->block_traces = model->segment_traces = NULL;
	model->driver_blocks.n = model->ooms.n = 0; /* they have traces, too */
	for (size_t i = 0; i < model->launches.streams.n; i++)
		for (size_t k = 0; k < model->launches.streams.data[i].n; k++)
			model->launches.streams.data[i].launches[k].trace =
				VT_UNTRACED(VT_UNTRACED_UNREADABLE);
	model->traces.n = model->segment_only.n = model->sites.n = 0;
	memset(model->untraced, 0, sizeof(model->untraced));
}

bool vt_find_sites(struct vt_model *model)
{
	bool ok = true;

	if (!model->block_traces)
		return true;
	if (!check_frames(model)) {
		forget_sites(model);
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "does-not-add-up",
			      "recorded backtraces are missing: one has frames that do not exist");
		return true;
	}
	for (size_t i = 0; i < model->traces.n; i++) {
		struct vt_model_trace *t = &model->traces.data[i];

		t->bytes = t->blocks = t->largest = 0;
		t->ages = VT_NO_AGES;
		t->title = find_title(model, t);
		t->site = VT_NO_SITE;
		t->next_in_site = VT_NO_TRACE;
	}
	for (size_t i = 0; ok && i < model->allocators.n; i++)
		ok = !model->allocators.data[i].exact ||
		     sum_allocator(model, &model->allocators.data[i]);
	if (ok && !make_sites(model)) {
		forget_sites(model);
		return false;
	}
	if (!ok || !add_up(model)) {
		forget_sites(model);
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_TORCH, "does-not-add-up",
			"recorded backtraces are missing: their blocks do not add up to what is allocated");
	}
	return true;
}
