/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as data: one per process. The walkers fill it (through cmd/). model/account.c adds
 * what follows from it (groups, totals, headline). The writers print it and compute nothing. Every
 * number has one home. All strings live in the arena. They are hostile unless marked "ours", and
 * the writers escape them. Sizes are in bytes and times in nanoseconds unless the name says
 * otherwise.
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
#include "model/advice.h"
#include "model/again.h"
#include "model/around.h"
#include "model/doing.h"
#include "model/faults.h"
#include "model/growth.h"
#include "model/host.h"
#include "model/ledger.h"
#include "model/jax.h"
#include "model/kernels.h"
#include "model/launches.h"
#include "model/libpools.h"
#include "model/owners.h"
#include "model/streams.h"
#include "model/usage.h"
#include "model/where.h"

enum vt_completeness {
	VT_COMPLETE = 0, /* also the process exit codes */
	VT_PARTIAL = 1,
	VT_NOTHING = 2,
};

/* How a part of the report came about. */
enum vt_method {
	VT_METHOD_NONE,        /* not available */
	VT_METHOD_INSIDE,      /* by the helper in the process */
	VT_METHOD_OUTSIDE,     /* read from outside, no code run */
	VT_METHOD_INTERPRETER, /* PyTorch's own answer, through the process's interpreter */
};

enum vt_diag_level {
	VT_DIAG_NOTE,    /* worth knowing; the report is still complete */
	VT_DIAG_MISSING, /* something is missing or not exact: the report is partial */
};

/* The part of the work that a diagnostic is about. */
enum vt_stage {
	VT_STAGE_OTHER, /* another version wrote a stage that is unknown here */
	VT_STAGE_PROCESS,
	VT_STAGE_CORE,
	VT_STAGE_FILES,
	VT_STAGE_INJECT,
	VT_STAGE_CUDA,
	VT_STAGE_TORCH,
	VT_STAGE_LIBPOOLS,
	VT_STAGE_PINNED,
	VT_STAGE_PYTHON,
	VT_STAGE_RECORDER,
	VT_STAGE_OWNERS,
	VT_STAGE_STACKS,
	VT_STAGE_WATCH,
	VT_STAGE_JOB,
	VT_N_STAGES
};

struct vt_diag {
	enum vt_diag_level level;
	enum vt_stage stage;
	/* ours, static, for machines: "lock-held", "layout-refused", "seccomp", ... */
	const char *code;
	const char *text; /* one line: what, why, and what to do where something can be done */
};

struct vt_model_process {
	pid_t pid;
	const char *name;
	const char *cmdline;
	const char *exe;
	const char *user;
	uid_t uid;
	pid_t ns_pid; /* its number in a pid namespace of its own (a container's); 0 none */
	const char *container; /* "" none */
	const char *pod;       /* Kubernetes pod; "" none */
	const char *job;       /* "slurm 4711"; "" none */
	double uptime_s;
	int n_threads;
	char state;   /* of the main thread, as in /proc */
	pid_t tracer; /* 0 none */
	const char *tracer_name;
	int rank, local_rank, world_size; /* by its environment; -1 unknown */
	bool uses_cuda;                   /* libcuda is mapped */
};

/* The core file that was read instead of a live process. */
struct vt_model_core {
	const char *path;        /* NULL: a live process was read */
	uint64_t size;           /* bytes */
	uint64_t missing_bytes;  /* the file should have them, but does not */
	uint64_t read_bytes;     /* read from the file for this report */
	int signal;              /* 0 none: a debugger dumped a healthy process */
	const char *signal_name; /* ours: "SIGSEGV" */
	bool killed;             /* by that signal; else a debugger held the process there */
	pid_t signal_tid;        /* the thread that got the signal */
	bool have_address;       /* address is that of the failed memory access */
	uint64_t address;
};

struct vt_model_versions {
	const char *torch;         /* "2.11.0+cu130", "" unknown */
	const char *torch_layout;  /* the releases with the layout found; "" none or unknown */
	bool torch_layout_unknown; /* there is a layout, but its release is in no table */
	const char *python;        /* "3.12.3", "" no interpreter */
	bool python_free_threaded;
	const char *driver; /* "580.159.03", "" unknown */
	int cuda_driver;    /* 13000 is 13.0; 0 unknown */
	int cuda_runtime;
};

