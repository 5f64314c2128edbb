/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of memos: for each lane that is used, as many as it has uses for. */
#include "memo.h"

#include "lanes.h"

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)
#define CHOICE_BITS 11
_Static_assert(1 << CHOICE_BITS == VT_REC_MEMO_CHOICES, "the bits of a choice");
/* All memos together take at most such a part of the memory: first ones of lanes, and others. */
#define SHARE_OF_FIRST 8
#define SHARE 16
#define CHUNK_BYTES (VT_REC_MEMO_CHUNK * sizeof(struct vt_rec_memo))

/* What lanes have, which a child forgets: this says what is to be given back. */
static struct {
	struct vt_rec_memos *memos;
	uint32_t n_chunks;
} all[VT_REC_LANES];
static uint64_t n_chunks; /* of all lanes */

/* Whether so many bytes more are within this part of the memory. */
static bool is_within(uint64_t share, uint64_t bytes)
{
	uint64_t chunks = __atomic_load_n(&n_chunks, __ATOMIC_RELAXED) * CHUNK_BYTES;

	return chunks + bytes <= vt_recorder.max_memory / share && vt_rec_may_map(bytes);
}

/* Without room for a chunk, it would be of no use. */
static struct vt_rec_memos *make(struct vt_rec_lane *lane)
{
	struct vt_rec_memos *memos = is_within(SHARE_OF_FIRST, sizeof(*memos) + CHUNK_BYTES) ?
					     vt_rec_map(sizeof(*memos)) :
					     NULL;

	lane->memos_asked = 1;
	lane->memos = memos;
	all[lane - vt_rec_wiped.lanes].memos = memos;
	if (memos) {
		memos->stack = VT_RECORDER_NO_STACK;
		memos->lane = (uint32_t)(lane - vt_rec_wiped.lanes);
	}
	return memos;
}

VT_REC_HOT struct vt_rec_memos *vt_rec_memos_of(const struct vt_rec_visit *visit)
{
	struct vt_rec_lane *lane = visit->owned;

	if (!lane)
		return NULL;
	if (__builtin_expect(!lane->memos, 0) && !lane->memos_asked)
		return make(lane);
	return lane->memos;
}

static void grow(struct vt_rec_memos *memos)
{
	struct vt_rec_memo *chunk = NULL;

	/* All of it at once: one fault after the other would take longer. */
	if (is_within(memos->n ? SHARE : SHARE_OF_FIRST, CHUNK_BYTES))
		chunk = vt_rec_map_pages(CHUNK_BYTES);
	memos->full = !chunk;
	if (!chunk)
		return;
	memos->chunks[all[memos->lane].n_chunks++] = chunk;
	__atomic_fetch_add(&n_chunks, 1, __ATOMIC_RELAXED);
}

static struct vt_rec_memo *at(struct vt_rec_memos *memos, uint64_t i)
{
	return &memos->chunks[i / VT_REC_MEMO_CHUNK][i % VT_REC_MEMO_CHUNK];
}

/* A new one; without memory for it, some other: any will do. NULL: there is none. */
static __attribute__((noinline)) struct vt_rec_memo *another(struct vt_rec_memos *memos,
							     uint64_t choice)
{
	struct vt_rec_memo *memo;

	if (memos->n == VT_REC_MEMOS)
		memos->full = true;
	if (!memos->full && memos->n % VT_REC_MEMO_CHUNK == 0)
		grow(memos);
	if (memos->full)
		return memos->n ? at(memos, choice % memos->n) : NULL;
	memo = at(memos, memos->n++);
	memo->fresh = &memos->fresh;
	vt_rec_memo_clear(memo);
	memos->of[choice] = memo;
	return memo;
}

static __attribute__((noinline)) struct vt_rec_memo *choose(struct vt_rec_memos *memos, uint64_t sp)
{
	uint64_t choice = (sp ^ (uint64_t)memos->stack << 32) * MULTIPLIER >> (64 - CHOICE_BITS);
	struct vt_rec_memo *memo = memos->of[choice];

	if (!memo)
		memo = another(memos, choice);
	if (memos->last) {
		memos->last->next = memo;
		memos->last->next_sp = sp;
	}
	return memo;
}

VT_REC_HOT struct vt_rec_memo *vt_rec_memo_for(struct vt_rec_memos *memos, uint64_t sp)
{
	struct vt_rec_memo *last = memos->last;

	/* The same as by the table, but in a line that was read a moment ago. */
	if (__builtin_expect(last && last->next_sp == sp, 1))
		memos->last = last->next;
	else
		memos->last = choose(memos, sp);
	return memos->last;
}

void vt_rec_memos_deinit(void)
{
	for (unsigned int i = 0; i < VT_REC_LANES; i++) {
		struct vt_rec_memos *memos = all[i].memos;

		/* A child has none of this memory, but counts it. */
		for (unsigned int j = 0; j < all[i].n_chunks; j++)
			vt_rec_unmap(vt_rec_is_inherited() ? NULL : memos->chunks[j], CHUNK_BYTES);
		if (memos)
			vt_rec_unmap(memos, sizeof(*memos));
		all[i].memos = vt_rec_wiped.lanes[i].memos = NULL;
		all[i].n_chunks = vt_rec_wiped.lanes[i].memos_asked = 0;
	}
	n_chunks = 0;
}
