/* SPDX-License-Identifier: Apache-2.0 */
#include "model/stream_order.h"

int vt_stream_order(struct vt_stream_place a, struct vt_stream_place b)
{
	if (a.device != b.device)
		return a.device < b.device ? -1 : 1;
	if (a.kind != b.kind)
		return a.kind < b.kind ? -1 : 1;
	if (a.priority != b.priority)
		return a.priority > b.priority ? -1 : 1;
	if (a.number != b.number)
		return a.number < b.number ? -1 : 1;
	return (a.handle > b.handle) - (a.handle < b.handle);
}
