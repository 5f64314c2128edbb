/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper asks JAX for its memory profile: only with --ask-jax, and only if the GIL becomes free
 * (doc/SAFETY.md). It goes through JAX's lists of arrays, calls no driver and waits for no
 * computation.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "model/jax.h"
#include "walk/python/ask.h"

#define FIRST_ROOM ((uint64_t)1 << 20)
#define MAX_BYTES ((uint64_t)32 << 20) /* of all profiles: 100 bytes a place and a frame */

static struct vt_error *take(struct vt_collect *c, struct vt_helper *helper)
{
	const struct vt_helper_shared *shared = vt_helper_shared(helper);
	struct vt_ask_jax_answer answer = shared->jax;
	uint64_t at = answer.offset, end = vt_helper_size(helper);

	if (answer.n > VT_MAX_JAX_CLIENTS || at > end)
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	for (uint32_t i = 0; i < answer.n; i++) {
		VT_FREE uint8_t *copy = NULL; /* the target could change the original */

		if (answer.sizes[i] > end - at || answer.sizes[i] > MAX_BYTES)
			return vt_error_create(VT_ERR_FORMAT,
					       "the helper's answer is out of bounds");
		copy = malloc(answer.sizes[i] + 1);
		if (!copy)
			return &vt_enomem;
		memcpy(copy, (const char *)shared + at, answer.sizes[i]);
		at += answer.sizes[i];
		VT_TRY(vt_jax_profile(&c->model->jax, &c->model->arena, copy, answer.sizes[i]));
	}
	return NULL;
}

/* Their owners are found by object, with those of tensors. */
static struct vt_error *take_arrays(struct vt_collect *c, struct vt_helper *helper)
{
	const struct vt_helper_shared *shared = vt_helper_shared(helper);
	struct vt_ask_jax_answer answer = shared->jax;
	uint64_t at = answer.arrays_offset, end = vt_helper_size(helper);

	if (!answer.n_lists)
		return NULL;
	if (answer.n_lists > VT_MAX_JAX_CLIENTS || at > end)
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	for (uint32_t i = 0; i < answer.n_lists; i++) {
		if (answer.n_arrays[i] > (end - at) / sizeof(uint64_t))
			return vt_error_create(VT_ERR_FORMAT,
					       "the helper's answer is out of bounds");
		for (uint64_t k = 0; k < answer.n_arrays[i]; k++, at += sizeof(uint64_t)) {
			struct vt_jax_object *added = vt_vec_append(&c->jax_objects);

			if (!added)
				return &vt_enomem;
			memcpy(&added->object, (const char *)shared + at, sizeof(uint64_t));
			added->is_host = answer.host_mask >> i & 1;
		}
	}
	return NULL;
}

static struct vt_error *ask(struct vt_collect *c, struct vt_helper *helper, struct vt_python *py)
{
	static const char *const get_attribute = "PyObject_GetAttrString";
	struct vt_ask_jax_args args = { .max_bytes = MAX_BYTES };

	if (c->driver == VT_DRIVER_SILENT)
		return vt_error_create(VT_ERR_BUSY, "the driver did not answer");
	VT_TRY(vt_collect_prepare_python(c, py, &args.python));
	VT_TRY(vt_module_dynsyms(&c->target.modules, (struct vt_module *)py->module, &get_attribute,
				 1, &args.get_attribute));
	if (!args.get_attribute)
		return vt_error_create(VT_ERR_UNSUPPORTED, "the interpreter does not export %s",
				       get_attribute);
	VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + FIRST_ROOM));
	vt_helper_shared(helper)->args.ask_jax = args;
	VT_TRY(vt_collect_call_python(c, helper, VT_OP_ASK_JAX));
	VT_TRY(take_arrays(c, helper));
	return take(c, helper);
}

void vt_collect_ask_jax(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_model_timing *timing = &c->model->timing;
	struct vt_python py = { 0 };
	double held_ms = timing->gil_held_ms;
	struct vt_error *err = ask(c, helper, &py);

	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_LIBPOOLS,
				      err->code == VT_ERR_TIMEOUT ?
					      "JAX did not tell where its arrays were made" :
					      "JAX was not asked where its arrays were made",
				      err);
	else if (!vt_helper_shared(helper)->jax.is_there)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_LIBPOOLS, "no-jax",
			"this process has no JAX that could be asked where its arrays were made");
	else
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_LIBPOOLS, "asked-jax",
			"JAX was asked where its arrays were made, through the process's Python interpreter; that "
			"held the GIL for %.1f ms",
			timing->gil_held_ms - held_ms);
	vt_jax_finish(&c->model->jax);
	vt_python_deinit(&py);
	vt_live_drop_cache(c->target.live); /* the stacks are read later, and want today's */
}
