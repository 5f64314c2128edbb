/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/verdicts.h"

#include <string.h>

#include "base/str.h"

/* Deep recursion says nothing new. */
#define MAX_LOOKED_AT 256
/* How far apart two functions of one library may be that belong to one call. */
#define MAX_API_DEPTH 12
/* The name of its mapping (inject/recorder). */
#define RECORDER_MODULE "memfd:vramtap-recorder*"

enum rule_flags {
	/* what is examined */
	PYTHON = 1 << 0,  /* a Python frame; else a native one */
	BY_NAME = 1 << 1, /* no frame: function is the thread's name; for stripped libraries */
	/* no frame: a function in the kernel, of a thread in state D or in a page fault */
	KERNEL = 1 << 12,
	KEPT = 1 << 13,        /* no frame: the recorder's trap says that it keeps the thread */
	UNDER_PYTHON = 1 << 2, /* the frame was called by the interpreter itself */
	WORKER = 1 << 3,       /* only the thread's start is outside; all frames inside only wait */
	/* conditions on the thread */
	INNERMOST = 1 << 4,   /* it does not run; all frames inside only wait (waiting_modules) */
	FOR_LOCK = 1 << 5,    /* the same, and it waits for a futex */
	NO_PYTHON = 1 << 6,   /* the stack has no Python frame */
	WITH_PYTHON = 1 << 7, /* the stack has one */
	/* the recorder's trap was not read, so that nothing surer is known */
	TRAP_UNKNOWN = 1 << 10,
	/* what the rule means */
	API_CUDA = 1 << 8, /* name the outermost near frame of the family: people call it */
	API_NCCL = 1 << 9,
	WEAK = 1 << 11, /* only when no other rule matches further out */
};

struct rule {
	/* enum vt_verdict_code, or enum vt_purpose in the table of purposes */
	unsigned int means;
	const char *function; /* pattern; NULL: any, also none */
	const char *where;    /* pattern of the module's name or of the file's path; NULL: any */
	unsigned int flags;
};

/*
 * The search goes from the innermost frame outwards, and tries the rules in this order for each.
 * The first match decides.
 */
