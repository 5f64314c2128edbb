/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relief: a function of PyTorch's allocator, or Python's collector, run in the target because the
 * user asked for it. What the helper gets and answers (helper/relieve.c).
 */
#ifndef VRAMTAP_RELIEVE_H
#define VRAMTAP_RELIEVE_H

#include <stdint.h>

enum vt_relief {
	VT_RELIEF_EMPTY_CACHE,     /* torch._C._cuda_emptyCache() */
	VT_RELIEF_COLLECT_GARBAGE, /* gc.collect() */
	VT_RELIEF_TRIM_PINNED,     /* torch._C._host_emptyCache() */
	VT_N_RELIEFS
};

enum vt_relief_word {
	VT_RELIEF_OPEN,
	VT_RELIEF_BEGUN,     /* by the helper: it calls */
	VT_RELIEF_CANCELLED, /* by the tool, which gives up: it must not call any more */
};

/* How far it is. Nothing of the target has changed, and nothing of it is held, before the call. */
enum vt_relief_stage {
	VT_RELIEF_NOT_BEGUN,
	VT_RELIEF_ASKS_GPU,  /* whether its work comes to an end; holds nothing */
	VT_RELIEF_WAITS_GIL, /* holds nothing */
	VT_RELIEF_CHECKS,    /* with the GIL */
	VT_RELIEF_CALLS,     /* cannot be called back */
	VT_RELIEF_RETURNED,
	VT_N_RELIEF_STAGES
};

/* Why it was not called. */
enum vt_relief_refusal {
	VT_RELIEF_MAY,
	VT_RELIEF_NO_CONTEXT,     /* the process has no CUDA context */
	VT_RELIEF_OLD_DRIVER,     /* it cannot be asked whether all work is done */
	VT_RELIEF_NO_MODE,        /* captures cannot be spared */
	VT_RELIEF_CAPTURE,        /* of a CUDA graph; device */
	VT_RELIEF_GPU_WORKS,      /* its work did not end in time; device */
	VT_RELIEF_DRIVER_ERROR,   /* error; device */
	VT_RELIEF_UNATTENDED,     /* the tool gave no more signs of life */
	VT_RELIEF_NO_TORCH,       /* the main interpreter has not imported it */
	VT_RELIEF_NOT_NATIVE,     /* another allocator */
	VT_RELIEF_HISTORY,        /* is recorded, or PyTorch does not say */
	VT_RELIEF_LOCKED,         /* a mutex of the allocator; device */
	VT_RELIEF_NO_FUNCTION,    /* this release has none, or something has replaced it */
	VT_RELIEF_RAISED,         /* called, but it raised an exception */
	VT_RELIEF_CAPTURE_BEGAN,  /* a capture is there just after the question; device */
	VT_RELIEF_CAPTURE_BROKEN, /* the question has ended one; device */
	VT_N_RELIEF_REFUSALS
};

#endif
