/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the model of one process: the order of the stages, what each falls back to, and which
 * diagnostic that leaves. A stage that fails costs its own part of the report, not the report.
 */
#ifndef VT_COLLECT_COLLECT_H
#define VT_COLLECT_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "collect/stop.h"
#include "collect/target.h"
#include "model/model.h"

struct vt_helper;
struct vt_lines_memo;
struct vt_ask_pytorch_args;
struct vt_ask_python_args;

/*
 * Somebody who holds the target at a moment of its own (watch --on-oom: a thread waits) is told
 * when what must be of that moment is about to be read, and once it is: blocks, stacks, recorded
 * backtraces. Each is called once, in that order. What is read afterwards (names, what threads wait
 * for, pinned memory) wants the process to be there still.
 */
struct vt_collect_moment {
	void (*begins)(void *arg, struct vt_model *model);
	void (*is_read)(void *arg, struct vt_model *model);
	void *arg;
};

/*
 * Somebody who wants the stacks of several processes of one moment (triage) is called when all is
 * prepared, just before the threads of this one are stopped or read as they sleep, and may wait
 * there; when that is over, before what takes long (names); and when nothing is left to do but to
 * wait for what another one is about to find out (lines_memo). Each is called at most once, in that
 * order.
 */
struct vt_collect_together {
	void (*wait)(void *arg);
	void (*released)(void *arg);
	void (*waits)(void *arg);
	void *arg;
};

struct vt_collect_options {
	enum vt_touch touch;
	unsigned int want;    /* of enum vt_want; code runs in the process only for its memory */
	bool ask_pytorch;     /* PyTorch tells its blocks, also where the walk could */
	bool ask_collectives; /* PyTorch tells the state of its collectives */
	bool debuginfod;      /* debug files may be asked for by debuginfod */
	bool allow_resume;    /* a process stopped by a signal may be continued for the injection */
	/*
	 * For getting inside, and again for each answer of the helper; without a stop: for the
	 * blocks; stacks: for another vramtap to end.
	 */
	uint64_t budget_ns;
	enum vt_view view;
	bool locals;                            /* the local variables of Python functions */
	const struct vt_collect_moment *moment; /* NULL: nobody is to be told */
	/* shared with those who look at other processes; NULL none */
	struct vt_lines_memo *lines_memo;
	const struct vt_collect_together *together; /* NULL: nobody is waited for */
};

/* TORCH_FR_BUFFER_SIZE, or what it was called before; as it was at the process's start. */
struct vt_flight_setting {
	bool is_set;
	int64_t entries; /* 0: it is off */
	/* PyTorch says on standard error that it is old, when it makes the recorder */
	bool by_old_name;
};

/* DeviceStats.reserved_bytes of each device's allocator; n is -1 when it is not known. */
struct vt_reserved {
	int n;
	struct vt_torch_stat stats[VT_TORCH_MAX_DEVICES];
};

/* What is known of the CUDA driver in the process. */
enum vt_driver {
	VT_DRIVER_SILENT, /* it was not asked, or did not answer */
	VT_DRIVER_UNUSED, /* it answered that this process never initialised it */
	VT_DRIVER_ANSWERED,
};

/* How far options->moment was told. */
enum vt_moment {
	VT_MOMENT_TO_COME,
	VT_MOMENT_BEGUN,
	VT_MOMENT_READ,
};

