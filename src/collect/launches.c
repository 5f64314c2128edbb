/* SPDX-License-Identifier: Apache-2.0 */
/* Names of what was launched: by symbols of the process, and demangled. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/collect.h"
#include "collect/launches.h"
#include "walk/native/demangle.h"
#include "walk/native/native.h"

#define STUB_PREFIX "__device_stub_"

/*
 * The function that stands for a kernel in host code has the kernel's name (nvcc gives static ones
 * a prefix). Only the function's own address counts: behind it, it is another one without a symbol.
 */
static const char *name_of_stub(struct vt_arena *arena, const struct vt_native_frame *frame)
{
	size_t skip = sizeof(STUB_PREFIX) - 1;
	const char *symbol = frame->symbol;

	if (!symbol || frame->function_offset)
		return NULL;
	if (!strncmp(symbol, STUB_PREFIX, skip)) {
		symbol += skip;
		symbol += strspn(symbol, "_") ? strspn(symbol, "_") - 1 : 0;
	}
	return vt_demangle_whole(arena, symbol, strlen(symbol));
}

static struct vt_model_launch *next(struct vt_model *model, size_t *stream, size_t *i)
{
	for (; *stream < model->launches.streams.n; ++*stream, *i = 0)
		if (*i < model->launches.streams.data[*stream].n)
			return &model->launches.streams.data[*stream].launches[(*i)++];
	return NULL;
}

/* Each address once: a program launches few kernels often. */
static bool list_addresses(struct vt_model *model, struct vt_native_stack *addresses,
			   struct vt_map *index_of)
{
	struct vt_model_launch *launch;
	size_t stream = 0, i = 0;

	while ((launch = next(model, &stream, &i))) {
		struct vt_native_frame *frame;

		if (!launch->by_address || vt_map_get(index_of, launch->what))
			continue;
		frame = vt_vec_append(&addresses->frames);
		if (!frame || !vt_map_put(index_of, launch->what, addresses->frames.n - 1))
			return false;
		*frame = (struct vt_native_frame){ .pc = launch->what, .activation = true };
	}
	return true;
}

static bool demangle_names(struct vt_model *model, struct vt_map *known)
{
	struct vt_model_launch *launch;
	size_t stream = 0, i = 0;

	while ((launch = next(model, &stream, &i))) {
		const uint64_t *name;

		if (launch->by_address || !launch->name)
			continue;
		name = vt_map_get(known, (uint64_t)(uintptr_t)launch->name);
		if (!name) {
			const char *text = vt_demangle_whole(&model->arena, launch->name,
							     strlen(launch->name));

			if (!text || !vt_map_put(known, (uint64_t)(uintptr_t)launch->name,
						 (uint64_t)(uintptr_t)text))
				return false;
			launch->name = text;
		} else {
			launch->name = (const char *)(uintptr_t)*name;
		}
	}
	return true;
}

static bool put_names(struct vt_model *model, const struct vt_native_stack *addresses,
		      const struct vt_map *index_of)
{
	VT_FREE const char **names = calloc(addresses->frames.n + 1, sizeof(*names));
	struct vt_model_launch *launch;
	size_t stream = 0, i = 0;

	if (!names)
		return false;
	for (size_t k = 0; k < addresses->frames.n; k++)
		names[k] = name_of_stub(&model->arena, &addresses->frames.data[k]);
	while ((launch = next(model, &stream, &i))) {
		const uint64_t *index = launch->by_address ? vt_map_get(index_of, launch->what) :
							     NULL;

		if (index)
			launch->name = names[*index];
	}
	return true;
}

void vt_collect_name_launches(struct vt_collect *c)
{
	struct vt_native_stack addresses = { 0 };
	struct vt_map index_of = { 0 }, known = { 0 };
	struct vt_error *err = NULL;

	if (!demangle_names(c->model, &known) || !list_addresses(c->model, &addresses, &index_of))
		err = &vt_enomem;
	if (!err && addresses.frames.n)
		err = vt_native_symbolise(&c->target.modules, &addresses, 1, &c->model->arena);
	if (!err && !put_names(c->model, &addresses, &index_of))
		err = &vt_enomem;
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_RECORDER,
				      "names of launched kernels are missing", err);
	vt_native_stack_deinit(&addresses);
	vt_map_deinit(&index_of);
	vt_map_deinit(&known);
}
