/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that belongs to the work on devices: pinned memory, by the driver's list and
 * by the libraries' books, each byte once; and shared memory, through which workers of PyTorch's
 * DataLoader hand over their batches. Part of the model (model/model.h).
 */
#ifndef VT_MODEL_HOST_H
#define VT_MODEL_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtap/libpools.h"

/* By the names of files. */
enum vt_shared_kind {
	VT_SHARED_TORCH, /* tensors that processes share */
	VT_SHARED_NCCL,
	VT_SHARED_OTHER,
	VT_N_SHARED_KINDS
};

struct vt_model_host {
	/* filled by account: */
	bool pinned_listed; /* by the driver, too; else only what libraries' books have */
	uint64_t pinned_bytes;
	uint64_t torch_bytes;
	bool torch_unused_known;
	uint64_t torch_unused_bytes; /* not in use; kept for the next tensor */
	uint64_t libpool_bytes[VT_N_LIBPOOL_KINDS];
	uint64_t unattributed_bytes; /* in the driver's list, and in no books */

	/* Files in memory that the process and its descendants have mapped, each once. */
	bool shared_known;
	bool shared_whole;  /* all of them were read */
	bool shared_mapped; /* sizes are those of the mappings: perhaps not all is in memory */
	uint64_t shared_bytes[VT_N_SHARED_KINDS];
	uint64_t shared_files;
	uint64_t shared_processes; /* descendants that have one of them */

	/* The file system /dev/shm, as the process sees it. */
	bool shm_known;
	uint64_t shm_total_bytes, shm_used_bytes;
};

/* "torch", "nccl", "other" */
const char *vt_shared_kind_name(unsigned int kind);

static inline uint64_t vt_host_shared_bytes(const struct vt_model_host *host)
{
	uint64_t bytes = 0;

	for (int i = 0; i < VT_N_SHARED_KINDS; i++)
		bytes += host->shared_bytes[i];
	return bytes;
}

/* The next batch may not fit: the worker that writes it gets a bus error. */
static inline bool vt_host_shm_is_full(const struct vt_model_host *host)
{
	return host->shm_known && host->shm_used_bytes >= host->shm_total_bytes / 10 * 9 &&
	       host->shm_total_bytes;
}

#endif
