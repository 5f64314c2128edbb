/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on the devices, as the CUDA debugger (cuda-gdb) tells it. Part of the model.
 * Everything here is of one moment, a little after the threads were looked at. Strings are hostile.
 */
#ifndef VT_MODEL_KERNELS_H
#define VT_MODEL_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"

struct vt_model;

/* X(NAME, "name"): the code, and its name in JSON, which never changes. */
/* clang-format off */
#define VT_KERNELS_STATES(X)                                                             \
	X(NOT_ASKED, NULL)                                                               \
	X(TOLD, "told")               /* kernels has what runs */                        \
	X(NONE, "none")               /* no kernel runs */                               \
	X(NO_DEBUGGER, "no-debugger") /* there is none that may be started */            \
	X(REFUSED, "refused")         /* the process is in no state to be debugged */    \
	X(FAILED, "failed")           /* the debugger ended without an answer */         \
	X(LATE, "late")               /* it had not answered in time */
/* clang-format on */

#define VT_KERNELS_CODE(name, text) VT_KERNELS_##name,
enum vt_kernels_state { VT_KERNELS_STATES(VT_KERNELS_CODE) VT_N_KERNELS_STATES };
#undef VT_KERNELS_CODE

/* Threads of one kernel that are at one instruction. */
struct vt_model_kernel_place {
	uint32_t kernel; /* index in kernels */
	uint64_t threads, pc;
	bool have_offset;
	uint64_t offset;  /* of pc from the begin of the kernel's code */
	const char *file; /* NULL: compiled without -lineinfo */
	int line;         /* 0 unknown */
};

#define VT_KERNEL_MAX_SOURCES 4

/* A place in Python that a kernel of this name was made from. */
struct vt_model_kernel_source {
	const char *file;
	int line;
};

struct vt_model_kernel {
	uint32_t number;    /* the debugger's */
	int parent, device; /* parent: -1 none */
	int64_t grid;       /* below 0: launched by a kernel */
	const char *status; /* "Active" */
	unsigned int sms;   /* on how many multiprocessors it is; 0 on none, or unknown */
	uint32_t grid_dim[3], block_dim[3]; /* all 0: unknown */
	const char *name;                   /* without the values of its arguments */
	bool have_begin;
	uint64_t begin; /* of its code */
	/*
	 * By Triton's cache, where the code has no lines: of this kernel, or of another one with
	 * its name. whole: all of the cache was looked at.
	 */
	struct vt_model_kernel_source sources[VT_KERNEL_MAX_SOURCES];
	size_t n_sources;
	bool more_sources, sources_whole;
	/* filled when all is read; in places: */
	size_t first_place, n_places, more_places;
	uint64_t threads; /* at all places, those left out included; 0 unknown */
};

#define VT_KERNELS_MAX 256       /* more do not run at once on one device */
#define VT_KERNELS_MAX_PLACES 64 /* of a kernel that are kept, those with most threads */
#define VT_KERNELS_MAX_RAISED 16

struct vt_model_kernels {
	enum vt_kernels_state state;
	const char *why;      /* the debugger's own last line, or ours; NULL none */
	const char *debugger; /* its path; NULL: none was found */
	double took_ms;       /* about as long as the process stood still */
	bool works;           /* it is not asked, for the main thread went on within a second */
	size_t more;          /* kernels that are not in the list */
	VT_VEC(struct vt_model_kernel) kernels;
	VT_VEC(struct vt_model_kernel_place) places; /* of a kernel together, most threads first */
	VT_VEC(const char *) raised;                 /* "Warp Illegal Address" */
};

void vt_model_kernels_deinit(struct vt_model_kernels *kernels);

/*
 * Once all is in: joins the threads at one instruction, sorts the places of each kernel, keeps
 * the largest.
 */
void vt_model_kernels_finish(struct vt_model_kernels *kernels);

/* NULL: not asked */
const char *vt_kernels_state_name(unsigned int state);

uint64_t vt_kernel_blocks(const struct vt_model_kernel *kernel);
uint64_t vt_kernel_block_threads(const struct vt_model_kernel *kernel);

/* "<<<40, (16, 32)>>>"; nothing if the grid is not known. */
void vt_kernel_add_shape(struct vt_str *text, const uint32_t grid[3], const uint32_t block[3]);

/*
 * In words: "spin_until runs on GPU 0 (40 blocks of 128 threads)", or of several "2 kernels run on
 * GPU 0, one of them spin_until (…)". Nothing is added when none is told.
 */
void vt_kernels_say(struct vt_str *text, const struct vt_model_kernels *kernels);

#endif
