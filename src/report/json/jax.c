/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/jax.h"

static void write_frame(struct vt_json *json, const struct vt_model_frame *f)
{
	vt_json_object_line(json, NULL);
	vt_json_name(json, "function", f->function);
	vt_json_name(json, "file", f->file);
	if (f->line > 0)
		vt_json_int(json, "line", f->line);
	else
		vt_json_null(json, "line");
	vt_json_end_object(json);
}

static void write_site(struct vt_json *json, const struct vt_model_jax_site *site)
{
	vt_json_object(json, NULL);
	vt_json_uint(json, "bytes", site->bytes);
	vt_json_uint(json, "count", site->count);
	vt_json_text(json, "kind", site->is_program ? "program" : "array");
	if (*site->device)
		vt_json_text(json, "device", site->device);
	else
		vt_json_null(json, "device");
	if (site->title < site->n_frames)
		vt_json_uint(json, "title", site->title);
	else
		vt_json_null(json, "title");
	vt_json_array(json, "frames");
	for (size_t i = 0; i < site->n_frames; i++)
		write_frame(json, &site->frames[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

void vt_json_jax(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_jax *jax = &model->jax;

	if (!jax->told) {
		vt_json_null(json, "jax");
		return;
	}
	vt_json_object(json, "jax");
	vt_json_bool(json, "cut", jax->cut);
	vt_json_array(json, "sites");
	for (size_t i = 0; i < jax->sites.n; i++)
		write_site(json, &jax->sites.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
