/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process as /proc shows it, read without touching it: identity, threads, namespaces, why it may not be traced.
 * Numbers come from the target's /proc files and are bounded; strings are hostile.
 */
#ifndef VT_TARGET_PROC_H
#define VT_TARGET_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

#define VT_MAX_THREADS 65536

/* A thread of the process. */
struct vt_thread_info {
	pid_t tid;
	char name[64];   /* comm; hostile bytes */
	char state;      /* R S D T t Z X I of /proc/PID/task/TID/stat */
	int cpu;         /* last ran on, -1 unknown */
	uint64_t start_ticks; /* field 22 of stat: tells a reused tid apart */
	uint64_t utime_ticks, stime_ticks;
	/* /proc/PID/task/TID/syscall */
	bool in_syscall;
	bool syscall_known; /* false: running, or not permitted */
	long syscall_nr;    /* -1: in the kernel, but not in a system call */
	uint64_t syscall_args[6];
	uint64_t sp, pc;
	char wchan[64]; /* "" unknown */
};

struct vt_proc {
	pid_t pid;
	char name[64];        /* comm */
	char *cmdline;        /* arguments joined by spaces, at most 4096 bytes; "" for a kernel thread; hostile */
	char *exe;            /* target of /proc/PID/exe, or "" */
	char state;           /* of the main thread; when only that one has ended (pthread_exit()) of one that goes on */
	pid_t ppid;
	pid_t tracer;         /* who ptraces it, 0 nobody */
	char tracer_name[64];
	uid_t uid, euid;
	gid_t gid;
	char *user;           /* name of uid in /etc/passwd, or the number */
	pid_t ns_pid;         /* its pid in its own pid namespace */
	uint64_t start_ticks;
	double uptime_s;      /* seconds since it started */
	int n_threads;
	int seccomp;          /* 0 none, 1 strict, 2 filter */
	bool no_new_privs;
	bool same_mnt_ns, same_pid_ns, same_user_ns;
	char *container;      /* short id or name out of its cgroup path, or "" */
	bool kernel_thread;
	bool is_32bit;        /* its executable is ELFCLASS32 */
	bool is_static;       /* its executable has no PT_INTERP */
	bool is_musl;         /* its interpreter is musl's */
	bool shadow_stack;    /* x86_Thread_features has shstk */
	struct vt_arena arena; /* owns the strings */
};

/*
 * Reads what can be read. Fails with VT_ERR_GONE when there is no such process (also for a tid that is not a process:
 * the message names the process). Fields that may not be read keep their zero. proc must be zeroed.
 */
struct vt_error *vt_proc_init(struct vt_proc *proc, pid_t pid);
void vt_proc_deinit(struct vt_proc *proc);

/*
 * The number X under which /proc/X shows what the process has (memory, files, root, namespaces): pid, or, when the main
 * thread has ended with pthread_exit() and is a zombie that has nothing, any other thread. pid itself when there is none.
 */
pid_t vt_proc_view(pid_t pid);

/* True while the process that proc was read from exists (the same start time), zombies included. */
bool vt_proc_is_alive(const struct vt_proc *proc);

struct vt_thread_list {
	VT_VEC(struct vt_thread_info) threads; /* sorted by tid; the main thread first */
};

/* Lists the threads with all their fields. Threads that vanish meanwhile are left out. list must be zeroed. */
struct vt_error *vt_thread_list_init(struct vt_thread_list *list, pid_t pid);
void vt_thread_list_deinit(struct vt_thread_list *list);

/* Refreshes state, syscall, sp, pc and wchan of one thread. VT_ERR_GONE when it ended. */
struct vt_error *vt_thread_info_read(struct vt_thread_info *info, pid_t pid, pid_t tid);

#define VT_MAX_KERNEL_FRAMES 64

/*
 * The stack in the kernel of a thread that sleeps, innermost first, each "function+0x12/0x34" in arena; returns how many were
 * stored in frames (room for VT_MAX_KERNEL_FRAMES). 0 when it may not be read (only root may), or it runs.
 */
size_t vt_thread_kernel_stack(pid_t pid, pid_t tid, const char **frames, struct vt_arena *arena);

/*
 * A thread looked at without stopping it. The kernel shows registers of threads that sleep, and counts how often each has
 * been switched off a processor: two samples that are equal with what was read in between mean that it did not run
 * meanwhile.
 */
struct vt_thread_sample {
	bool asleep;       /* the fields below are known */
	pid_t ns_tid;      /* its number in its own pid namespace */
	uint64_t switches; /* voluntary and involuntary ones */
	struct vt_thread_info info; /* tid, state and what comes from the file syscall; nothing else */
};

/* A sample of a thread that runs, that ended or that may not be looked at is not asleep. */
void vt_thread_sample_take(struct vt_thread_sample *sample, pid_t pid, pid_t tid);

/* Whether the thread has slept since the sample was taken. */
bool vt_thread_sample_holds(const struct vt_thread_sample *sample, pid_t pid);

/*
 * Why this user may not trace proc, as one line with the exact remedy (Yama's ptrace_scope, another user, user
 * namespace, capability), or NULL when nothing speaks against it. For a message after EPERM, not a prediction.
 */
char *vt_proc_why_not_permitted(const struct vt_proc *proc, struct vt_arena *arena);

#endif
