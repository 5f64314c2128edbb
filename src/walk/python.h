/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's threads and frames, read from outside; no code runs in the target. CPython 3.8 to 3.14 (free-threaded ones too):
 * from 3.13 on by its own debug offsets, older ones by a layout table that scripts/gen-python-layouts.sh makes from headers
 * (walk/python_layouts.h).
 *
 * In two steps, so that the target is stopped for the first one only: capture copies what changes while it runs (the chain
 * of frames), resolve reads what does not (names, file, line tables).
 */
#ifndef VT_WALK_PYTHON_H
#define VT_WALK_PYTHON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "vramtap/mem.h"

#define VT_PYTHON_MAX_FRAMES 20000 /* a thread */
#define VT_PYTHON_MAX_THREADS 65536

struct vt_python_frame {
	uint64_t frame;   /* address of the frame structure */
	uint64_t code;    /* PyCodeObject */
	int32_t lasti;    /* byte offset of the instruction in co_code, -1 not started */
	bool generator;   /* belongs to a generator or coroutine */
	bool entry;       /* its evaluation began a new C call of the evaluator: the native stack has one evaluator frame for
			     the run of Python frames from here inwards (innermost first order: it ends a run) */
	uint64_t c_frame; /* of an entry (3.12+): an address in the C stack frame of its evaluator; 0 unknown */
	/* resolved: */
	const char *function; /* qualified name where there is one (3.11+), else co_name; NULL unknown; hostile */
	const char *file;     /* co_filename; NULL unknown; hostile */
	int line;             /* 0 unknown; capture sets it where a trace function has fixed it */
};

struct vt_python_thread {
	uint64_t tstate;
	uint64_t interpreter;  /* PyInterpreterState */
	pid_t tid;             /* 0 unknown */
	uint64_t pthread;      /* thread_id of PyThreadState: pthread_t */
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
	bool gil_known;
	/*
	 * tstate that holds the GIL of the main interpreter, 0 nobody (always so in a free-threaded build with its GIL off).
	 * Subinterpreters may have a GIL of their own (3.12+): see holds_gil of their threads.
	 */
	uint64_t gil_holder;
	VT_VEC(struct vt_python_thread) threads;
	struct vt_arena arena; /* owns names */
};

/*
 * Finds the interpreter. VT_ERR_NOTFOUND when the target has none; VT_ERR_UNSUPPORTED for a version without a layout (the
 * message names it). py must be zeroed.
 */
struct vt_error *vt_python_init(struct vt_python *py, struct vt_modules *modules, struct vt_memsrc *src);
void vt_python_deinit(struct vt_python *py);

/*
 * Copies the frame chains of all threads. Bounded, cycles are detected; what cannot be read is said in the thread's why.
 * Thread ids are those of the target's own pid namespace; the caller translates. src is read by page: it need not be cached,
 * and must not be when it is not coherent (each chain is then checked to be the same after it was read).
 */
struct vt_error *vt_python_capture(struct vt_python *py, struct vt_memsrc *src);

/* Reads names and lines of all captured frames (once for each code object). */
struct vt_error *vt_python_resolve(struct vt_python *py, struct vt_memsrc *src);

#endif
