/* SPDX-License-Identifier: Apache-2.0 */
/* From an allocation to its record. */
#include "internal.h"

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

static inline uint64_t mix(uint64_t sum, uint64_t word)
{
	uint64_t x = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);

	return x << 29 | x >> 35;
}

/* Four sums side by side: each step waits only for the multiplication of its own sum. */
static uint64_t hash_of(const struct vt_rec_frames *frames)
{
	uint64_t shape = (uint64_t)frames->n_python << 48 | (uint64_t)frames->n_words_python << 32 |
			 (uint64_t)frames->n_native << 16 | frames->flags;
	uint64_t a = shape, b = shape + 1, c = shape + 2, d = shape + 3;
	uint64_t n = (uint64_t)frames->n_words_python + frames->n_native, i = 0;

	for (; i + 4 <= n; i += 4) {
		a = mix(a, frames->words[i]);
		b = mix(b, frames->words[i + 1]);
		c = mix(c, frames->words[i + 2]);
		d = mix(d, frames->words[i + 3]);
	}
	for (; i < n; i++)
		a = mix(a, frames->words[i]);
	return vt_recorder_hash(mix(mix(mix(a, b), c), d));
}

static uint32_t stack_here(const struct vt_rec_regs *regs)
{
	struct vt_rec_frames frames;

	if (!vt_recorder.python && !vt_recorder.native)
		return VT_RECORDER_NO_STACK;
	frames.n_python = frames.n_words_python = frames.n_native = frames.flags = 0;
	frames.hash = 0;
	if (vt_recorder.python)
		vt_rec_python_capture(&frames, VT_RECORDER_MAX_PYTHON);
	else
		frames.flags |= VT_STACK_NO_PYTHON;
	if (vt_recorder.native)
		vt_rec_native_capture(regs, &frames);
	frames.hash = hash_of(&frames);
	return vt_rec_stack_intern(&frames);
}

uint32_t vt_rec_stack_python(unsigned int max)
{
	struct vt_rec_frames frames;

	if (!vt_recorder.python)
		return VT_RECORDER_NO_STACK;
	frames.n_python = frames.n_words_python = frames.n_native = frames.flags = 0;
	vt_rec_python_capture(&frames, max);
	if (!frames.n_python)
		return VT_RECORDER_NO_STACK;
	frames.hash = hash_of(&frames);
	return vt_rec_stack_intern(&frames);
}

void vt_rec_allocated(uint64_t addr, uint64_t size, const struct vt_rec_regs *regs)
{
	uint64_t rate;

	if (!addr || !vt_rec_enter())
		return;
	vt_rec_block_expect(addr);
	rate = __atomic_load_n(&vt_recorder.sample_now, __ATOMIC_RELAXED);
	if (is_sampled(size, rate))
		vt_rec_block_put(addr, size, stack_here(regs), rate);
	else
		vt_rec_block_drop(addr);
	vt_rec_leave();
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
