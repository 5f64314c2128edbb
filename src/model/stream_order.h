/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the lists of streams and of the waits for streams name them. */
#ifndef VT_MODEL_STREAM_ORDER_H
#define VT_MODEL_STREAM_ORDER_H

#include <stdint.h>

/* A stream among others. kind: the codes of the list that it is in. */
struct vt_stream_place {
	int device;
	unsigned int kind;
	int priority;
	unsigned int number;
	uint64_t handle;
};

/* The order in which streams are listed, as of qsort(): by device, kind, priority, number. */
int vt_stream_order(struct vt_stream_place a, struct vt_stream_place b);

#endif
