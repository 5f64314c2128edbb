/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host: what makes a worker, or all of the process, end without a word. */
#include <inttypes.h>

#include "advise/internal.h"

#define GIB (UINT64_C(1) << 30)

/* A worker of DataLoader that writes the next batch there gets SIGBUS. */
void vt_advise_shm_full(struct vt_advise *a)
{
	const struct vt_model_host *host = &a->model->host;
	struct vt_model_advice *advice;

	if (!vt_host_shm_is_full(host))
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "shm_used_bytes", host->shm_used_bytes);
	vt_advise_number(advice, "shm_total_bytes", host->shm_total_bytes);
	if (host->shared_known) {
		vt_advise_number(advice, "tensors_bytes", host->shared_bytes[VT_SHARED_TORCH]);
		vt_advise_number(advice, "workers", host->shared_processes);
	}
	if (a->model->process.container && *a->model->process.container)
		vt_advise_setting(a, advice, "--shm-size=%" PRIu64 "g",
				  (host->shm_total_bytes * 2 + GIB - 1) / GIB);
}

static void add_host(struct vt_model_advice *advice, const struct vt_model_host *host)
{
	if (host->pinned_bytes)
		vt_advise_number(advice, "pinned_bytes", host->pinned_bytes);
	if (host->torch_unused_known && host->torch_unused_bytes)
		vt_advise_number(advice, "pinned_unused_bytes", host->torch_unused_bytes);
	if (host->shared_known && host->shared_bytes[VT_SHARED_TORCH]) {
		vt_advise_number(advice, "tensors_bytes", host->shared_bytes[VT_SHARED_TORCH]);
		vt_advise_number(advice, "workers", host->shared_processes);
	}
}

/* Its cgroup is nearly full of what the kernel cannot drop: it will end one of its processes. */
void vt_advise_host_limit(struct vt_advise *a)
{
	const struct vt_model_around *around = &a->model->around;
	struct vt_model_advice *advice;

	if (!around->memory_known ||
	    around->memory_used_bytes < around->memory_limit_bytes / 100 * 95)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "used_bytes", around->memory_used_bytes);
	vt_advise_number(advice, "limit_bytes", around->memory_limit_bytes);
	add_host(advice, &a->model->host);
}

/* Half of what the process may have cannot be moved: little is left for all else. */
void vt_advise_pinned(struct vt_advise *a)
{
	const struct vt_model_around *around = &a->model->around;
	uint64_t limit = around->memory_known ? around->memory_limit_bytes : around->machine_bytes;
	struct vt_model_advice *advice;

	if (around->machine_bytes && around->machine_bytes < limit)
		limit = around->machine_bytes;
	if (!limit || a->model->host.pinned_bytes < limit / 2)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "limit_bytes", limit);
	add_host(advice, &a->model->host);
}

/* CUDA reserves addresses for all devices' memory: under ulimit -v it fails as if out of memory. */
void vt_advise_address_limit(struct vt_advise *a)
{
	const struct vt_model_around *around = &a->model->around;
	struct vt_model_advice *advice;

	if (!around->address_limited ||
	    around->address_used_bytes < around->address_limit_bytes / 100 * 90)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "used_bytes", around->address_used_bytes);
	vt_advise_number(advice, "limit_bytes", around->address_limit_bytes);
	vt_advise_setting(a, advice, "ulimit -v unlimited");
}
