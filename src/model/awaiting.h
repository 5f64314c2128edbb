/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which streams PyTorch's blocks wait that were freed while these used them: what the walk
 * said, once it was checked. Part of the model.
 */
#ifndef VT_MODEL_AWAITING_H
#define VT_MODEL_AWAITING_H

#include <stdbool.h>

#include "base/str.h"
#include "vramtap/torch.h"

struct vt_model;
struct vt_model_allocator;
struct vt_model_stream;

/*
 * Checks result.waits, which may come from inside the process: what is not possible is not known.
 * The largest come first. After the totals.
 */
void vt_account_waits(struct vt_model_allocator *allocator);

/*
 * Adds the waits of all allocators to the streams that they are for, and others that somebody made
 * to the list. False: out of memory.
 */
bool vt_model_streams_add_waits(struct vt_model *model);

/* The stream as the model has it; NULL: it has not. */
const struct vt_model_stream *vt_torch_wait_stream(const struct vt_model *model,
						   const struct vt_torch_wait *wait);

/* Short: "PyTorch stream 3", "stream 3, priority -1"; " of GPU 1": of another than the blocks'. */
void vt_torch_wait_say(struct vt_str *text, const struct vt_torch_wait *wait, int device);

const char *vt_torch_waits_name(unsigned int code);

#endif
