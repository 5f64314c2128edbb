/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as metrics. vramtap-ps(1) lists the families; a test keeps both in step. */
#include <string.h>

#include "prometheus/prometheus.h"
#include "ps/ps.h"

#define COMMAND "ps"

struct put {
	struct vt_prom prom;
	const struct vt_ps *ps;
	bool all;
};

/* ---- the look itself ---- */

static void put_build(struct put *p)
{
	vt_prom_build(&p->prom, COMMAND, p->ps->tool_version);
}

static void put_when(struct put *p)
{
	vt_prom_when(&p->prom, COMMAND, &p->ps->when);
}

static void put_took(struct put *p)
{
	vt_prom_label(&p->prom, "command", COMMAND);
	vt_prom_seconds(&p->prom, p->ps->ms / 1e3);
}

static void put_complete(struct put *p)
{
	vt_prom_complete(&p->prom, COMMAND, p->ps->completeness == VT_COMPLETE);
}

static void put_count_known(struct put *p)
{
	vt_prom_bool(&p->prom, p->ps->usage.state == VT_COUNTED_READ);
}

/* ---- devices ---- */

/* The next device's label is set. */
static const struct vt_model_gpu *gpu_at(struct put *p, uint32_t index)
{
	char name[VT_PS_GPU_MAX];

	if (index >= p->ps->usage.gpus.n)
		return NULL;
	vt_prom_label(&p->prom, "device", vt_ps_gpu_name(name, p->ps, index));
	return &p->ps->usage.gpus.data[index];
}

static void put_gpus(struct put *p)
{
	const struct vt_model_gpu *gpu;

	for (uint32_t i = 0; (gpu = gpu_at(p, i)); i++) {
		vt_prom_label(&p->prom, "uuid", gpu->uuid);
		vt_prom_label(&p->prom, "pci", gpu->pci);
		vt_prom_label(&p->prom, "name", gpu->name);
		vt_prom_uint(&p->prom, 1);
	}
}

static void put_gpu_bytes(struct put *p, uint64_t (*of)(const struct vt_model_gpu *gpu))
{
	const struct vt_model_gpu *gpu;

	for (uint32_t i = 0; (gpu = gpu_at(p, i)); i++) {
		if (gpu->memory_known)
			vt_prom_uint(&p->prom, of(gpu));
		else
			vt_prom_none(&p->prom);
	}
}

static uint64_t total_of(const struct vt_model_gpu *gpu)
{
	return gpu->total_bytes;
}

static uint64_t used_of(const struct vt_model_gpu *gpu)
{
	return gpu->used_bytes;
}

static uint64_t free_of(const struct vt_model_gpu *gpu)
{
	return gpu->total_bytes - gpu->used_bytes;
}

static void put_gpu_rest(struct put *p)
{
	const struct vt_model_gpu *gpu;

	for (uint32_t i = 0; (gpu = gpu_at(p, i)); i++) {
		if (gpu->rest_known)
			vt_prom_int(&p->prom, gpu->rest_bytes);
		else
			vt_prom_none(&p->prom);
	}
}

/* ---- numbers of processes ---- */

/* One letter for each word. */
static void put_states(struct put *p)
{
	static const char letters[] = "RSDTtZX?";

	for (size_t i = 0; letters[i]; i++) {
		const struct vt_ps_row one = { .state = letters[i] };
		const char *name = vt_ps_state_name(&one);
		uint64_t n = 0;

		for (size_t j = 0; j < p->ps->rows.n; j++)
			n += !strcmp(vt_ps_state_name(&p->ps->rows.data[j]), name);
		vt_prom_label(&p->prom, "state", name);
		vt_prom_uint(&p->prom, n);
	}
}

static void put_idle(struct put *p)
{
	vt_prom_uint(&p->prom, p->ps->idle);
}

static bool has_ended(const struct vt_ps_row *row)
{
	return row->life == VT_LIFE_GONE || row->life == VT_LIFE_ZOMBIE;
}

