/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/helper/recorder_fakes.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

_Thread_local struct fake_stack fake_stack;
void (*fake_in_capture)(void);
bool fake_python_init = true, fake_native_init = true;
uint32_t fake_torch_in, fake_driver_in;
bool fake_python, fake_native, fake_torch, fake_driver, fake_launches;

bool vt_rec_python_init(const struct vt_recorder_config *config)
{
	fake_python = config->python && fake_python_init;
	return fake_python;
}

void vt_rec_python_capture(struct vt_rec_frames *frames, unsigned int max)
{
	if (fake_in_capture)
		fake_in_capture();
	if (!fake_stack.n) {
		frames->flags |= VT_STACK_NO_PYTHON;
		return;
	}
	frames->n_python = frames->n_words_python = fake_stack.n < max ? fake_stack.n :
									 (uint16_t)max;
	for (uint16_t i = 0; i < frames->n_python; i++)
		frames->words[i] = fake_stack.words[i];
}

/* The memo has no frames, but all the words of the last one. */
enum vt_rec_again vt_rec_python_again(struct vt_rec_memo *memo)
{
	bool same = memo->python.first == fake_stack.n;

	if (fake_in_capture)
		fake_in_capture();
	if (fake_stack.n > VT_REC_MEMO_FRAMES)
		return VT_REC_UNKNOWN;
	memo->python.first = fake_stack.n;
	for (uint16_t i = 0; i < fake_stack.n; i++) {
		same = same && memo->python_frames[i].code == fake_stack.words[i];
		memo->python_frames[i].code = fake_stack.words[i];
	}
	return same ? VT_REC_SAME : VT_REC_CHANGED;
}

void vt_rec_python_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames)
{
	frames->n_python = frames->n_words_python = (uint16_t)memo->python.first;
	for (uint16_t i = 0; i < frames->n_python; i++)
		frames->words[i] = memo->python_frames[i].code;
	for (uint16_t i = 0; i < frames->n_python; i++)
		frames->hash += vt_rec_word_hash(frames->words[i], i);
	if (!frames->n_python)
		frames->flags |= VT_STACK_NO_PYTHON;
}

void vt_rec_python_deinit(void)
{
	fake_python = false;
}

bool vt_rec_native_init(const struct vt_recorder_config *config)
{
	fake_native = config->native && fake_native_init;
	return fake_native;
}

void vt_rec_native_capture(const struct vt_rec_regs *regs, struct vt_rec_frames *frames)
{
	frames->words[frames->n_words_python] = regs->pc;
	frames->n_native = 1;
}

enum vt_rec_again vt_rec_native_again(const struct vt_rec_regs *regs, struct vt_rec_memo *memo,
				      uint64_t now)
{
	(void)now;
	(void)memo;
	(void)regs;
	return VT_REC_UNKNOWN;
}

void vt_rec_native_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames)
{
	(void)memo;
	(void)frames;
}

void vt_rec_native_deinit(void)
{
	fake_native = false;
}

uint32_t vt_rec_torch_in(const struct vt_recorder_torch *torch)
{
	fake_torch = torch->object && !fake_torch_in;
	return fake_torch_in;
}

void vt_rec_torch_out(void)
{
	fake_torch = false;
}

uint32_t vt_rec_driver_in(const struct vt_recorder_config *config)
{
	fake_driver = config->driver && !fake_driver_in;
	return fake_driver_in;
}

void vt_rec_driver_out(void)
{
	fake_driver = false;
}

uint32_t vt_rec_cupti_load(const struct vt_recorder_config *config)
{
	(void)config;
	return VT_RECORDER_OK;
}

uint32_t vt_rec_launches_in(const struct vt_recorder_config *config)
{
	fake_launches = config->launches;
	return 1;
}

void vt_rec_launches_out(void)
{
	fake_launches = false;
}

void vt_rec_driver_deinit(void)
{
}

/*
 * The first word of the C library's thread structure that holds the thread's id; the tool finds it
 * in its own way.
 */
static uint64_t tid_offset(void)
{
	uint64_t offset = 0;
	uint32_t word;

	do {
		offset += 4;
		__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	} while (offset < 2048 && word != (uint32_t)gettid());
	return offset;
}

struct vt_recorder_config fake_config(void)
{
	return (struct vt_recorder_config){
		.python = 1,
		.max_memory = UINT64_C(256) << 20,
		.imports = { .clock_gettime = (uintptr_t)clock_gettime,
			     .pthread_tid = tid_offset() },
		.torch = { .object = 1 },
	};
}
