/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the model of one process: the order of the stages, what each falls back to, and the
 * diagnostic that this leaves. A stage that fails loses its own part of the report, not the report.
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
#include "target/launch.h"

struct vt_helper;
struct vt_lines_memo;
struct vt_ask_pytorch_args;
struct vt_ask_python_args;
struct vt_asked_rec;

/*
 * For a caller that holds the target at a moment of its own (watch --on-oom: a thread waits):
 * called just before the data of that moment is read, and once it is: blocks, stacks, recorded
 * backtraces. Each is called once, in that order. The rest (names, what threads wait for, pinned
 * memory) needs the process to exist still.
 */
struct vt_collect_moment {
	void (*begins)(void *arg, struct vt_model *model);
	void (*is_read)(void *arg, struct vt_model *model);
	void *arg;
};

/*
 * For a caller that wants the stacks of several processes at one moment (triage): called when all
 * is prepared, just before the threads of this one are stopped or read as they sleep, and may wait
 * there; after that, before slow work (names); and when nothing is left but to wait for what
 * another worker finds out (lines_memo). Each is called at most once, in that order. Then debug, if
 * the CUDA debugger is to be asked, which holds the process: it may wait, too, and tells until when
 * the debugger may take; 0: it is not asked.
 *
 * Owners are looked for when the process runs again: no stop gets longer by them.
 */
struct vt_collect_together {
	void (*wait)(void *arg);
	void (*released)(void *arg);
	void (*waits)(void *arg);
	uint64_t (*debug)(void *arg);
	void *arg;
	/* For owners: */
	uint64_t owners_until_ns; /* what is not read by then is left out */
	uint64_t owners_most;     /* bytes of our memory, at most */
	unsigned int at_once;     /* processes that share the rest of it */
};

struct vt_collect_options {
	enum vt_touch touch;
	unsigned int want;    /* of enum vt_want; code runs in the process only for its memory */
	bool ask_pytorch;     /* PyTorch lists its blocks, even if the walk could */
	bool owners;          /* what keeps the blocks in use alive */
	bool all_owners;      /* the same, whatever it takes */
	bool hide_tensors;    /* as if the layout of PyTorch's tensors were not known */
	bool holders;         /* of each block all holders, not only the one with the best name */
	bool segment_traces;  /* the backtraces that PyTorch recorded of segments */
	bool ledger;          /* every allocation that the driver knows of */
	bool ask_jax;         /* JAX tells where its arrays were made */
	bool ask_collectives; /* PyTorch tells the state of its collectives */
	bool streams;         /* which streams have unfinished work */
	bool debuginfod;      /* debuginfod may be asked for debug files */
	uint64_t kernels_ns;  /* how long the CUDA debugger may take; 0: it is not asked */
	bool allow_resume;    /* a process stopped by a signal may be continued for the injection */
	/*
	 * For getting inside, and again for each answer of the helper; without a stop: for the
	 * blocks; stacks: for the end of another vramtap.
	 */
	uint64_t budget_ns;
	enum vt_view view;
	bool locals;                            /* the local variables of Python functions */
	const struct vt_collect_moment *moment; /* NULL: no calls */
	/* shared with the workers of other processes; NULL none */
	struct vt_lines_memo *lines_memo;
	const struct vt_collect_together *together; /* NULL: no waiting */
	bool usage_elsewhere; /* the caller asks who uses the devices, for many reports at once */
	const struct vt_fault_log *fault_log; /* and has read the kernel's log; NULL: it has not */
};

/* TORCH_FR_BUFFER_SIZE, or its old name; as it was at the process's start. */
struct vt_flight_setting {
	bool is_set;
	int64_t entries; /* 0: it is off */
	/* PyTorch prints on standard error that it is old, when it makes the recorder */
	bool by_old_name;
};

/* DeviceStats.reserved_bytes of each device's allocator; n is -1 if unknown. */
struct vt_reserved {
	int n;
	struct vt_torch_stat stats[VT_TORCH_MAX_DEVICES];
};

/* What the interpreter told of tensors and of what holds them. */
struct vt_asked_owners {
	struct vt_asked_rec *recs;
	size_t n;
	bool told;          /* the rest means something */
	bool late, full;    /* the time, or some bound, has cut it */
	uint64_t n_objects; /* that the collector knows */
};

/* An array of JAX's that was alive when JAX was asked. */
struct vt_jax_object {
	uint64_t object;
	bool is_host; /* its memory is the host's */
};

