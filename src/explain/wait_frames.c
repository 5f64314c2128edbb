/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "explain/wait_internal.h"

/* Waiting functions are the innermost ones. */
#define MAX_INNER_FRAMES 12

bool wait_in_function(const struct vt_model_thread *thread, const char *text)
{
	for (size_t i = 0; i < thread->stack.n_frames && i < MAX_INNER_FRAMES; i++) {
		const struct vt_model_frame *frame = &thread->stack.frames[i];

		if (frame->kind == VT_FRAME_NATIVE && frame->function &&
		    strstr(frame->function, text))
			return true;
	}
	return false;
}