static void put_ended(struct put *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->ps->rows.n; i++)
		n += has_ended(&p->ps->rows.data[i]);
	vt_prom_uint(&p->prom, n);
}

static void put_unseen(struct put *p)
{
	vt_prom_uint(&p->prom, p->ps->unseen);
}

/* Whether a row has series of its own. */
static bool is_listed(const struct put *p, const struct vt_ps_row *row)
{
	return row->pid > 0 && (p->all || !row->holds_nothing);
}

static void put_omitted(struct put *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->ps->rows.n; i++)
		n += is_listed(p, &p->ps->rows.data[i]);
	n -= n < VT_PROM_MAX_PROCESSES ? n : VT_PROM_MAX_PROCESSES;
	vt_prom_uint(&p->prom, n + p->ps->dropped);
}

/* ---- each process ---- */

static void put_rows(struct put *p, void (*put)(struct put *p, const struct vt_ps_row *row))
{
	size_t n = 0;

	for (size_t i = 0; i < p->ps->rows.n && n < VT_PROM_MAX_PROCESSES; i++) {
		const struct vt_ps_row *row = &p->ps->rows.data[i];

		if (!is_listed(p, row))
			continue;
		n++;
		vt_prom_label_known(&p->prom, "pid", row->pid);
		put(p, row);
		vt_prom_none(&p->prom);
	}
}

static void put_row_identity(struct put *p, const struct vt_ps_row *row)
{
	vt_prom_label(&p->prom, "name", row->name);
	vt_prom_label(&p->prom, "user", row->user);
	vt_prom_label_known(&p->prom, "rank", row->rank.rank);
	vt_prom_label_known(&p->prom, "world_size", row->rank.world_size);
	vt_prom_label(&p->prom, "job_id", row->job);
	vt_prom_label(&p->prom, "pod", row->pod);
	vt_prom_label(&p->prom, "container", row->container);
	vt_prom_uint(&p->prom, 1);
}

static void put_row_gpus(struct put *p, const struct vt_ps_row *row)
{
	for (size_t i = 0; i < row->n_gpus; i++) {
		char name[VT_PS_GPU_MAX];

		if (i)
			vt_prom_label_known(&p->prom, "pid", row->pid);
		vt_prom_label(&p->prom, "device", vt_ps_gpu_name(name, p->ps, row->gpus[i]));
		vt_prom_uint(&p->prom, 1);
	}
}

static void put_row_state(struct put *p, const struct vt_ps_row *row)
{
	vt_prom_label(&p->prom, "state", vt_ps_state_name(row));
	vt_prom_uint(&p->prom, 1);
}

static void put_row_memory(struct put *p, const struct vt_ps_row *row)
{
	if (row->counted && row->bytes_known)
		vt_prom_uint(&p->prom, row->bytes);
}

static void put_row_reserved(struct put *p, const struct vt_ps_row *row)
{
	if (row->torch.state == VT_PS_TORCH_KNOWN)
		vt_prom_uint(&p->prom, row->torch.reserved);
}

static void put_row_allocated(struct put *p, const struct vt_ps_row *row)
{
	if (row->torch.state == VT_PS_TORCH_KNOWN)
		vt_prom_uint(&p->prom, row->torch.allocated);
}

static void put_row_uptime(struct put *p, const struct vt_ps_row *row)
{
	if (row->uptime_s >= 0)
		vt_prom_seconds(&p->prom, row->uptime_s);
}

static void put_row_still(struct put *p, const struct vt_ps_row *row)
{
	if (row->still_s >= 0)
		vt_prom_seconds(&p->prom, row->still_s);
}

/* Those without a number that is known here are one series. */
static void put_memory(struct put *p)
{
	uint64_t unknown = 0;

	put_rows(p, put_row_memory);
	for (size_t i = 0; i < p->ps->rows.n; i++) {
		const struct vt_ps_row *row = &p->ps->rows.data[i];

		if (!row->pid && row->counted && row->bytes_known)
			unknown += row->bytes;
	}
	if (!unknown)
		return;
	vt_prom_label(&p->prom, "pid", "unknown");
	vt_prom_uint(&p->prom, unknown);
}

