/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/relieve: what can be seen from outside before anything runs in the process. */
#ifndef VT_RELIEVE_LOOK_H
#define VT_RELIEVE_LOOK_H

#include "collect/target.h"
#include "relieve/relieve.h"
#include "walk/python/python.h"

/* False: result says why it is refused. */
bool vt_relieve_refuse(struct vt_relieve_result *result, unsigned int why, const char *text);

/*
 * PyTorch's allocator: where its locks and its captures are, into args; none of the locks is kept.
 */
bool vt_relieve_look_at_torch(struct vt_target *t, struct vt_relieve_args *args,
			      struct vt_relieve_result *result);

/*
 * No library is there that could be capturing a graph by itself (or garbage is collected, and the
 * GPU is not asked), and none whose allocator must not be called on a thread of ours.
 */
bool vt_relieve_look_at_libraries(struct vt_target *t, struct vt_relieve_args *args,
				  struct vt_relieve_result *result);

/* No thread stands still in the driver; by the stacks in result->before. */
bool vt_relieve_look_at_threads(struct vt_relieve_result *result);

/* The interpreter, and its GIL comes free. */
bool vt_relieve_look_at_python(struct vt_target *t, struct vt_python *py,
			       struct vt_ask_python_args *args, struct vt_relieve_result *result);

#endif