/* What is known about the CUDA driver in the process. */
enum vt_driver {
	VT_DRIVER_SILENT, /* it was not asked, or did not answer */
	VT_DRIVER_UNUSED, /* it answered that this process never initialised it */
	VT_DRIVER_ANSWERED,
};

/* The progress of the calls of options->moment. */
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
	struct vt_collect_outside *outside; /* collect/outside.c's own */
	/*
	 * The blocks were listed inside; if that has changed by the stop, they are listed again
	 * there, at the moment at which their owners are read.
	 */
	bool list_again;
	struct vt_collect_history *history;   /* collect/history.c's own */
	struct vt_collect_recorded *recorded; /* collect/recorded.c's own */
	struct vt_collect_traces *traces;     /* collect/traces.c's own */
	struct vt_collect_owners *owners;     /* collect/owners.c's own */
	struct vt_collect_usage *usage;       /* collect/usage.c's own */
	struct vt_collect_streams *streams;   /* collect/streams.c's own */
	struct vt_asked_owners asked_owners;
	VT_VEC(struct vt_jax_object) jax_objects; /* arrays, as JAX itself told */
	struct vt_python *python;                 /* collect/context.c's own */
	bool have_python;
	/* where a thread's current context is (helper_abi.h); slot 0: unknown */
	int context_slot, context_inner;
	/* kept beyond vt_collect_inside(), for collect/limits.c and collect/streams.c; or NULL */
	struct vt_helper *helper;
	pid_t helper_tid; /* of this report's own helper thread: not part of the target */
	enum vt_moment moment;
	struct vt_flight_setting flight; /* the environment's settings for the flight recorder */
	bool flight_empty;               /* it was asked, and has no process group */
};

/*
 * Reads the subject and fills model (initialised). Fails only if there is nothing to report at all:
 * no such process, not permitted, a zombie, no core, ...
 */
struct vt_error *vt_collect_report(const struct vt_subject *subject,
				   const struct vt_collect_options *options,
				   struct vt_model *model);

/* Checks only that it can be read, and its identity. */
struct vt_error *vt_collect_look(const struct vt_subject *subject,
				 const struct vt_collect_options *options, struct vt_model *model);

/* What vramtap layouts shows of a process. Strings are in the model's arena, or constants. */
struct vt_layout_seen {
	pid_t pid;
	struct vt_torch_found found; /* without c10_cuda */
	const char *process;         /* "python (4711)" */
	enum vt_allocator_state state;
	const char *library;  /* path of libc10_cuda.so, "" none */
	const char *build_id; /* of it, "" none */
	/* the official release whose library has that build id, NULL none known */
	const char *wheel;
};

/*
 * Asks in a session of its own, which begins and ends here, which streams have unfinished work:
 * once, into looks[0] of the model, which has nothing yet but the devices. Fails if it could not be
 * asked at all. For a process of which a report was made with the same subject, and whose driver
 * answered.
 */
struct vt_error *vt_collect_streams_later(const struct vt_subject *subject,
					  const struct vt_collect_options *options,
					  struct vt_model *model);

/* Reads only the allocator's layout: no thread is stopped. */
struct vt_error *vt_collect_layout(const struct vt_subject *subject, struct vt_model *model,
				   struct vt_layout_seen *seen);

/* The blocks were listed inside the process, and that is final: none are read from outside. */
static inline bool vt_collect_blocks_told(const struct vt_collect *c)
{
	return !c->list_again && (c->model->torch_method == VT_METHOD_INSIDE ||
				  c->model->torch_method == VT_METHOD_INTERPRETER);
}

/* For options->moment: called wherever it may apply; the first call tells it. */
void vt_collect_moment_begins(struct vt_collect *c);
void vt_collect_moment_is_read(struct vt_collect *c);

/* The participants of the stop, each in its own file. */
extern const struct vt_participant vt_stop_threads;  /* collect/stacks.c: stacks */
extern const struct vt_participant vt_stop_blocks;   /* collect/outside.c: the allocator */
extern const struct vt_participant vt_stop_recorder; /* collect/recorded.c */
extern const struct vt_participant vt_stop_owners;   /* collect/owners.c */

/* collect/where.c: the machine, and its time zone */
void vt_collect_where(struct vt_model *model, bool live);

/* collect/around.c: its children that use CUDA, and limits of the host's memory */
void vt_collect_around(struct vt_collect *c);

