/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/verdicts.h"

#include <string.h>

#include "base/str.h"

/* Deep recursion says nothing new. */
#define MAX_LOOKED_AT 256
/* How far apart two functions of one library may be that belong to one call. */
#define MAX_API_DEPTH 12

enum rule_flags {
	/* what is looked at */
	PYTHON = 1 << 0,       /* a Python frame; else a native one */
	BY_NAME = 1 << 1,      /* no frame: function is the thread's name; for threads whose functions have no names */
	KERNEL = 1 << 12,      /* no frame: a function in the kernel, of a thread in state D or in a page fault */
	UNDER_PYTHON = 1 << 2, /* the frame was called by the interpreter itself */
	WORKER = 1 << 3,       /* only the start of the thread is outside of it; all inside of it only waits */
	/* conditions on the thread */
	INNERMOST = 1 << 4,    /* it does not run, and all frames inside of this one only wait (see waiting_modules) */
	FOR_LOCK = 1 << 5,     /* the same, and it waits for a futex */
	NO_PYTHON = 1 << 6,    /* the stack has no Python frame */
	WITH_PYTHON = 1 << 7,  /* the stack has one */
	/* what the rule means */
	API_CUDA = 1 << 8,     /* of the near frames of this family, the outermost is meant: the one that people call */
	API_NCCL = 1 << 9,
	IDLE = 1 << 10,        /* waits for work: nothing is wrong with it */
	WEAK = 1 << 11,        /* only when no other rule matches further out */
};

struct rule {
	const char *verdict;  /* NULL: "in " and the function's name */
	const char *function; /* pattern; NULL: any, also none */
	const char *where;    /* pattern of the module's name or of the file's path; NULL: any */
	unsigned int flags;
};

