/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one job, each reduced to what a comparison needs: its identity, the memory it
 * holds, and where its threads are. A worker of vramtap triage turns one report into a job with one
 * member; the jobs of workers and of other nodes are saved as JSON and merged. Frames and stacks
 * are interned: a job has few places and few call paths, however many ranks it has.
 */
#ifndef VT_JOB_JOB_H
#define VT_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/index.h"
#include "base/str.h"
#include "base/vec.h"
#include "job/chain.h"
#include "job/faults.h"
#include "job/finding.h"
#include "job/kernels.h"
#include "model/faults.h"
#include "model/model.h"

#define VT_JOB_SCHEMA "vramtap-triage"
#define VT_JOB_SCHEMA_VERSION 1 /* raised when a field goes or changes its meaning */

enum vt_role {
	VT_ROLE_RANK,       /* computes: has a rank, or uses a GPU */
	VT_ROLE_LOADER,     /* a worker of torch.utils.data.DataLoader */
	VT_ROLE_CHECKPOINT, /* writes checkpoints for a rank */
	VT_ROLE_LAUNCHER,   /* torchrun, srun, mpirun, ...: it started ranks */
	VT_ROLE_OTHER,
	VT_N_ROLES
};

/* The identity of a process, before it is read. Texts come from the target: hostile. */
struct vt_label {
	const char *host;
	const char *system; /* boot and pid namespace of pid: host names repeat; "" unknown */
	pid_t pid, ppid;
	uint64_t start_ticks; /* since boot: detects that the pid was reused; 0 unknown */
	const char *name;     /* comm */
	const char *command;  /* "" unknown */
	enum vt_role role;
	int rank, local_rank, world_size; /* -1 unknown */
	int local_world_size;             /* ranks on this host; 0, -1 unknown */
	int worker;                       /* number of a loader worker, -1 */
	pid_t of;              /* owner of a loader worker or checkpoint writer; 0 unknown */
	const char *container; /* "" none */
	const char *pod;       /* Kubernetes pod, "" none */
	const char *visible;   /* CUDA_VISIBLE_DEVICES at its start; NULL not set */
	const char *job;       /* "slurm 4711", "" unknown */
	bool in_job;           /* false: it holds memory of a device that the job uses */
};

/* A place in code; interned. Jobs of many ranks have a million: 32 bytes. */
struct vt_job_frame {
	enum vt_frame_kind kind : 8;
	bool program; /* vt_model_is_program() */
	int line;
	const char *function; /* NULL unknown */
	const char *file;     /* NULL */
	const char *module;   /* NULL */
};

/*
 * Merged frames, innermost first; interned. Native addresses do not count: the same code at another
 * address is equal.
 */
struct vt_job_stack {
	const uint32_t *frames; /* indices in job.frames */
	size_t n;
	bool has_python;
};

/*
 * What a thread does: everything except its tid. It is interned, because most threads of a job do
 * what others do. Texts are interned, too; NULL none. waits and verdict lack the parts that differ
 * in every process (addresses, tids).
 */
struct vt_job_doing {
	const char *name; /* of the thread; "" */
	uint32_t stack;   /* index in job.stacks */
	char state;       /* '?' unknown */
	bool is_main, idle, has_python, deadlock;
	int gil;                   /* 1 holds it, 0 not, -1 unknown */
	struct vt_verdict verdict; /* without the tid of the lock's owner */
	/* .shared tells doings apart; .detail equals it unless all threads have the same. */
	struct vt_waits waits;
	const char *kernel; /* kernel function in which it sleeps, if no signal reaches it */
};

struct vt_job_thread {
	pid_t tid;
	uint32_t doing; /* index in job.doings */
};

/* What a process holds of a device. */
struct vt_job_memory {
	int ordinal;      /* CUDA's number for it in this process */
	const char *uuid; /* "GPU-...", "" unknown */
	bool known;       /* for PyTorch's allocator: */
	uint64_t reserved, allocated, cached;
	bool device_known; /* for the device, all processes together: */
	uint64_t total, free_bytes;
	/* The lines of the driver's list (model/ledger.h); of managed and pinned memory sizes. */
	bool ledger_known;
	uint64_t claimed[VT_N_CLAIMERS], kinds[VT_N_RANGE_KINDS];
	/* filled by account: all of the process, by the kernel driver's count of that time */
	bool counted;
	uint64_t counted_bytes;
};