/*
 * One of the driver's memory pools of a device: cudaMallocAsync allocates from it. All numbers are
 * the driver's.
 */
struct vt_model_pool {
	bool is_current; /* the process has set it instead of the default pool */
	uint64_t reserved_bytes, reserved_high_bytes; /* now, and the high-water mark */
	uint64_t used_bytes, used_high_bytes;
	uint64_t handle; /* CUmemoryPool; 0 unknown */
};

#define VT_MODEL_MAX_POOLS 2

struct vt_model_device {
	int ordinal;
	const char *name;
	uint8_t uuid[16];
	bool have_uuid;
	bool context_active;
	uint64_t context; /* CUcontext, 0 unknown */
	bool have_memory;
	const char *memory_from; /* ours: "cudaMemGetInfo", "cuMemGetInfo", "NVML" */
	bool memory_moved;       /* changed during the allocator walk, or the second query failed */
	/* used = total - free: all processes together */
	uint64_t free_bytes, total_bytes, used_bytes;
	const char *why_no_memory; /* ours; NULL when have_memory */
	bool memory_counted;       /* these figures are the kernel driver's: memory_from is NVML */
	bool pools_known;
	struct vt_model_pool pools[VT_MODEL_MAX_POOLS];
	size_t n_pools;
	VT_VEC(pid_t) context_threads; /* threads whose current context is this device's */
	bool context_threads_known;
};

/* What was found of a PyTorch allocator: the one for devices, or the one for pinned host memory. */
enum vt_allocator_state {
	VT_ALLOCATOR_UNKNOWN, /* not looked for; or another version wrote a state unknown here */
	VT_ALLOCATOR_NOT_LOADED,
	VT_ALLOCATOR_NOT_INITIALISED,
	VT_ALLOCATOR_NATIVE,
	VT_ALLOCATOR_INHERITED, /* fork() copied it from the parent: it holds no block */
	VT_ALLOCATOR_ASYNC,     /* cudaMallocAsync */
	VT_ALLOCATOR_PLUGGABLE,
	VT_ALLOCATOR_REFUSED, /* its layout is unknown, or it was not found */
	VT_N_ALLOCATOR_STATES
};

/* Why the blocks of an exact allocator are one consistent state. */
enum vt_consistency {
	VT_CONSISTENT_NOT,       /* not known: not exact */
	VT_CONSISTENT_LOCKED,    /* read with its lock held */
	VT_CONSISTENT_STOPPED,   /* read while the process stood still */
	VT_CONSISTENT_UNCHANGED, /* read while it ran: its statistics did not change */
	VT_CONSISTENT_REPEATED,  /* read while it ran: two passes gave the same result */
};

/* The PyTorch native allocator of one device. */
struct vt_model_allocator {
	int device;
	enum vt_method method;
	struct vt_torch_device_result result; /* .why is ours: not hostile */
	size_t first_block, n_blocks;         /* in model.blocks */
	const char *owner_name;               /* thread that holds the lock; "" */
	enum vt_consistency consistency;
	unsigned int passes; /* how often it was read while the process ran; 0: never */
	/* filled by account: */
	bool exact;              /* walk complete, all invariants hold; else print no total */
	uint64_t reserved_bytes; /* all mapped blocks */
	uint64_t allocated_bytes, awaiting_bytes, cached_bytes, requested_bytes;
	uint64_t allocated_blocks, awaiting_blocks, cached_blocks;
	uint64_t largest_cached; /* the largest single free block */
	uint64_t private_bytes;  /* in private pools, any mapped state */
	uint64_t private_allocated_bytes, private_cached_bytes;
	uint64_t private_allocated_blocks, private_cached_blocks;
	bool requested_known; /* requested sizes are recorded: rounding_bytes is known */
	/* allocated - requested of allocated blocks: lost to rounding */
	uint64_t rounding_bytes;
	bool other_known;
	uint64_t other_bytes; /* used by any process, not reserved by this allocator */
};

