/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's own code, with entries for tests/functional/recorder_capture.py, which loads it
 * into interpreters by ctypes. Freestanding like all of the recorder: what it calls of the C
 * library comes as pointers.
 */
#include "recorder/memo.h"

#include "vramtap/freestanding.h"

#define PUBLIC __attribute__((visibility("default")))

struct test_capture {
	struct vt_rec_frames frames;
	uint64_t backtrace; /* int backtrace(void **, int), or 0 */
	uint64_t n_trace;
	uint64_t trace[256];
	uint64_t rounds; /* for the time of one: how often; 0 once */
	uint64_t ns;
};

struct test_config {
	uint64_t python, native;
	uint64_t max_memory;
	uint64_t dl_iterate_phdr, clock_gettime;
	uint64_t main_stack_low, main_stack_high;
	struct vt_recorder_python layout;
};

PUBLIC uint32_t test_on(const struct test_config *test);
PUBLIC uint64_t test_off(void);
PUBLIC void test_capture_at(struct test_capture *capture, const struct vt_rec_regs *regs);
PUBLIC void test_capture(struct test_capture *capture);
PUBLIC void test_call(void (*function)(void));
PUBLIC const struct vt_recorder_code *test_code(uint64_t index);

/* The registers of the caller, as the recorder's entries have them. */
__asm__(".text\n"
	".globl test_capture\n"
	".type test_capture, @function\n"
	"test_capture:\n"
	"	.cfi_startproc\n"
	"	sub $72, %rsp\n"
	"	.cfi_adjust_cfa_offset 72\n"
	"	mov 72(%rsp), %rax\n"
	"	mov %rax, (%rsp)\n"
	"	lea 80(%rsp), %rax\n"
	"	mov %rax, 8(%rsp)\n"
	"	mov %rbp, 16(%rsp)\n"
	"	mov %rbx, 24(%rsp)\n"
	"	mov %r12, 32(%rsp)\n"
	"	mov %r13, 40(%rsp)\n"
	"	mov %r14, 48(%rsp)\n"
	"	mov %r15, 56(%rsp)\n"
	"	mov %rsp, %rsi\n"
	"	call test_capture_at\n"
	"	add $72, %rsp\n"
	"	.cfi_adjust_cfa_offset -72\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size test_capture, . - test_capture\n");

static void begin(struct vt_rec_frames *frames)
{
	frames->n_python = frames->n_words_python = frames->n_native = frames->flags = 0;
	frames->hash = 0;
}

static void capture_once(struct vt_rec_frames *frames, const struct vt_rec_regs *regs)
{
	begin(frames);
	vt_rec_python_capture(frames, VT_RECORDER_MAX_PYTHON);
	vt_rec_native_capture(regs, frames);
}

/* ---- the same with memos, which all threads share: it does not matter whose walk it was ---- */

#define MEMOS 3

PUBLIC uint64_t test_again[3]; /* how often a walk with a memo ended so: enum vt_rec_again */

static struct {
	uint32_t taken;
	bool used;
	bool known; /* the memo had all of the last frames */
	struct vt_rec_memo memo;
	struct vt_rec_memo_fresh fresh;
	struct vt_rec_frames frames, plain, last;
} memos[MEMOS];

/* a: with a memo. */
static bool differ(const struct vt_rec_frames *a, const struct vt_rec_frames *b)
{
	uint64_t sum = 0;
	bool ret = a->n_python != b->n_python || a->n_words_python != b->n_words_python ||
		   a->n_native != b->n_native || a->flags != b->flags;

	/* What a memo adds up is the sum of its words. */
	for (unsigned int i = 0; i < (unsigned int)a->n_words_python + a->n_native; i++)
		sum += vt_rec_word_hash(a->words[i], i);
	ret = ret || (a->hash && sum != a->hash);
	for (unsigned int i = 0; !ret && i < (unsigned int)a->n_words_python + a->n_native; i++)
		ret = a->words[i] != b->words[i];
	return ret;
}

static enum vt_rec_again walk_again(unsigned int i, const struct vt_rec_regs *regs)
{
	struct vt_rec_memo *memo = &memos[i].memo;
	enum vt_rec_again python = vt_rec_python_again(memo),
			  native = vt_rec_native_again(regs, memo, vt_rec_now());

