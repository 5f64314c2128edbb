/* SPDX-License-Identifier: Apache-2.0 */
/* From an allocation to its record. */
#include "memo.h"

/*
 * True with probability size / rate, so that about one allocation is recorded for each `rate`
 * bytes.
 */
static bool is_sampled(uint64_t size, uint64_t rate)
{
	if (size >= rate)
		return true;
	return (uint64_t)((unsigned __int128)vt_rec_random() * rate >> 64) < size;
}

static uint64_t hash_of(const struct vt_rec_frames *frames, uint64_t sum)
{
	uint64_t shape = (uint64_t)frames->n_python << 48 | (uint64_t)frames->n_words_python << 32 |
			 (uint64_t)frames->n_native << 16 | frames->flags;

	return vt_recorder_hash(sum + vt_recorder_hash(shape));
}

/* No step waits for the one before. */
static uint64_t sum_of(const struct vt_rec_frames *frames)
{
	uint64_t n = (uint64_t)frames->n_words_python + frames->n_native, sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += vt_rec_word_hash(frames->words[i], i);
	return sum;
}

static void begin(struct vt_rec_frames *frames)
{
	frames->n_python = frames->n_words_python = frames->n_native = frames->flags = 0;
	frames->hash = 0;
}

static uint32_t intern(struct vt_rec_frames *frames)
{
	frames->hash = hash_of(frames, sum_of(frames));
	return vt_rec_stack_intern(frames);
}

static uint32_t stack_here(const struct vt_rec_regs *regs)
{
	struct vt_rec_frames frames;

	if (!vt_recorder.python && !vt_recorder.native)
		return VT_RECORDER_NO_STACK;
	begin(&frames);
	if (vt_recorder.python)
		vt_rec_python_capture(&frames, VT_RECORDER_MAX_PYTHON);
	else
		frames.flags |= VT_STACK_NO_PYTHON;
	if (vt_recorder.native)
		vt_rec_native_capture(regs, &frames);
	return intern(&frames);
}

/* A stack that differs from the one before; what has not changed of it is in the memo. */
static __attribute__((noinline))
uint32_t changed_stack(const struct vt_rec_regs *regs, struct vt_rec_memo *memo,
		       enum vt_rec_again python, enum vt_rec_again native)
{
	struct vt_rec_frames frames;

	memo->stack = VT_RECORDER_NO_STACK;
	begin(&frames);
	if (!vt_recorder.python)
		frames.flags |= VT_STACK_NO_PYTHON;
	else if (python == VT_REC_UNKNOWN)
		vt_rec_python_capture(&frames, VT_RECORDER_MAX_PYTHON);
	else
		vt_rec_python_recall(memo, &frames);
	if (vt_recorder.native && native == VT_REC_UNKNOWN)
		vt_rec_native_capture(regs, &frames);
	else if (vt_recorder.native)
		vt_rec_native_recall(memo, &frames);
	if (python == VT_REC_UNKNOWN || native == VT_REC_UNKNOWN)
		return intern(&frames);
	frames.hash = hash_of(&frames, frames.hash);
	memo->stack = vt_rec_stack_intern(&frames);
	return memo->stack;
}

VT_REC_HOT static uint32_t stack_with(const struct vt_rec_regs *regs, struct vt_rec_memo *memo,
				      uint64_t now)
{
	enum vt_rec_again python = VT_REC_SAME, native = VT_REC_SAME;

	vt_rec_memo_fetch_python(memo);
	if (vt_recorder.native)
		vt_rec_memo_fetch_native(memo);
	if (vt_recorder.python)
		python = vt_rec_python_again(memo);
	if (vt_recorder.native)
		native = vt_rec_native_again(regs, memo, now);
	if (python == VT_REC_SAME && native == VT_REC_SAME && memo->stack != VT_RECORDER_NO_STACK)
		return memo->stack;
	return changed_stack(regs, memo, python, native);
}

VT_REC_HOT static uint32_t stack_again(const struct vt_rec_regs *regs, struct vt_rec_memos *memos,
				       uint64_t now)
{
	struct vt_rec_memo *memo;

	if (!vt_recorder.python && !vt_recorder.native)
		return VT_RECORDER_NO_STACK;
	memo = vt_rec_memo_for(memos, regs->sp);
	memos->stack = memo ? stack_with(regs, memo, now) : stack_here(regs);
	return memos->stack;
}

uint32_t vt_rec_stack_python(unsigned int max)
{
	struct vt_rec_frames frames;

	if (!vt_recorder.python)
		return VT_RECORDER_NO_STACK;
	begin(&frames);
	vt_rec_python_capture(&frames, max);
	return frames.n_python ? intern(&frames) : VT_RECORDER_NO_STACK;
}

VT_REC_HOT void vt_rec_allocated(uint64_t addr, uint64_t size, const struct vt_rec_regs *regs)
{
	struct vt_rec_visit visit;
	uint64_t rate;

	if (!addr || !vt_rec_visit_begin(&visit))
		return;
	vt_rec_block_expect(addr);
	rate = __atomic_load_n(&vt_recorder.sample_now, __ATOMIC_RELAXED);
	if (is_sampled(size, rate)) {
		struct vt_rec_memos *memos = vt_rec_memos_of(&visit);
		uint64_t now = vt_rec_now();
		uint32_t stack = memos ? stack_again(regs, memos, now) : stack_here(regs);

		vt_rec_block_put(addr, size, stack, rate, now);
	} else {
		vt_rec_block_drop(addr);
	}
	vt_rec_visit_end(&visit);
}

uint32_t vt_rec_stack_here(const struct vt_rec_regs *regs)
{
	uint32_t stack = VT_RECORDER_NO_STACK;

	if (vt_rec_enter()) {
		stack = stack_here(regs);
		vt_rec_leave();
	}
	return stack;
}