/* A report in the making. */
struct vt_collect {
	struct vt_target target;
	const struct vt_collect_options *options;
	struct vt_model *model;
	uint64_t start_ns;
	struct vt_stop stop;
	struct vt_torch_found torch;
	enum vt_driver driver;
	struct vt_reserved reserved; /* just before the driver was asked for the devices' memory */
	bool torch_inherited;        /* the allocator is the parent's, copied by fork() */
	struct vt_maps pinned_maps;  /* collect/pinned.c's own */
	struct vt_stacks *stacks;    /* collect/stacks.c's own */
	struct vt_collect_outside *outside;   /* collect/outside.c's own */
	struct vt_collect_history *history;   /* collect/history.c's own */
	struct vt_collect_recorded *recorded; /* collect/recorded.c's own */
	struct vt_collect_traces *traces;     /* collect/traces.c's own */
	struct vt_python *python;             /* collect/context.c's own */
	bool have_python;
	/* where a thread's current context is found (helper_abi.h); slot 0: unknown */
	int context_slot, context_inner;
	pid_t helper_tid; /* of this report's own helper thread: it is not part of the target */
	enum vt_moment moment;
	struct vt_flight_setting flight; /* what the environment says of the flight recorder */
	bool flight_empty;               /* it was asked, and has no process group */
};

/*
 * Looks at the subject and fills model (initialised). Fails only when there is nothing to report at
 * all: no such process, not permitted, a zombie, no core, ...
 */
struct vt_error *vt_collect_report(const struct vt_subject *subject,
				   const struct vt_collect_options *options,
				   struct vt_model *model);

/* Only whether it can be looked at, and who it is. */
struct vt_error *vt_collect_look(const struct vt_subject *subject,
				 const struct vt_collect_options *options, struct vt_model *model);

/* What vramtap layouts tells of a process. Strings are in the model's arena, or constants. */
struct vt_layout_seen {
	pid_t pid;
	struct vt_torch_found found; /* without c10_cuda */
	const char *process;         /* "python (4711)" */
	enum vt_allocator_state state;
	const char *library;  /* path of libc10_cuda.so, "" none */
	const char *build_id; /* of it, "" none */
	/* the official one whose library has that build id, NULL none that is known */
	const char *wheel;
};

/* Looks at nothing but the allocator's layout: no thread is stopped. */
struct vt_error *vt_collect_layout(const struct vt_subject *subject, struct vt_model *model,
				   struct vt_layout_seen *seen);

/* The blocks were listed inside the process: none is to be read from outside. */
static inline bool vt_collect_blocks_told(const struct vt_collect *c)
{
	return c->model->torch_method == VT_METHOD_INSIDE ||
	       c->model->torch_method == VT_METHOD_INTERPRETER;
}

/* For options->moment: called wherever it may be so, they tell it the first time. */
void vt_collect_moment_begins(struct vt_collect *c);
void vt_collect_moment_is_read(struct vt_collect *c);

/* What wants the process to stand still, each in its own file. */
extern const struct vt_participant vt_stop_threads;  /* collect/stacks.c: stacks */
extern const struct vt_participant vt_stop_blocks;   /* collect/outside.c: the allocator */
extern const struct vt_participant vt_stop_recorder; /* collect/recorded.c */

/* The other stages, each in its own file. They report through diagnostics. */
void vt_collect_identity(struct vt_collect *c); /* collect/identity.c */
void vt_collect_environ(struct vt_collect *c);  /* collect/identity.c: of a live process */
/* Its rank out of the n bytes of its environment (and a NUL). */
/* collect/identity.c */
void vt_collect_rank(struct vt_model_process *process, const char *env, size_t n);
/* collect/inside.c: the helper: devices, allocator */
void vt_collect_inside(struct vt_collect *c);
/* collect/pinned.c: PyTorch's pinned host memory, while the target runs */
void vt_collect_pinned(struct vt_collect *c);
/* collect/torch.c: which allocator, and its layout */
void vt_collect_find_torch(struct vt_collect *c);
/* collect/torch.c */
void vt_collect_layout_seen(struct vt_collect *c, struct vt_layout_seen *seen);
/* collect/torch.c: no block of it is held by this process */
void vt_collect_torch_inherited(struct vt_collect *c);
/* collect/torch.c: what is not listed with a backend that is not native */
void vt_collect_say_backend(struct vt_collect *c);
/* collect/torch.c: the last look, while the target stands still */
void vt_collect_find_torch_again(struct vt_collect *c);

