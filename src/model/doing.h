/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread does, as facts: the verdict over its stack, and what its system call waits for. The
 * stages after explain/ decide by these codes and parameters alone. The words for people are in
 * model/words.h: rewording them changes no decision.
 */
#ifndef VT_MODEL_DOING_H
#define VT_MODEL_DOING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * X(NAME, "name"): the code, and its name in JSON, which never changes. explain/verdicts.c shows
 * how each is recognised.
 */
/* clang-format off */
#define VT_VERDICTS(X)                                                                             \
	X(NONE, NULL)                                                                              \
	X(IN_FUNCTION, "in-function") /* of a well-known library: function and purpose say more */ \
	X(GIL, "gil")                                                                              \
	X(PYTHON_WORLD, "python-world")                                                            \
	X(PYTHON_GC, "python-gc")                                                                  \
	X(OOM, "out-of-memory")                                                                    \
	X(BACKWARD_WAITS, "backward-waits")                                                        \
	X(LOADER, "loader-worker")                                                                 \
	X(STORE, "tcpstore")                                                                       \
	X(PDB, "pdb")                                                                              \
	X(COLLECTIVE_NCCL, "collective-nccl")                                                      \
	X(COLLECTIVE_GLOO, "collective-gloo")                                                      \
	X(COLLECTIVE, "collective")                                                                \
	X(COMPILATION, "compilation")                                                              \
	X(CHILD, "child-process")                                                                  \
	X(IMPORT, "import")                                                                        \
	X(OTHER_THREADS, "other-threads")                                                          \
	X(JOIN, "join")                                                                            \
	X(MALLOC_LOCK, "malloc-lock")                                                              \
	X(LOADER_LOCK, "dynamic-loader-lock")                                                      \
	X(DLOPEN, "dlopen")                                                                        \
	X(MALLOC, "malloc")                                                                        \
	X(FREE, "free")                                                                            \
	X(FORK, "fork")                                                                            \
	X(PYTHON_EVENT, "python-event")                                                            \
	X(PYTHON_CONDITION, "python-condition")                                                    \
	X(PYTHON_QUEUE, "python-queue")                                                            \
	X(PYTHON_LOCK, "python-lock")                                                              \
	X(PROCESS_LOCK, "multiprocessing-lock")                                                    \
	X(ASYNCIO, "asyncio")                                                                      \
	X(BACKWARD, "backward")                                                                    \
	X(USERFAULTFD, "userfaultfd")                                                              \
	X(VFORK, "vfork")                                                                          \
	X(NFS, "nfs")                                                                              \
	X(FUSE, "fuse")                                                                            \
	X(LUSTRE, "lustre")                                                                        \
	X(NVIDIA_DRIVER, "nvidia-driver")                                                          \
	X(CORE_DUMP, "core-dump")                                                                  \
	X(ENDS, "ends")                                                                            \
	X(FAULT_DISK, "page-fault-disk")                                                           \
	X(DISK, "disk")                                                                            \
	X(JOURNAL, "journal")                                                                      \
	X(RECLAIM, "reclaim")                                                                      \
	X(KERNEL_LOCK, "kernel-lock")                                                              \
	/* threads of pools and services that wait for work: nothing is wrong */                   \
	X(IDLE_AUTOGRAD, "idle-autograd")                                                          \
	X(IDLE_C10_POOL, "idle-c10-pool")                                                          \
	X(IDLE_OPENMP, "idle-openmp")                                                              \
	X(IDLE_OPENBLAS, "idle-openblas")                                                          \
	X(IDLE_TBB, "idle-tbb")                                                                    \
	X(IDLE_PTHREADPOOL, "idle-pthreadpool")                                                    \
	X(IDLE_NCCL_WATCHDOG, "idle-nccl-watchdog")                                                \
	X(IDLE_NCCL_MONITOR, "idle-nccl-monitor")                                                  \
	X(IDLE_NCCL_PROXY, "idle-nccl-proxy")                                                      \
	X(IDLE_NCCL_RAS, "idle-nccl-ras")                                                          \
	X(IDLE_STORE, "idle-tcpstore")                                                             \
	X(IDLE_GLOO, "idle-gloo")                                                                  \
	X(IDLE_LOADER, "idle-loader-worker")                                                       \
	X(IDLE_PIN_MEMORY, "idle-pin-memory")                                                      \
	X(IDLE_FEEDER, "idle-queue-feeder")                                                        \
	X(IDLE_SHARER, "idle-resource-sharer")                                                     \
	X(IDLE_EXECUTOR, "idle-executor")                                                          \
	X(IDLE_POOL_WORKER, "idle-pool-worker")                                                    \
	X(IDLE_POOL, "idle-pool-thread")                                                           \
	X(IDLE_COMPILE_WORKER, "idle-compile-worker")                                              \
	X(IDLE_TQDM, "idle-tqdm")                                                                  \
	X(IDLE_CUDA, "idle-cuda-driver")                                                           \
	X(IDLE_JEMALLOC, "idle-jemalloc")
/* clang-format on */

