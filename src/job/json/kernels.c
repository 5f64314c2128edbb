/* SPDX-License-Identifier: Apache-2.0 */
#include "job/json/parts.h"

static void put_dim(struct vt_json *json, const char *key, const uint32_t dim[3])
{
	if (dim[0])
		vt_json_uints(json, key, dim, 3);
}

static void put_kernel(struct vt_json *json, const struct vt_job_kernel *k)
{
	vt_json_object_line(json, NULL);
	vt_json_text(json, "name", k->name);
	vt_json_int(json, "device", k->device);
	vt_json_uint(json, "sms", k->sms);
	put_dim(json, "grid_dim", k->grid_dim);
	put_dim(json, "block_dim", k->block_dim);
	if (k->file) {
		vt_json_text(json, "file", k->file);
		vt_json_int(json, "line", k->line);
	}
	vt_json_end_object(json);
}

void vt_job_put_kernels(struct vt_json *json, const struct vt_job_kernels *kernels)
{
	if (kernels->state == VT_KERNELS_NOT_ASKED)
		return;
	vt_json_object(json, "kernels");
	vt_json_text(json, "state", vt_kernels_state_name(kernels->state));
	if (kernels->why)
		vt_json_text(json, "why", kernels->why);
	vt_json_milli(json, "took_ms", kernels->took_ms);
	vt_json_array(json, "kernels");
	for (size_t i = 0; i < kernels->list.n; i++)
		put_kernel(json, &kernels->list.data[i]);
	vt_json_end_array(json);
	vt_json_uint(json, "more", kernels->more);
	vt_json_array_line(json, "exceptions");
	for (size_t i = 0; i < kernels->raised.n; i++)
		vt_json_text(json, NULL, kernels->raised.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
