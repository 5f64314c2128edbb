/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap relieve: gives memory of a live process back with the process's own function, because the
 * user asked for exactly that. Looks at the process before and after; refuses in between unless it
 * is sure that nothing begins to wait (helper/relieve.c has the reasons).
 */
#ifndef VT_RELIEVE_RELIEVE_H
#define VT_RELIEVE_RELIEVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "model/model.h"
#include "report/diff/diff.h"
#include "vramtap/helper_abi.h"

struct vt_relieve_request {
	enum vt_relief what;
	bool dry_run; /* all checks, and nothing else */
	/* for getting inside, and for the end of the GPUs' work */
	uint64_t budget_ns;
};

/* Why nothing was called: what the helper refuses, and what is seen from outside. */
enum vt_relieve_why {
	VT_RELIEVE_HELPER = VT_N_RELIEF_REFUSALS, /* beyond: ours */
	VT_RELIEVE_INSIDE,                        /* no way in; text */
	VT_RELIEVE_TORCH,                         /* its allocator is not there; text */
	VT_RELIEVE_LAYOUT,                        /* whether a capture runs cannot be seen; text */
	VT_RELIEVE_CAPTURES,     /* a library may capture by itself; text: its name */
	VT_RELIEVE_CALLS_PYTHON, /* a library's allocator calls Python; text: its name */
	VT_RELIEVE_ALLOCATOR,    /* a thread keeps its lock; tid, device */
	VT_RELIEVE_PINNED,       /* a thread keeps the lock of pinned memory; tid */
	VT_RELIEVE_IN_DRIVER,    /* a thread stands still in the driver; tid */
	VT_RELIEVE_INTERPRETER,  /* it cannot be asked; text */
	VT_RELIEVE_GIL,          /* it does not come free; text */
	VT_RELIEVE_SILENT,       /* the driver did not answer the helper */
	VT_RELIEVE_GIL_SILENT,   /* the GIL did not come */
	VT_RELIEVE_NO_ANSWER,    /* the helper's thread is silent, but not in the driver */
	VT_N_RELIEVE_WHYS
};

enum vt_relieve_outcome {
	VT_RELIEVE_REFUSED, /* nothing was called */
	VT_RELIEVE_WOULD,   /* a dry run: nothing speaks against it */
	VT_RELIEVE_DONE,
	VT_RELIEVE_RAISED, /* called, and it raised an exception */
	VT_RELIEVE_RUNS,   /* called, and it has not returned */
	VT_RELIEVE_ENDED,  /* called, and the process ended before it returned */
	VT_N_RELIEVE_OUTCOMES
};

struct vt_relieve_result {
	struct vt_relieve_request request;
	enum vt_relieve_outcome outcome;
	unsigned int why; /* enum vt_relief_refusal or enum vt_relieve_why; of _REFUSED */
	pid_t tid;        /* a thread, 0 none */
	int device;       /* -1 none */
	char text[256];   /* of some; hostile bytes */
	struct vt_relieve_answer answer; /* checked */
	bool has_gil;                    /* the helper's thread, which did not answer */
	double gil_waited_ms;            /* -1: that wait did not end */
	double total_ms;
	pid_t borrowed_tid;
	struct vt_model before, after; /* after: only if it was called */
	bool have_after;
	char no_after[256];  /* why there is none */
	struct vt_diff diff; /* have_after */
};

/*
 * result is filled whatever happens; vt_relieve_deinit() afterwards. An error: the process cannot
 * even be looked at, and nothing was done.
 */
struct vt_error *vt_relieve(pid_t pid, const struct vt_relieve_request *request,
			    struct vt_relieve_result *result);
void vt_relieve_deinit(struct vt_relieve_result *result);

/*
 * In a signal handler: nothing is begun any more. Returns what to say of it; NULL: nothing was to
 * be called.
 */
const char *vt_relieve_cancel_at_once(void);

/* Whether what it did is known: both looks have exact numbers. */
bool vt_relieve_is_known(const struct vt_relieve_result *result);

#endif
