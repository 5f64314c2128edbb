/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/kernels.h"

static void write_dim(struct vt_json *json, const char *key, const uint32_t dim[3])
{
	if (dim[0])
		vt_json_uints(json, key, dim, 3);
	else
		vt_json_null(json, key);
}

static void write_place(struct vt_json *json, const struct vt_model_kernel_place *place)
{
	vt_json_object_line(json, NULL);
	vt_json_uint(json, "threads", place->threads);
	vt_json_hex(json, "pc", place->pc);
	if (place->have_offset)
		vt_json_uint(json, "offset", place->offset);
	else
		vt_json_null(json, "offset");
	vt_json_name(json, "file", place->file);
	if (place->line > 0)
		vt_json_int(json, "line", place->line);
	else
		vt_json_null(json, "line");
	vt_json_end_object(json);
}

/* Nothing where there are none. */
static void write_sources(struct vt_json *json, const struct vt_model_kernel *k)
{
	if (!k->n_sources)
		return;
	vt_json_array(json, "sources");
	for (size_t i = 0; i < k->n_sources; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "file", k->sources[i].file);
		vt_json_int(json, "line", k->sources[i].line);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_bool(json, "sources_whole", k->sources_whole && !k->more_sources);
}

static void write_kernel(struct vt_json *json, const struct vt_model_kernels *kernels,
			 const struct vt_model_kernel *k)
{
	vt_json_object(json, NULL);
	vt_json_uint(json, "number", k->number);
	vt_json_known(json, "parent", k->parent);
	vt_json_int(json, "device", k->device);
	vt_json_int(json, "grid", k->grid);
	vt_json_name(json, "status", k->status);
	vt_json_uint(json, "sms", k->sms);
	write_dim(json, "grid_dim", k->grid_dim);
	write_dim(json, "block_dim", k->block_dim);
	vt_json_name(json, "name", k->name);
	if (k->threads)
		vt_json_uint(json, "threads", k->threads);
	else
		vt_json_null(json, "threads");
	vt_json_array(json, "places");
	for (size_t i = 0; i < k->n_places; i++)
		write_place(json, &kernels->places.data[k->first_place + i]);
	vt_json_end_array(json);
	vt_json_uint(json, "more_places", k->more_places);
	write_sources(json, k);
	vt_json_end_object(json);
}

void vt_json_kernels(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_kernels *kernels = &model->kernels;

	if (kernels->state == VT_KERNELS_NOT_ASKED) {
		vt_json_null(json, "kernels");
		return;
	}
	vt_json_object(json, "kernels");
	vt_json_text(json, "state", vt_kernels_state_name(kernels->state));
	vt_json_name(json, "why", kernels->why);
	vt_json_name(json, "debugger", kernels->debugger);
	vt_json_milli(json, "took_ms", kernels->took_ms);
	vt_json_array(json, "kernels");
	for (size_t i = 0; i < kernels->kernels.n; i++)
		write_kernel(json, kernels, &kernels->kernels.data[i]);
	vt_json_end_array(json);
	vt_json_uint(json, "more", kernels->more);
	vt_json_array_line(json, "exceptions");
	for (size_t i = 0; i < kernels->raised.n; i++)
		vt_json_text(json, NULL, kernels->raised.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