/* The other stages, each in its own file. They report through diagnostics. */
void vt_collect_identity(struct vt_collect *c); /* collect/identity.c */
void vt_collect_environ(struct vt_collect *c);  /* collect/identity.c: of a live process */
/* collect/identity.c: what its environment says, which a core has, too */
void vt_collect_launch(struct vt_model *model, const struct vt_launch *launch);
/* collect/inside.c: the helper: devices, allocator */
void vt_collect_inside(struct vt_collect *c);
/* The same for the streams alone, of the devices that the model has. */
struct vt_error *vt_collect_inside_streams(struct vt_collect *c);
/* collect/inside.c: why nothing is known of the devices, if that was the caller's wish */
void vt_collect_say_not_asked(struct vt_collect *c);
/*
 * collect/ledger.c: the driver's allocations. False: it did not answer all questions, and will
 * answer none.
 */
bool vt_collect_ledger(struct vt_collect *c, struct vt_helper *helper);
/*
 * collect/limits.c: the local memory of kernels. Whether the helper is kept for it (c->helper)
 * until the stacks are known; the question, which is not asked if it might wait.
 */
bool vt_collect_limits_wanted(const struct vt_collect *c);
void vt_collect_limits(struct vt_collect *c);
/*
 * collect/streams.c: which streams have unfinished work. Asked at two moments, 0 and 1: when all
 * else was asked inside, and at the end.
 */
void vt_collect_streams(struct vt_collect *c, unsigned int moment);
void vt_collect_streams_deinit(struct vt_collect *c);
/* Whether it may keep a lock of the driver, by its stack. */
bool vt_collect_may_be_in_driver(const struct vt_model_thread *t);
/* collect/kernels.c: the CUDA debugger tells what runs on the devices. Comes last. */
/* NULL: the debugger would reach the driver in the process; else why not (kernels_meet.c). */
const char *vt_collect_why_debugger_misses(struct vt_collect *c);
/* The same of a driver that is not in use (kernels_fork.c); has_threads: of its own. */
const char *vt_collect_why_no_driver(const struct vt_collect *c, bool has_threads);
/*
 * NULL: the process stands still, and has for some time; else why the debugger could block it
 * (kernels_still.c). Stops it some times, for a moment.
 */
const char *vt_collect_why_it_goes_on(struct vt_collect *c, const struct vt_subject *subject);
/* Where kernels of Triton's were made (kernels_source.c). */
void vt_collect_kernels_source(struct vt_collect *c);
void vt_collect_kernels(struct vt_collect *c, const struct vt_subject *subject);
/* collect/pinned.c: PyTorch's pinned host memory, while the target runs */
void vt_collect_pinned(struct vt_collect *c);

/* collect/shared.c: shared memory of the process and its descendants */
void vt_collect_shared(struct vt_collect *c);

/* model.libpools. */
void vt_collect_libpools(struct vt_collect *c);
/* collect/torch.c: which allocator, and its layout */
void vt_collect_find_torch(struct vt_collect *c);
/* collect/torch.c */
void vt_collect_layout_seen(struct vt_collect *c, struct vt_layout_seen *seen);
/* collect/torch.c: this process holds none of its blocks */
void vt_collect_torch_inherited(struct vt_collect *c);
/* collect/torch.c: what a backend other than native does not list */
void vt_collect_say_backend(struct vt_collect *c);
/* collect/torch.c: the last look, while the target is stopped */
void vt_collect_find_torch_again(struct vt_collect *c);

/* Whether the list of blocks needs no more reads of the process. */
bool vt_collect_outside_is_read(const struct vt_collect *c);

/*
 * collect/history.c: the backtraces that PyTorch recorded. Reads them once the blocks are known
 * (does nothing before, nor a second time).
 */
void vt_collect_history_read(struct vt_collect *c);
void vt_collect_history_deinit(struct vt_collect *c);

/*
 * collect/recorded.c: the data of vramtap's recorder in the process, without a stop. It is read
 * before the blocks are listed and after, each again if there is a better moment for it: the last
 * one counts. It gets, for each device, the begin of the listing that counts.
 */
void vt_collect_recorded_before(struct vt_collect *c);
void vt_collect_recorded_listing(struct vt_collect *c, int device);
void vt_collect_recorded_after(struct vt_collect *c);
/* The listing that counts is the one inside, after all. */
void vt_collect_recorded_inside(struct vt_collect *c);
/* Once the blocks are known: matches records to them. */
void vt_collect_recorded_join(struct vt_collect *c);
void vt_collect_recorded_deinit(struct vt_collect *c);

/* collect/traces.c: at the end, names recorded backtraces and puts them into the model. */
void vt_collect_traces_finish(struct vt_collect *c);
void vt_collect_traces_deinit(struct vt_collect *c);