/* What the blocks in use of a process are, on all its devices together. */
struct vt_job_owners {
	enum vt_owners_state state;
	bool ran;   /* blocks came and went while it was looked at */
	bool whole; /* all objects were read */
	uint64_t bytes[VT_N_CATEGORIES];
};

/* A place that allocated blocks in use, if that was recorded; only the largest places. */
struct vt_job_site {
	const char *title; /* "forward attn.py:57" */
	uint64_t bytes, blocks;
};

/*
 * What a process does, as the rules see it: according to its main thread, or to the thread for
 * which the main thread waits.
 */
enum vt_job_state {
	VT_STATE_UNDECIDED,
	VT_STATE_GONE,       /* the process is gone, or nothing is known about it */
	VT_STATE_CRASHED,    /* from a core */
	VT_STATE_STOPPED,    /* by a signal */
	VT_STATE_TRACED,     /* by a debugger */
	VT_STATE_OOM,        /* a request for GPU memory failed; its thread is held there */
	VT_STATE_ALLOCATOR,  /* PyTorch's allocator allocates from the driver, or frees */
	VT_STATE_COLLECTIVE, /* in a collective, or waits for one */
	VT_STATE_STORE,      /* waits for another rank through the TCPStore */
	VT_STATE_LOADER,     /* waits for a worker of its DataLoader */
	VT_STATE_DEVICE,     /* in the driver, or waits for the GPU */
	VT_STATE_STUCK,      /* in the kernel, where no signal reaches it */
	VT_STATE_LOCK,       /* waits for a lock or the GIL, or is in a deadlock */
	VT_STATE_IDLE,       /* waits for work */
	VT_STATE_RUNS,       /* runs on a processor, or is ready to */
	VT_STATE_WAITS,      /* for something else */
	VT_N_STATES
};

/* "collective", "loader", ...; NULL undecided */
const char *vt_job_state_name(enum vt_job_state state);

/* PyTorch's requests for device memory that were not met at once, all devices together. */
struct vt_job_requests {
	bool known; /* PyTorch's own counters: */
	uint64_t retries, failed;
	uint64_t last_failed; /* bytes of the last recorded or caught one; 0 unknown */
	bool waits;           /* its thread is held for vramtap watch */
};

struct vt_member {
	struct vt_label label;
	const char *file; /* its report, relative to the job's directory; NULL none */
	const char *core; /* the core file; NULL a live process */
	enum vt_completeness completeness;
	const char *error; /* why nothing is known about it, one line; NULL */
	double total_ms;
	double stopped_ms;       /* its threads */
	char process_state;      /* of its main thread, as in /proc; '?' unknown */
	int moved;               /* main thread after the stop: 1 went on, 0 slept on, -1 unknown */
	pid_t tracer;            /* 0 none */
	const char *tracer_name; /* "" unknown */
	bool have_moment; /* the host's clock when its threads had stopped and were released: */
	uint64_t stopped_ns, released_ns;     /* CLOCK_MONOTONIC */
	const char *headline;                 /* the first headline of its report; NULL */
	VT_VEC(struct vt_job_thread) threads; /* the main thread first */
	VT_VEC(struct vt_job_memory) memory;
	VT_VEC(struct vt_job_site) sites;
	struct vt_job_owners owners;
	struct vt_model_collectives collectives; /* texts are interned */
	struct vt_job_requests requests;
	struct vt_job_kernels kernels; /* of its devices */
	enum vt_context_lost lost; /* a CUDA context of it, and the Xid that did it; 0 unknown */
	uint32_t lost_by;
	const char *diag;   /* the first missing thing; NULL none */
	struct vt_str page; /* its report for a page (vt_html_write_report()), if that was wanted */
	/* filled by account: */
	enum vt_job_state state;
	const char *operation; /* its current collective: "all_reduce"; NULL none, or unknown */
	uint32_t place;        /* index in job.frames: where in the program; VT_NO_PLACE unknown */
	bool outlier;          /* a verdict names it as different */
};

#define VT_NO_PLACE UINT32_MAX

/* A set of members as ranges: indices in job.members, ascending. */
struct vt_member_set {
	uint32_t *members;
	size_t n;
};

/*
 * A node of the tree of stacks, outermost frames first. A chain of frames with the same members is
 * one node. A call from another line is another path, except in the innermost Python function:
 * ranks in one loop can be on any of its lines, so the line is there only when all agree. Native
 * frames between Python frames are left out, and so are those that a verdict covers.
 */
