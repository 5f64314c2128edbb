/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier walks of a lane's stacks read. A walk is a function of the registers that it begins
 * with, of what is known of code (recipes, code objects), and of the words that it reads. So where
 * the next walk meets a frame of the one before, it need not find out again where to read: it reads
 * the same words and compares. Those loads do not wait for each other, which is what a walk spends
 * its time on; and where all of them are the same, the stack is the same and so is its number.
 *
 * Nothing is believed for being remembered: each word is read and compared each time, and only once
 * those before it say that it is still a part of the chain. So it does not matter whose walk it
 * was.
 */
#ifndef VT_RECORDER_MEMO_H
#define VT_RECORDER_MEMO_H

#include "internal.h"

/* Frames that are remembered; a walk with more does without. */
#define VT_REC_MEMO_FRAMES 128
/* After a walk that was too long, so many walks do not try. */
#define VT_REC_MEMO_PAUSE 64

/* A frame of Python, in the order of the chain. */
struct vt_rec_memo_python {
	uint64_t frame;
	uint64_t code;        /* 0: not a Python function's */
	uint64_t print;       /* distinguishes the code object from others at its address */
	uint64_t word;        /* that is recorded, the first if there are two; VT_REC_MEMO_HIDDEN */
	uint64_t owner_lasti; /* high half, low half: one word, as it is copied as words */
};
#define VT_REC_MEMO_HIDDEN UINT64_MAX /* the frame is not shown */

/* A native frame; small, as many of them are compared for each allocation. */
struct vt_rec_memo_native {
	uint64_t pc;
	uint64_t bp;
	uint32_t depth; /* of the stack pointer below the end of the stack */
	/*
	 * How far below the next frame's stack pointer its frame pointer lies, 0: it is the same;
	 * VT_REC_MEMO_ODD: the step to the next frame is none that the memo knows.
	 */
	uint16_t saved;
	bool by_bp; /* the step needs the frame pointer */
	/*
	 * This step or a later one needs it. Otherwise it is some value of the program's, which is
	 * another one the next time.
	 */
	bool live;
};
#define VT_REC_MEMO_ODD UINT16_MAX

/* The frames of a walk that its memo does not have yet. */
struct vt_rec_memo_fresh {
	struct vt_rec_memo_python python[VT_REC_MEMO_FRAMES];
	struct vt_rec_memo_native native[VT_REC_MEMO_FRAMES];
};

/* Frames are at the ends of their arrays. What is read first is in one line of the cache. */
struct vt_rec_memo {
	struct vt_rec_memo_fresh *fresh;
	uint32_t stack; /* of the last walks; VT_RECORDER_NO_STACK: not known */
	struct {
		bool none;      /* the thread has no Python */
		uint32_t first; /* the frames are those from here to the end */
		uint32_t pause;
	} python;
	struct {
		uint32_t first;
		uint32_t pause;
		uint32_t flags;
		uint32_t recipes; /* the state of what is known, when the walk began */
		uint64_t end;     /* of the stack */
	} native;
	/* What the next walk began with, at this stack pointer. */
	struct vt_rec_memo *next;
	uint64_t next_sp;
	struct vt_rec_memo_python python_frames[VT_REC_MEMO_FRAMES];
	struct vt_rec_memo_native native_frames[VT_REC_MEMO_FRAMES];
};
_Static_assert(sizeof(struct vt_rec_memo) % 64 == 0, "a memo begins with a line");
_Static_assert(offsetof(struct vt_rec_memo, python_frames) == 64, "its head is a line");

/*
 * A program that trains allocates at the same stacks in the same order, step after step. So which
 * memo a walk begins with is chosen by the stack before it and by its own stack pointer: mostly it
 * is the memo of the same stack, of a step ago. Where it is not, a part of it is still the same, as
 * all of a thread's stacks have their outermost frames in common.
 */
#define VT_REC_MEMOS 512         /* of a lane, at most */
#define VT_REC_MEMO_CHUNK 8      /* are mapped at once */
#define VT_REC_MEMO_CHOICES 2048 /* mostly one for a stack after another, as few share one */
struct vt_rec_memos {
	struct vt_rec_memo *last; /* of the walk before */
	uint32_t stack;           /* the result of the walk before */
	uint32_t n;               /* that were made */
	uint32_t lane;
	bool full; /* there will be no more */
	struct vt_rec_memo *of[VT_REC_MEMO_CHOICES];
	struct vt_rec_memo *chunks[VT_REC_MEMOS / VT_REC_MEMO_CHUNK];
	struct vt_rec_memo_fresh fresh;
};

