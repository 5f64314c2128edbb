/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes of one job, each reduced to what a comparison needs: who it is, what it holds, where its threads are. A worker
 * of vramtap triage makes a job of one member out of a report; the jobs of workers, and of other nodes, are saved as JSON and
 * added together. Frames and stacks are interned: a job has few places and few ways through them, however many ranks it has.
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
#include "base/map.h"
#include "base/vec.h"
#include "model/model.h"

#define VT_JOB_SCHEMA "vramtap-triage"
#define VT_JOB_SCHEMA_VERSION 1 /* raised when a field goes or changes its meaning */

enum vt_role {
	VT_ROLE_RANK,       /* it computes: it has a rank, or uses a GPU */
	VT_ROLE_LOADER,     /* a worker of torch.utils.data.DataLoader */
	VT_ROLE_CHECKPOINT, /* writes checkpoints for a rank */
	VT_ROLE_LAUNCHER,   /* torchrun, srun, mpirun, ... : started ranks */
	VT_ROLE_OTHER,
	VT_N_ROLES
};

/* Who a process is, before it is looked at. Texts are of the target: hostile. */
struct vt_label {
	const char *host;
	const char *system;     /* the boot and the pid namespace that pid is a number in: names of hosts may be the same; "" unknown */
	pid_t pid, ppid;
	uint64_t start_ticks;   /* since boot: tells a pid apart that was given to another process since; 0 unknown */
	const char *name;       /* comm */
	const char *command;    /* "" unknown */
	enum vt_role role;
	int rank, local_rank, world_size; /* -1 unknown */
	int local_world_size;   /* ranks on this host; 0, -1 unknown */
	int worker;             /* number of a loader's worker, -1 */
	pid_t of;               /* the process on this host that a loader's worker or a checkpoint writer is of; 0 unknown */
	const char *container;  /* "" none */
	const char *pod;        /* of Kubernetes, "" none */
	const char *visible;    /* CUDA_VISIBLE_DEVICES when it was started; NULL not set */
	const char *job;        /* "slurm 4711", "" unknown */
	bool in_job;            /* false: it is there because it holds memory of a device that the job uses */
};

/* A place in code; interned. */
struct vt_job_frame {
	enum vt_frame_kind kind;
	const char *function; /* NULL unknown */
	const char *file;     /* NULL */
	int line;
	const char *module;   /* NULL */
	bool program;         /* vt_model_is_program() */
};

/* Merged frames, innermost first; interned. Native addresses are no part of it: equal code at other addresses is equal. */
struct vt_job_stack {
	const uint32_t *frames; /* indices in job.frames */
	size_t n;
	bool has_python;
};

/*
 * What a thread does: all of it but the number; interned, for most threads of a job do what others do. Texts are interned, too;
 * NULL none. What was different in every process (addresses, numbers of threads) is left out of waits and verdict.
 */
struct vt_job_doing {
	const char *name;     /* of the thread; "" */
	uint32_t stack;       /* index in job.stacks */
	char state;           /* '?' unknown */
	bool is_main, idle, has_python, deadlock;
	int gil;              /* 1 holds it, 0 not, -1 unknown */
	struct vt_verdict verdict; /* without the thread that holds a lock */
	struct vt_waits waits;     /* what is shared alone */
	const char *kernel;   /* function of the kernel that it sleeps in, when no signal reaches it there */
};

struct vt_job_thread {
	pid_t tid;
	uint32_t doing;       /* index in job.doings */
};

/* What a process holds of a device. */
struct vt_job_memory {
	int ordinal;          /* CUDA's number of it in this process */
	const char *uuid;     /* "GPU-...", "" unknown */
	bool known;           /* of PyTorch's allocator: */
	uint64_t reserved, allocated, cached;
	bool device_known;    /* of the device, all processes together: */
	uint64_t total, free_bytes;
};

/* Blocks in use by where they were allocated, if that was recorded; the largest only. */
struct vt_job_site {
	const char *title;    /* "forward attn.py:57" */
	uint64_t bytes, blocks;
};

