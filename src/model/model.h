/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as data: one per process. Walkers (through cmd/) fill it, model/account.c adds what follows from it (groups,
 * sums, headline), writers print it and compute nothing. Every number has one home. All strings live in the arena, are
 * hostile unless said otherwise, and are escaped by the writers. Sizes are bytes, times nanoseconds unless named otherwise.
 */
#ifndef VT_MODEL_MODEL_H
#define VT_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/vec.h"
#include "vramtap/torch.h"
#include "model/doing.h"

enum vt_completeness {
	VT_COMPLETE = 0, /* also the process exit codes */
	VT_PARTIAL = 1,
	VT_NOTHING = 2,
};

/* How a part of the report came about. */
enum vt_method {
	VT_METHOD_NONE,    /* not available */
	VT_METHOD_INSIDE,  /* by the helper in the process */
	VT_METHOD_OUTSIDE, /* read from outside, no code run */
	VT_METHOD_INTERPRETER, /* told by PyTorch itself, asked through the interpreter in the process */
};

enum vt_diag_level {
	VT_DIAG_NOTE,    /* worth knowing; the report is still complete */
	VT_DIAG_MISSING, /* something is missing or not exact: the report is partial */
};

/* The part of the work that a diagnostic is about. */
enum vt_stage {
	VT_STAGE_OTHER, /* of a report that another version wrote: a stage that this one does not know */
	VT_STAGE_PROCESS,
	VT_STAGE_CORE,
	VT_STAGE_FILES,
	VT_STAGE_INJECT,
	VT_STAGE_CUDA,
	VT_STAGE_TORCH,
	VT_STAGE_PINNED,
	VT_STAGE_PYTHON,
	VT_STAGE_RECORDER,
	VT_STAGE_STACKS,
	VT_STAGE_WATCH,
	VT_STAGE_JOB,
	VT_N_STAGES
};

struct vt_diag {
	enum vt_diag_level level;
	enum vt_stage stage;
	const char *code;  /* ours, static, for machines: "lock-held", "layout-refused", "seccomp", ... */
	const char *text;  /* one line: what, why, and what to do where something can be done */
};

struct vt_model_process {
	pid_t pid;
	const char *name;
	const char *cmdline;
	const char *exe;
	const char *user;
	uid_t uid;
	const char *container; /* "" none */
	double uptime_s;
	int n_threads;
	char state;            /* of the main thread, as in /proc */
	pid_t tracer;          /* 0 nobody */
	const char *tracer_name;
	int rank, world_size;  /* RANK, WORLD_SIZE of its environment; -1 unknown */
	bool uses_cuda;        /* libcuda is mapped */
};

/* The core that was read in place of a live process. */
struct vt_model_core {
	const char *path;       /* NULL: a live process was looked at */
	uint64_t size;          /* bytes */
	uint64_t missing_bytes; /* that it should have and has not */
	uint64_t read_bytes;    /* of it, for this report */
	int signal;             /* 0 none: a debugger wrote it of a process that was well */
	const char *signal_name; /* ours: "SIGSEGV" */
	bool killed;            /* by that signal; else a debugger held it there */
	pid_t signal_tid;       /* the thread that got it */
	bool have_address;      /* the memory access that failed: */
	uint64_t address;
};

struct vt_model_versions {
	const char *torch;      /* "2.11.0+cu130", "" unknown */
	const char *torch_layout; /* the releases that have the layout found, "" none or not known */
	bool torch_layout_unknown; /* there is one, of a release that is in no table */
	const char *python;     /* "3.12.3", "" no interpreter */
	bool python_free_threaded;
	const char *driver;     /* "580.159.03", "" unknown */
	int cuda_driver;        /* 13000 is 13.0; 0 unknown */
	int cuda_runtime;
};

/* One of the driver's memory pools of a device, from which cudaMallocAsync takes. The driver's own numbers. */
struct vt_model_pool {
	bool is_current; /* the process has set it in place of the default one */
	uint64_t reserved_bytes, reserved_high_bytes; /* now, and the most so far */
	uint64_t used_bytes, used_high_bytes;
};

#define VT_MODEL_MAX_POOLS 2