/*
 * collect/ask.c: the blocks as PyTorch lists them. On an error the model is unchanged, and the
 * message says why PyTorch was not asked or what it did not answer. args (filled) serve the next.
 */
struct vt_error *vt_collect_ask_pytorch(struct vt_collect *c, struct vt_helper *helper,
					struct vt_ask_pytorch_args *args);

/*
 * Asks for the counters again: whether PyTorch has reserved and freed nothing since it listed the
 * blocks.
 */
bool vt_collect_nothing_reserved(struct vt_collect *c, struct vt_helper *helper,
				 const struct vt_ask_pytorch_args *args);

/*
 * Every question to the interpreter: fills args, and makes sure, as far as can be seen from
 * outside, that the GIL becomes free; then makes one request, whose own args are in the shared
 * file. Its cost is added up, even if it failed. VT_ERR_TIMEOUT says what the helper's thread does
 * from now on.
 */
struct vt_error *vt_collect_prepare_python(struct vt_collect *c, struct vt_python *py,
					   struct vt_ask_python_args *args);
struct vt_error *vt_collect_call_python(struct vt_collect *c, struct vt_helper *helper,
					unsigned int op);

/*
 * Whether the locks of PyTorch's allocator become free, as far as they are known; a thread that
 * keeps one for long is in the driver. VT_ERR_BUSY.
 */
struct vt_error *vt_collect_watch_allocator(struct vt_collect *c);

/*
 * collect/flight.c: PyTorch's flight recorder of collectives. Comes last: the question calls the
 * driver, which may not answer.
 */
void vt_collect_flight(struct vt_collect *c, struct vt_helper *helper);
/* Once threads are known: the meaning of an empty recorder. */
void vt_collect_flight_finish(struct vt_collect *c);

/* Reports that PyTorch was asked, why, and the total cost. */
void vt_collect_say_asked(struct vt_collect *c);

void vt_collect_add_allocators(struct vt_collect *c, enum vt_method method,
			       const struct vt_torch_device_result *results, size_t n);

/*
 * collect/owners.c: before all else; when the helper is in and before the blocks are listed; and
 * when they are in the model.
 */
void vt_collect_owners_begin(struct vt_collect *c);
void vt_collect_owners_explore(struct vt_collect *c);
/* What was explored then will be compared at the stop: the helper has to be in as it was. */
bool vt_collect_owners_compare(const struct vt_collect *c);
void vt_collect_owners_finish(struct vt_collect *c);
/* The process ran when its owners were looked for: what was listed then may be gone at the stop. */
bool vt_collect_owners_move(const struct vt_collect *c);
/* Whether they are looked for in this process. */
bool vt_collect_wants_owners(struct vt_collect *c);
/* After the beginning: why they cannot be read from outside; NULL: they can. */
const char *vt_collect_why_no_owners(const struct vt_collect *c);
/*
 * collect/ask_owners.c: has the interpreter tell what holds the tensors, where that cannot be read.
 */
void vt_collect_ask_owners(struct vt_collect *c, struct vt_helper *helper);
/* collect/ask_jax.c: has JAX tell where its arrays were made. */
void vt_collect_ask_jax(struct vt_collect *c, struct vt_helper *helper);
void vt_collect_owners_deinit(struct vt_collect *c);

/*
 * collect/usage.c: who else uses the devices. Asked for at the begin of a report; just before the
 * blocks are read from outside (the last call counts); once they are; and when all devices and
 * blocks are in the model.
 */
void vt_collect_usage_begin(struct vt_collect *c);
void vt_collect_usage_before(struct vt_collect *c);
void vt_collect_usage_after(struct vt_collect *c);
void vt_collect_usage_finish(struct vt_collect *c);
void vt_collect_usage_deinit(struct vt_collect *c);

/* collect/faults.c: what the driver logged of faults; once the devices are known. */
void vt_collect_faults(struct vt_collect *c);

/* ---- collect/context.c: what all stages use ---- */

/* A copy in the model's arena of a string of at most size bytes; "" when out of memory. */
const char *vt_collect_copy(struct vt_collect *c, const char *text, size_t size);

/* Adds a diagnostic "what: message of err" with the code of err, and destroys err. */
void vt_collect_diag_error(struct vt_collect *c, enum vt_diag_level level, enum vt_stage stage,
			   const char *what, struct vt_error *err);

/*
 * The interpreter, for the names in recorded backtraces; the first call finds it. It owns them.
 * NULL: there is none, or none that can be read.
 */
struct vt_python *vt_collect_python(struct vt_collect *c);
void vt_collect_python_deinit(struct vt_collect *c);

#endif