struct vt_job_node {
	const uint32_t *frames; /* indices in job.frames, outermost first */
	size_t n_frames;
	struct vt_member_set members;
	size_t threads;
	enum vt_role role; /* each role has its own trees, for main threads and for others */
	bool of_main;
	size_t parent; /* index in job.tree, VT_NO_NODE */
	size_t depth;
	const char *does; /* what threads that end here do: "waits for the GIL"; NULL none */
	bool outlier;     /* few members, while most others took another path */
};

#define VT_NO_NODE SIZE_MAX

/* One line of the answer. */
struct vt_job_verdict {
	enum vt_finding code;
	bool alarm;
	const char *text;
	const char *brief;            /* its subject alone; NULL: what its members do */
	struct vt_member_set members; /* those it is about */
	struct vt_member_set waiting; /* those that surely wait for these */
};

/* The first: what is wrong. Each other one: who waits for those of the link before. */
struct vt_job_link {
	struct vt_member_set members; /* empty: of no process that was found */
	const char *text;             /* "ranks 0,2-3 wait in all_reduce" */
};

/* A part of what can be done. */
struct vt_job_step {
	const char *command; /* for a shell on the machine; "" none */
	const char *words;   /* what it does */
};

/* From a cause to all that hang on it; for the user that has to do something now. */
struct vt_job_chain {
	enum vt_finding code;
	enum vt_cure cure;
	enum vt_doubt doubt;
	bool circle; /* the last ones are waited for by the first */
	const struct vt_job_link *links;
	size_t n_links;
	size_t hanging; /* ranks in the links after the first */
	struct vt_job_step steps[VT_MAX_STEPS];
	size_t n_steps;
};

#define VT_NO_MEMORY UINT32_MAX

/* What a member holds of a device. */
struct vt_job_held {
	uint32_t memory; /* index in the member's memory; VT_NO_MEMORY: not known from itself */
	bool listed;     /* the driver knows that it is on the device */
	bool counted;    /* all its libraries together, by the kernel driver's count: */
	uint64_t bytes;
};

/* A device, with all its holders. */
struct vt_job_device {
	const char *host, *uuid;
	const char *name;      /* "GPU 2", "GPU-8f2e1c34": its name on its host */
	const char *container; /* of its first holder: device numbers are per container; "" none */
	int ordinal;           /* CUDA's number if all are visible; -1 unknown, or holders differ */
	bool shared;           /* another device has this number, too */
	bool assumed; /* ranks share it by number only: each may set CUDA_VISIBLE_DEVICES */
	bool known;
	uint64_t total, free_bytes;
	struct vt_member_set holders;   /* largest first */
	const struct vt_job_held *held; /* of each holder */
	uint64_t outside; /* what no member holds: total - free - theirs; when known */
	/* who uses it, by the kernel driver's count; NULL unknown */
	const struct vt_model_usage *usage; /* of its host */
	const struct vt_model_gpu *gpu;     /* in usage */
};

/* A fault of devices, or what a device says of its health. */
struct vt_job_fault {
	enum vt_job_fault_kind kind;
	bool alarm;
	bool of_device;                 /* VT_JOB_XID: a new process does not cure it */
	const char *host;               /* "" unknown */
	const struct vt_model_xid *xid; /* VT_JOB_XID: the last of them */
	uint64_t times;                 /* VT_JOB_XID */
	struct vt_member_set members;   /* of the job: the faults are theirs, or on their devices */
	const char *text; /* "Xid 79 (the GPU has fallen off the bus) on GPU 2 of n1 (rank 3)" */
};

/* A rank this late at a collective is reported: host clocks and running ranks differ by less. */
#define VT_LATE_MS 3000

/* What NCCL's RAS says about ranks of a communicator, or about processes. */
enum vt_ras_about {
	VT_RAS_DEAD,   /* considered dead: RAS has lost them */
	VT_RAS_SILENT, /* did not answer RAS in time */
	VT_RAS_ABSENT, /* nothing is known about them, nor why */
	VT_RAS_ERROR,  /* report an NCCL error: what */
	VT_RAS_STATUS, /* have this status (what); others have another one */
	VT_RAS_COUNT,  /* launched count operations (what, "": all kinds); others differ */
	VT_RAS_N_ABOUT
};

struct vt_ras_rank {
	int rank;         /* in the communicator, -1 unknown */
	pid_t pid;        /* as the process sees it, 0 unknown */
	const char *host; /* its address, "" unknown */
};

