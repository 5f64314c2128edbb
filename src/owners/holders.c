/* SPDX-License-Identifier: Apache-2.0 */
#include "owners/holders.h"

#include <stddef.h>

#include "base/str.h"

/*
 * aten/src/ATen/cuda/CublasHandlePool.cpp: workspaces by handle and stream, in static maps.
 * torch/csrc/distributed/c10d/reducer.hpp: the buckets of DistributedDataParallel.
 * torch/csrc/autograd/graph_task.h, input_buffer.h: gradients on their way through backward().
 */
static const struct vt_known_holder known[] = {
	{ "*cublaslt_handle_stream_to_workspace*", VT_CATEGORY_WORKSPACE, "workspace of cuBLASLt" },
	{ "*cublas_handle_stream_to_workspace*", VT_CATEGORY_WORKSPACE, "workspace of cuBLAS" },
	{ "*cublasLtWorkspace*", VT_CATEGORY_WORKSPACE, "workspace of cuBLASLt" },
	{ "*CuDNN*Workspace*", VT_CATEGORY_WORKSPACE, "workspace of cuDNN" },
	{ "Reducer", VT_CATEGORY_COMMUNICATION, "bucket of DistributedDataParallel" },
	{ "*c10d*Reducer*", VT_CATEGORY_COMMUNICATION, "bucket of DistributedDataParallel" },
	{ "*ProcessGroup*", VT_CATEGORY_COMMUNICATION, "buffer of torch.distributed" },
	{ "*WorkNCCL*", VT_CATEGORY_COMMUNICATION, "buffer of torch.distributed" },
	{ "*GraphTask*", VT_CATEGORY_GRADIENT, "gradient on its way through backward()" },
};

const struct vt_known_holder *vt_known_holder(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (vt_glob(known[i].glob, name))
			return &known[i];
	}
	return NULL;
}