struct vt_model_device {
	int ordinal;
	const char *name;
	uint8_t uuid[16];
	bool have_uuid;
	bool context_active;
	uint64_t context;      /* CUcontext, 0 unknown */
	bool have_memory;
	const char *memory_from; /* ours: "cudaMemGetInfo", "cuMemGetInfo" */
	bool memory_moved;     /* it had changed, or could not be asked for again, after the allocator was walked */
	uint64_t free_bytes, total_bytes, used_bytes; /* used = total - free: all processes together */
	const char *why_no_memory; /* ours; NULL when have_memory */
	bool pools_known;
	struct vt_model_pool pools[VT_MODEL_MAX_POOLS];
	size_t n_pools;
	VT_VEC(pid_t) context_threads; /* threads whose current context is this device's */
	bool context_threads_known;
};

/* What was found of an allocator of PyTorch's: that of the devices, or that of pinned host memory. */
enum vt_allocator_state {
	VT_ALLOCATOR_UNKNOWN, /* it was not looked for; of a report that another version wrote: nothing that this one knows */
	VT_ALLOCATOR_NOT_LOADED,
	VT_ALLOCATOR_NOT_INITIALISED,
	VT_ALLOCATOR_NATIVE,
	VT_ALLOCATOR_INHERITED, /* the copy that fork() made of the parent's: no block is held */
	VT_ALLOCATOR_ASYNC,     /* cudaMallocAsync */
	VT_ALLOCATOR_PLUGGABLE,
	VT_ALLOCATOR_REFUSED,   /* its layout is not understood, or it was not found */
	VT_N_ALLOCATOR_STATES
};

/* Why an exact allocator's blocks belong together. */
enum vt_consistency {
	VT_CONSISTENT_NOT,       /* not known: not exact */
	VT_CONSISTENT_LOCKED,    /* read with its lock held */
	VT_CONSISTENT_STOPPED,   /* read while the process stood still */
	VT_CONSISTENT_UNCHANGED, /* read while it ran: its statistics say that nothing happened meanwhile */
	VT_CONSISTENT_REPEATED,  /* read while it ran: two passes gave the same */
};

/* The PyTorch native allocator of one device. */
struct vt_model_allocator {
	int device;
	enum vt_method method;
	struct vt_torch_device_result result; /* .why hostile-free: ours */
	size_t first_block, n_blocks; /* in model.blocks */
	const char *owner_name; /* thread that holds the lock; "" */
	enum vt_consistency consistency;
	unsigned int passes;    /* how often it was read while it ran; 0: it was not */
	/* filled by account: */
	bool exact;                  /* the walk was complete and every invariant held here too; else no sum may be printed */
	uint64_t reserved_bytes;     /* all mapped blocks */
	uint64_t allocated_bytes, awaiting_bytes, cached_bytes, requested_bytes;
	uint64_t allocated_blocks, awaiting_blocks, cached_blocks;
	uint64_t largest_cached;     /* the largest single free block */
	uint64_t private_bytes;      /* in private pools, any mapped state */
	uint64_t private_allocated_bytes, private_cached_bytes;
	uint64_t private_allocated_blocks, private_cached_blocks;
	bool requested_known;        /* this release records what was asked for, so that the next is known */
	uint64_t rounding_bytes;     /* allocated - requested of allocated blocks: lost to rounding */
	bool other_known;
	uint64_t other_bytes;        /* used on the device, by anybody, and not reserved by this allocator */
};

/*
 * Blocks of one device, state, size, stream and pool together; largest total first. Filled by account, of the exact
 * allocators only. Unmapped blocks are address space, not memory: they are in no group.
 */
struct vt_model_group {
	int device;
	uint8_t state;
	bool small_pool, private_pool, expandable;
	uint64_t pool;
	uint64_t stream;
	uint64_t size;    /* of each block */
	uint64_t blocks;
	uint64_t bytes;
};

struct vt_model_frame;

/* Who recorded how a block was allocated. */
enum vt_trace_source {
	VT_TRACE_PYTORCH,  /* torch.cuda.memory._record_memory_history() */
	VT_TRACE_RECORDER, /* vramtap record, watch or run */
	VT_N_TRACE_SOURCES
};

#define VT_NO_AGE UINT64_MAX

/* How old something is at the time of the report: of what vramtap recorded. */
struct vt_model_ages {
	uint64_t oldest_ns, newest_ns; /* VT_NO_AGE: of nothing is it known */
};