static const struct rule rules[] = {
	/* our own recorder, before anything that a stack tells */
	{ VT_VERDICT_OOM, NULL, NULL, KEPT },

	/* CPython */
	{ VT_VERDICT_GIL, "take_gil", NULL, 0 },
	/*
	 * Without a name for take_gil() (stripped): nothing else in CPython 3.8 to 3.13 uses this
	 * on Linux.
	 */
	{ VT_VERDICT_GIL, "*pthread_cond_timedwait*", "libc*", UNDER_PYTHON },
	{ VT_VERDICT_GIL, "PyEval_RestoreThread", NULL, FOR_LOCK },
	{ VT_VERDICT_GIL, "PyEval_AcquireThread", NULL, FOR_LOCK },
	{ VT_VERDICT_GIL, "PyGILState_Ensure", NULL, FOR_LOCK },
	{ VT_VERDICT_PYTHON_WORLD, "tstate_wait_attach", NULL, 0 },
	{ VT_VERDICT_PYTHON_GC, "gc_collect_main*", NULL, 0 },
	{ VT_VERDICT_PYTHON_GC, "collect", "*python3*", 0 },

	/* our own recorder: the entry of the allocator alone says nothing */
	{ VT_VERDICT_OOM, NULL, RECORDER_MODULE, INNERMOST | TRAP_UNKNOWN },

	/* idle threads of pools and services */
	{ VT_VERDICT_IDLE_AUTOGRAD, "torch::autograd::ReadyQueue::pop", NULL,
	  NO_PYTHON | INNERMOST },
	{ VT_VERDICT_BACKWARD_WAITS, "torch::autograd::ReadyQueue::pop", NULL, WITH_PYTHON },
	{ VT_VERDICT_IDLE_C10_POOL, "c10::ThreadPool::main_loop", NULL, INNERMOST },
	{ VT_VERDICT_IDLE_OPENMP, NULL, "libgomp*", WORKER },
	{ VT_VERDICT_IDLE_OPENMP, NULL, "libiomp5*", WORKER | INNERMOST },
	{ VT_VERDICT_IDLE_OPENMP, NULL, "libomp*", WORKER | INNERMOST },
	{ VT_VERDICT_IDLE_OPENBLAS, "blas_thread_server*", NULL, INNERMOST },
	{ VT_VERDICT_IDLE_OPENBLAS, NULL, "*openblas*", WORKER | INNERMOST },
	{ VT_VERDICT_IDLE_TBB, NULL, "libtbb*", WORKER | INNERMOST },
	{ VT_VERDICT_IDLE_PTHREADPOOL, "thread_main", "libtorch_cpu*", WORKER | INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_WATCHDOG, "c10d::ProcessGroupNCCL::Watchdog::run*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_WATCHDOG, "c10d::ProcessGroupNCCL::watchdogHandler*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_WATCHDOG, "c10d::ProcessGroupNCCL::ncclCommWatchdog*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_WATCHDOG, "c10d::ProcessGroupNCCL::workCleanupLoop*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_MONITOR, "c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_MONITOR, "c10d::ProcessGroupNCCL::heartbeatMonitor*", NULL,
	  INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_PROXY, "ncclProxyService*", "libnccl*", NO_PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_PROXY, "ncclProxyProgress*", "libnccl*", NO_PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_NCCL_RAS, "rasThreadMain", "libnccl*", NO_PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_STORE, "c10d::detail::*Daemon::run*", NULL, INNERMOST },
	{ VT_VERDICT_IDLE_GLOO, "c10d::ProcessGroupGloo::runLoop*", NULL, INNERMOST },
	{ VT_VERDICT_IDLE_GLOO, "gloo::transport::*::Loop::run*", NULL, INNERMOST },
	{ VT_VERDICT_IDLE_LOADER, "_worker_loop", "*/torch/utils/data/_utils/worker.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_PIN_MEMORY, "*", "*/torch/utils/data/_utils/pin_memory.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_FEEDER, "*_feed", "*/multiprocessing/queues.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_SHARER, "*_serve", "*/multiprocessing/resource_sharer.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_EXECUTOR, "_worker", "*/concurrent/futures/thread.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_EXECUTOR, "*run", "*/concurrent/futures/process.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_POOL_WORKER, "worker", "*/multiprocessing/pool.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_POOL, "*_handle_*", "*/multiprocessing/pool.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_COMPILE_WORKER, "*_read_thread",
	  "*/torch/_inductor/compile_worker/subproc_pool.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IDLE_TQDM, "*run", "*/tqdm/_monitor.py", PYTHON | INNERMOST },

	/* waiting for other processes or threads */
	{ VT_VERDICT_LOADER, "*_try_get_data", "*/torch/utils/data/dataloader.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_LOADER, "*_get_data", "*/torch/utils/data/dataloader.py", PYTHON | INNERMOST },
	{ VT_VERDICT_LOADER, "*_next_data", "*/torch/utils/data/dataloader.py",
	  PYTHON | INNERMOST },
	{ VT_VERDICT_STORE, "c10d::TCPStore::*", NULL, INNERMOST },
	/* The client's socket has its own functions, further in (PyTorch 2.3 on). */
	{ VT_VERDICT_STORE, "c10d::TCPStore::doWait*", NULL, 0 },
	{ VT_VERDICT_PDB, "*interaction", "*/pdb.py", PYTHON },
	{ VT_VERDICT_COLLECTIVE_NCCL, "c10d::ProcessGroupNCCL::WorkNCCL::*", NULL, INNERMOST },
	{ VT_VERDICT_COLLECTIVE_GLOO, "c10d::ProcessGroupGloo::*", NULL, INNERMOST },
	{ VT_VERDICT_COLLECTIVE, "c10d::Work::wait*", NULL, INNERMOST },
	{ VT_VERDICT_COMPILATION, "*", "*/torch/_inductor/async_compile.py", PYTHON | INNERMOST },
	{ VT_VERDICT_CHILD, "*_try_wait", "*/subprocess.py", PYTHON | INNERMOST },
	{ VT_VERDICT_CHILD, "*_communicate", "*/subprocess.py", PYTHON | INNERMOST },
	{ VT_VERDICT_IMPORT, "*acquire", "<frozen importlib._bootstrap>", PYTHON | INNERMOST },
	{ VT_VERDICT_OTHER_THREADS, "_shutdown", "*/threading.py", PYTHON | INNERMOST },
	{ VT_VERDICT_JOIN, "*join", "*/threading.py", PYTHON | INNERMOST },

	/* libraries with well-known functions */
	{ VT_VERDICT_IN_FUNCTION, "cuda*", "libcudart*", API_CUDA },
	{ VT_VERDICT_IN_FUNCTION, "cu*", "libcuda.so*", API_CUDA },
	{ VT_VERDICT_IN_FUNCTION, "nccl*", "libnccl*", API_NCCL },
	{ VT_VERDICT_IN_FUNCTION, "pnccl*", "libnccl*", API_NCCL },
	{ VT_VERDICT_IN_FUNCTION, "nvrtcCompileProgram", NULL, 0 },

	/* the C library */
	{ VT_VERDICT_MALLOC_LOCK, "malloc", NULL, FOR_LOCK },
	{ VT_VERDICT_MALLOC_LOCK, "calloc", NULL, FOR_LOCK },
	{ VT_VERDICT_MALLOC_LOCK, "realloc", NULL, FOR_LOCK },
	{ VT_VERDICT_MALLOC_LOCK, "free", NULL, FOR_LOCK },
	{ VT_VERDICT_MALLOC_LOCK, "_int_malloc", NULL, FOR_LOCK },
	{ VT_VERDICT_MALLOC_LOCK, "_int_free*", NULL, FOR_LOCK },
	{ VT_VERDICT_LOADER_LOCK, "dl_iterate_phdr", NULL, FOR_LOCK },
	{ VT_VERDICT_LOADER_LOCK, "_dl_*", NULL, FOR_LOCK },
	{ VT_VERDICT_DLOPEN, "dlopen*", NULL, 0 },
	{ VT_VERDICT_DLOPEN, "_dl_open", NULL, 0 },

	/* less telling: only when nothing above matches further out */
	{ VT_VERDICT_MALLOC, "malloc", NULL, WEAK },
	{ VT_VERDICT_MALLOC, "_int_malloc", NULL, WEAK },
	{ VT_VERDICT_FREE, "free", NULL, WEAK },
	{ VT_VERDICT_FREE, "_int_free*", NULL, WEAK },
	{ VT_VERDICT_FORK, "fork", NULL, WEAK },
	{ VT_VERDICT_FORK, "__libc_fork", NULL, WEAK },
	{ VT_VERDICT_PYTHON_EVENT, "Event.wait", "*/threading.py", PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_CONDITION, "*wait", "*/threading.py", PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_QUEUE, "*get", "*/queue.py", PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_QUEUE, "*get", "*/multiprocessing/queues.py",
	  PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_QUEUE, "_queue_SimpleQueue_get*", NULL, INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_LOCK, "lock_PyThread_acquire_lock", NULL, INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_LOCK, "PyThread_acquire_lock_timed*", NULL, INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_LOCK, "rlock_acquire", NULL, INNERMOST | WEAK },
	/* In shared memory: its holder may be any process, this one as well. */
	{ VT_VERDICT_PROCESS_LOCK, "_multiprocessing_SemLock_acquire*", NULL, INNERMOST | WEAK },
	{ VT_VERDICT_PROCESS_LOCK, NULL, "_multiprocessing.*", INNERMOST | WEAK },
	{ VT_VERDICT_PROCESS_LOCK, "*__enter__", "*/multiprocessing/synchronize.py",
	  PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_EVENT, "Event.wait", "*/multiprocessing/synchronize.py",
	  PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_PYTHON_CONDITION, "*wait", "*/multiprocessing/synchronize.py",
	  PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_ASYNCIO, "*_run_once", "*/asyncio/base_events.py", PYTHON | INNERMOST | WEAK },
	{ VT_VERDICT_BACKWARD, "torch::autograd::Engine::evaluate_function", NULL, WEAK },

	/*
	 * The kernel, for a thread that no rule above matches: functions of Linux 4.18 to 6.18 that
	 * stay on the stack (which omits the scheduler's own). Innermost first.
	 */
	{ VT_VERDICT_USERFAULTFD, "handle_userfault*", NULL, KERNEL },
	{ VT_VERDICT_VFORK, "wait_for_vfork_done*", NULL, KERNEL },
	/*
	 * For when the function above is inlined. Every fork() that waits for memory or a lock has
	 * it further out.
	 */
	{ VT_VERDICT_VFORK, "kernel_clone*", NULL, KERNEL | INNERMOST },
	{ VT_VERDICT_NFS, "nfs*", NULL, KERNEL },
	{ VT_VERDICT_NFS, "rpc_wait_bit*", NULL, KERNEL },
	{ VT_VERDICT_FUSE, "fuse_*", NULL, KERNEL },
	{ VT_VERDICT_FUSE, "request_wait_answer*", NULL, KERNEL },
	{ VT_VERDICT_LUSTRE, "ll_*", NULL, KERNEL },
	{ VT_VERDICT_LUSTRE, "ptlrpc_*", NULL, KERNEL },
	{ VT_VERDICT_NVIDIA_DRIVER, "nvidia_*", NULL, KERNEL },
	{ VT_VERDICT_NVIDIA_DRIVER, "uvm_*", NULL, KERNEL },
	{ VT_VERDICT_NVIDIA_DRIVER, "os_acquire_*", NULL, KERNEL },
	{ VT_VERDICT_CORE_DUMP, "do_coredump*", NULL, KERNEL },
	{ VT_VERDICT_ENDS, "do_exit*", NULL, KERNEL },
	{ VT_VERDICT_FAULT_DISK, "swap_readpage*", NULL, KERNEL },
	{ VT_VERDICT_FAULT_DISK, "filemap_fault*", NULL, KERNEL },
	{ VT_VERDICT_DISK, "io_schedule*", NULL, KERNEL },
	{ VT_VERDICT_DISK, "folio_wait_bit*", NULL, KERNEL },
	{ VT_VERDICT_DISK, "wait_on_page_bit*", NULL, KERNEL },
	{ VT_VERDICT_DISK, "rq_qos_wait*", NULL, KERNEL },
	{ VT_VERDICT_DISK, "blk_*", NULL, KERNEL },
	{ VT_VERDICT_JOURNAL, "jbd2_*", NULL, KERNEL },
	{ VT_VERDICT_RECLAIM, "shrink_*", NULL, KERNEL },
	{ VT_VERDICT_KERNEL_LOCK, "rwsem_down_*", NULL, KERNEL },
	{ VT_VERDICT_KERNEL_LOCK, "*mutex_lock*", NULL, KERNEL },

	/* threads that are known by their names */
	{ VT_VERDICT_IDLE_CUDA, "cuda-EvtHandlr", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_CUDA, "cuda00*", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_NCCL_PROXY, "NCCL *", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_NCCL_WATCHDOG, "pt_nccl_*", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_STORE, "pt_tcpstore*", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_AUTOGRAD, "pt_autograd_*", NULL, BY_NAME | NO_PYTHON },
	{ VT_VERDICT_IDLE_JEMALLOC, "jemalloc_bg_thd", NULL, BY_NAME | NO_PYTHON },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

/* Why a function of a CUDA library was called. The first rule with a frame outside of it counts. */
static const struct rule purposes[] = {
	{ VT_PURPOSE_TORCH_DISTRIBUTED, "*", "*/torch/distributed/distributed_c10d.py", PYTHON },
	{ VT_PURPOSE_COPY_TO_CPU, "at::native::_local_scalar_dense_cuda*", NULL, 0 },
	{ VT_PURPOSE_COPY_TO_CPU, "at::native::item", NULL, 0 },
	{ VT_PURPOSE_SYNCHRONIZE, "synchronize", "*/torch/cuda/__init__.py", PYTHON },
	/*
	 * Cached memory goes back to the driver: because the program asks for it, or because a
	 * request failed and is retried.
	 */
	{ VT_PURPOSE_EMPTY_CACHE, "*CUDACachingAllocator::*::emptyCache", NULL, 0 },
	{ VT_PURPOSE_RETRY, "*CUDACachingAllocator::*::release_*cached_blocks", NULL, 0 },
	{ VT_PURPOSE_ALLOCATOR, "c10::cuda::CUDACachingAllocator::*", NULL, 0 },
	{ VT_PURPOSE_NCCL, "nccl*", "libnccl*", 0 },
	{ VT_PURPOSE_COLLECTIVE, "c10d::ProcessGroupNCCL::*", NULL, 0 },
	{ VT_PURPOSE_OPTIMIZER, "*step", "*/torch/optim/*.py", PYTHON },
	{ VT_PURPOSE_BACKWARD, "torch::autograd::Engine::*", NULL, 0 },
};

/* Modules and files where a thread only waits, or that only lead to such a place. */
static const char *const waiting_modules[] = {
	"libc.so*",    "libc-*",
	"libpthread*", "ld-linux*",
	"libstdc++*",  "[vdso]",
	"libgomp*",    "libiomp5*",
	"libomp*",     "libpython*",
	"python*",     "libuv*",
	"_queue.*",    "_multiprocessing.*",
	"_socket.*",   "_posixsubprocess.*",
	"select.*",
};
static const char *const waiting_files[] = {
	"*/threading.py",
	"*/queue.py",
	"*/multiprocessing/queues.py",
	"*/multiprocessing/connection.py",
	"*/multiprocessing/synchronize.py",
	"*/multiprocessing/popen_fork.py",
	"*/multiprocessing/pool.py",
	"*/concurrent/futures/_base.py",
	"*/selectors.py",
	"*/subprocess.py",
	"*/socket.py",
	"*/torch/utils/data/dataloader.py",
	"*/torch/multiprocessing/queue.py",
};
static const char *const thread_starts[] = { "start_thread", "clone",
					     "__clone",      "clone3",
					     "__clone3",     "execute_native_thread_routine" };

static bool is_one_of(const char *text, const char *const *patterns, size_t n)
{
	for (size_t i = 0; text && i < n; i++)
		if (vt_glob(patterns[i], text))
			return true;
	return false;
}

#define IS_ONE_OF(text, patterns) \
	is_one_of(text, patterns, sizeof(patterns) / sizeof((patterns)[0]))

struct seen {
	const struct vt_model_thread *thread;
	const struct vt_model_frame *frames;
	size_t n;
	bool blocked, for_lock;
	enum vt_kept kept;
	bool only_waits; /* so do all frames inside of the one being looked at */
};

static bool is_waiting(const struct vt_model_frame *frame)
{
	if (frame->kind == VT_FRAME_PYTHON)
		return IS_ONE_OF(frame->file, waiting_files);
	return IS_ONE_OF(frame->module, waiting_modules);
}

/* Functions of libc and libstdc++ have no names unless debug symbols are installed. */
static bool is_thread_start(const struct vt_model_frame *frame)
{
	static const char *const modules[] = { "libc.so*", "libc-*", "libpthread*", "libstdc++*" };

	if (frame->kind != VT_FRAME_NATIVE)
		return false;
	return frame->function ? IS_ONE_OF(frame->function, thread_starts) :
				 IS_ONE_OF(frame->module, modules);
}

static bool is_outermost(const struct seen *seen, size_t i)
{
	bool started = false;

	for (size_t k = i + 1; k < seen->n; k++) {
		if (!is_thread_start(&seen->frames[k]))
			return false;
		started = true;
	}
	return started;
}

static bool is_same_frame(const struct rule *rule, const struct vt_model_frame *frame)
{
	bool python = rule->flags & PYTHON;
	const char *where = python ? frame->file : frame->module;

	if (python != (frame->kind == VT_FRAME_PYTHON))
		return false;
	if (rule->function && (!frame->function || !vt_glob(rule->function, frame->function)))
		return false;
	if (!rule->where)
		return true;
	return where && vt_glob(rule->where, where);
}

static bool fits_thread(const struct seen *seen, const struct rule *rule)
{
	unsigned int flags = rule->flags;
	bool has_python = seen->thread->stack.has_python;

	if ((flags & NO_PYTHON && has_python) || (flags & WITH_PYTHON && !has_python))
		return false;
	if (flags & TRAP_UNKNOWN && seen->kept != VT_KEPT_UNKNOWN)
		return false;
	if (flags & (INNERMOST | FOR_LOCK) && (!seen->only_waits || !seen->blocked))
		return false;
	return !(flags & FOR_LOCK) || seen->for_lock;
}

static bool is_under_python(const struct seen *seen, size_t i)
{
	static const char *const interpreters[] = { "libpython3*", "python3*" };
	const struct vt_model_frame *caller = i + 1 < seen->n ? &seen->frames[i + 1] : NULL;

	return caller &&
	       (caller->kind == VT_FRAME_PYTHON || IS_ONE_OF(caller->module, interpreters));
}

/* WORKER does not ask whether the thread runs: OpenMP's threads spin before they sleep. */
static bool matches(const struct seen *seen, const struct rule *rule, size_t i)
{
	if (rule->flags & (BY_NAME | KERNEL | KEPT) || !fits_thread(seen, rule) ||
	    !is_same_frame(rule, &seen->frames[i]))
		return false;
	if (rule->flags & UNDER_PYTHON && !is_under_python(seen, i))
		return false;
	return !(rule->flags & WORKER) || (seen->only_waits && is_outermost(seen, i));
}

/*
 * The function that people call: the outermost near frame i that a rule of the same family matches.
 */
static size_t api_frame(const struct seen *seen, unsigned int family, size_t i)
{
	size_t best = i;

	for (size_t k = i + 1; family && k < seen->n && k <= best + MAX_API_DEPTH; k++)
		for (size_t r = 0; r < N_RULES; r++)
			if (rules[r].flags & family && is_same_frame(&rules[r], &seen->frames[k]))
				best = k;
	return best;
}

/* Sets verdict->purpose and ->for_function by the frames outside of the ith. */
static void find_purpose(const struct seen *seen, size_t i, struct vt_verdict *verdict)
{
	for (size_t r = 0; r < sizeof(purposes) / sizeof(purposes[0]); r++) {
		for (size_t k = i + 1; k < seen->n; k++) {
			if (!is_same_frame(&purposes[r], &seen->frames[k]))
				continue;
			verdict->purpose = purposes[r].means;
			if (verdict->purpose == VT_PURPOSE_TORCH_DISTRIBUTED ||
			    verdict->purpose == VT_PURPOSE_NCCL)
				verdict->for_function = seen->frames[k].function;
			return;
		}
	}
}

/* The names live in the model's arena, like all strings of a frame. */
static void find_function(const struct seen *seen, const struct rule *rule, size_t i,
			  struct vt_verdict *verdict)
{
	size_t at = api_frame(seen, rule->flags & (API_CUDA | API_NCCL), i);

	verdict->function = seen->frames[at].function;
	/* NCCL exports each function twice, for profilers. People know the other name. */
	if (!strncmp(verdict->function, "pnccl", 5))
		verdict->function++;
	find_purpose(seen, at, verdict);
}

static void decide(struct seen *seen, struct vt_model_thread *thread, const struct rule *rule,
		   size_t i)
{
	thread->verdict = (struct vt_verdict){ .code = rule->means };
	if (rule->means == VT_VERDICT_IN_FUNCTION)
		find_function(seen, rule, i, &thread->verdict);
	thread->idle = vt_verdict_is_idle(thread->verdict.code);
}

bool vt_may_be_in_recorder(const struct vt_model_thread *thread)
{
	for (size_t i = 0; thread->stack.has_native && i < thread->stack.n_frames; i++)
		if (thread->stack.frames[i].module &&
		    vt_glob(RECORDER_MODULE, thread->stack.frames[i].module))
			return true;
	return !thread->stack.has_native || thread->stack.why;
}

static const struct rule *rule_of_trap(const struct seen *seen)
{
	for (size_t r = 0; seen->kept == VT_KEPT_YES && r < N_RULES; r++)
		if (rules[r].flags & KEPT)
			return &rules[r];
	return NULL;
}

static const struct rule *rule_by_name(const struct seen *seen)
{
	for (size_t r = 0; r < N_RULES; r++)
		if (rules[r].flags & BY_NAME && seen->blocked && seen->thread->name &&
		    fits_thread(seen, &rules[r]) && vt_glob(rules[r].function, seen->thread->name))
			return &rules[r];
	return NULL;
}

/*
 * Tries the rules in order: an early rule names the purpose of the whole stack, a later one only
 * its end.
 */
static const struct rule *rule_of_kernel(const struct vt_model_thread *thread)
{
	/*
	 * For a system call that a signal can end, explain/wait.c has better words. Without a
	 * system call it is a page fault.
	 */
	bool asleep = thread->state == 'D' || (thread->state == 'S' && !thread->syscall);

	for (size_t r = 0; asleep && r < N_RULES; r++) {
		if (!(rules[r].flags & KERNEL))
			continue;
		if (thread->wchan && vt_glob(rules[r].function, thread->wchan))
			return &rules[r];
		for (size_t i = 0; i < thread->n_kernel && !(i > 0 && rules[r].flags & INNERMOST);
		     i++)
			if (vt_glob(rules[r].function, thread->kernel[i]))
				return &rules[r];
	}
	return NULL;
}

void vt_find_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock, enum vt_kept kept)
{
	struct seen seen = {
		.thread = thread,
		.frames = thread->stack.frames,
		.n = thread->stack.n_frames < MAX_LOOKED_AT ? thread->stack.n_frames :
							      MAX_LOOKED_AT,
		.blocked = blocked,
		.for_lock = for_lock,
		.kept = kept,
		.only_waits = true,
	};
	const struct rule *weak = NULL, *trap = rule_of_trap(&seen);
	size_t weak_at = 0;

	if (trap) {
		decide(&seen, thread, trap, 0);
		return;
	}
	for (size_t i = 0; i < seen.n; i++) {
		for (size_t r = 0; r < N_RULES; r++) {
			if (!matches(&seen, &rules[r], i))
				continue;
			if (!(rules[r].flags & WEAK)) {
				decide(&seen, thread, &rules[r], i);
				return;
			}
			/*
			 * Several names can match one wait. The outermost tells most: a queue's
			 * lock is a queue.
			 */
			if (!weak || (rules[r].flags & INNERMOST && weak_at != i)) {
				weak = &rules[r];
				weak_at = i;
			}
		}
		/* The innermost frame of a blocked thread is the system call. */
		seen.only_waits = seen.only_waits &&
				  (is_waiting(&seen.frames[i]) || (i == 0 && blocked));
	}
	if (!weak)
		weak = rule_of_kernel(thread);
	if (!weak)
		weak = rule_by_name(&seen);
	if (weak)
		decide(&seen, thread, weak, weak_at);
}
