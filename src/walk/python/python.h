/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's threads and frames, read from outside; no code runs in the target. Supports CPython 3.8
 * to 3.14, free-threaded builds too: from 3.13 on by its own debug offsets, older ones by a layout
 * table that scripts/gen-python-layouts.sh makes from headers (walk/python/layouts.h).
 *
 * There are two steps, so that the target is stopped for the first one only. Capture copies what
 * changes while the target runs (the chain of frames). Resolve reads what does not (names, file,
 * line tables).
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

#define VT_PYTHON_MAX_FRAMES 20000 /* per thread */
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
	uint64_t frame; /* address of the frame structure */
	uint64_t code;  /* PyCodeObject */
	int32_t lasti;  /* byte offset of the instruction in co_code, -1 not started */
	bool generator; /* belongs to a generator or coroutine */
	/*
	 * This frame began a new C call of the evaluator. The native stack has one evaluator frame
	 * for the run of Python frames from here inwards. Frames are innermost first, so it ends a
	 * run.
	 */
	bool entry;
	uint32_t interpreter; /* id of the interpreter that runs it: 0 the main one */
	uint64_t c_frame;     /* of an entry (3.12+): an address in its evaluator's C frame; or 0 */
	/*
	 * The bound local variables; resolve adds their names. NULL: not asked for, or not read.
	 * Owned by the arena of struct vt_python.
	 */
	const struct vt_python_locals *locals;
	/* resolved: */
	const char *function; /* qualified name (3.11+), else co_name; NULL unknown; hostile */
	const char *name;     /* co_name; NULL unknown; hostile */
	const char *file;     /* co_filename; NULL unknown; hostile */
	int line;             /* 0 unknown; capture sets it if a trace function has fixed it */
};

/* A global interpreter lock. From 3.12 on each interpreter can have its own. */
struct vt_python_gil {
	uint64_t addr; /* of the struct that contains the locks that threads wait on */
	uint64_t size;
	uint64_t holder;  /* tstate; 0 none (always 0 in a free-threaded build with its GIL off) */
	pid_t holder_tid; /* 0 none, or the holder's tid is unknown */
	bool known;       /* holder is valid */
	bool of_main;     /* of the main interpreter */
};

/*
 * A thread of the process. If it is in several interpreters, frames has those of all, one after the
 * other.
 */
struct vt_python_thread {
	uint64_t tstate;         /* of the innermost frames, like the fields below */
	uint64_t interpreter;    /* PyInterpreterState */
	uint32_t interpreter_id; /* 0: the main interpreter */
	size_t gil;              /* that interpreter's index in gils; VT_PYTHON_NO_GIL unknown */
	pid_t tid;               /* 0 unknown */
	uint64_t pthread;        /* thread_id of PyThreadState: pthread_t; 0 unknown */
	uint64_t c_stack;        /* 3.10 to 3.12: in its C stack, near the inner evaluator; or 0 */
	bool holds_gil;
	bool truncated; /* more frames than the bound, or an unreadable one */
	VT_VEC(struct vt_python_frame) frames; /* innermost first */
	char why[96];                          /* why frames are missing, "" if none are */
};

struct vt_python_layout;
struct vt_py_pages;

enum vt_python_type { VT_PYTHON_CODE, VT_PYTHON_STR, VT_PYTHON_BYTES, VT_PYTHON_N_TYPES };

struct vt_python {
	int major, minor, micro; /* micro -1: unknown */
	bool free_threaded;
	const struct vt_arch *arch;            /* of the target */
	uint64_t runtime;                      /* address of _PyRuntime */
	const struct vt_module *module;        /* libpython or the executable */
	const struct vt_python_layout *layout; /* private */
	struct {
		uint64_t symbol, named; /* addresses of the type object, 0 unknown */
	} types[VT_PYTHON_N_TYPES];     /* private */
	struct vt_py_pages *pages;      /* private */
	bool locals; /* read local variables too; set it before vt_python_init() */
	struct vt_py_tensor_abi tensor; /* private */
	size_t n_without_locals; /* frames whose locals were not read: no time, or target running */
	VT_VEC(struct vt_python_gil) gils;
	VT_VEC(struct vt_python_thread) threads;
	struct vt_arena arena; /* owns names */
};

/*
 * Finds the interpreter. VT_ERR_NOTFOUND when the target has none; VT_ERR_UNSUPPORTED for a version
 * without a layout (the message names it). py must be zeroed, except for the caller's settings.
 */
struct vt_error *vt_python_init(struct vt_python *py, struct vt_modules *modules,
				struct vt_memsrc *src);

/* The same for a running process: reads again what changed during the first read. */
struct vt_error *vt_python_find(struct vt_python *py, struct vt_modules *modules,
				struct vt_live *live);

void vt_python_deinit(struct vt_python *py);

/*
 * Copies the frame chains of all threads. It is bounded and detects cycles; the thread's why tells
 * what could not be read. Thread ids are those of the target's pid namespace; the caller translates
 * them. It reads src by page, so src need not be cached. An incoherent src must not be cached: then
 * each chain is read twice and must be the same. Local variables are read from a coherent src only,
 * for at most 20 ms of CPU time, the innermost frames of all threads first.
 */
struct vt_error *vt_python_capture(struct vt_python *py, struct vt_memsrc *src);

/* Reads the names and lines of all captured frames, once for each code object. */
struct vt_error *vt_python_resolve(struct vt_python *py, struct vt_memsrc *src);

/*
 * Reads and resolves one frame wherever it is: a generator's that is suspended, one that an
 * exception keeps. False: it cannot be read. Its strings are in py->arena.
 */
bool vt_python_frame_at(struct vt_python *py, struct vt_memsrc *src, uint64_t addr,
			struct vt_python_frame *frame);

/*
 * The GIL that a thread waits for when it sleeps on the futex at this address; NULL: it waits for
 * something else. (All threads that sleep on a GIL's own locks want the GIL, or have just handed it
 * over and will want it again.)
 */
const struct vt_python_gil *vt_python_waits_for_gil(const struct vt_python *py,
						    const struct vt_python_thread *thread,
						    uint64_t futex);

/* Whether a thread holds its interpreter's GIL: 1, 0, or -1 unknown. */
int vt_python_holds_gil(const struct vt_python *py, const struct vt_python_thread *thread);

#endif
