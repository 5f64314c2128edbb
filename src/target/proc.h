/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process as /proc shows it, read without touching it: identity, threads, namespaces, why it may
 * not be traced. Numbers come from the target's /proc files and are bounded; strings are hostile.
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
	char name[64];        /* comm; hostile bytes */
	char state;           /* R S D T t Z X I of /proc/PID/task/TID/stat */
	int cpu;              /* where it last ran, -1 unknown */
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
	char name[64]; /* comm */
	/* arguments joined by spaces, at most 4096 bytes; "" for a kernel thread; hostile */
	char *cmdline;
	char *exe;  /* target of /proc/PID/exe, or "" */
	char state; /* of the main thread; if only that has ended, of a live one */
	pid_t ppid;
	pid_t tracer; /* the process that ptraces it, 0 none */
	char tracer_name[64];
	uid_t uid, euid;
	gid_t gid;
	char *user;   /* name of uid in /etc/passwd, or the number */
	pid_t ns_pid; /* its pid in its own pid namespace */
	uint64_t start_ticks;
	double uptime_s; /* seconds since it started */
	int n_threads;
	int seccomp; /* 0 none, 1 strict, 2 filter */
	bool no_new_privs;
	bool same_mnt_ns, same_pid_ns, same_user_ns;
	char *container; /* short id or name from its cgroup path, or "" */
	bool kernel_thread;
	bool is_32bit;         /* its executable is ELFCLASS32 */
	bool is_static;        /* its executable has no PT_INTERP */
	bool is_musl;          /* its interpreter is musl's */
	bool shadow_stack;     /* x86_Thread_features has shstk */
	struct vt_arena arena; /* owns the strings */
};

/*
 * Reads what can be read. Fails with VT_ERR_GONE when the process does not exist (also for a tid
 * that is not a process: the message names the process). Fields that may not be read stay zero.
 * proc must be zeroed.
 */
struct vt_error *vt_proc_init(struct vt_proc *proc, pid_t pid);
void vt_proc_deinit(struct vt_proc *proc);

/*
 * The number X for which /proc/X shows what the process has (memory, files, root, namespaces). That
 * is pid, unless the main thread has ended with pthread_exit(): then it is a zombie that has
 * nothing, and any other thread does. pid itself when there is no other.
 */
pid_t vt_proc_view(pid_t pid);

/* True while the process that proc describes exists (the same start time), zombies included. */
bool vt_proc_is_alive(const struct vt_proc *proc);

struct vt_thread_list {
	VT_VEC(struct vt_thread_info) threads; /* sorted by tid; the main thread first */
};

/*
 * Lists the threads with all their fields. Threads that end during the listing are left out. list
 * must be zeroed.
 */
struct vt_error *vt_thread_list_init(struct vt_thread_list *list, pid_t pid);
/* dirfd: /proc/PID/task, or a negative errno. Open, it is of one process, whoever has pid now. */
struct vt_error *vt_thread_list_init_at(struct vt_thread_list *list, int dirfd, pid_t pid);
void vt_thread_list_deinit(struct vt_thread_list *list);

/*
 * Whether CUDA's driver has a thread of its own there, as in every process that has a context.
 * fork() does not copy it.
 */
bool vt_proc_has_driver_thread(pid_t pid);

/* Refreshes state, syscall, sp, pc and wchan of one thread. VT_ERR_GONE when it ended. */
struct vt_error *vt_thread_info_read(struct vt_thread_info *info, pid_t pid, pid_t tid);

/* Whether the thread itself has started processes that still exist; false where not known. */
bool vt_thread_has_children(pid_t pid, pid_t tid);

#define VT_MAX_KERNEL_FRAMES 64

/*
 * Sets texts[i] to the kernel's text of the kernel stack of the i-th of n threads; NULL when it may
 * not be read (only root may), or the thread runs. The caller frees each.
 */
void vt_thread_kernel_stacks(pid_t pid, const struct vt_thread_info *infos, size_t n, char **texts);

/*
 * The frames of such a text (which it changes), innermost first, each "function+0x12/0x34" in
 * arena. Returns how many were stored in frames (room for VT_MAX_KERNEL_FRAMES).
 */
size_t vt_thread_kernel_frames(char *text, const char **frames, struct vt_arena *arena);

/*
 * A sample of a thread, taken without stopping it. The kernel shows the registers of a sleeping
 * thread, and counts how often each thread was switched off a processor. If two samples are equal,
 * the thread did not run between them, and what was read in between is valid.
 */
struct vt_thread_sample {
	bool asleep;                /* the fields below are known */
	pid_t ns_tid;               /* its number in its own pid namespace */
	uint64_t switches;          /* voluntary and involuntary ones */
	struct vt_thread_info info; /* only tid, state and what the file syscall says */
};

/* A sample of a thread that runs, that ended or that may not be looked at is not asleep. */
void vt_thread_sample_take(struct vt_thread_sample *sample, pid_t pid, pid_t tid);

/* Whether the thread has slept since the sample was taken. */
bool vt_thread_sample_holds(const struct vt_thread_sample *sample, pid_t pid);

/*
 * Why this user may not trace proc, as one line with the exact remedy (Yama's ptrace_scope, another
 * user, user namespace, capability), or NULL when nothing prevents it. For a message after EPERM,
 * not a prediction.
 */
char *vt_proc_why_not_permitted(const struct vt_proc *proc, struct vt_arena *arena);

/* What is said of EPERM where that answers NULL: a Landlock sandbox of ours cannot be seen. */
#define VT_PROC_UNKNOWN_REASON                                                     \
	"none of the reasons that vramtap knows; perhaps a sandbox of this shell " \
	"(Landlock), or a security module: run this command outside of it with sudo"

#endif
