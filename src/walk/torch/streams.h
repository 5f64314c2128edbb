/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of PyTorch's pools: what torch.cuda.Stream() hands out, and what NCCL's process
 * groups use. PyTorch makes 32 for each priority when a device's first stream is asked for, hands
 * them out in turn, and never destroys one: a handle from here is alive for as long as its context
 * is.
 */
#ifndef VT_WALK_TORCH_STREAMS_H
#define VT_WALK_TORCH_STREAMS_H

#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "vramtap/mem.h"

struct vt_torch_stream {
	uint64_t handle; /* cudaStream_t */
	int device;
	int priority;        /* CUDA's: 0 the lowest, then -1, ... */
	unsigned int number; /* in the pool of its priority */
};

enum vt_torch_streams_state {
	VT_TORCH_STREAMS_FOUND,   /* the list has those that were handed out, perhaps none */
	VT_TORCH_STREAMS_UNKNOWN, /* the library is stripped, or laid out as no known release */
};

struct vt_torch_streams {
	enum vt_torch_streams_state state;
	VT_VEC(struct vt_torch_stream) list; /* by device, priority, number */
};

/*
 * c10_cuda: libc10_cuda.so. streams must be zeroed. VT_ERR_NOMEM, or what is there is unreadable.
 */
struct vt_error *vt_torch_streams_read(struct vt_modules *modules, struct vt_module *c10_cuda,
				       struct vt_memsrc *src, struct vt_torch_streams *streams);
void vt_torch_streams_deinit(struct vt_torch_streams *streams);

#endif