	begin(&memos[i].frames);
	if (python == VT_REC_UNKNOWN)
		vt_rec_python_capture(&memos[i].frames, VT_RECORDER_MAX_PYTHON);
	else
		vt_rec_python_recall(memo, &memos[i].frames);
	if (native == VT_REC_UNKNOWN)
		vt_rec_native_capture(regs, &memos[i].frames);
	else
		vt_rec_native_recall(memo, &memos[i].frames);
	if (python == VT_REC_UNKNOWN || native == VT_REC_UNKNOWN)
		memos[i].frames.hash = 0;
	/* The recorder takes the number of the last stack then, and does not look at frames. */
	if (python == VT_REC_SAME && native == VT_REC_SAME && memos[i].known &&
	    differ(&memos[i].frames, &memos[i].last))
		__builtin_trap();
	memos[i].last = memos[i].frames;
	memos[i].known = python != VT_REC_UNKNOWN && native != VT_REC_UNKNOWN;
	__atomic_fetch_add(&test_again[python], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&test_again[native], 1, __ATOMIC_RELAXED);
	return python > native ? python : native;
}

/*
 * Whatever a memo has seen before, it leads to the frames that a walk without it finds; and the
 * second time at once. (The interpreter may begin to end in between: then that walk is done again.)
 */
static void compare_memos(const struct vt_rec_regs *regs)
{
	static uint32_t turn;
	unsigned int i = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 7 % MEMOS;

	if (__atomic_exchange_n(&memos[i].taken, 1, __ATOMIC_ACQUIRE))
		return;
	if (!memos[i].used) {
		vt_rec_memo_clear(&memos[i].memo);
		memos[i].memo.fresh = &memos[i].fresh;
		memos[i].known = false;
	}
	memos[i].used = true;
	for (unsigned int round = 0; round < 2; round++) {
		enum vt_rec_again again;

		capture_once(&memos[i].plain, regs);
		again = walk_again(i, regs);
		if (!differ(&memos[i].frames, &memos[i].plain) &&
		    !(round == 1 && again == VT_REC_CHANGED))
			continue;
		capture_once(&memos[i].plain, regs);
		if (differ(&memos[i].frames, &memos[i].plain) ||
		    walk_again(i, regs) == VT_REC_CHANGED)
			__builtin_trap();
	}
	__atomic_store_n(&memos[i].taken, 0, __ATOMIC_RELEASE);
}

PUBLIC void test_capture_at(struct test_capture *capture, const struct vt_rec_regs *regs)
{
	uint64_t start;

	capture_once(&capture->frames, regs);
	compare_memos(regs);
	start = vt_sys_now_ns();
	for (uint64_t i = 0; i < capture->rounds; i++)
		capture_once(&capture->frames, regs);
	capture->ns = vt_sys_now_ns() - start;
	if (capture->backtrace)
		capture->n_trace = (uint64_t)((int (*)(uint64_t *, int))capture->backtrace)(
			capture->trace, 256);
}

PUBLIC const struct vt_recorder_code *test_code(uint64_t index)
{
	return index < vt_recorder.codes.n ?
		       (const struct vt_recorder_code *)vt_recorder.codes.addr + index :
		       NULL;
}

/* A C frame more. */
PUBLIC void test_call(void (*function)(void))
{
	function();
	__asm__ volatile("");
}

PUBLIC uint32_t test_on(const struct test_config *test)
{
	struct vt_recorder_config *config = &vt_recorder.config;

	*config = (struct vt_recorder_config){
		.python = (uint32_t)test->python,
		.native = (uint32_t)test->native,
		.imports.dl_iterate_phdr = test->dl_iterate_phdr,
		.imports.clock_gettime = test->clock_gettime,
		.imports.main_stack_low = test->main_stack_low,
		.imports.main_stack_high = test->main_stack_high,
		.python_layout = test->layout,
	};
	vt_recorder.max_memory = test->max_memory;
	for (unsigned int i = 0; i < MEMOS; i++)
		memos[i].used = false;
	return vt_rec_python_init(config) && vt_rec_native_init(config) ? VT_RECORDER_OK :
									  VT_RECORDER_NO_MEMORY;
}

PUBLIC uint64_t test_off(void)
{
	vt_rec_python_deinit();
	vt_rec_native_deinit();
	return vt_recorder.memory;
}
