/* SPDX-License-Identifier: Apache-2.0 */
/* What all stages of a report use: strings, diagnostics, the moment, the interpreter. */
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "walk/python/python.h"

const char *vt_collect_copy(struct vt_collect *c, const char *text, size_t size)
{
	const char *dup = vt_arena_strndup(&c->model->arena, text, strnlen(text, size));

	return dup ? dup : "";
}

void vt_collect_diag_error(struct vt_collect *c, enum vt_diag_level level, enum vt_stage stage,
			   const char *what, struct vt_error *err)
{
	vt_model_diag(c->model, level, stage, vt_error_code_name(err->code), "%s: %s", what,
		      err->message);
	vt_error_destroy(err);
}

void vt_collect_moment_begins(struct vt_collect *c)
{
	if (c->moment != VT_MOMENT_TO_COME)
		return;
	c->moment = VT_MOMENT_BEGUN;
	if (c->options->moment)
		c->options->moment->begins(c->options->moment->arg, c->model);
}

void vt_collect_moment_is_read(struct vt_collect *c)
{
	vt_collect_moment_begins(c);
	if (c->moment == VT_MOMENT_READ)
		return;
	c->moment = VT_MOMENT_READ;
	if (c->options->moment)
		c->options->moment->is_read(c->options->moment->arg, c->model);
}

struct vt_python *vt_collect_python(struct vt_collect *c)
{
	struct vt_error *err;

	if (c->python)
		return c->have_python ? c->python : NULL;
	c->python = calloc(1, sizeof(*c->python));
	if (!c->python)
		return NULL;
	err = c->target.origin->find_python(&c->target, c->python);
	c->have_python = !err;
	/* The stage of threads reports that Python cannot be read. */
	vt_error_destroy(err);
	return c->have_python ? c->python : NULL;
}

void vt_collect_python_deinit(struct vt_collect *c)
{
	if (c->python)
		vt_python_deinit(c->python);
	free(c->python);
}
