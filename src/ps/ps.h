/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of this machine that use CUDA, at a glance: what /proc shows, what the kernel
 * driver counts, and PyTorch's totals, read from outside. Nothing is stopped, nothing runs in any
 * of them. Strings are hostile unless marked "ours".
 */
#ifndef VT_PS_PS_H
#define VT_PS_PS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"
#include "report/writer.h"
#include "target/launch.h"
#include "target/processes.h"

/* What is known of PyTorch's memory in a process. */
enum vt_ps_torch {
	VT_PS_TORCH_NONE,      /* PyTorch's allocator is not there, or has nothing */
	VT_PS_TORCH_KNOWN,     /* allocated and reserved */
	VT_PS_TORCH_INHERITED, /* fork() copied it: it holds nothing */
	/* all from here on are not known: */
	VT_PS_TORCH_ASYNC,   /* its memory is in the driver's pools */
	VT_PS_TORCH_REFUSED, /* another allocator, or its layout is not understood */
	VT_PS_TORCH_DENIED,  /* this user may not read the process */
	VT_PS_TORCH_LATE,    /* reading it blocks, or took too long */
	VT_PS_TORCH_GONE,    /* it ended */
	VT_N_PS_TORCH
};

struct vt_ps_totals {
	enum vt_ps_torch state;
	uint64_t allocated, reserved; /* of all devices */
	uint64_t object;              /* of the first device's allocator; 0 none */
	char version[64];             /* PyTorch's; "" unknown */
};

struct vt_ps_row {
	pid_t pid;     /* 0: NVML tells a number of another pid namespace */
	pid_t own_pid; /* in a pid namespace of its own (a container's); 0 none */
	pid_t ppid;
	uint64_t start_ticks;
	uid_t uid;
	const char *user, *name, *command, *container, *pod, *job; /* "" unknown or none */
	struct vt_rank rank;
	bool launch_known; /* its environment could be read */
	double uptime_s;   /* below 0 unknown */
	/* of the main thread, as in /proc; '?' unknown */
	char state;
	const char *syscall; /* ours; NULL: in none, or unknown */
	const char *wchan;   /* the kernel function that it sleeps in; "" unknown */
	double still_s;      /* its main thread has not run for at least that; below 0 unknown */
	pid_t tracer;
	enum vt_gpu_use use;
	uint64_t minors; /* bit N: /dev/nvidiaN is open */
	/* by the kernel driver's count: indices of its devices, of vt_ps.usage.gpus */
	const uint32_t *gpus;
	size_t n_gpus;
	bool counted, bytes_known;
	uint64_t bytes;
	enum vt_counted_life life;
	struct vt_ps_totals torch;
	bool holds_nothing; /* it is only forked from another, or has only the library loaded */
};

struct vt_ps {
	struct vt_arena arena;
	const char *tool_version;
	struct timespec when;
	struct vt_model_where where;
	double ms;
	size_t n_processes; /* on this machine, as far as they are visible */
	struct vt_model_usage usage;
	VT_VEC(struct vt_ps_row) rows; /* by device, the largest first */
	size_t idle;                   /* of rows: hold nothing */
	size_t unseen;                 /* processes of others that may use CUDA or not */
	size_t dropped;                /* that there was no room for; at least */
	enum vt_completeness completeness;
	bool denied; /* nothing could be read of any, for lack of permission */
};

/* Two looks tell for how long a thread has not run. */
struct vt_ps_seen {
	pid_t pid;
	uint64_t start_ticks, switches, since_ns;
	bool there;
};
struct vt_ps_memory {
	VT_VEC(struct vt_ps_seen) seen;
};
void vt_ps_memory_deinit(struct vt_ps_memory *memory);

/* ps must be zeroed. memory: of the looks before, NULL none. */
struct vt_error *vt_ps_init(struct vt_ps *ps, struct vt_ps_memory *memory);
void vt_ps_deinit(struct vt_ps *ps);

const char *vt_ps_torch_name(unsigned int state); /* "none", "known", "inherited", ... */
bool vt_ps_torch_is_known(const struct vt_ps_totals *totals);
/* "running", "sleeping", "uninterruptible", "stopped", "traced", "zombie", "gone", "unknown" */
const char *vt_ps_state_name(const struct vt_ps_row *row);

/* Whether all processes on all devices are in the driver's count: who is not, has nothing. */
bool vt_ps_all_counted(const struct vt_ps *ps);

/* The device's number, as nvidia-smi has it: "3", or "3:7" of an instance that MIG made. */
#define VT_PS_GPU_MAX 24
const char *vt_ps_gpu_name(char buf[VT_PS_GPU_MAX], const struct vt_ps *ps, uint32_t gpu);

/* What is written. */
struct vt_ps_document {
	const struct vt_ps *ps;
	bool all; /* those that hold nothing, too */
};

/* Of a struct vt_ps_document. */
vt_write_fn vt_ps_write_text;
vt_write_fn vt_ps_write_json;
vt_write_fn vt_ps_write_prometheus;

/* ---- private to the room ---- */

/*
 * ps/torch.c: PyTorch's totals of n processes, by children of ours: one that blocks costs only
 * itself. pid 0: none. False: not enough memory; all are LATE then.
 */
bool vt_ps_read_torch(const pid_t *pids, size_t n, struct vt_ps_totals *totals);

#endif