/*
 * All blocks with the same device, state, size, stream and pool. The group with the largest total
 * comes first. Account fills them, from exact allocators only. Unmapped blocks are address space,
 * not memory: they are in no group.
 */
struct vt_model_group {
	int device;
	uint8_t state;
	bool small_pool, private_pool, expandable;
	uint64_t pool;
	uint64_t stream;
	uint64_t size; /* of each block */
	uint64_t blocks;
	uint64_t bytes;
};

struct vt_model_frame;

/* What recorded how a block was allocated. */
enum vt_trace_source {
	VT_TRACE_PYTORCH,  /* torch.cuda.memory._record_memory_history() */
	VT_TRACE_RECORDER, /* vramtap record, watch or run */
	VT_N_TRACE_SOURCES
};

#define VT_NO_AGE UINT64_MAX

/* The ages of blocks at the time of the report. Only blocks that vramtap recorded have an age. */
struct vt_model_ages {
	uint64_t oldest_ns, newest_ns; /* VT_NO_AGE: no age is known */
};

/*
 * A recorded backtrace, and the blocks that were allocated through it. Its frames are in
 * model.trace_frames, which has each place once: a job has few places and many paths through them.
 */
struct vt_model_trace {
	enum vt_trace_source source;
	const uint32_t *frames; /* indices in model.trace_frames, innermost first */
	size_t n_frames;
	bool merge_uncertain; /* the native frames after the Python frames belong between them */
	bool python_cut, native_cut; /* outer frames were not recorded */
	bool native_guess;           /* native frames may be missing in between */
	/* filled by account; allocated blocks of exact allocators: */
	uint64_t bytes, blocks, largest;
	struct vt_model_ages ages;
	size_t title;        /* index in frames of the most telling frame; n_frames: none */
	size_t site;         /* index in model.sites; VT_NO_SITE: no allocated block */
	size_t next_in_site; /* index in model.traces of the next smaller; VT_NO_TRACE: none */
};

#define VT_NO_SITE SIZE_MAX
#define VT_NO_TRACE SIZE_MAX

/* The function name of a recorded frame begins like this when its code object has been freed. */
#define VT_FREED_CODE "<code object freed"

/* Why a block has no trace. */
enum vt_untraced {
	VT_UNTRACED_NOT_RECORDED, /* allocated before recording began, or recording was off */
	VT_UNTRACED_CHANGED,      /* freed or reused while it was read */
	VT_UNTRACED_UNREADABLE,   /* recorded, but unreadable or implausible: see diags */
	VT_UNTRACED_SAMPLED,      /* the recorder sampled or had no room; or as NOT_RECORDED */
	VT_UNTRACED_NO_STACK,     /* recorded without a backtrace: there was no room for it */
	VT_UNTRACED_UNSEEN,       /* allocated while recording, not through a recorded entry */
	VT_N_UNTRACED
};

/* The value in model.block_traces for a block without a trace. */
#define VT_UNTRACED(why) (UINT32_MAX - (uint32_t)(why))
#define VT_IS_UNTRACED(trace) ((trace) > UINT32_MAX - VT_N_UNTRACED)

/*
 * Where blocks were allocated: all traces with the same innermost frame of the program itself.
 * Filled by account.
 */
struct vt_model_site {
	const struct vt_model_frame *title; /* NULL: the traces without a frame */
	uint64_t bytes, blocks, largest;    /* allocated blocks of exact allocators */
	struct vt_model_ages ages;
	size_t first_trace; /* index in model.traces: the largest; then next_in_site */
	size_t n_traces;
};

/* The total of some blocks. */
struct vt_model_amount {
	uint64_t bytes, blocks;
};

/* What vramtap recorded of a block besides its backtrace. */
struct vt_model_record {
	uint64_t age_ns;    /* VT_NO_AGE: the block is not recorded */
	pid_t tid;          /* the allocating thread, in the process's pid namespace; may be gone */
	const char *thread; /* its name; "" unknown, or the thread is gone */
};

