/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of memos: one for each lane that is used. */
#include "memo.h"

#include "lanes.h"

/* What lanes have, which a child forgets: this says what is to be given back. */
static struct vt_rec_memo *memos[VT_REC_LANES];

static struct vt_rec_memo *make(struct vt_rec_lane *lane)
{
	struct vt_rec_memo *memo = vt_rec_may_map(sizeof(*memo)) ? vt_rec_map(sizeof(*memo)) : NULL;

	lane->memo_asked = 1;
	lane->memo = memo;
	memos[lane - vt_rec_wiped.lanes] = memo;
	if (memo)
		vt_rec_memo_clear(memo);
	return memo;
}

VT_REC_HOT struct vt_rec_memo *vt_rec_memo_of(const struct vt_rec_visit *visit)
{
	struct vt_rec_lane *lane = visit->owned;

	if (!lane)
		return NULL;
	if (__builtin_expect(!lane->memo, 0) && !lane->memo_asked)
		return make(lane);
	return lane->memo;
}

void vt_rec_memos_deinit(void)
{
	for (unsigned int i = 0; i < VT_REC_LANES; i++) {
		if (memos[i])
			vt_rec_unmap(memos[i], sizeof(*memos[i]));
		memos[i] = vt_rec_wiped.lanes[i].memo = NULL;
		vt_rec_wiped.lanes[i].memo_asked = 0;
	}
}