/*
 * The way by which blocks were allocated: a recorded backtrace. Its frames are in model.trace_frames, which has each place
 * once: a job has few places and many ways through them.
 */
struct vt_model_trace {
	enum vt_trace_source source;
	const uint32_t *frames; /* indices in model.trace_frames, innermost first */
	size_t n_frames;
	bool merge_uncertain;   /* native frames that follow the Python frames belong somewhere between them */
	bool python_cut, native_cut; /* there were more frames further out, which were not recorded */
	bool native_guess;           /* native frames may be missing between those that are there */
	/* filled by account; allocated blocks of exact allocators: */
	uint64_t bytes, blocks, largest;
	struct vt_model_ages ages;
	size_t title;        /* index in frames of the one that says most; n_frames when there is none */
	size_t site;         /* index in model.sites, VT_NO_SITE when no such block has it */
	size_t next_in_site; /* index in model.traces of the next smaller one, VT_NO_TRACE after the last */
};

#define VT_NO_SITE SIZE_MAX
#define VT_NO_TRACE SIZE_MAX

/* How the function of a recorded frame begins whose code object is not there any more. */
#define VT_FREED_CODE "<code object freed"

/* Why a block has no trace. */
enum vt_untraced {
	VT_UNTRACED_NOT_RECORDED, /* allocated before recording began, or recording was off */
	VT_UNTRACED_CHANGED,      /* freed, or handed out again, while it was read */
	VT_UNTRACED_UNREADABLE,   /* recorded, but not to be read or not to be believed: a diagnostic says more */
	VT_UNTRACED_SAMPLED,      /* left out by the recorder, which took samples or had no room; or as the first */
	VT_UNTRACED_NO_STACK,     /* recorded without a backtrace: there was no room for it */
	VT_UNTRACED_UNSEEN,       /* made while recording was on, past the entries that are recorded */
	VT_N_UNTRACED
};

/* model.block_traces of a block without a trace. */
#define VT_UNTRACED(why) (UINT32_MAX - (uint32_t)(why))
#define VT_IS_UNTRACED(trace) ((trace) > UINT32_MAX - VT_N_UNTRACED)

/* Where blocks were allocated: all traces with the same innermost frame of the program itself. Filled by account. */
struct vt_model_site {
	const struct vt_model_frame *title; /* NULL: of traces without a frame */
	uint64_t bytes, blocks, largest;    /* allocated blocks of exact allocators */
	struct vt_model_ages ages;
	size_t first_trace;                 /* index in model.traces of the largest; the others by their next_in_site */
	size_t n_traces;
};

/* Blocks that have something in common. */
struct vt_model_amount {
	uint64_t bytes, blocks;
};

/* What vramtap recorded of a block beside its backtrace. */
struct vt_model_record {
	uint64_t age_ns;    /* VT_NO_AGE: it is not recorded */
	pid_t tid;          /* of the thread that allocated it, in the process's own pid namespace; it may be gone */
	const char *thread; /* its name, "" unknown, or it is gone */
};

enum vt_driver_kind {
	VT_DRIVER_KIND_OTHER, /* of a report that another version wrote: one that this one does not know */
	VT_DRIVER_KIND_DEVICE,
	VT_DRIVER_KIND_ASYNC,  /* cudaMallocAsync */
	VT_DRIVER_KIND_MAPPED, /* cuMemMap */
	VT_DRIVER_KIND_MANAGED,
	VT_DRIVER_KIND_HOST,   /* pinned */
	VT_N_DRIVER_KINDS
};

/* Memory that was asked of the driver while that was recorded. */
struct vt_model_driver_block {
	uint64_t addr, size, stream;
	int device;          /* -1 unknown */
	enum vt_driver_kind kind;
	bool on_device;      /* it is memory of a device; managed and host memory are not */
	bool of_pytorch;     /* a segment of PyTorch's allocator, which has its own account */
	struct vt_model_record record;
	uint32_t trace;      /* index in model.traces, or VT_UNTRACED(why) */
};

/* Driver allocations of one kind and from one library (of the first frame outside of the driver and its runtime). Filled by account. */
struct vt_model_driver_group {
	enum vt_driver_kind kind;
	bool on_device;
	int device;
	const char *library; /* base name of the file; NULL unknown */
	const struct vt_model_frame *title; /* innermost frame of the program in the largest; NULL none */
	uint64_t bytes, blocks, largest;
	struct vt_model_ages ages;
};

