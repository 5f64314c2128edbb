/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch that is too large: memory ran out, and what one step saved for backward() is most of
 * what is in use. PyTorch counts errors, but an old one says nothing of now: so a request has
 * failed at this moment, or the program still handles (or keeps) the error.
 */
#include <stdlib.h>
#include <string.h>

#include "advise/internal.h"

#define MAX_SIZES 64

struct step {
	uint64_t activations; /* bytes */
	/* The first dimension of their tensors, with the bytes that have it. */
	struct {
		uint64_t rows, bytes;
	} sizes[MAX_SIZES];
	size_t n;
};

/* Of a graph; when the error has come out of the forward pass its traceback holds them. */
static bool is_activation(const struct vt_model_owner *owner)
{
	return owner->category == VT_CATEGORY_ACTIVATION ||
	       (owner->category == VT_CATEGORY_EXCEPTION &&
		(owner->has_grad_fn == 1 || !strncmp(owner->name, "saved by ", 9)));
}

/* "(16080, 1024)"; a vector has no rows that are samples. */
static uint64_t rows_of(const struct vt_model_owner *owner)
{
	const char *shape = owner->shape;

	if (!shape || *shape != '(' || !strchr(shape, ' '))
		return 0;
	return strtoull(shape + 1, NULL, 10);
}

static void add_rows(struct step *step, uint64_t rows, uint64_t bytes)
{
	size_t i = 0;

	while (i < step->n && step->sizes[i].rows != rows)
		i++;
	if (!rows || i == MAX_SIZES)
		return;
	step->n += i == step->n;
	step->sizes[i].rows = rows;
	step->sizes[i].bytes += bytes;
}

static struct step look_at(const struct vt_model *model, const struct vt_model_allocator *allocator)
{
	struct step step = { 0 };

	for (size_t i = 0; i < model->owners.items.n; i++) {
		const struct vt_model_owner *owner = &model->owners.items.data[i];

		if (owner->block < allocator->first_block ||
		    owner->block >= allocator->first_block + allocator->n_blocks ||
		    !is_activation(owner))
			continue;
		step.activations += model->blocks[owner->block].size;
		add_rows(&step, rows_of(owner), model->blocks[owner->block].size);
	}
	return step;
}

/* The first dimension that most of it has; 0: there is none. */
static uint64_t rows_of_most(const struct step *step)
{
	for (size_t i = 0; i < step->n; i++)
		if (step->sizes[i].bytes > step->activations / 2)
			return step->sizes[i].rows;
	return 0;
}

/*
 * By proportion, of what the step had when it failed and what it asked for. It would have asked for
 * more: so at most as many fit.
 */
static uint64_t fitting_rows(const struct vt_model *model,
			     const struct vt_model_allocator *allocator, const struct step *step,
			     uint64_t rows)
{
	const struct vt_model_caught *c = &model->caught;
	double room = (double)step->activations + (double)allocator->cached_bytes +
		      (double)c->oom->free_bytes;

	return (uint64_t)((double)rows * room /
			  ((double)step->activations + (double)c->needed_bytes));
}

static void advise_batch(struct vt_advise *a, const struct vt_model_allocator *allocator)
{
	const struct vt_model *model = a->model;
	struct step step;
	struct vt_model_advice *advice;
	uint64_t rows, fitting;

	if (!allocator->exact || !vt_advise_fails_now(model, allocator->device))
		return;
	step = look_at(model, allocator);
	if (!step.activations || step.activations < allocator->allocated_bytes / 2)
		return;
	rows = rows_of_most(&step);
	advice = vt_advise_add(a, allocator->device);
	vt_advise_number(advice, "activation_bytes", step.activations);
	vt_advise_number(advice, "used_bytes", allocator->allocated_bytes);
	if (rows)
		vt_advise_number(advice, "rows", rows);
	if (!model->caught.oom)
		return;
	vt_advise_number(advice, "needed_bytes", model->caught.needed_bytes);
	fitting = rows ? fitting_rows(model, allocator, &step, rows) : 0;
	if (fitting && fitting < rows)
		vt_advise_number(advice, "fitting_rows", fitting);
}

void vt_advise_batch(struct vt_advise *a)
{
	for (size_t i = 0; i < a->model->allocators.n; i++)
		advise_batch(a, &a->model->allocators.data[i]);
}