enum vt_driver_kind {
	VT_DRIVER_KIND_OTHER, /* another version wrote a kind that is unknown here */
	VT_DRIVER_KIND_DEVICE,
	VT_DRIVER_KIND_ASYNC,  /* cudaMallocAsync */
	VT_DRIVER_KIND_MAPPED, /* cuMemMap */
	VT_DRIVER_KIND_MANAGED,
	VT_DRIVER_KIND_HOST, /* pinned */
	VT_N_DRIVER_KINDS
};

/* A driver allocation that was made while driver allocations were recorded. */
struct vt_model_driver_block {
	uint64_t addr, size, stream;
	int device; /* -1 unknown */
	enum vt_driver_kind kind;
	bool on_device;  /* device memory; managed and host memory are not */
	bool of_pytorch; /* a segment of PyTorch's allocator, which is accounted separately */
	struct vt_model_record record;
	uint32_t trace; /* index in model.traces, or VT_UNTRACED(why) */
};

/*
 * Driver allocations of one kind and from one library: the library of the first frame outside the
 * driver and its runtime. Filled by account.
 */
struct vt_model_driver_group {
	enum vt_driver_kind kind;
	bool on_device;
	int device;
	const char *library;                /* base name of the file; NULL unknown */
	const struct vt_model_frame *title; /* innermost program frame of the largest; NULL none */
	uint64_t bytes, blocks, largest;
	struct vt_model_ages ages;
};

/* A request that failed because memory ran out, while recording was on. */
struct vt_model_oom {
	uint32_t number; /* from 1 */
	bool of_pytorch; /* a request to PyTorch's allocator; else to the driver */
	uint64_t requested;
	uint64_t age_ns;
	uint64_t free_bytes, total_bytes; /* of the device at that moment; 0 0 unknown */
	uint64_t waited_ns;               /* how long the thread waited for a watcher */
	int device;                       /* -1 unknown */
	int error;                        /* CUresult, 0 none */
	pid_t tid;
	const char *thread;
	uint32_t trace; /* as in struct vt_model_driver_block */
};

/* Why a request failed. */
enum vt_oom_verdict {
	VT_OOM_UNDECIDED, /* too little is known */
	VT_OOM_TOO_LARGE, /* the request exceeds the device's memory */
	/*
	 * The device had enough free memory, but PyTorch may not use it
	 * (set_per_process_memory_fraction), or the driver refused.
	 */
	VT_OOM_LIMITED,
	/*
	 * A cached block is large enough, but another stream or a private pool has it, or it must
	 * not be split.
	 */
	VT_OOM_ELSEWHERE,
	VT_OOM_FRAGMENTED, /* cached and free memory together suffice, but no single piece does */
	VT_OOM_FULL,       /* cached and free memory together are too little */
};

/*
 * The out-of-memory error that caused the report; its thread waited for the report. Filled by
 * account, except first, last and event.
 */
struct vt_model_caught {
	uint32_t first, last; /* numbers of the events, 0 none; the rest describes the first: */
	struct vt_model_oom event;      /* the first, without a backtrace: if model.ooms lacks it */
	const struct vt_model_oom *oom; /* the one in model.ooms, else event; NULL: none */
	enum vt_oom_verdict verdict;
	uint64_t needed_bytes;        /* the request, after PyTorch's smallest rounding */
	uint64_t segment_bytes;       /* of a new segment for it */
	struct vt_model_amount holes; /* PyTorch's cached blocks that can serve this size */
	uint64_t hole_segments;       /* the segments that the holes are in */
	uint64_t largest_hole;
	uint64_t largest_hole_stream;
	uint64_t held_bytes; /* allocated, or awaiting free */
	bool others_known;
	uint64_t others_bytes; /* not PyTorch's, not free: other processes, contexts, libraries */
	const char *message;   /* of PyTorch's exception; hostile; NULL: it could not be read */
	uint64_t limit_bytes;  /* what PyTorch may use of the device, by its message; 0 all */
};

