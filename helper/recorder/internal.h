/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the recorder's parts call each other. All of it runs inside the target, most of it on the
 * target's own threads in the middle of an allocation: no libc, no heap, no TLS, no signal, no
 * system call on the usual path; nothing waits for a thread that waits for us; in a child after
 * fork() nothing is done at all. errno and the floating point state stay as they were.
 */
#ifndef VT_RECORDER_INTERNAL_H
#define VT_RECORDER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtap/recorder.h"

extern struct vt_recorder_head vt_recorder;

/*
 * What each allocation runs through lies together: PyTorch has evicted it from the caches since the
 * last one.
 */
#define VT_REC_HOT __attribute__((hot))

/* Registers at a point of the allocating thread's stack, from which unwinding starts. */
struct vt_rec_regs {
	uint64_t pc, sp, bp;
};

/* A captured stack, on the capturing thread's own stack. */
struct vt_rec_frames {
	/* as in the array of words */
	uint64_t words[2 * VT_RECORDER_MAX_PYTHON + VT_RECORDER_MAX_NATIVE];
	uint16_t n_python, n_words_python, n_native, flags;
	/*
	 * of all of the above; record.c computes it when the frames are known. Until then what a
	 * memo adds up: the sum of vt_rec_word_hash() of the words.
	 */
	uint64_t hash;
};

/* The words of stacks of equal hash are compared, so it need not be more than this. */
static inline uint64_t vt_rec_word_hash(uint64_t word, uint64_t index)
{
	uint64_t x = (word ^ index << 48) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 29;
}

/* ---- lanes.c: which threads may touch the mappings ---- */

/*
 * Whether to record now: the recorder is on, and this is not a child. One load. The answer may be
 * outdated at once: the recorder's mappings may only be touched between vt_rec_enter() and
 * vt_rec_leave(), or within a visit, for both of which off waits.
 */
bool vt_rec_is_on(void);
/*
 * False: the recorder is off; then do not call vt_rec_leave(). The two nest, and never wait. Code
 * between them must not wait for a thread or a watcher.
 */
bool vt_rec_enter(void);
void vt_rec_leave(void);
/*
 * The same, for an allocation of PyTorch's: cheaper, and if `owned` is set, no other visit has the
 * memo of the lane (memo.h) until vt_rec_visit_end().
 */
struct vt_rec_visit {
	struct vt_rec_lane *owned;
};
bool vt_rec_visit_begin(struct vt_rec_visit *visit);
void vt_rec_visit_end(const struct vt_rec_visit *visit);
/* A new random number; only between vt_rec_enter() and vt_rec_leave(), or within a visit. */
uint64_t vt_rec_random(void);
/* The calling thread's id, without a system call. */
uint32_t vt_rec_tid(void);
/* CLOCK_MONOTONIC, up to 10 ms late; in ticks since the start. */
uint64_t vt_rec_now_ns(void);
uint64_t vt_rec_now(void);
/*
 * True while a child of the process that switched the recorder on forgets the parent's tables,
 * which it did not inherit. The ..._deinit() and ..._out() functions must not touch the mappings
 * then; vt_rec_unmap() only counts.
 */
bool vt_rec_is_inherited(void);

/* ---- memory.c: memory, arrays and locks ---- */

/*
 * Memory from the kernel, counted against max_memory, not inherited by children; NULL: the bound is
 * reached, or the kernel has none.
 */
void *vt_rec_map(uint64_t size);
/*
 * Whether that leaves an eighth of the memory, which is reserved for stacks, code objects and
 * everything else that must go on growing.
 */
bool vt_rec_may_map(uint64_t size);
/* As vt_rec_map(), with its pages already present: no faults later. */
void *vt_rec_map_pages(uint64_t size);
void vt_rec_unmap(void *at, uint64_t size);
/*
 * Address space for an array that grows in place, of at most max elements of size bytes (less, if
 * there is less). vt_rec_array_grow() makes room for one more element, vt_rec_array_reserve() for
 * n. The caller writes the elements, then raises array->n.
 */
bool vt_rec_array_init(struct vt_recorder_array *array, uint64_t max, uint64_t size);
bool vt_rec_array_grow(struct vt_recorder_array *array, uint64_t size);
bool vt_rec_array_reserve(struct vt_recorder_array *array, uint64_t size, uint64_t n);
void vt_rec_array_deinit(struct vt_recorder_array *array, uint64_t size);

/*
 * False: this thread has it already (re-entered), or its owner does not run for very long: do
 * without the lock. Waits otherwise, but not for ever; owners never block.
 */
bool vt_rec_lock(uint32_t *lock);
void vt_rec_unlock(uint32_t *lock);

/* ---- record.c ---- */

/*
 * An allocation returned from PyTorch's allocator: captures its stack, interns it, keeps the
 * record. regs: of the caller of the allocator.
 */