/* Frames are tried from the inside; for each, the rules in this order. The first that matches decides. */
static const struct rule rules[] = {
	/* CPython */
	{ VT_VERDICT_GIL, "take_gil", NULL, 0 },
	/* Without a name for take_gil() (stripped): nothing else in CPython 3.8 to 3.13 uses this on Linux. */
	{ VT_VERDICT_GIL, "*pthread_cond_timedwait*", "libc*", UNDER_PYTHON },
	{ VT_VERDICT_GIL, "PyEval_RestoreThread", NULL, FOR_LOCK },
	{ VT_VERDICT_GIL, "PyEval_AcquireThread", NULL, FOR_LOCK },
	{ VT_VERDICT_GIL, "PyGILState_Ensure", NULL, FOR_LOCK },
	{ "waits for the world to be started again (free-threaded Python)", "tstate_wait_attach", NULL, 0 },
	{ "in Python's garbage collector", "gc_collect_main*", NULL, 0 },
	{ "in Python's garbage collector", "collect", "*python3*", 0 },

	/* our own recorder: the entry of the allocator alone says nothing */
	{ "ran out of GPU memory, kept for vramtap watch", NULL, "memfd:vramtap-recorder*", INNERMOST },

	/* idle threads of pools and services */
	{ "idle autograd thread", "torch::autograd::ReadyQueue::pop", NULL, NO_PYTHON | INNERMOST | IDLE },
	{ "in backward, waits for autograd's other threads", "torch::autograd::ReadyQueue::pop", NULL, WITH_PYTHON },
	{ "idle thread of c10::ThreadPool", "c10::ThreadPool::main_loop", NULL, INNERMOST | IDLE },
	{ "idle OpenMP thread", NULL, "libgomp*", WORKER | IDLE },
	{ "idle OpenMP thread", NULL, "libiomp5*", WORKER | INNERMOST | IDLE },
	{ "idle OpenMP thread", NULL, "libomp*", WORKER | INNERMOST | IDLE },
	{ "idle OpenBLAS thread", "blas_thread_server*", NULL, INNERMOST | IDLE },
	{ "idle OpenBLAS thread", NULL, "*openblas*", WORKER | INNERMOST | IDLE },
	{ "idle TBB thread", NULL, "libtbb*", WORKER | INNERMOST | IDLE },
	{ "idle thread of pthreadpool", "thread_main", "libtorch_cpu*", WORKER | INNERMOST | IDLE },
	{ "idle NCCL watchdog", "c10d::ProcessGroupNCCL::Watchdog::run*", NULL, INNERMOST | IDLE },
	{ "idle NCCL watchdog", "c10d::ProcessGroupNCCL::watchdogHandler*", NULL, INNERMOST | IDLE },
	{ "idle NCCL watchdog", "c10d::ProcessGroupNCCL::ncclCommWatchdog*", NULL, INNERMOST | IDLE },
	{ "idle NCCL watchdog", "c10d::ProcessGroupNCCL::workCleanupLoop*", NULL, INNERMOST | IDLE },
	{ "idle NCCL heartbeat monitor", "c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop*", NULL, INNERMOST | IDLE },
	{ "idle NCCL heartbeat monitor", "c10d::ProcessGroupNCCL::heartbeatMonitor*", NULL, INNERMOST | IDLE },
	{ "idle NCCL proxy thread", "ncclProxyService*", "libnccl*", NO_PYTHON | INNERMOST | IDLE },
	{ "idle NCCL proxy thread", "ncclProxyProgress*", "libnccl*", NO_PYTHON | INNERMOST | IDLE },
	{ "idle NCCL RAS thread", "rasThreadMain", "libnccl*", NO_PYTHON | INNERMOST | IDLE },
	{ "idle TCPStore server", "c10d::detail::*Daemon::run*", NULL, INNERMOST | IDLE },
	{ "idle Gloo thread", "c10d::ProcessGroupGloo::runLoop*", NULL, INNERMOST | IDLE },
	{ "idle Gloo thread", "gloo::transport::*::Loop::run*", NULL, INNERMOST | IDLE },
	{ "idle DataLoader worker", "_worker_loop", "*/torch/utils/data/_utils/worker.py", PYTHON | INNERMOST | IDLE },
	{ "idle pin-memory thread", "*", "*/torch/utils/data/_utils/pin_memory.py", PYTHON | INNERMOST | IDLE },
	{ "idle feeder of a multiprocessing queue", "*_feed", "*/multiprocessing/queues.py", PYTHON | INNERMOST | IDLE },
	{ "idle server of multiprocessing's resource sharer", "*_serve", "*/multiprocessing/resource_sharer.py", PYTHON | INNERMOST | IDLE },
	{ "idle thread of an executor", "_worker", "*/concurrent/futures/thread.py", PYTHON | INNERMOST | IDLE },
	{ "idle thread of an executor", "*run", "*/concurrent/futures/process.py", PYTHON | INNERMOST | IDLE },
	{ "idle worker of a pool", "worker", "*/multiprocessing/pool.py", PYTHON | INNERMOST | IDLE },
	{ "idle thread of a pool", "*_handle_*", "*/multiprocessing/pool.py", PYTHON | INNERMOST | IDLE },
	{ "idle compile worker", "*_read_thread", "*/torch/_inductor/compile_worker/subproc_pool.py",
	  PYTHON | INNERMOST | IDLE },
	{ "idle tqdm monitor", "*run", "*/tqdm/_monitor.py", PYTHON | INNERMOST | IDLE },

	/* waiting for other processes or threads */
	{ "waits for a DataLoader worker", "*_try_get_data", "*/torch/utils/data/dataloader.py", PYTHON | INNERMOST },
	{ "waits for a DataLoader worker", "*_get_data", "*/torch/utils/data/dataloader.py", PYTHON | INNERMOST },
	{ "waits for a DataLoader worker", "*_next_data", "*/torch/utils/data/dataloader.py", PYTHON | INNERMOST },
	{ "waits for another rank (TCPStore)", "c10d::TCPStore::*", NULL, INNERMOST },
	/* The client's socket, which has functions of its own, is further in (PyTorch 2.3 on). */
	{ "waits for another rank (TCPStore)", "c10d::TCPStore::doWait*", NULL, 0 },
	{ "in Python's debugger (pdb)", "*interaction", "*/pdb.py", PYTHON },
	{ "waits for a collective (NCCL)", "c10d::ProcessGroupNCCL::WorkNCCL::*", NULL, INNERMOST },
	{ "waits for a collective (Gloo)", "c10d::ProcessGroupGloo::*", NULL, INNERMOST },
	{ "waits for a collective", "c10d::Work::wait*", NULL, INNERMOST },
	{ "waits for a compilation (torch.compile)", "*", "*/torch/_inductor/async_compile.py", PYTHON | INNERMOST },
	{ "waits for a child process", "*_try_wait", "*/subprocess.py", PYTHON | INNERMOST },
	{ "waits for a child process", "*_communicate", "*/subprocess.py", PYTHON | INNERMOST },
	{ "waits for an import in another thread", "*acquire", "<frozen importlib._bootstrap>", PYTHON | INNERMOST },
	{ "waits for its other threads to end", "_shutdown", "*/threading.py", PYTHON | INNERMOST },
	{ "waits for another thread to end", "*join", "*/threading.py", PYTHON | INNERMOST },

	/* libraries whose functions people know by name */
	{ NULL, "cuda*", "libcudart*", API_CUDA },
	{ NULL, "cu*", "libcuda.so*", API_CUDA },
	{ NULL, "nccl*", "libnccl*", API_NCCL },
	{ NULL, "pnccl*", "libnccl*", API_NCCL },
	{ NULL, "nvrtcCompileProgram", NULL, 0 },

	/* the C library */
	{ "waits for a lock of malloc", "malloc", NULL, FOR_LOCK },
	{ "waits for a lock of malloc", "calloc", NULL, FOR_LOCK },
	{ "waits for a lock of malloc", "realloc", NULL, FOR_LOCK },
	{ "waits for a lock of malloc", "free", NULL, FOR_LOCK },
	{ "waits for a lock of malloc", "_int_malloc", NULL, FOR_LOCK },
	{ "waits for a lock of malloc", "_int_free*", NULL, FOR_LOCK },
	{ "waits for the dynamic loader's lock", "dl_iterate_phdr", NULL, FOR_LOCK },
	{ "waits for the dynamic loader's lock", "_dl_*", NULL, FOR_LOCK },
	{ "in dlopen", "dlopen*", NULL, 0 },
	{ "in dlopen", "_dl_open", NULL, 0 },

	/* less telling: only when nothing above matches further out */
	{ "in malloc", "malloc", NULL, WEAK },
	{ "in malloc", "_int_malloc", NULL, WEAK },
	{ "in free", "free", NULL, WEAK },
	{ "in free", "_int_free*", NULL, WEAK },
	{ "in fork", "fork", NULL, WEAK },
	{ "in fork", "__libc_fork", NULL, WEAK },
	{ "waits on a Python event", "Event.wait", "*/threading.py", PYTHON | INNERMOST | WEAK },
	{ "waits on a Python condition", "*wait", "*/threading.py", PYTHON | INNERMOST | WEAK },
	{ "waits on a Python queue", "*get", "*/queue.py", PYTHON | INNERMOST | WEAK },
	{ "waits on a Python queue", "*get", "*/multiprocessing/queues.py", PYTHON | INNERMOST | WEAK },
	{ "waits on a Python queue", "_queue_SimpleQueue_get*", NULL, INNERMOST | WEAK },
	{ "waits for a Python lock", "lock_PyThread_acquire_lock", NULL, INNERMOST | WEAK },
	{ "waits for a Python lock", "PyThread_acquire_lock_timed*", NULL, INNERMOST | WEAK },
	{ "waits for a Python lock", "rlock_acquire", NULL, INNERMOST | WEAK },
	{ "waits in asyncio's event loop", "*_run_once", "*/asyncio/base_events.py", PYTHON | INNERMOST | WEAK },
	{ "in autograd's backward pass", "torch::autograd::Engine::evaluate_function", NULL, WEAK },

	/*
	 * The kernel, for a thread of which nothing above is known: functions of Linux 4.18 to 6.18 that stay on the stack
	 * (the scheduler's own are left out there). Innermost first.
	 */
	{ "waits in a page fault that userfaultfd is to resolve", "handle_userfault*", NULL, KERNEL },
	{ "waits for the child that it has made to call exec or to end", "wait_for_vfork_done*", NULL, KERNEL },
	/* Where the one above is inlined. Any fork() that waits, for memory or a lock, has it further out. */
	{ "waits for the child that it has made to call exec or to end", "kernel_clone*", NULL, KERNEL | INNERMOST },
	{ "waits for an NFS server", "nfs*", NULL, KERNEL },
	{ "waits for an NFS server", "rpc_wait_bit*", NULL, KERNEL },
	{ "waits for a FUSE file system", "fuse_*", NULL, KERNEL },
	{ "waits for a FUSE file system", "request_wait_answer*", NULL, KERNEL },
	{ "waits for a Lustre server", "ll_*", NULL, KERNEL },
	{ "waits for a Lustre server", "ptlrpc_*", NULL, KERNEL },
	{ "in NVIDIA's kernel driver", "nvidia_*", NULL, KERNEL },
	{ "in NVIDIA's kernel driver", "uvm_*", NULL, KERNEL },
	{ "in NVIDIA's kernel driver", "os_acquire_*", NULL, KERNEL },
	{ "writes a core dump", "do_coredump*", NULL, KERNEL },
	{ "ends", "do_exit*", NULL, KERNEL },
	{ "in a page fault, waits for a disk", "swap_readpage*", NULL, KERNEL },
	{ "in a page fault, waits for a disk", "filemap_fault*", NULL, KERNEL },
	{ "waits for a disk", "io_schedule*", NULL, KERNEL },
	{ "waits for a disk", "folio_wait_bit*", NULL, KERNEL },
	{ "waits for a disk", "wait_on_page_bit*", NULL, KERNEL },
	{ "waits for a disk", "rq_qos_wait*", NULL, KERNEL },
	{ "waits for a disk", "blk_*", NULL, KERNEL },
	{ "waits for a file system's journal", "jbd2_*", NULL, KERNEL },
	{ "waits for memory that is being reclaimed", "shrink_*", NULL, KERNEL },
	{ "waits for a lock in the kernel", "rwsem_down_*", NULL, KERNEL },
	{ "waits for a lock in the kernel", "*mutex_lock*", NULL, KERNEL },

	/* threads that are known by their names */
	{ "idle CUDA driver thread", "cuda-EvtHandlr", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle CUDA driver thread", "cuda00*", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle NCCL proxy thread", "NCCL *", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle NCCL watchdog", "pt_nccl_*", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle TCPStore server", "pt_tcpstore*", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle autograd thread", "pt_autograd_*", NULL, BY_NAME | NO_PYTHON | IDLE },
	{ "idle jemalloc thread", "jemalloc_bg_thd", NULL, BY_NAME | NO_PYTHON | IDLE },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

/*
 * Why a function of a CUDA library was called: ", for …" behind the verdict. The first rule with a frame outside of it
 * counts. A text that ends with a dot, or is missing, goes on with the function's name.
 */
static const struct rule purposes[] = {
	{ "torch.distributed.", "*", "*/torch/distributed/distributed_c10d.py", PYTHON },
	{ ".item() or a copy to the CPU", "at::native::_local_scalar_dense_cuda*", NULL, 0 },
	{ ".item() or a copy to the CPU", "at::native::item", NULL, 0 },
	{ "torch.cuda.synchronize", "synchronize", "*/torch/cuda/__init__.py", PYTHON },
	/* Cached memory goes back to the driver because the program says so, or because a request failed, which is then made again. */
	{ "the caching allocator, empty_cache", "*CUDACachingAllocator::*::emptyCache", NULL, 0 },
	{ "the caching allocator, which retries a request", "*CUDACachingAllocator::*::release_*cached_blocks", NULL, 0 },
	{ "the caching allocator", "c10::cuda::CUDACachingAllocator::*", NULL, 0 },
	{ NULL, "nccl*", "libnccl*", 0 },
	{ "a collective", "c10d::ProcessGroupNCCL::*", NULL, 0 },
	{ "an optimizer step", "*step", "*/torch/optim/*.py", PYTHON },
	{ "backward", "torch::autograd::Engine::*", NULL, 0 },
};

/* Modules and files in which a thread only waits, or which only lead there. */
static const char *const waiting_modules[] = {
	"libc.so*", "libc-*", "libpthread*", "ld-linux*", "libstdc++*", "[vdso]", "libgomp*", "libiomp5*", "libomp*",
	"libpython*", "python*", "libuv*", "_queue.*", "_multiprocessing.*", "_socket.*", "_posixsubprocess.*", "select.*",
};
static const char *const waiting_files[] = {
	"*/threading.py", "*/queue.py", "*/multiprocessing/queues.py", "*/multiprocessing/connection.py",
	"*/multiprocessing/synchronize.py", "*/multiprocessing/popen_fork.py", "*/multiprocessing/pool.py",
	"*/concurrent/futures/_base.py", "*/selectors.py", "*/subprocess.py", "*/socket.py",
	"*/torch/utils/data/dataloader.py", "*/torch/multiprocessing/queue.py",
};
static const char *const thread_starts[] = { "start_thread", "clone", "__clone", "clone3", "__clone3",
					     "execute_native_thread_routine" };

static bool is_one_of(const char *text, const char *const *patterns, size_t n)
{
	for (size_t i = 0; text && i < n; i++)
		if (vt_glob(patterns[i], text))
			return true;
	return false;
}

#define IS_ONE_OF(text, patterns) is_one_of(text, patterns, sizeof(patterns) / sizeof((patterns)[0]))

struct look {
	const struct vt_model_thread *thread;
	const struct vt_model_frame *frames;
	size_t n;
	bool blocked, for_lock;
	bool only_waits; /* so do all frames inside of the one being looked at */
};

static bool is_waiting(const struct vt_model_frame *frame)
{
	if (frame->kind == VT_FRAME_PYTHON)
		return IS_ONE_OF(frame->file, waiting_files);
	return IS_ONE_OF(frame->module, waiting_modules);
}

/* Those of libc and libstdc++ have no names unless debug symbols are installed. */
static bool is_thread_start(const struct vt_model_frame *frame)
{
	static const char *const modules[] = { "libc.so*", "libc-*", "libpthread*", "libstdc++*" };

	if (frame->kind != VT_FRAME_NATIVE)
		return false;
	return frame->function ? IS_ONE_OF(frame->function, thread_starts) : IS_ONE_OF(frame->module, modules);
}

static bool is_outermost(const struct look *look, size_t i)
{
	bool started = false;

	for (size_t k = i + 1; k < look->n; k++) {
		if (!is_thread_start(&look->frames[k]))
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

static bool fits_thread(const struct look *look, const struct rule *rule)
{
	unsigned int flags = rule->flags;
	bool has_python = look->thread->stack.has_python;

	if ((flags & NO_PYTHON && has_python) || (flags & WITH_PYTHON && !has_python))
		return false;
	if (flags & (INNERMOST | FOR_LOCK) && (!look->only_waits || !look->blocked))
		return false;
	return !(flags & FOR_LOCK) || look->for_lock;
}

static bool is_under_python(const struct look *look, size_t i)
{
	static const char *const interpreters[] = { "libpython3*", "python3*" };
	const struct vt_model_frame *caller = i + 1 < look->n ? &look->frames[i + 1] : NULL;

	return caller && (caller->kind == VT_FRAME_PYTHON || IS_ONE_OF(caller->module, interpreters));
}

/* WORKER does not ask whether the thread runs: OpenMP's threads spin before they sleep. */
static bool matches(const struct look *look, const struct rule *rule, size_t i)
{
	if (rule->flags & (BY_NAME | KERNEL) || !fits_thread(look, rule) || !is_same_frame(rule, &look->frames[i]))
		return false;
	if (rule->flags & UNDER_PYTHON && !is_under_python(look, i))
		return false;
	return !(rule->flags & WORKER) || (look->only_waits && is_outermost(look, i));
}

/* The function that people call: the outermost near frame i that a rule of the same family matches. */
static size_t api_frame(const struct look *look, unsigned int family, size_t i)
{
	size_t best = i;

	for (size_t k = i + 1; family && k < look->n && k <= best + MAX_API_DEPTH; k++)
		for (size_t r = 0; r < N_RULES; r++)
			if (rules[r].flags & family && is_same_frame(&rules[r], &look->frames[k]))
				best = k;
	return best;
}

static const char *purpose(const struct look *look, size_t i, const char **function)
{
	for (size_t r = 0; r < sizeof(purposes) / sizeof(purposes[0]); r++) {
		for (size_t k = i + 1; k < look->n; k++) {
			const char *text = purposes[r].verdict ? purposes[r].verdict : "";
			size_t n = strlen(text);

			if (!is_same_frame(&purposes[r], &look->frames[k]))
				continue;
			*function = n == 0 || text[n - 1] == '.' ? look->frames[k].function : "";
			return text;
		}
	}
	return NULL;
}

static const char *in_function(const struct look *look, const struct rule *rule, size_t i, struct vt_arena *arena)
{
	size_t at = api_frame(look, rule->flags & (API_CUDA | API_NCCL), i);
	const char *name = look->frames[at].function, *function = "", *why = purpose(look, at, &function);

	/* NCCL exports each function twice, for profilers. People know the other name. */
	if (!strncmp(name, "pnccl", 5))
		name++;
	if (!why)
		return vt_arena_printf(arena, "in %.100s", name);
	return vt_arena_printf(arena, "in %.100s, for %s%.100s", name, why, function);
}

static void decide(struct look *look, struct vt_model_thread *thread, const struct rule *rule, size_t i,
		   struct vt_arena *arena)
{
	const char *verdict = rule->verdict ? rule->verdict : in_function(look, rule, i, arena);

	if (!verdict)
		return;
	thread->verdict = verdict;
	thread->idle = rule->flags & IDLE;
}

static const struct rule *rule_by_name(const struct look *look)
{
	for (size_t r = 0; r < N_RULES; r++)
		if (rules[r].flags & BY_NAME && look->blocked && look->thread->name && fits_thread(look, &rules[r]) &&
		    vt_glob(rules[r].function, look->thread->name))
			return &rules[r];
	return NULL;
}

/* The rules are tried in their order: one names what the whole stack is for, a later one only where it ends. */
static const struct rule *rule_of_kernel(const struct vt_model_thread *thread)
{
	/* In a system call that a signal ends there are better words (explain/wait.c); without one it is a page fault. */
	bool asleep = thread->state == 'D' || (thread->state == 'S' && !thread->syscall);

	for (size_t r = 0; asleep && r < N_RULES; r++) {
		if (!(rules[r].flags & KERNEL))
			continue;
		if (thread->wchan && vt_glob(rules[r].function, thread->wchan))
			return &rules[r];
		for (size_t i = 0; i < thread->n_kernel && !(i > 0 && rules[r].flags & INNERMOST); i++)
			if (vt_glob(rules[r].function, thread->kernel[i]))
				return &rules[r];
	}
	return NULL;
}

void vt_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock, struct vt_arena *arena)
{
	struct look look = {
		.thread = thread,
		.frames = thread->stack.frames,
		.n = thread->stack.n_frames < MAX_LOOKED_AT ? thread->stack.n_frames : MAX_LOOKED_AT,
		.blocked = blocked,
		.for_lock = for_lock,
		.only_waits = true,
	};
	const struct rule *weak = NULL;
	size_t weak_at = 0;

	for (size_t i = 0; i < look.n; i++) {
		for (size_t r = 0; r < N_RULES; r++) {
			if (!matches(&look, &rules[r], i))
				continue;
			if (!(rules[r].flags & WEAK)) {
				decide(&look, thread, &rules[r], i, arena);
				return;
			}
			/* Of one and the same wait, the outermost name tells most: a queue's lock is a queue. */
			if (!weak || (rules[r].flags & INNERMOST && weak_at != i)) {
				weak = &rules[r];
				weak_at = i;
			}
		}
		/* The innermost frame of a blocked thread is the system call. */
		look.only_waits = look.only_waits && (is_waiting(&look.frames[i]) || (i == 0 && blocked));
	}
	if (!weak)
		weak = rule_of_kernel(thread);
	if (!weak)
		weak = rule_by_name(&look);
	if (weak)
		decide(&look, thread, weak, weak_at, arena);
}