enum vt_recording {
	VT_RECORDING_NONE,    /* the recorder is not loaded */
	VT_RECORDING_UNKNOWN, /* it is loaded; another version wrote a state that is unknown here */
	VT_RECORDING_ON,
	VT_RECORDING_OFF,
	VT_RECORDING_INHERITED,     /* fork() copied it from the parent: it records nothing here */
	VT_RECORDING_OTHER_VERSION, /* the recorder is from another version of vramtap */
	VT_RECORDING_UNREADABLE,
	VT_N_RECORDINGS
};

/* What the recorder in the process reports about itself. */
struct vt_model_recorder {
	enum vt_recording state;
	/* when on: */
	uint64_t on_ns; /* for how long */
	/*
	 * Times count back from the last record: a core does not tell when it was made, and the
	 * clock may be unknown.
	 */
	bool since_last;
	struct timespec ages_to; /* CLOCK_REALTIME that ages count back from; 0 0 unknown */
	bool python, native;     /* which frames it records */
	const char *driver; /* ours: how it sees driver allocations: "CUPTI", "GOT"; NULL not */
	uint64_t sample_bytes, sample_now_bytes; /* asked for; raised for lack of room; 0: all */
	uint64_t memory_bytes, max_memory_bytes;
	uint64_t allocations, driver_allocations, driver_frees;
	uint64_t lost, evicted, stacks_dropped;
	size_t compared, differing; /* blocks that PyTorch recorded too; with other frames */
};

/* PyTorch's allocator of pinned host memory. This memory is not part of any device's memory. */
struct vt_model_pinned {
	enum vt_allocator_state state; /* never ASYNC or PLUGGABLE */
	uint8_t result;                /* enum vt_walk_result, when native */
	bool same_blocks;              /* unstable: the blocks are sure, their states are not */
	const char *why;               /* ours; "" when complete */
	uint64_t object;               /* address of the allocator */
	pid_t owner_tid;               /* the thread that holds the lock of its blocks, 0 none */
	bool counted;                  /* the allocator's own totals agree */
	double read_ms;
	struct vt_pinned_block *blocks; /* heap; by address */
	size_t n_blocks;
	/* filled by account: */
	bool exact;     /* complete, all checks hold; else no total, but see sum_known */
	bool sum_known; /* total is right: exact is set, or the blocks are sure */
	struct vt_model_amount total;
	struct vt_model_amount states[VT_BLOCK_CACHED + 1]; /* by enum vt_block_state */
	struct vt_model_amount private_pools;
	uint64_t largest_cached; /* block */
};

/* A collective, or a transfer from one rank to another, that has not completed. */
struct vt_model_operation {
	const char *name;    /* "all_reduce", "recv 1<-0" */
	int64_t number;      /* sequence number in the group; transfers have their own sequence */
	bool of_two;         /* a transfer between two ranks */
	int started;         /* on the GPU: 1 yes, 0 no, -1 unknown (not recorded by default) */
	const char *input;   /* "[64, 1024] Float"; NULL unknown */
	uint64_t age_ms;     /* since the program called it */
	uint64_t timeout_ms; /* 0 unknown */
};

/* A process group as PyTorch's flight recorder knows it. Collectives count from 1. */
struct vt_model_process_group {
	const char *backend;                                 /* ours: "nccl", "gloo" */
	const char *name;                                    /* the same on all its ranks: "0" */
	const char *description;                             /* "default_pg"; "" none */
	const char *ranks;                                   /* of the job: "0-3,8"; NULL unknown */
	int64_t last_enqueued, last_started, last_completed; /* collectives; 0 none, -1 unknown */
	const char *operation; /* the last enqueued collective: "all_reduce"; NULL unknown */
	uint64_t n_pending;    /* operations that have not completed */
	struct vt_model_operation oldest; /* the oldest pending operation */
};

