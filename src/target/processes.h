/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of this machine (of this pid namespace), as one pass over /proc shows them: only
 * what is needed to find the processes of a job. What costs more to read (cgroup, environment,
 * descriptors, memory map) is read once, on demand. Nothing is touched; strings are hostile.
 */
#ifndef VT_TARGET_PROCESSES_H
#define VT_TARGET_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

#define VT_NO_PROCESS SIZE_MAX

/* How a process uses NVIDIA's driver, as far as can be seen from outside. */
enum vt_gpu_use {
	VT_GPU_NONE,    /* or it may not be read */
	VT_GPU_LIBRARY, /* libcuda is mapped */
	/* /dev/nvidiaN or /dev/nvidia-uvm is open; nvidiactl alone is no use of a device */
	VT_GPU_DEVICE,
};

struct vt_process {
	pid_t pid, ppid;
	uid_t uid; /* the effective one */
	char state;
	uint64_t start_ticks; /* since boot */
	uint64_t size;        /* of its address space, in bytes */
	char name[64];        /* comm */
	/*
	 * arguments joined by spaces, cut off after some 4,000 bytes; "" of a kernel thread or a
	 * zombie
	 */
	const char *command;
	size_t parent; /* index in the list, VT_NO_PROCESS */
	bool kernel_thread;
	bool blocks; /* reading its memory would block, so command is unknown */
	/* private: read when asked for */
	const char *cgroup;
	const char *variables;
	size_t n_variables;
	bool gpu_known;
	enum vt_gpu_use gpu;
	uint64_t gpu_devices;
};

struct vt_processes {
	VT_VEC(struct vt_process) list; /* by pid */
	struct vt_map by_pid;           /* index in list */
	struct vt_arena arena;
};

/* processes must be zeroed. */
struct vt_error *vt_processes_init(struct vt_processes *processes);
void vt_processes_deinit(struct vt_processes *processes);

/*
 * The scope in which pids here are unique: the boot of the kernel and the pid namespace.
 * (Containers may share a host name and use the same pids.) "" when it is unknown.
 */
void vt_processes_system(char *text, size_t size);

/* Its index in the list, or VT_NO_PROCESS. */
size_t vt_processes_find(const struct vt_processes *processes, pid_t pid);

/* The process has not ended since the pass, or is a zombie. */
bool vt_process_is_there(const struct vt_processes *processes, size_t process);

/* Whether this process is a descendant of ancestor (indices); no process descends from itself. */
bool vt_processes_descends(const struct vt_processes *processes, size_t process, size_t ancestor);

/* Lines "hierarchy:controllers:path"; "" when it may not be read. */
const char *vt_process_cgroup(struct vt_processes *processes, size_t process);

/* A variable of its initial environment, NULL when it has none. */
const char *vt_process_variable(struct vt_processes *processes, size_t process, const char *name);

/*
 * devices, if not NULL: bit N is set when /dev/nvidiaN is open (N < 64); 0 when that is not known.
 */
enum vt_gpu_use vt_process_gpu(struct vt_processes *processes, size_t process, uint64_t *devices);

/* The same of one process: whether it has a device open, and which. */
bool vt_devices_open(pid_t pid, uint64_t *devices);

/*
 * Whether one of the lines of a cgroup file is path or below it; path may begin with
 * /sys/fs/cgroup.
 */
bool vt_cgroup_is_below(const char *cgroup, const char *path);

/*
 * Puts the Slurm job that a cgroup file names ("job_4711" in a path) into id; false when there is
 * none.
 */
bool vt_cgroup_slurm_job(const char *cgroup, char *id, size_t size);

#endif