/* Whether nothing has to be read in the process any more for the list of blocks. */
bool vt_collect_outside_is_read(const struct vt_collect *c);

/*
 * collect/history.c: the backtraces that PyTorch recorded. Read once the blocks are there (does
 * nothing before, nor a second time).
 */
void vt_collect_history_read(struct vt_collect *c);
void vt_collect_history_deinit(struct vt_collect *c);

/*
 * collect/recorded.c: what vramtap's recorder in the process has, while nothing is stopped for it.
 * It is read before the blocks are listed and after, each as often as there is a better moment for
 * it: the last one counts. Of each device it is told when the listing began that counts.
 */
void vt_collect_recorded_before(struct vt_collect *c);
void vt_collect_recorded_listing(struct vt_collect *c, int device);
void vt_collect_recorded_after(struct vt_collect *c);
/* Once the blocks are there: which record is of which. */
void vt_collect_recorded_join(struct vt_collect *c);
void vt_collect_recorded_deinit(struct vt_collect *c);

/* collect/traces.c: when all else is in, recorded backtraces are named and put into the model. */
void vt_collect_traces_finish(struct vt_collect *c);
void vt_collect_traces_deinit(struct vt_collect *c);

/*
 * collect/ask.c: the blocks as PyTorch tells them. On an error the model is as before, and the
 * message says why PyTorch was not asked or what it did not tell. args (filled) serve the next.
 */
struct vt_error *vt_collect_ask_pytorch(struct vt_collect *c, struct vt_helper *helper,
					struct vt_ask_pytorch_args *args);

/*
 * Asks for the counters again: whether PyTorch has reserved and given back nothing since it told
 * the blocks.
 */
bool vt_collect_nothing_reserved(struct vt_collect *c, struct vt_helper *helper,
				 const struct vt_ask_pytorch_args *args);

/*
 * Whatever the interpreter is asked: fills args, and makes sure as far as can be seen from outside
 * that the GIL comes free; then one request, whose own args are in the shared file. What it cost is
 * added up, also when it failed. VT_ERR_TIMEOUT says what the helper's thread does from now on.
 */
struct vt_error *vt_collect_prepare_python(struct vt_collect *c, struct vt_python *py,
					   struct vt_ask_python_args *args);
struct vt_error *vt_collect_call_python(struct vt_collect *c, struct vt_helper *helper,
					unsigned int op);

/*
 * Whether the locks of PyTorch's allocator come free, as far as they are known; who keeps one for
 * long is in the driver. VT_ERR_BUSY.
 */
struct vt_error *vt_collect_watch_allocator(struct vt_collect *c);

/*
 * collect/flight.c: PyTorch's flight recorder of collectives. Asked for last: the driver is asked
 * by it, and may not answer.
 */
void vt_collect_flight(struct vt_collect *c, struct vt_helper *helper);
/* When threads are known: what it means that the recorder had nothing. */
void vt_collect_flight_finish(struct vt_collect *c);

/* Says that PyTorch was asked, why, and what that cost in all. */
void vt_collect_say_asked(struct vt_collect *c);

void vt_collect_add_allocators(struct vt_collect *c, enum vt_method method,
			       const struct vt_torch_device_result *results, size_t n);

/* ---- collect/context.c: what all stages use ---- */

/* A copy in the model's arena of a string of at most size bytes; "" when out of memory. */
const char *vt_collect_copy(struct vt_collect *c, const char *text, size_t size);

/* Adds a diagnostic "what: message of err" with the code of err, and destroys err. */
void vt_collect_diag_error(struct vt_collect *c, enum vt_diag_level level, enum vt_stage stage,
			   const char *what, struct vt_error *err);

/*
 * The interpreter, found when it is first asked for, for the names in recorded backtraces. It owns
 * them. NULL: there is none, or none that can be read.
 */
struct vt_python *vt_collect_python(struct vt_collect *c);
void vt_collect_python_deinit(struct vt_collect *c);

#endif