/* ---- all of it ---- */

static const struct {
	struct vt_prom_family family;
	/* one of these */
	void (*put)(struct put *p);
	uint64_t (*gpu)(const struct vt_model_gpu *gpu);
	void (*row)(struct put *p, const struct vt_ps_row *row);
} families[] = {
	{ { VT_PROM_BUILD }, .put = put_build },
	{ { VT_PROM_WHEN }, .put = put_when },
	{ { VT_PROM_TOOK }, .put = put_took },
	{ { VT_PROM_COMPLETE }, .put = put_complete },
	{ { "vramtap_driver_count_known", "gauge",
	    "Whether the kernel driver told who uses how much memory" },
	  .put = put_count_known },
	{ { "vramtap_device_info", "gauge", "A device, or an instance of one that MIG divides" },
	  .put = put_gpus },
	{ { "vramtap_device_memory_size_bytes", "gauge", "Memory of a device" }, .gpu = total_of },
	{ { "vramtap_device_memory_used_bytes", "gauge",
	    "Used memory of a device, of all processes" },
	  .gpu = used_of },
	{ { "vramtap_device_memory_free_bytes", "gauge", "Free memory of a device" },
	  .gpu = free_of },
	{ { "vramtap_device_memory_no_process_bytes", "gauge",
	    "Used memory of a device that no process has that is seen from here" },
	  .put = put_gpu_rest },
	{ { "vramtap_processes", "gauge", "Processes that use CUDA, by state" },
	  .put = put_states },
	{ { "vramtap_idle_processes", "gauge", "Processes that use CUDA and hold no memory" },
	  .put = put_idle },
	{ { "vramtap_ended_processes", "gauge",
	    "Processes that have ended while their memory stays" },
	  .put = put_ended },
	{ { "vramtap_unseen_processes", "gauge",
	    "Processes of others that may use CUDA and cannot be looked at" },
	  .put = put_unseen },
	{ { "vramtap_omitted_processes", "gauge",
	    "Processes that have no series for lack of room" },
	  .put = put_omitted },
	{ { "vramtap_process_info", "gauge", "A process that holds memory of devices" },
	  .row = put_row_identity },
	{ { "vramtap_process_device_info", "gauge", "A device of which a process holds memory" },
	  .row = put_row_gpus },
	{ { "vramtap_process_state", "gauge", "1 for the state of a process's main thread" },
	  .row = put_row_state },
	{ { "vramtap_process_memory_bytes", "gauge",
	    "Device memory of a process, by the kernel driver's count" },
	  .put = put_memory },
	{ { "vramtap_process_pytorch_reserved_bytes", "gauge",
	    "Device memory that PyTorch has reserved in a process" },
	  .row = put_row_reserved },
	{ { "vramtap_process_pytorch_allocated_bytes", "gauge",
	    "Device memory that is in use by PyTorch in a process" },
	  .row = put_row_allocated },
	{ { "vramtap_process_uptime_seconds", "gauge", "Time since a process started" },
	  .row = put_row_uptime },
	{ { "vramtap_process_still_seconds", "gauge",
	    "Time for which a process's main thread has not run, at least" },
	  .row = put_row_still },
};

struct vt_error *vt_ps_write_prometheus(const void *what, const struct vt_writer_options *options,
					FILE *out)
{
	const struct vt_ps_document *document = what;
	struct put p = { .ps = document->ps, .all = document->all };

	(void)options; /* those are for people */
	vt_prom_init(&p.prom, out);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		vt_prom_family(&p.prom, &families[i].family);
		if (families[i].put)
			families[i].put(&p);
		else if (families[i].gpu)
			put_gpu_bytes(&p, families[i].gpu);
		else
			put_rows(&p, families[i].row);
	}
	return vt_prom_finish(&p.prom);
}