void vt_rec_allocated(uint64_t addr, uint64_t size, const struct vt_rec_regs *regs);
/* The stack of the calling thread as an id (VT_RECORDER_NO_STACK: no room). */
uint32_t vt_rec_stack_here(const struct vt_rec_regs *regs);
/* Only its innermost Python frames; between vt_rec_enter() and vt_rec_leave(), or in a visit. */
uint32_t vt_rec_stack_python(unsigned int max);

/*
 * Each part's deinit runs when no thread is between vt_rec_enter() and vt_rec_leave() or within a
 * visit, even if its init failed or did not run. It gives back everything mapped by init and since
 * then.
 */

/* ---- stacks.c: the table of stacks ---- */
bool vt_rec_stacks_init(void);
uint32_t vt_rec_stack_intern(const struct vt_rec_frames *frames);
void vt_rec_stacks_deinit(void);

/* ---- blocks.c: live blocks of PyTorch ---- */
void vt_rec_blocks_init(void);
/* Prefetches the memory that a put or drop of this address will need. */
void vt_rec_block_expect(uint64_t addr);
/* rate, now: vt_recorder.sample_now and vt_rec_now() at the decision to record this allocation. */
void vt_rec_block_put(uint64_t addr, uint64_t size, uint32_t stack, uint64_t rate, uint64_t now);
/* The block at this address is new and not recorded: an older record of the address must go. */
void vt_rec_block_drop(uint64_t addr);
void vt_rec_blocks_deinit(void);

/* ---- python.c: frames and code objects ---- */
bool vt_rec_python_init(const struct vt_recorder_config *config);
/*
 * Appends the Python frames of the calling thread, at most max of the innermost ones. No reference
 * is taken, the GIL is not needed: only this thread changes its own frames.
 */
void vt_rec_python_capture(struct vt_rec_frames *frames, unsigned int max);
void vt_rec_python_deinit(void);

/* ---- native.c, unwind.c: return addresses ---- */
bool vt_rec_native_init(const struct vt_recorder_config *config);
/* Appends return addresses, regs->pc first. */
void vt_rec_native_capture(const struct vt_rec_regs *regs, struct vt_rec_frames *frames);
void vt_rec_native_deinit(void);

/* ---- hook.c, entry.S: words that are changed; PyTorch's virtual table ---- */

/*
 * Exchanges the word at where, an aligned pointer, and keeps a note of it in vt_recorder.hooks. The
 * note comes first, so that a reader from outside never finds a change without a note. False: the
 * word was no longer `original`, or there is no room for the note.
 */
bool vt_rec_hook_in(uint64_t where, uint64_t original, uint64_t ours,
		    enum vt_recorder_hook_kind kind);
/*
 * Exchanges all words of that kind back, except words that are no longer ours: they stay unchanged.
 */
void vt_rec_hooks_out(enum vt_recorder_hook_kind kind);
/* Removes the note of a word that was exchanged back, or is gone. */
void vt_rec_hook_forget(struct vt_recorder_hook *note);

/* Call it after everything else; if the result is not OK, nothing was changed. */
uint32_t vt_rec_torch_in(const struct vt_recorder_torch *torch); /* enum vt_recorder_status */
void vt_rec_torch_out(void);

/*
 * ---- driver.c, cupti.c, got.c. in: OK also when the driver's calls cannot be seen (driver_method
 * says so), when not OK, nothing was changed. out: hooks, called after an in that was OK; deinit:
 * tables. ----
 */
uint32_t vt_rec_driver_in(const struct vt_recorder_config *config);
void vt_rec_driver_out(void);
/* Makes the loader load config->cupti.path, which stays loaded. */
uint32_t vt_rec_cupti_load(const struct vt_recorder_config *config);
void vt_rec_driver_deinit(void);

/*
 * ---- launches.c: what streams were given. deinit as for the other parts; in: how many words were
 * changed; may be called again, for words of other libraries ----
 */
bool vt_rec_launches_init(void);
void vt_rec_launches_deinit(void);
uint32_t vt_rec_launches_in(const struct vt_recorder_config *config);
void vt_rec_launches_out(void);

/* ---- oom.c ---- */

/*
 * The C++ runtime calls it for each exception that passes through an entry of the allocator (it is
 * the personality routine of those frames), before anything is unwound. Always lets the exception
 * go on.
 *
 * When an entry (entry.S) calls the original, the bytes asked for are so far above the stack
 * pointer: with a frame of 24 bytes that is the entry's CFA - 24. (The CFA itself is not available:
 * in the search phase _Unwind_GetCFA() returns that of the callee.)
 */
#define VT_REC_ENTRY_REQUESTED 8
int vt_rec_personality(int version, int actions, uint64_t exception_class, void *exception,
		       void *context);
/*
 * A request of so many bytes failed for lack of memory. Keeps the event, and waits for the watcher
 * if there is one.
 */
void vt_rec_out_of_memory(enum vt_recorder_oom_kind kind, uint64_t requested, int error,
			  const struct vt_rec_regs *regs);
/* Before switching on: clears the events. After switching off: disables the trap. */
void vt_rec_oom_begin(void);
void vt_rec_oom_end(void);

#endif