/* What a process does, as the rules see it: by its main thread, or by that for which the main thread waits. */
enum vt_job_state {
	VT_STATE_UNDECIDED,
	VT_STATE_GONE,       /* there is no process, or nothing is known of it */
	VT_STATE_CRASHED,    /* it is a core's */
	VT_STATE_STOPPED,    /* by a signal */
	VT_STATE_TRACED,     /* by a debugger */
	VT_STATE_OOM,        /* a request for GPU memory failed, and it is kept there */
	VT_STATE_ALLOCATOR,  /* PyTorch's allocator asks the driver, or gives back */
	VT_STATE_COLLECTIVE, /* in a collective, or waits for one */
	VT_STATE_STORE,      /* waits for another rank by the TCPStore */
	VT_STATE_LOADER,     /* waits for a worker of its DataLoader */
	VT_STATE_DEVICE,     /* in the driver, or waits for the GPU */
	VT_STATE_STUCK,      /* in the kernel, where no signal reaches it */
	VT_STATE_LOCK,       /* waits for a lock or the GIL, or is in a deadlock */
	VT_STATE_IDLE,       /* waits for work */
	VT_STATE_RUNS,       /* on a processor, or would be */
	VT_STATE_WAITS,      /* for something else */
	VT_N_STATES
};

const char *vt_job_state_name(enum vt_job_state state); /* "collective", "loader", ...; NULL undecided */

/* Requests of PyTorch's for memory of a device that were not met at once, all devices of the process together. */
struct vt_job_requests {
	bool known;           /* PyTorch's own counters: */
	uint64_t retries, failed;
	uint64_t last_failed; /* bytes of the last one that was recorded or caught; 0 unknown */
	bool waits;           /* that one's thread is kept for vramtap watch */
};

struct vt_member {
	struct vt_label label;
	const char *file;     /* its report, relative to the directory that the job is saved in; NULL none */
	const char *core;     /* it is a core's; NULL a live process */
	enum vt_completeness completeness;
	const char *error;    /* why nothing is known of it, one line; NULL */
	double total_ms;
	double stopped_ms;    /* its threads */
	char process_state;   /* of its main thread, as in /proc; '?' unknown */
	int moved;            /* its main thread within 200 ms after the stop: 1 went on, 0 slept on, -1 unknown */
	pid_t tracer;         /* 0 nobody */
	const char *tracer_name; /* "" unknown */
	bool have_moment;     /* the host's clocks when its threads had stopped, and were let go: */
	uint64_t stopped_ns, released_ns; /* CLOCK_MONOTONIC */
	const char *headline; /* the first of its report; NULL */
	VT_VEC(struct vt_job_thread) threads; /* the main thread first */
	VT_VEC(struct vt_job_memory) memory;
	VT_VEC(struct vt_job_site) sites;
	struct vt_model_collectives collectives; /* texts are interned */
	struct vt_job_requests requests;
	const char *diag;     /* the first thing that is missing; NULL none */
	/* filled by account: */
	enum vt_job_state state;
	const char *operation; /* the collective that it is in: "all_reduce"; NULL none, or not known which */
	uint32_t place;       /* index in job.frames: where in the program; VT_NO_PLACE unknown */
	bool outlier;         /* a verdict names it as one that differs */
};

#define VT_NO_PLACE UINT32_MAX

/* A set of members as ranges: indices in job.members, ascending. */
struct vt_member_set {
	uint32_t *members;
	size_t n;
};

/*
 * A node of the tree of stacks, outermost frames first. A chain of frames with the same members is one node. What is called
 * from another line is another way. Not so in the innermost Python function, where ranks in one loop are on any of its lines: that
 * line is there only when all agree. Of native frames those between Python frames are left out, and those inside of a verdict.
 */
struct vt_job_node {
	const uint32_t *frames; /* indices in job.frames, outermost first */
	size_t n_frames;
	struct vt_member_set members;
	size_t threads;
	enum vt_role role;    /* each role has trees of its own, for main threads and for others */
	bool of_main;
	size_t parent;        /* index in job.tree, VT_NO_NODE */
	size_t depth;
	const char *does;     /* threads end here: what they do, in words ("waits for the GIL"); NULL: they go on in children */
	bool outlier;         /* few members, where most of the others went another way */
};

#define VT_NO_NODE SIZE_MAX

/* One line of the answer. */
struct vt_job_verdict {
	const char *code;     /* ours, static: "missed-collective", "waits-for-loader", ... */
	bool alarm;
	const char *text;
	struct vt_member_set members; /* whom it is about */
};

/* A device, all its holders together. */
struct vt_job_device {
	const char *host, *uuid;
	const char *name;     /* "GPU 2", "GPU-8f2e1c34": by it people know it on its host */
	const char *container; /* of its first holder: numbers are those of a container; "" none */
	int ordinal;          /* CUDA's number of it on its host, where all are visible; -1 not known, or not the same for all holders */
	bool shared;          /* another one has this number, too */
	bool assumed;         /* several ranks have it by the number alone: they may have set CUDA_VISIBLE_DEVICES for themselves */
	bool known;
	uint64_t total, free_bytes;
	struct vt_member_set holders; /* largest first */
	const uint32_t *memories; /* of each: index in its memory */
	uint64_t outside;     /* held by nobody that is a member: total - free - what members hold; when known */
};