/* Why a function of a CUDA library was called. The same form. */
/* clang-format off */
#define VT_PURPOSES(X)                                                             \
	X(NONE, NULL)                                                              \
	X(TORCH_DISTRIBUTED, "torch-distributed") /* for_function: its function */ \
	X(COPY_TO_CPU, "copy-to-cpu")                                              \
	X(SYNCHRONIZE, "synchronize")                                              \
	X(EMPTY_CACHE, "empty-cache")                                              \
	/* a request failed: PyTorch frees its cached memory and tries again */    \
	X(RETRY, "allocator-retry")                                                \
	X(ALLOCATOR, "allocator")                                                  \
	X(NCCL, "nccl") /* for_function: its function */                           \
	X(COLLECTIVE, "collective")                                                \
	X(OPTIMIZER, "optimizer-step")                                             \
	X(BACKWARD, "backward")
/* clang-format on */

/* What a system call waits for. The same form. */
/* clang-format off */
#define VT_WAITS(X)                                                          \
	X(NONE, NULL)                                                        \
	X(RUNNING, "running") /* it does not wait */                         \
	X(CALL, "system-call") /* call: its name; detail: its descriptors */ \
	X(SLEEP, "sleep") /* call: nanosleep or clock_nanosleep */           \
	X(SELECT_NOTHING, "select-nothing") /* an old way to sleep */        \
	X(CHILD, "child-process")                                            \
	X(ANY_CHILD, "any-child-process")                                    \
	X(PROCESS, "process")                                                \
	X(VFORK, "vfork")                                                    \
	X(EXEC, "exec")                                                      \
	X(SIGNAL, "signal")                                                  \
	X(LOCK, "lock")                                                      \
	X(LOCK_OWN, "own-lock")                                              \
	X(LOCK_HELD, "held-lock")                                            \
	X(JOIN, "thread-end")                                                \
	X(CONDITION, "condition")                                            \
	X(SEMAPHORE, "semaphore")                                            \
	X(RWLOCK, "read-write-lock")                                         \
	X(BARRIER, "barrier")                                                \
	X(OPENMP_BARRIER, "openmp-barrier")                                  \
	X(INITIALISATION, "initialisation")                                  \
	X(FUTEX, "futex")                                                    \
	X(PAGE_FAULT, "page-fault")                                          \
	X(KERNEL, "kernel") /* call: the kernel function that it sleeps in */
/* clang-format on */

#define VT_VERDICT_CODE(name, text) VT_VERDICT_##name,
enum vt_verdict_code { VT_VERDICTS(VT_VERDICT_CODE) VT_N_VERDICTS };
#undef VT_VERDICT_CODE
#define VT_PURPOSE_CODE(name, text) VT_PURPOSE_##name,
enum vt_purpose { VT_PURPOSES(VT_PURPOSE_CODE) VT_N_PURPOSES };
#undef VT_PURPOSE_CODE
#define VT_WAITS_CODE(name, text) VT_WAITS_##name,
enum vt_waits_code { VT_WAITS(VT_WAITS_CODE) VT_N_WAITS };
#undef VT_WAITS_CODE

/* The strings live in the owner's arena. They come from the target: hostile. */
struct vt_verdict {
	enum vt_verdict_code code;
	enum vt_purpose purpose;  /* of IN_FUNCTION */
	const char *function;     /* of IN_FUNCTION: its name; NULL for all others */
	const char *for_function; /* of the purpose, NULL none */
	pid_t holder;             /* of GIL: the thread that holds it; 0 unknown */
	const char *holder_name;  /* "" or NULL unknown */
};

struct vt_waits {
	enum vt_waits_code code;
	const char *call;   /* see the codes; NULL none */
	const char *detail; /* follows the code's words: " on descriptor 7, a pipe"; NULL or "" */
	/*
	 * The detail without what differs between processes that do the same (tids, addresses).
	 * NULL: as detail.
	 */
	const char *shared;
};

/* A NULL string equals "". */
bool vt_verdict_equal(const struct vt_verdict *a, const struct vt_verdict *b);
bool vt_waits_equal(const struct vt_waits *a, const struct vt_waits *b);
/* Equal verdicts have equal hashes. */
uint64_t vt_verdict_hash(const struct vt_verdict *verdict);

/* Whether the thread waits for work in a pool or a service. */
static inline bool vt_verdict_is_idle(enum vt_verdict_code code)
{
	return code >= VT_VERDICT_IDLE_AUTOGRAD && code < VT_N_VERDICTS;
}

/* Whether the thread is in any function of that family ("cu", "nccl"). */
bool vt_verdict_is_in(const struct vt_verdict *verdict, const char *family);

/* Code to name for machines, NULL for NONE; and name to code, NONE for an unknown name. */
const char *vt_verdict_code_name(enum vt_verdict_code code);
const char *vt_purpose_name(enum vt_purpose purpose);
const char *vt_waits_code_name(enum vt_waits_code code);
enum vt_verdict_code vt_verdict_code_of(const char *name);
enum vt_purpose vt_purpose_of(const char *name);
enum vt_waits_code vt_waits_code_of(const char *name);

#endif