/* A request that failed for want of memory, while recording was on. */
struct vt_model_oom {
	uint32_t number;     /* from 1 */
	bool of_pytorch;     /* its allocator's; else a request to the driver */
	uint64_t requested;
	uint64_t age_ns;
	uint64_t free_bytes, total_bytes; /* of the device at that moment; 0 0 not known */
	uint64_t waited_ns;  /* how long the thread was kept for a watcher */
	int device;          /* -1 unknown */
	int error;           /* CUresult, 0 none */
	pid_t tid;
	const char *thread;
	uint32_t trace;      /* as in a driver block */
};

/* Why a request failed. */
enum vt_oom_verdict {
	VT_OOM_UNDECIDED,   /* too little is known */
	VT_OOM_TOO_LARGE,   /* more than the device has */
	VT_OOM_LIMITED,     /* the device had enough free: PyTorch may not use it (set_per_process_memory_fraction), or the driver refused */
	VT_OOM_ELSEWHERE,   /* a cached block is large enough, but is kept for another stream or a private pool, or is not to be split */
	VT_OOM_FRAGMENTED,  /* what is cached and what is free on the device would do together, but no piece does */
	VT_OOM_FULL,        /* all of it together is too little */
};

/* An out-of-memory error that the report was made for, while its thread waited. Filled by account, but for numbers and event. */
struct vt_model_caught {
	uint32_t first, last;   /* numbers of the events, 0 none; the first of them says the rest: */
	struct vt_model_oom event; /* the first, without its backtrace: for want of one that was recorded */
	const struct vt_model_oom *oom; /* that in model.ooms, or event; NULL: none */
	enum vt_oom_verdict verdict;
	uint64_t needed_bytes;  /* of a cached block, as PyTorch rounds it at least */
	uint64_t segment_bytes; /* of a new segment for it */
	struct vt_model_amount holes; /* cached blocks of PyTorch's that are of use for such a size */
	uint64_t hole_segments; /* that they are in */
	uint64_t largest_hole;  /* of them */
	uint64_t largest_hole_stream;
	uint64_t held_bytes;    /* allocated, or awaiting free */
	bool others_known;
	uint64_t others_bytes;  /* of the device, neither PyTorch's nor free: other processes, contexts, libraries */
};

enum vt_recording {
	VT_RECORDING_NONE,    /* the recorder is not loaded */
	VT_RECORDING_UNKNOWN, /* it is; of a report that another version wrote: a state that this one does not know */
	VT_RECORDING_ON,
	VT_RECORDING_OFF,
	VT_RECORDING_INHERITED,     /* the copy that fork() made of the parent's: nothing is recorded here */
	VT_RECORDING_OTHER_VERSION, /* the recorder is of another version of vramtap */
	VT_RECORDING_UNREADABLE,
	VT_N_RECORDINGS
};

/* What the recorder in the process says of itself. */
struct vt_model_recorder {
	enum vt_recording state;
	/* when on: */
	uint64_t on_ns;      /* for how long */
	bool since_last;     /* times are counted back from the last record: no core says when it was made, and a clock may not be known */
	bool python, native; /* which frames */
	const char *driver;  /* ours: how the driver's allocations are seen: "CUPTI", "GOT"; NULL not */
	uint64_t sample_bytes, sample_now_bytes; /* as asked for; as it is for want of room; 0: every allocation */
	uint64_t memory_bytes, max_memory_bytes;
	uint64_t allocations, driver_allocations, driver_frees;
	uint64_t lost, evicted, stacks_dropped;
	size_t compared, differing; /* blocks that PyTorch recorded, too; of them, those with other Python frames */
};

