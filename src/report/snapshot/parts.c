/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and their values. */
#include "report/snapshot/internal.h"

void vt_snapshot_number(struct vt_snapshot *s, const char *key, uint64_t value)
{
	vt_pickle_name(s->pickle, key);
	vt_pickle_uint(s->pickle, value);
}

void vt_snapshot_name(struct vt_snapshot *s, const char *key, const char *value)
{
	vt_pickle_name(s->pickle, key);
	vt_pickle_name(s->pickle, value);
}

void vt_snapshot_stream(struct vt_snapshot *s, const struct vt_block_rec *block)
{
	vt_pickle_name(s->pickle, "stream");
	vt_pickle_int(s->pickle, (int64_t)block->stream);
}

void vt_snapshot_pool(struct vt_snapshot *s, const char *key, const struct vt_block_rec *block)
{
	if (!block->pool && block->flags & VT_BLOCK_PRIVATE_POOL)
		return; /* not known */
	vt_pickle_name(s->pickle, key);
	vt_pickle_uint(s->pickle, block->pool >> 32);
	vt_pickle_uint(s->pickle, block->pool & UINT32_MAX);
	vt_pickle_pair(s->pickle);
}