/* The ranks about which RAS says the same. */
struct vt_ras_group {
	enum vt_ras_about about;
	const char *communicator; /* its hash, "" the whole job */
	int size;                 /* number of its ranks, -1 unknown */
	const char *what;         /* interned; "" none */
	uint64_t count;           /* VT_RAS_COUNT */
	uint64_t n;               /* number of ranks; the array has those that RAS named */
	signed char moved;        /* VT_RAS_COUNT, its ranks since: 1 all, 0 not all, -1 unknown */
	VT_VEC(struct vt_ras_rank) ranks;
};

/* An answer of NCCL's RAS: one process reports what all of its job told it. Texts are hostile. */
struct vt_ras {
	const char *host; /* of the process that was asked */
	pid_t pid;
	const char *address; /* "127.0.0.1:28028" */
	const char *file;    /* the raw answer, relative to the job's directory; NULL none */
	const char *version; /* of NCCL; "" unknown */
	bool understood;     /* entirely; otherwise lines has the rest */
	uint64_t communicators;
	VT_VEC(struct vt_ras_group) groups; /* groups of one communicator and kind are adjacent */
	VT_VEC(const char *) lines;
};

/* Who uses the devices of a host, and the faults that they had meanwhile. */
struct vt_job_usage {
	const char *host;
	const char *system; /* as in struct vt_label: whose pids they are */
	struct vt_model_usage usage;
	struct vt_model_faults faults; /* ours: of a process of the job; device is not known */
};

struct vt_job {
	struct vt_arena arena;
	const char *tool_version;
	const char *directory; /* where the files of members are; NULL here; the caller's */
	struct timespec when;
	VT_VEC(struct vt_job_frame) frames;
	VT_VEC(struct vt_job_stack) stacks;
	VT_VEC(struct vt_job_doing) doings;
	/* ranks first, by rank; then by role, rank, worker, host and pid (account) */
	VT_VEC(struct vt_member) members;
	VT_VEC(struct vt_ras) ras;          /* one for each host and job */
	VT_VEC(struct vt_job_usage) usages; /* one for each host and pid namespace */
	double skew_ms; /* between the first and the last stop on a host; -1 unknown */
	VT_VEC(struct vt_diag) diags;
	/* private: */
	VT_VEC(const char *) texts;
	struct vt_index by_text, by_frame, by_stack, by_doing;
	struct vt_job_seen *seen; /* job/json/seen.h */
	uint64_t seed; /* of hashes: targets choose texts, and must not choose collisions */
	bool failed;   /* out of memory: members or parts of them are missing */
	/* filled by account: */
	VT_VEC(struct vt_job_node) tree; /* main and other telling threads; parents first */
	VT_VEC(struct vt_job_device) devices;
	VT_VEC(struct vt_job_fault) faults;     /* alarms first */
	VT_VEC(struct vt_job_verdict) verdicts; /* the answer first */
	VT_VEC(struct vt_job_chain) chains;     /* the one on which most ranks hang first */
	enum vt_completeness completeness;
};

void vt_job_init(struct vt_job *job);
void vt_job_deinit(struct vt_job *job);

/*
 * Adds a member from a report, or (model NULL) one without a report: error. False: out of memory.
 */
bool vt_job_add(struct vt_job *job, const struct vt_label *label, const struct vt_model *model,
		const char *error);

/*
 * Adds who uses the devices of a host, and their faults; texts are the job's own, or constants.
 * Takes over what usage and faults have, also when it fails: out of memory.
 */
bool vt_job_add_usage(struct vt_job *job, const char *host, const char *system,
		      struct vt_model_usage *usage, struct vt_model_faults *faults);

/* Adds a diagnostic of the whole job. */
void vt_job_diag(struct vt_job *job, enum vt_diag_level level, const char *code, const char *format,
		 ...) __attribute__((format(printf, 4, 5)));

/* Notes that a part of the job (a node, for example) could not be read. why is one line. */
void vt_job_miss(struct vt_job *job, const char *why);
/* Removes the answer with that index. */
void vt_job_drop_ras(struct vt_job *job, size_t index);

/* They are numbered ranks of the job, all of them. */
bool vt_job_are_ranks(const struct vt_job *job, const struct vt_member_set *set);

/*
 * The members: "0-2,4-7" (ranks; beside others "ranks 0-2,4-7"), "workers 0-7 of rank 3", else "pid
 * 4711@node3"; about columns wide.
 */
void vt_job_add_set(const struct vt_job *job, const struct vt_member_set *set, size_t columns,
		    struct vt_str *out);

#endif