/* PyTorch's allocator of pinned host memory. It is no part of any device's memory. */
struct vt_model_pinned {
	enum vt_allocator_state state; /* ASYNC and PLUGGABLE: never */
	uint8_t result;      /* enum vt_walk_result, when native */
	bool same_blocks;    /* unstable: the blocks are sure, their states are not */
	const char *why;     /* ours; "" when complete */
	uint64_t object;     /* address of the allocator */
	pid_t owner_tid;     /* who has the lock of its blocks, 0 nobody */
	bool counted;        /* the allocator's own totals agree */
	double read_ms;
	struct vt_pinned_block *blocks; /* heap; by address */
	size_t n_blocks;
	/* filled by account: */
	bool exact;          /* complete, and every check held here too; else no sum may be printed, but see sum_known */
	bool sum_known;      /* total is right: exact, or the blocks are sure */
	struct vt_model_amount total;
	struct vt_model_amount states[VT_BLOCK_CACHED + 1]; /* by enum vt_block_state */
	struct vt_model_amount private_pools;
	uint64_t largest_cached; /* block */
};

/* A collective, or a transfer from one rank to another, that is not over. */
struct vt_model_operation {
	const char *name;    /* "all_reduce", "recv 1<-0" */
	int64_t number;      /* of the group's collectives; transfers have numbers of their own */
	bool of_two;         /* it is a transfer */
	int started;         /* by the GPU: 1 yes, 0 not, -1 unknown: starts are not recorded by default */
	const char *input;   /* "[64, 1024] Float"; NULL unknown */
	uint64_t age_ms;     /* since the program called it */
	uint64_t timeout_ms; /* 0 unknown */
};

/* A process group as PyTorch's flight recorder knows it. Collectives are numbered from 1 on. */
struct vt_model_process_group {
	const char *backend;     /* ours: "nccl", "gloo" */
	const char *name;        /* the same in all its processes: "0" */
	const char *description; /* "default_pg"; "" none */
	const char *ranks;       /* of the job: "0-3,8"; NULL unknown */
	int64_t last_enqueued, last_started, last_completed; /* collectives; 0 none so far, -1 unknown */
	const char *operation;   /* the last collective that was enqueued: "all_reduce"; NULL unknown */
	uint64_t n_pending;      /* operations that are not over */
	struct vt_model_operation oldest; /* of them */
};

struct vt_model_collectives {
	uint64_t told_ms; /* when it was asked, CLOCK_REALTIME; 0: it was not, or did not answer */
	const char *why;  /* why nothing is known, or there is none; NULL: there are groups, or nobody wanted to know */
	VT_VEC(struct vt_model_process_group) groups;
};

enum vt_frame_kind { VT_FRAME_NATIVE, VT_FRAME_PYTHON };

/* A local variable of a Python frame. */
struct vt_model_local {
	const char *name;
	const char *value; /* one line of text */
};

struct vt_model_frame {
	enum vt_frame_kind kind;
	const char *function; /* NULL unknown */
	const char *file;     /* Python: co_filename; native: source file, or NULL */
	int line;             /* 0 unknown */
	/* Python only: */
	unsigned int interpreter;           /* 0: the main interpreter, else the id of a subinterpreter */
	const struct vt_model_local *locals; /* NULL: not asked for, or not read */
	size_t n_locals;
	bool locals_cut;                    /* there are more */
	/* native only: */
	bool inlined;         /* into the next frame: no call, and no address of its own */
	const char *module;   /* base name of the file, NULL: not in a mapped file */
	const char *build_id; /* hex, "" none */
	uint64_t pc;
	uint64_t module_offset;
};

/* Which frames the stacks have. */
enum vt_view { VT_VIEW_MERGED, VT_VIEW_NATIVE, VT_VIEW_PYTHON };

struct vt_model_stack {
	struct vt_model_frame *frames; /* innermost first */
	size_t n_frames;
	bool has_native, has_python;
	bool truncated;
	bool merge_uncertain; /* Python frames could not be placed: they follow the native ones in a block of their own */
	const char *why;      /* why frames are missing; NULL when none are */
	uint64_t hash;        /* of the frames' functions, files and lines: equal stacks have equal hashes (account) */
};

/* How a thread was read. */
enum vt_taken {
	VT_TAKEN_STOPPED, /* it was stopped */
	VT_TAKEN_ASLEEP,  /* it was not, but slept all the while */
	VT_TAKEN_RUNNING, /* it ran: no native frames; Python frames when they looked the same several times */
};

