/* SPDX-License-Identifier: Apache-2.0 */
/* What streams wait for in memory (cuStreamWaitValue), and whether it is there. */
#ifndef VT_MODEL_STREAM_WAITS_H
#define VT_MODEL_STREAM_WAITS_H

#include "base/str.h"
#include "model/model.h"

/* Whether a wait for a value ends when this is at its address. */
bool vt_wait_ends_with(const struct vt_model_launch *wait, uint64_t there);
/* "0x7f0000001000 must be >= 5, is 3" */
void vt_wait_say(struct vt_str *text, const struct vt_model_launch *wait);

/* The stream as the driver was asked about it; NULL: it was not. */
const struct vt_model_stream *vt_launch_stream_asked(const struct vt_model *model,
						     const struct vt_model_launch_stream *s);
/* "PyTorch stream 3 of GPU 0", "stream 0x55d0c0a4b2f0" */
void vt_launch_stream_say(struct vt_str *text, const struct vt_model *model,
			  const struct vt_model_launch_stream *s);

const char *vt_value_compare_name(unsigned int compare);

#endif
