/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's threads and frames, read from outside; no code runs in the target. CPython 3.8 to 3.14 (free-threaded ones too):
 * from 3.13 on by its own debug offsets, older ones by a layout table that scripts/gen-python-layouts.sh makes from headers
 * (walk/python/layouts.h).
 *
 * In two steps, so that the target is stopped for the first one only: capture copies what changes while it runs (the chain
 * of frames), resolve reads what does not (names, file, line tables).
 */
#ifndef VT_WALK_PYTHON_PYTHON_H
#define VT_WALK_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "vramtap/mem.h"
#include "walk/python/tensor.h"

#define VT_PYTHON_MAX_FRAMES 20000 /* a thread */
#define VT_PYTHON_MAX_THREADS 65536
#define VT_PYTHON_NO_GIL SIZE_MAX

struct vt_python_local {
	const char *name;  /* hostile, "?" unknown */
	const char *value; /* one line of hostile text: see walk/python/value.h */
	uint32_t slot;     /* private */
};

struct vt_python_locals {
	uint32_t n;
	bool cut; /* there are more */
	struct vt_python_local items[];
};

struct vt_python_frame {
	uint64_t frame;   /* address of the frame structure */
	uint64_t code;    /* PyCodeObject */
	int32_t lasti;    /* byte offset of the instruction in co_code, -1 not started */
	bool generator;   /* belongs to a generator or coroutine */
	bool entry;       /* its evaluation began a new C call of the evaluator: the native stack has one evaluator frame for
			     the run of Python frames from here inwards (innermost first order: it ends a run) */
	uint32_t interpreter; /* id of the interpreter that runs it: 0 the main one */
	uint64_t c_frame; /* of an entry (3.12+): an address in the C stack frame of its evaluator; 0 unknown */
	/* The bound local variables, names after resolve; NULL: not asked for, or not read. Owned by struct vt_python's arena. */
	const struct vt_python_locals *locals;
	/* resolved: */
	const char *function; /* qualified name where there is one (3.11+), else co_name; NULL unknown; hostile */
	const char *file;     /* co_filename; NULL unknown; hostile */
	int line;             /* 0 unknown; capture sets it where a trace function has fixed it */
};

/* A global interpreter lock. From 3.12 on interpreters can have one of their own. */
struct vt_python_gil {
	uint64_t addr; /* of the struct that the locks which threads wait on lie in */
	uint64_t size;
	uint64_t holder;   /* tstate; 0 nobody (always so in a free-threaded build with its GIL off) */
	pid_t holder_tid;  /* 0 nobody, or not known which thread that is */
	bool known;        /* whether somebody holds it, and who */
	bool of_main;      /* of the main interpreter */
};

/* A thread of the process. Where it is in several interpreters its frames of all of them follow each other. */
struct vt_python_thread {
	uint64_t tstate;           /* of the innermost frames, like all the rest */
	uint64_t interpreter;      /* PyInterpreterState */
	uint32_t interpreter_id;   /* 0: the main interpreter */
	size_t gil;                /* index in gils of that interpreter's, VT_PYTHON_NO_GIL unknown */
	pid_t tid;             /* 0 unknown */
	uint64_t pthread;      /* thread_id of PyThreadState: pthread_t; 0 unknown */
	uint64_t c_stack;      /* 3.10 to 3.12: an address in its C stack, near the innermost evaluator's; 0 unknown */
	bool holds_gil;
	bool truncated;        /* more frames than the bound, or an unreadable one */
	VT_VEC(struct vt_python_frame) frames; /* innermost first */
	char why[96];          /* why frames are missing, "" if none are */
};

struct vt_python_layout;
struct vt_py_pages;

enum vt_python_type {
	VT_PYTHON_CODE,
	VT_PYTHON_STR,
	VT_PYTHON_BYTES,
	VT_PYTHON_N_TYPES
};

struct vt_python {
	int major, minor, micro; /* micro -1: unknown */
	bool free_threaded;
	uint64_t runtime;      /* address of _PyRuntime */
	const struct vt_module *module; /* libpython or the executable */
	const struct vt_python_layout *layout; /* private */
	struct {
		uint64_t symbol, named; /* addresses of the type object, 0 unknown */
	} types[VT_PYTHON_N_TYPES];            /* private */
	struct vt_py_pages *pages;             /* private */
	bool locals; /* read local variables too; set it before vt_python_init() */
	struct vt_py_tensor_abi tensor; /* private */
	size_t n_without_locals; /* frames whose local variables were not read: no time, or the target was running */
	VT_VEC(struct vt_python_gil) gils;
	VT_VEC(struct vt_python_thread) threads;
	struct vt_arena arena; /* owns names */
};

/*
 * Finds the interpreter. VT_ERR_NOTFOUND when the target has none; VT_ERR_UNSUPPORTED for a version without a layout (the
 * message names it). py must be zeroed but for what is asked for.
 */
struct vt_error *vt_python_init(struct vt_python *py, struct vt_modules *modules, struct vt_memsrc *src);

/* The same in a process that runs: what changed under the first look is looked at again. */
struct vt_error *vt_python_find(struct vt_python *py, struct vt_modules *modules, struct vt_live *live);

void vt_python_deinit(struct vt_python *py);

/*
 * Copies the frame chains of all threads. Bounded, cycles are detected; what cannot be read is said in the thread's why.
 * Thread ids are those of the target's own pid namespace; the caller translates. src is read by page: it need not be cached,
 * and must not be when it is not coherent (each chain is then checked to be the same after it was read). Local variables are
 * read for 20 ms (of processor time) at most, the innermost frames of all threads first, and of a coherent src only.
 */
struct vt_error *vt_python_capture(struct vt_python *py, struct vt_memsrc *src);

/* Reads names and lines of all captured frames (once for each code object). */
struct vt_error *vt_python_resolve(struct vt_python *py, struct vt_memsrc *src);

/*
 * The GIL that a thread waits for when it sleeps on the futex at this address; NULL: it waits for something else. (All that
 * sleep on a GIL's own locks want it, or have just handed it over and will want it again.)
 */
const struct vt_python_gil *vt_python_waits_for_gil(const struct vt_python *py, const struct vt_python_thread *thread,
						    uint64_t futex);

/* Whether a thread holds the GIL of the interpreter that it is in: 1, 0, or -1 unknown. */
int vt_python_holds_gil(const struct vt_python *py, const struct vt_python_thread *thread);

#endif
