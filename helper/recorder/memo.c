/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of memos: one for each lane that is used. */
#include "memo.h"

#include "lanes.h"

/* Of a lane, and so of its owner. */
static struct {
	struct vt_rec_memo *memo;
	bool asked;
} memos[VT_REC_LANES];

static struct vt_rec_memo *make(uint32_t lane)
{
	struct vt_rec_memo *memo = vt_rec_map(sizeof(*memo));

	memos[lane].asked = true;
	memos[lane].memo = memo;
	if (memo)
		vt_rec_memo_clear(memo);
	return memo;
}

VT_REC_HOT struct vt_rec_memo *vt_rec_memo_of(const struct vt_rec_visit *visit)
{
	struct vt_rec_memo *memo;

	if (!visit->owned)
		return NULL;
	memo = memos[visit->lane].memo;
	if (__builtin_expect(!memo, 0) && !memos[visit->lane].asked)
		memo = make(visit->lane);
	return memo;
}

void vt_rec_memos_deinit(void)
{
	for (unsigned int i = 0; i < VT_REC_LANES; i++) {
		if (memos[i].memo)
			vt_rec_unmap(memos[i].memo, sizeof(*memos[i].memo));
		memos[i].memo = NULL;
		memos[i].asked = false;
	}
}
