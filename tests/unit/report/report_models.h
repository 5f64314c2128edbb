/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Report models made by hand, for the tests of the writers and for looking at them (report_demo).
 */
#ifndef VT_TESTS_REPORT_MODELS_H
#define VT_TESTS_REPORT_MODELS_H

#include "model/model.h"

/* NULL after the last. */
extern const char *const report_model_names[];

/* Fills model and runs vt_model_account(). False when there is no such name. The caller deinits. */
bool report_model_build(struct vt_model *model, const char *name);

/* The same without vt_model_account(). */
bool report_model_fill(struct vt_model *model, const char *name);

/* ---- pieces, for tests that need their own ---- */

struct vt_model_device *report_add_device(struct vt_model *model, int ordinal, uint64_t used,
					  uint64_t total);

/* Blocks that are added go to the allocator that was added last, whose result is kept in step. */
struct vt_model_allocator *report_add_allocator(struct vt_model *model, int device);
void report_add_segment(struct vt_model *model, unsigned int flags, uint64_t stream, uint64_t pool);
struct vt_block_rec *report_add_block(struct vt_model *model, uint8_t state, uint64_t size,
				      uint64_t requested);

/*
 * The ledger of a device; ranges that are added go after the last one, or at start. A range has its
 * own memory: one mapping of whole pages.
 */
struct vt_model_ledger_device *report_add_ledger(struct vt_model *model, int device);
struct vt_model_range *report_add_range(struct vt_model *model, uint8_t kind, uint64_t start,
					uint64_t size);
/* The ranges that PyTorch's segments are made of. */
void report_add_pytorch_ranges(struct vt_model *model);

/*
 * Pinned host memory: 2 GiB in use, 256 KiB that await their free (in a private pool), 4 GiB
 * cached; 7 blocks.
 */
void report_add_pinned(struct vt_model *model);

struct vt_model_thread *report_add_thread(struct vt_model *model, pid_t tid, const char *name);
void report_add_native(struct vt_model *model, struct vt_model_thread *t, const char *function,
		       const char *module, uint64_t offset);
void report_add_python(struct vt_model *model, struct vt_model_thread *t, const char *function,
		       const char *file, int line);

/*
 * Recorded backtraces: each frame once, then backtraces of them (indices, ended by UINT32_MAX),
 * then blocks by turns, every seventh without.
 */
void report_add_traces(struct vt_model *model, const struct vt_model_frame *frames, size_t n_frames,
		       const uint32_t *const *traces, size_t n_traces);

/* What vramtap's recorder has of them and beside them; three of four backtraces become its own. */
void report_add_recorder(struct vt_model *model, const char *const *threads, size_t n_threads);

/* A copy of a thread's stack for another thread. */
void report_copy_stack(struct vt_model_thread *to, const struct vt_model_thread *from);

/*
 * What the thread does and waits for, in sentences of vramtap 0.1.0; NULL: as it is. What is none
 * stands for a hostile name.
 */
void report_does(struct vt_model *model, struct vt_model_thread *t, const char *verdict,
		 const char *waits);

#endif