/* From when on one is late at a collective: clocks of hosts differ by less, and ranks that run, too. */
#define VT_LATE_MS 3000

/* What NCCL's RAS says of ranks of a communicator, or of processes. */
enum vt_ras_about {
	VT_RAS_DEAD,   /* considered dead: RAS has lost them */
	VT_RAS_SILENT, /* did not answer RAS in time */
	VT_RAS_ABSENT, /* nothing is known of them, and not why */
	VT_RAS_ERROR,  /* report an error of NCCL's: what */
	VT_RAS_STATUS, /* have this status (what), and others have another one */
	VT_RAS_COUNT,  /* have launched so many operations of a kind (what, "": all kinds), and others more or fewer */
	VT_RAS_N_ABOUT
};

struct vt_ras_rank {
	int rank;             /* in the communicator, -1 unknown */
	pid_t pid;            /* as the process itself has it, 0 unknown */
	const char *host;     /* its address, "" unknown */
};

/* Those of whom the same is said. */
struct vt_ras_group {
	enum vt_ras_about about;
	const char *communicator; /* its hash, "" of the whole job */
	int size;             /* its ranks, -1 unknown */
	const char *what;     /* interned; "" none */
	uint64_t count;       /* VT_RAS_COUNT */
	uint64_t n;           /* so many; ranks are those that were named */
	signed char moved;    /* VT_RAS_COUNT: asked before, all of its ranks had launched fewer: 1; some as many: 0; -1 unknown */
	VT_VEC(struct vt_ras_rank) ranks;
};

/* An answer of NCCL's RAS: one process was asked, and says what all of its job told it. Texts are hostile. */
struct vt_ras {
	const char *host;     /* of the process that was asked */
	pid_t pid;
	const char *address;  /* "127.0.0.1:28028" */
	const char *file;     /* its words, relative to the directory that the job is saved in; NULL none */
	const char *version;  /* of NCCL; "" unknown */
	bool understood;      /* all of it: else lines are what was not */
	uint64_t communicators;
	VT_VEC(struct vt_ras_group) groups; /* those of one communicator and kind are neighbours */
	VT_VEC(const char *) lines;
};

struct vt_job {
	struct vt_arena arena;
	const char *tool_version;
	struct timespec when;
	VT_VEC(struct vt_job_frame) frames;
	VT_VEC(struct vt_job_stack) stacks;
	VT_VEC(struct vt_job_doing) doings;
	VT_VEC(struct vt_member) members; /* ranks first, by rank; then by role, rank, worker, host and pid (account) */
	VT_VEC(struct vt_ras) ras; /* one for each host and job */
	double skew_ms;       /* between the first and the last stop on one host; -1 unknown */
	VT_VEC(struct vt_diag) diags;
	/* private: */
	struct vt_map by_text, by_frame, by_stack, by_doing;
	uint64_t seed;        /* of hashes: texts are of others, who must not know which of them collide */
	bool failed;          /* out of memory: members or parts of them are missing */
	/* filled by account: */
	VT_VEC(struct vt_job_node) tree; /* of main threads, and of others that tell; a parent before its children */
	VT_VEC(struct vt_job_device) devices;
	VT_VEC(struct vt_job_verdict) verdicts; /* the answer first */
	enum vt_completeness completeness;
};

void vt_job_init(struct vt_job *job);
void vt_job_deinit(struct vt_job *job);

/* A member out of a report, or (model NULL) of a process of which there is none, because of error. False: out of memory. */
bool vt_job_add(struct vt_job *job, const struct vt_label *label, const struct vt_model *model, const char *error);

/* Adds a diagnostic of the whole job. */
void vt_job_diag(struct vt_job *job, enum vt_diag_level level, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* A part of the job, a node perhaps, of which nothing could be read: what there is is not all. why is one line. */
void vt_job_miss(struct vt_job *job, const char *why);
/* Takes out the answer of that index. */
void vt_job_drop_ras(struct vt_job *job, size_t index);

/* "0-2,4-7" of the ranks of the members, "workers 0-7 of rank 3", else "pid 4711@node3"; about columns wide at most. */
struct vt_str;
void vt_job_add_set(const struct vt_job *job, const struct vt_member_set *set, size_t columns, struct vt_str *out);

#endif