struct vt_model_thread {
	pid_t tid;
	const char *name;
	char state;
	int cpu;
	bool is_main;
	bool has_python;
	enum vt_taken taken;
	int gil;              /* 1 holds it (that of its interpreter), 0 not, -1 unknown */
	const char *wchan;    /* function of the kernel that it sleeps in; NULL unknown */
	const char *const *kernel; /* its stack in the kernel, innermost first: "futex_wait+0x5f/0x120" */
	size_t n_kernel;      /* 0 unknown */
	const char *syscall;  /* ours: "futex", NULL not in one */
	struct vt_waits waits; /* what its system call waits for */
	pid_t waits_for;      /* the thread that holds what it waits for, or whose end it waits for; 0 unknown or none */
	bool deadlock;        /* it is one of a ring of threads that wait for each other by waits_for */
	struct vt_verdict verdict; /* what the stack as a whole says */
	bool idle;            /* a pool thread that waits for work (explain/verdicts.c) */
	struct vt_model_stack stack;
	/* filled by account: */
	size_t group;         /* index in model.thread_groups */
	size_t next_in_group; /* index in model.threads of the group's next thread, VT_NO_THREAD after the last */
};

#define VT_NO_THREAD SIZE_MAX

/* Threads with equal stacks. Filled by account. The most telling first: main, verdict, Python, native, idle pools. */
struct vt_model_thread_group {
	size_t first_thread; /* index in model.threads; the others by their next_in_group */
	size_t n_threads;
	bool idle;           /* a pool thread that waits for work */
};

/* One line of the answer. The text holds names of the target: hostile. */
struct vt_model_headline {
	const char *code; /* ours, static, for machines: "main-thread", "memory", "lock-held", ... */
	bool alarm;       /* something is wrong */
	const char *text;
};

struct vt_model_timing {
	double total_ms;         /* from start to the finished model */
	double attach_ms;        /* until the helper answered */
	double borrowed_us;      /* how long the borrowed thread was away; 0: none was borrowed */
	pid_t borrowed_tid;      /* 0 none */
	double walk_ms;          /* of the allocator */
	double blocks_read_ms;   /* from outside: reading the allocator's memory, all passes together */
	double blocks_stopped_ms; /* of them, while threads were stopped */
	double gil_wait_ms;      /* how long the helper waited for the GIL, to ask PyTorch */
	double gil_held_ms;      /* and how long it held it; 0: it did not */
	double stopped_ms;       /* how long threads were stopped for their stacks */
	uint64_t stop_begin_ns, stop_end_ns; /* from when until when, CLOCK_MONOTONIC; 0 0 they were not */
	double stacks_ms;
};

struct vt_model {
	struct vt_arena arena;
	const char *tool_version;
	struct timespec when;    /* CLOCK_REALTIME at the start */
	struct vt_model_core core;
	struct vt_model_process process;
	struct vt_model_versions versions;
	enum vt_method cuda_method;
	VT_VEC(struct vt_model_device) devices;
	enum vt_method torch_method;
	enum vt_allocator_state torch_state;
	VT_VEC(struct vt_model_allocator) allocators;
	struct vt_block_rec *blocks; /* not necessarily heap memory: released by blocks_release */
	size_t n_blocks;
	void (*blocks_release)(struct vt_block_rec *blocks, size_t n);
	VT_VEC(struct vt_model_group) groups;
	struct vt_model_pinned pinned;
	/* Recorded backtraces; block_traces is NULL when no block has one. */
	const struct vt_model_frame *trace_frames;
	size_t n_trace_frames;
	VT_VEC(struct vt_model_trace) traces;
	const uint32_t *block_traces; /* of each block: index in traces, or VT_UNTRACED(why) */
	struct vt_model_recorder recorder;
	const struct vt_model_record *block_records; /* of each block; NULL: nothing is recorded */
	VT_VEC(struct vt_model_driver_block) driver_blocks; /* by address */
	VT_VEC(struct vt_model_driver_group) driver_groups; /* those not of PyTorch, largest first (account) */
	VT_VEC(struct vt_model_oom) ooms; /* the oldest first */
	struct vt_model_caught caught;
	VT_VEC(struct vt_model_site) sites; /* largest first (account) */
	struct vt_model_amount untraced[VT_N_UNTRACED]; /* allocated blocks of exact allocators without a trace (account) */
	struct vt_model_collectives collectives;
	VT_VEC(struct vt_model_thread) threads; /* main first, then by tid */
	VT_VEC(struct vt_model_thread_group) thread_groups;
	enum vt_view view;
	bool stacks_coherent;    /* all stacks are of one instant */
	bool gil_holder_missing; /* a GIL is held, by none of the threads */
	bool no_stop;            /* no thread was to be stopped */
	const char *held_by;     /* ours: "gdb" held the process all the while; NULL nobody did */
	VT_VEC(struct vt_diag) diags;
	VT_VEC(struct vt_model_headline) headlines; /* the answer in a few lines (account) */
	struct vt_model_timing timing;
	enum vt_completeness completeness; /* account derives it from diags; VT_PARTIAL once a diag was lost */
};