struct vt_model_collectives {
	uint64_t told_ms; /* when it answered, CLOCK_REALTIME; 0: not asked, or no answer */
	const char *why;  /* why there are no groups; NULL: there are, or it was not asked */
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
	/* of the code object, as PyTorch has it: not qualified; NULL unknown */
	const char *name;
	/* 0: the main interpreter, else the id of a subinterpreter */
	unsigned int interpreter;
	const struct vt_model_local *locals; /* NULL: not asked for, or not read */
	size_t n_locals;
	bool locals_cut; /* there are more */
	/* native only: */
	bool inlined;         /* into the next frame: not a call, has no address of its own */
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
	bool merge_uncertain; /* Python frames could not be placed: they follow the native ones */
	const char *why;      /* why frames are missing; NULL when none are */
	uint64_t hash;        /* of functions, files, lines: equal for equal stacks (account) */
};

/* How a thread was read. */
enum vt_taken {
	VT_TAKEN_STOPPED, /* it was stopped */
	VT_TAKEN_ASLEEP,  /* it was not stopped, but slept throughout */
	VT_TAKEN_RUNNING, /* it ran: no native frames; Python frames if several reads agree */
};

struct vt_model_thread {
	pid_t tid;
	const char *name;
	char state;
	int cpu;
	bool is_main;
	bool has_python;
	enum vt_taken taken;
	int gil;           /* 1: it holds its interpreter's GIL, 0: it does not, -1 unknown */
	const char *wchan; /* the kernel function that it sleeps in; NULL unknown */
	const char *const *kernel; /* its kernel stack, innermost first: "futex_wait+0x5f/0x120" */
	size_t n_kernel;           /* 0 unknown */
	const char *syscall;       /* ours: "futex"; NULL: not in a system call */
	struct vt_waits waits;     /* what its system call waits for */
	pid_t waits_for; /* the thread that holds what it waits for or that it joins; 0 none */
	uint64_t waits_address;    /* the futex that it waits on; 0 none, or unknown */
	bool deadlock;             /* waits_for leads from this thread back to itself */
	struct vt_verdict verdict; /* what the stack as a whole says */
	bool idle;                 /* a pool thread that waits for work (explain/verdicts.c) */
	struct vt_model_stack stack;
	/* filled by account: */
	size_t group;         /* index in model.thread_groups */
	size_t next_in_group; /* index in model.threads of the next; VT_NO_THREAD after the last */
};

#define VT_NO_THREAD SIZE_MAX

/*
 * Threads with equal stacks. Filled by account. The most telling group comes first: main, verdict,
 * Python, native, idle pools.
 */
struct vt_model_thread_group {
	size_t first_thread; /* index in model.threads; next_in_group leads to the others */
	size_t n_threads;
	bool idle; /* a pool thread that waits for work */
};

#include "model/tasks.h"

/* One line of the answer. The text contains names from the target: hostile. */
struct vt_model_headline {
	/* ours, static, for machines: "main-thread", "memory", "lock-held", ... */
	const char *code;
	bool alarm; /* something is wrong */
	const char *text;
};

struct vt_model_timing {
	double total_ms;    /* from start to the finished model */
	double attach_ms;   /* until the helper answered */
	double borrowed_us; /* how long a thread was borrowed; 0: none was */
	pid_t borrowed_tid; /* 0 none */
	double walk_ms;     /* of the allocator */
	/* from outside: reading the allocator's memory, all passes together */
	double blocks_read_ms;
	double blocks_stopped_ms; /* the part of blocks_read_ms while threads were stopped */
	double gil_wait_ms;       /* how long the helper waited for the GIL, to ask PyTorch */
	double gil_held_ms;       /* how long the helper held the GIL; 0: it did not */
	double stopped_ms;        /* how long threads were stopped for their stacks */
	uint64_t stop_begin_ns, stop_end_ns; /* of that stop, CLOCK_MONOTONIC; 0 0: none */
	double stacks_ms;
	double owners_ms; /* finding what keeps blocks alive; 0: it was not looked for */
};

