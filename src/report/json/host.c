/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/host.h"

#include <stdio.h>

static void write_pinned(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_host *host = &model->host;

	vt_json_object(json, "pinned");
	vt_json_bool(json, "listed", host->pinned_listed);
	vt_json_uint(json, "bytes", host->pinned_bytes);
	if (model->pinned.sum_known)
		vt_json_uint(json, "pytorch_bytes", host->torch_bytes);
	else
		vt_json_null(json, "pytorch_bytes");
	if (host->torch_unused_known)
		vt_json_uint(json, "pytorch_cached_bytes", host->torch_unused_bytes);
	else
		vt_json_null(json, "pytorch_cached_bytes");
	vt_json_object_line(json, "libraries");
	for (unsigned int i = 0; i < VT_N_LIBPOOL_KINDS; i++)
		vt_json_uint(json, vt_libpool_kind_name(i), host->libpool_bytes[i]);
	vt_json_end_object(json);
	if (host->pinned_listed)
		vt_json_uint(json, "unattributed_bytes", host->unattributed_bytes);
	else
		vt_json_null(json, "unattributed_bytes");
	vt_json_end_object(json);
}

static void write_shared(struct vt_json *json, const struct vt_model_host *host)
{
	if (!host->shared_known) {
		vt_json_null(json, "shared");
		return;
	}
	vt_json_object(json, "shared");
	vt_json_bool(json, "whole", host->shared_whole);
	vt_json_bool(json, "by_mappings", host->shared_mapped);
	vt_json_uint(json, "bytes", vt_host_shared_bytes(host));
	for (unsigned int i = 0; i < VT_N_SHARED_KINDS; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_bytes", vt_shared_kind_name(i));
		vt_json_uint(json, key, host->shared_bytes[i]);
	}
	vt_json_uint(json, "files", host->shared_files);
	vt_json_uint(json, "child_processes", host->shared_processes);
	vt_json_end_object(json);
}

void vt_json_host(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_host *host = &model->host;

	vt_json_object(json, "host");
	write_pinned(json, model);
	write_shared(json, host);
	if (host->shm_known) {
		vt_json_object_line(json, "dev_shm");
		vt_json_uint(json, "total_bytes", host->shm_total_bytes);
		vt_json_uint(json, "used_bytes", host->shm_used_bytes);
		vt_json_end_object(json);
	} else {
		vt_json_null(json, "dev_shm");
	}
	vt_json_end_object(json);
}