void vt_model_init(struct vt_model *model);
void vt_model_deinit(struct vt_model *model);

/*
 * Adds a diagnostic; text is printf-formatted into the arena. One that is already there is not added again. Out of memory
 * drops it but keeps the report partial.
 */
void vt_model_diag(struct vt_model *model, enum vt_diag_level level, enum vt_stage stage, const char *code,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Fills everything marked "account" from the rest, re-checks the allocators' sums, and adds the diagnostics for walks that
 * were unstable, truncated or refused (so that nobody else has to). Call once, when all else is in. False when out of
 * memory: the model can still be printed, and is partial.
 */
bool vt_model_account(struct vt_model *model);

/*
 * The end (exclusive, an index in model.blocks) of the run of adjacent blocks of one segment that begins at first; end is
 * that of the allocator's blocks. In an exact allocator a run is a whole segment; else blocks may be missing between runs.
 */
size_t vt_model_segment_end(const struct vt_model *model, size_t first, size_t end);

/* What the device's known memory pools hold of it together. */
uint64_t vt_model_pools_reserved(const struct vt_model_device *device);

/* By ordinal, by tid; NULL when there is none. */
const struct vt_model_device *vt_model_device(const struct vt_model *model, int ordinal);
const struct vt_model_thread *vt_model_thread(const struct vt_model *model, pid_t tid);

/* What may help where something changed while it was looked at, as the end of a sentence: "; run it again". */
const char *vt_try_again(const struct vt_model *model);

/* The innermost Python frame, or NULL. */
const struct vt_model_frame *vt_model_python_frame(const struct vt_model_stack *stack);

/* Whether it is Python code of the program itself, or of a library of models, and not PyTorch's or the standard library's. */
bool vt_model_is_program(const struct vt_model_frame *frame);

/* Whether it is of a library that is neither the system's nor one of those that every job has: the user's own, perhaps. */
bool vt_model_is_telling(const struct vt_model_frame *frame);

/* The trace of the block with this index in model.blocks, or NULL. */
const struct vt_model_trace *vt_model_block_trace(const struct vt_model *model, size_t block);

/* What is recorded of the block with this index in model.blocks, or NULL. */
const struct vt_model_record *vt_model_block_record(const struct vt_model *model, size_t block);

const char *vt_stage_name(enum vt_stage stage); /* "process", "core", "torch", "stacks", ... */
const char *vt_driver_kind_name(enum vt_driver_kind kind); /* "device", "async", "mapped", "managed", "host", "other" */
const char *vt_trace_source_name(enum vt_trace_source source); /* "pytorch", "vramtap" */
const char *vt_untraced_name(enum vt_untraced why); /* "not-recorded", "changed", "unreadable", "sampled", ... */
const char *vt_oom_verdict_name(enum vt_oom_verdict verdict); /* "undecided", "too-large", "limited", "elsewhere", "fragmented", "full" */
const char *vt_completeness_name(enum vt_completeness c); /* "complete", "partial", "nothing" */
const char *vt_taken_name(enum vt_taken taken);           /* "stopped", "asleep", "running" */
const char *vt_view_name(enum vt_view view);              /* "merged", "native", "python" */
const char *vt_method_name(enum vt_method m);             /* "none", "inside", "outside", "interpreter" */
const char *vt_block_state_name(uint8_t state);           /* "allocated", "awaiting-free", "cached", "unmapped" */
const char *vt_walk_result_name(uint8_t result);          /* "complete", "unstable", "refused", "truncated" */
const char *vt_walk_lock_name(uint8_t lock);              /* "none", "taken", "held" */
const char *vt_consistency_name(enum vt_consistency c);   /* "locked", "stopped", "unchanged", "repeated"; NULL not known */

#endif