struct vt_model {
	struct vt_arena arena;
	const char *tool_version;
	struct timespec when; /* CLOCK_REALTIME at the start */
	struct vt_model_where where;
	struct vt_model_core core;
	struct vt_model_process process;
	struct vt_model_versions versions;
	enum vt_method cuda_method;
	VT_VEC(struct vt_model_device) devices;
	struct vt_model_libpools libpools; /* of XLA, CuPy, ... */
	struct vt_model_jax jax;           /* what it said when it was asked */
	struct vt_model_ledger ledger; /* all allocations of the process that the driver knows */
	enum vt_method torch_method;
	enum vt_allocator_state torch_state;
	struct vt_model_usage usage;     /* who else uses the devices */
	struct vt_model_kernels kernels; /* what runs there, if the CUDA debugger was asked */
	struct vt_model_streams streams; /* and which streams have unfinished work */
	struct vt_model_faults faults;   /* of the devices, while it ran */
	VT_VEC(struct vt_model_allocator) allocators;
	struct vt_block_rec *blocks; /* not always heap memory: blocks_release releases it */
	size_t n_blocks;
	void (*blocks_release)(struct vt_block_rec *blocks, size_t n);
	VT_VEC(struct vt_model_group) groups;
	struct vt_model_pinned pinned;
	struct vt_model_around around;
	struct vt_model_host host; /* pinned and shared memory, of all libraries */
	/* Recorded backtraces; block_traces is NULL when no block has one. */
	const struct vt_model_frame *trace_frames;
	size_t n_trace_frames;
	VT_VEC(struct vt_model_trace) traces;
	const uint32_t *block_traces; /* for each block: index in traces, or VT_UNTRACED(why) */
	/*
	 * The same of the segment that the block begins; NULL: not asked for, or not known. Indices
	 * behind traces are of segment_only; that has frames behind trace_frames, up to
	 * n_segment_frames. What knows nothing of segments thus finds what it finds without them.
	 */
	const uint32_t *segment_traces;
	VT_VEC(struct vt_model_trace) segment_only;
	size_t n_segment_frames;
	struct vt_model_recorder recorder;
	const struct vt_model_record *block_records; /* for each block; NULL: nothing is recorded */
	struct vt_model_owners owners;               /* what the blocks in use are */
	VT_VEC(struct vt_model_driver_block) driver_blocks; /* by address */
	/* those not of PyTorch, largest first (account) */
	VT_VEC(struct vt_model_driver_group) driver_groups;
	VT_VEC(struct vt_model_oom) ooms; /* the oldest first */
	struct vt_model_launches launches;
	struct vt_model_caught caught;
	VT_VEC(struct vt_model_site) sites; /* largest first (account) */
	/* allocated blocks of exact allocators without a trace (account) */
	struct vt_model_amount untraced[VT_N_UNTRACED];
	struct vt_model_collectives collectives;
	VT_VEC(struct vt_model_thread) threads; /* main first, then by tid */
	VT_VEC(struct vt_model_thread_group) thread_groups;
	struct vt_model_tasks tasks; /* of asyncio */
	enum vt_view view;
	bool stacks_coherent;    /* all stacks show the same instant */
	bool gil_holder_missing; /* a GIL is held, but none of the threads holds it */
	bool no_stop;            /* the caller forbade stopping threads */
	const char *held_by;     /* ours: "gdb" held the process throughout; NULL: nothing did */
	struct vt_model_again again;   /* further looks, without a stop: stuck or slow? */
	struct vt_model_growth growth; /* in the looks that this report is the last of */
	VT_VEC(struct vt_diag) diags;
	VT_VEC(struct vt_model_headline) headlines; /* the answer in a few lines (account) */
	struct vt_model_advices advice;             /* what to do about it (advise/) */
	struct vt_model_timing timing;
	/* account derives it from diags; VT_PARTIAL once a diag was lost */
	enum vt_completeness completeness;
};

void vt_model_init(struct vt_model *model);
void vt_model_deinit(struct vt_model *model);

/*
 * Adds a diagnostic. The text is printf-formatted into the arena. A diagnostic that is already
 * there is not added again. When out of memory, the diagnostic is lost but the report stays
 * partial.
 */