typedef uint64_t __attribute__((may_alias)) vt_rec_memo_word;

/*
 * A run of fresh frames takes the place of the frames from `from` to before `to`; those before it
 * move, as the outermost frame is always the last one. Returns the new first one; there must be
 * room. size: of a frame, all of which is words.
 */
static inline __attribute__((always_inline))
uint32_t vt_rec_memo_splice(void *frames, unsigned int size, uint32_t first, uint32_t from,
			    uint32_t to, const void *fresh, uint32_t n)
{
	unsigned int n_words = size / sizeof(uint64_t);
	uint32_t new_first = first + (to - from) - n, moved = (from - first) * n_words;
	vt_rec_memo_word *words = frames, *old = words + first * n_words,
			 *new = words + new_first *n_words;
	const vt_rec_memo_word *run = fresh;

	/* The barriers keep the compiler from calling memmove(), which is slow here. */
	for (uint32_t i = 0; new < old &&i < moved; i++) {
		new[i] = old[i];
		__asm__ volatile("");
	}
	for (uint32_t i = moved; new > old &&i > 0; i--) {
		new[i - 1] = old[i - 1];
		__asm__ volatile("");
	}
	for (uint32_t i = 0; i < n * n_words; i++) {
		words[(to - n) * n_words + i] = run[i];
		__asm__ volatile("");
	}
	return new_first;
}

/* A walk that is under way. */
struct vt_rec_follow {
	uint32_t from;  /* frames from here on are not met again yet */
	uint32_t at;    /* and those before here will not be */
	uint32_t fresh; /* frames that come before `from`, in place of those until `at` */
	bool changed;
};

static inline bool vt_rec_follow_is_settled(const struct vt_rec_follow *f, uint32_t to)
{
	return f->from == to && !f->fresh;
}

/*
 * The run of fresh frames ends before a frame that is met again (to), or at the end. False: no
 * room. frames, size, fresh: as above; first: of the frames.
 */
static inline __attribute__((always_inline)) bool vt_rec_follow_settle(
	struct vt_rec_follow *f, void *frames, unsigned int size, uint32_t *first,
	const void *fresh, uint32_t to)
{
	f->changed = true;
	if (f->from - *first + f->fresh + (VT_REC_MEMO_FRAMES - to) > VT_REC_MEMO_FRAMES)
		return false;
	*first = vt_rec_memo_splice(frames, size, *first, f->from, to, fresh, f->fresh);
	f->fresh = 0;
	return true;
}

static inline void vt_rec_memo_clear(struct vt_rec_memo *memo)
{
	memo->stack = VT_RECORDER_NO_STACK;
	memo->python.first = memo->native.first = VT_REC_MEMO_FRAMES;
	memo->python.pause = memo->native.pause = 0;
	memo->native.end = 0;
	memo->next = NULL;
	memo->next_sp = 0;
}

/* The memos of a visit's lane; NULL: there are none for this visit, or there is no room. */
struct vt_rec_memos *vt_rec_memos_of(const struct vt_rec_visit *visit);
/* The one to begin a walk with that begins at this stack pointer. */
struct vt_rec_memo *vt_rec_memo_for(struct vt_rec_memos *memos, uint64_t sp);

/*
 * A memo was read a step ago: since then the program has used all caches. Asked for at once, its
 * lines come together.
 */
static inline void vt_rec_memo_fetch_python(const struct vt_rec_memo *memo)
{
	__builtin_prefetch(memo);
	for (unsigned int i = 1; i <= 10; i++)
		__builtin_prefetch((const char *)memo->native_frames - i * 64);
}

static inline void vt_rec_memo_fetch_native(const struct vt_rec_memo *memo)
{
	const char *at = (const char *)&memo->native_frames[memo->native.first],
		   *end = (const char *)(memo + 1);

	for (unsigned int i = 0; i < 12 && at < end; i++, at += 64)
		__builtin_prefetch(at);
}
void vt_rec_memos_deinit(void);

enum vt_rec_again {
	VT_REC_SAME,    /* the walk reads what the one before read */
	VT_REC_CHANGED, /* the memo has what this one read */
	VT_REC_UNKNOWN, /* do it without the memo */
};

/* python.c, native.c: a walk with a memo. now: vt_rec_now(). */
enum vt_rec_again vt_rec_python_again(struct vt_rec_memo *memo);
enum vt_rec_again vt_rec_native_again(const struct vt_rec_regs *regs, struct vt_rec_memo *memo,
				      uint64_t now);
/* Append what the memo has, as the captures do, and add up the hash; Python's first. */
void vt_rec_python_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames);
void vt_rec_native_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames);

#endif