void vt_model_diag(struct vt_model *model, enum vt_diag_level level, enum vt_stage stage,
		   const char *code, const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Fills everything marked "account" from the rest, checks the allocators' totals again, and adds
 * the diagnostics for walks that were unstable, truncated or refused (callers need not). Call it
 * once, after everything else is filled in. Returns false when out of memory: the model can still
 * be printed, and is partial.
 */
bool vt_model_account(struct vt_model *model);

/*
 * A run is adjacent blocks of one segment. Returns the end (exclusive, an index in model.blocks) of
 * the run that begins at first; end is the end of the allocator's blocks. In an exact allocator a
 * run is a whole segment; else blocks may be missing between runs.
 */
size_t vt_model_segment_end(const struct vt_model *model, size_t first, size_t end);

/* The memory that the device's known pools reserve together. */
uint64_t vt_model_pools_reserved(const struct vt_model_device *device);

/* By ordinal, by tid; NULL when there is none. */
const struct vt_model_device *vt_model_device(const struct vt_model *model, int ordinal);
const struct vt_model_thread *vt_model_thread(const struct vt_model *model, pid_t tid);

/*
 * What may help when something changed while it was read, as the end of a sentence: "; run it
 * again".
 */
const char *vt_try_again(const struct vt_model *model);

/* The innermost Python frame, or NULL. */
const struct vt_model_frame *vt_model_python_frame(const struct vt_model_stack *stack);

/*
 * Whether it is Python code of the program itself or of a model library, not of PyTorch or the
 * standard library.
 */
bool vt_model_is_program(const struct vt_model_frame *frame);
/* NULL: no thread is known to hold it, which does not say that it is free. */
const struct vt_model_thread *vt_model_gil_holder(const struct vt_model *model);
bool vt_model_gil_is_free(const struct vt_model *model); /* certainly */

/*
 * Whether it is from a library that is not the system's and not one that every job has: perhaps the
 * user's own.
 */
bool vt_model_is_telling(const struct vt_model_frame *frame);

/* The frame that stands for a trace, by its index in model.traces; NULL: none. */
const struct vt_model_frame *vt_model_trace_title(const struct vt_model *model, uint32_t trace);

/* The trace of the block with this index in model.blocks, or NULL. */
const struct vt_model_trace *vt_model_block_trace(const struct vt_model *model, size_t block);

/* The same of the segment that the block begins. */
const struct vt_model_trace *vt_model_segment_trace(const struct vt_model *model, size_t block);

/*
 * The library that called the driver, by a backtrace of that call: base name of the file; NULL
 * unknown.
 */
const char *vt_driver_library(const struct vt_model *model, const struct vt_model_trace *trace);

/* The record of the block with this index in model.blocks, or NULL. */
const struct vt_model_record *vt_model_block_record(const struct vt_model *model, size_t block);

const char *vt_stage_name(enum vt_stage stage); /* "process", "core", "torch", "stacks", ... */
/* "device", "async", "mapped", "managed", "host", "other" */
const char *vt_driver_kind_name(enum vt_driver_kind kind);
const char *vt_trace_source_name(enum vt_trace_source source); /* "pytorch", "vramtap" */
/* "not-recorded", "changed", "unreadable", "sampled", ... */
const char *vt_untraced_name(enum vt_untraced why);
/* "undecided", "too-large", "limited", "elsewhere", "fragmented", "full" */
const char *vt_oom_verdict_name(enum vt_oom_verdict verdict);
/* "complete", "partial", "nothing"; an enum vt_completeness, as vt_json_in_word() passes it */
const char *vt_completeness_name(unsigned int c);
const char *vt_taken_name(enum vt_taken taken); /* "stopped", "asleep", "running" */
const char *vt_view_name(enum vt_view view);    /* "merged", "native", "python" */
/* "none", "inside", "outside", "interpreter" */
const char *vt_method_name(enum vt_method m);
/* "allocated", "awaiting-free", "cached", "unmapped" */
const char *vt_block_state_name(uint8_t state);
/* "complete", "unstable", "refused", "truncated" */
const char *vt_walk_result_name(uint8_t result);
const char *vt_walk_lock_name(uint8_t lock); /* "none", "taken", "held" */
/* "locked", "stopped", "unchanged", "repeated"; NULL not known */
const char *vt_consistency_name(enum vt_consistency c);

#endif
