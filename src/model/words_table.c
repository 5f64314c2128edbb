/* SPDX-License-Identifier: Apache-2.0 */
/* The words of model/words.h. Reword here: nothing reads them. */
#include "model/words.h"

#define IS(text)                                      \
	{                                             \
		{                                     \
			text, "is " text, "are " text \
		}                                     \
	}
#define VERB(verb, rest)                                        \
	{                                                       \
		{                                               \
			verb "s" rest, verb "s" rest, verb rest \
		}                                               \
	}
#define IDLE(one, many)                                                  \
	{                                                                \
		{                                                        \
			"idle " one, "is an idle " one, "are idle " many \
		}                                                        \
	}

const struct vt_words vt_words = {
	.verdicts = {
		[VT_VERDICT_IN_FUNCTION] = IS("in "),
		[VT_VERDICT_GIL] = VERB("wait", " for the GIL"),
		[VT_VERDICT_PYTHON_WORLD] = VERB("wait", " for a stop-the-world pause to end (free-threaded Python)"),
		[VT_VERDICT_PYTHON_GC] = IS("in Python's garbage collector"),
		[VT_VERDICT_OOM] = { { "ran out of GPU memory, kept for vramtap watch",
				       "ran out of GPU memory, kept for vramtap watch",
				       "ran out of GPU memory, kept for vramtap watch" } },
		[VT_VERDICT_BACKWARD_WAITS] = IS("in backward, waits for autograd's other threads"),
		[VT_VERDICT_LOADER] = VERB("wait", " for a DataLoader worker"),
		[VT_VERDICT_STORE] = VERB("wait", " for another rank (TCPStore)"),
		[VT_VERDICT_PDB] = IS("in Python's debugger (pdb)"),
		[VT_VERDICT_COLLECTIVE_NCCL] = VERB("wait", " for a collective (NCCL)"),
		[VT_VERDICT_COLLECTIVE_GLOO] = VERB("wait", " for a collective (Gloo)"),
		[VT_VERDICT_COLLECTIVE] = VERB("wait", " for a collective"),
		[VT_VERDICT_COMPILATION] = VERB("wait", " for a compilation (torch.compile)"),
		[VT_VERDICT_CHILD] = VERB("wait", " for a child process"),
		[VT_VERDICT_IMPORT] = VERB("wait", " for an import in another thread"),
		[VT_VERDICT_OTHER_THREADS] = { { "waits for its other threads to end", "waits for its other threads to end",
						 "wait for their other threads to end" } },
		[VT_VERDICT_JOIN] = VERB("wait", " for another thread to end"),
		[VT_VERDICT_MALLOC_LOCK] = VERB("wait", " for a lock of malloc"),
		[VT_VERDICT_LOADER_LOCK] = VERB("wait", " for the dynamic loader's lock"),
		[VT_VERDICT_DLOPEN] = IS("in dlopen"),
		[VT_VERDICT_MALLOC] = IS("in malloc"),
		[VT_VERDICT_FREE] = IS("in free"),
		[VT_VERDICT_FORK] = IS("in fork"),
		[VT_VERDICT_PYTHON_EVENT] = VERB("wait", " on a Python event"),
		[VT_VERDICT_PYTHON_CONDITION] = VERB("wait", " on a Python condition"),
		[VT_VERDICT_PYTHON_QUEUE] = VERB("wait", " on a Python queue"),
		[VT_VERDICT_PYTHON_LOCK] = VERB("wait", " for a Python lock"),
		[VT_VERDICT_PROCESS_LOCK] =
			VERB("wait", " for a lock or semaphore of multiprocessing"),
		[VT_VERDICT_ASYNCIO] = VERB("wait", " in asyncio's event loop"),
		[VT_VERDICT_BACKWARD] = IS("in autograd's backward pass"),
		[VT_VERDICT_USERFAULTFD] = VERB("wait", " in a page fault that userfaultfd must resolve"),
		[VT_VERDICT_VFORK] = { { "waits for its child to call exec or exit",
					 "waits for its child to call exec or exit",
					 "wait for the children that they have made to call exec or to end" } },
		[VT_VERDICT_NFS] = VERB("wait", " for an NFS server"),
		[VT_VERDICT_FUSE] = VERB("wait", " for a FUSE file system"),
		[VT_VERDICT_LUSTRE] = VERB("wait", " for a Lustre server"),
		[VT_VERDICT_NVIDIA_DRIVER] = IS("in NVIDIA's kernel driver"),
		[VT_VERDICT_CORE_DUMP] = { { "writes a core dump", "writes a core dump", "write core dumps" } },
		[VT_VERDICT_ENDS] = VERB("end", ""),
		[VT_VERDICT_FAULT_DISK] = IS("in a page fault, waits for a disk"),
		[VT_VERDICT_DISK] = VERB("wait", " for a disk"),
		[VT_VERDICT_JOURNAL] = VERB("wait", " for a file system's journal"),
		[VT_VERDICT_RECLAIM] = VERB("wait", " for memory that is being reclaimed"),
		[VT_VERDICT_KERNEL_LOCK] = VERB("wait", " for a lock in the kernel"),
		[VT_VERDICT_IDLE_AUTOGRAD] = IDLE("autograd thread", "autograd threads"),
		[VT_VERDICT_IDLE_C10_POOL] = IDLE("thread of c10::ThreadPool", "threads of c10::ThreadPool"),
		[VT_VERDICT_IDLE_OPENMP] = IDLE("OpenMP thread", "OpenMP threads"),
		[VT_VERDICT_IDLE_OPENBLAS] = IDLE("OpenBLAS thread", "OpenBLAS threads"),
		[VT_VERDICT_IDLE_TBB] = IDLE("TBB thread", "TBB threads"),
		[VT_VERDICT_IDLE_PTHREADPOOL] = IDLE("thread of pthreadpool", "threads of pthreadpool"),
		[VT_VERDICT_IDLE_NCCL_WATCHDOG] = IDLE("NCCL watchdog", "NCCL watchdogs"),
		[VT_VERDICT_IDLE_NCCL_MONITOR] = IDLE("NCCL heartbeat monitor", "NCCL heartbeat monitors"),
		[VT_VERDICT_IDLE_NCCL_PROXY] = IDLE("NCCL proxy thread", "NCCL proxy threads"),
		[VT_VERDICT_IDLE_NCCL_RAS] = IDLE("NCCL RAS thread", "NCCL RAS threads"),
		[VT_VERDICT_IDLE_STORE] = IDLE("TCPStore server", "TCPStore servers"),
		[VT_VERDICT_IDLE_GLOO] = IDLE("Gloo thread", "Gloo threads"),
		[VT_VERDICT_IDLE_LOADER] = IDLE("DataLoader worker", "DataLoader workers"),
		[VT_VERDICT_IDLE_PIN_MEMORY] = IDLE("pin-memory thread", "pin-memory threads"),
		[VT_VERDICT_IDLE_FEEDER] = IDLE("feeder of a multiprocessing queue", "feeders of multiprocessing queues"),
		[VT_VERDICT_IDLE_SHARER] = IDLE("server of multiprocessing's resource sharer",
						"servers of multiprocessing's resource sharer"),
		[VT_VERDICT_IDLE_EXECUTOR] = IDLE("thread of an executor", "threads of executors"),
		[VT_VERDICT_IDLE_POOL_WORKER] = IDLE("worker of a pool", "workers of pools"),
		[VT_VERDICT_IDLE_POOL] = IDLE("thread of a pool", "threads of pools"),
		[VT_VERDICT_IDLE_COMPILE_WORKER] = IDLE("compile worker", "compile workers"),
		[VT_VERDICT_IDLE_TQDM] = IDLE("tqdm monitor", "tqdm monitors"),
		[VT_VERDICT_IDLE_CUDA] = IDLE("CUDA driver thread", "CUDA driver threads"),
		[VT_VERDICT_IDLE_JEMALLOC] = IDLE("jemalloc thread", "jemalloc threads"),
	},
	.waits = {
		[VT_WAITS_RUNNING] = IS("running"),
		[VT_WAITS_CALL] = VERB("wait", " in "),
		[VT_WAITS_SLEEP] = IS("in "),
		[VT_WAITS_SELECT_NOTHING] = IS("in select, without descriptors"),
		[VT_WAITS_CHILD] = VERB("wait", " for the end of child process"),
		[VT_WAITS_ANY_CHILD] = VERB("wait", " for the end of a child process"),
		[VT_WAITS_PROCESS] = VERB("wait", " for the end of a process"),
		[VT_WAITS_VFORK] = { { "waits until its vfork child calls exec or exits",
				       "waits until its vfork child calls exec or exits",
				       "wait until the children that they have made (vfork) call exec or end" } },
		[VT_WAITS_EXEC] = IS("in exec, to become another program"),
		[VT_WAITS_SIGNAL] = VERB("wait", " for a signal"),
		[VT_WAITS_LOCK] = VERB("wait", " for a lock"),
		[VT_WAITS_LOCK_OWN] = { { "waits for a lock that it already holds", "waits for a lock that it already holds",
					  "wait for locks that they hold themselves" } },
		[VT_WAITS_LOCK_HELD] = VERB("wait", " for a lock"),
		[VT_WAITS_JOIN] = VERB("wait", " for the end of thread"),
		[VT_WAITS_CONDITION] = VERB("wait", " on a condition"),
		[VT_WAITS_SEMAPHORE] = VERB("wait", " for a semaphore"),
		[VT_WAITS_RWLOCK] = VERB("wait", " for a read-write lock"),
		[VT_WAITS_BARRIER] = VERB("wait", " at a barrier"),
		[VT_WAITS_OPENMP_BARRIER] = VERB("wait", " at an OpenMP barrier"),
		[VT_WAITS_INITIALISATION] = VERB("wait", " for an initialisation in another thread"),
		[VT_WAITS_FUTEX] = VERB("wait", " for futex"),
		[VT_WAITS_PAGE_FAULT] = VERB("wait", " in a page fault"),
		[VT_WAITS_KERNEL] = { { "stuck in the kernel in ", "is stuck in the kernel in ", "are stuck in the kernel in " } },
	},
	.purposes = {
		[VT_PURPOSE_TORCH_DISTRIBUTED] = "torch.distributed.",
		[VT_PURPOSE_COPY_TO_CPU] = ".item() or a copy to the CPU",
		[VT_PURPOSE_SYNCHRONIZE] = "torch.cuda.synchronize",
		[VT_PURPOSE_EMPTY_CACHE] = "the caching allocator, empty_cache",
		[VT_PURPOSE_RETRY] = "the caching allocator, which retries a request",
		[VT_PURPOSE_ALLOCATOR] = "the caching allocator",
		[VT_PURPOSE_NCCL] = "",
		[VT_PURPOSE_COLLECTIVE] = "a collective",
		[VT_PURPOSE_OPTIMIZER] = "an optimizer step",
		[VT_PURPOSE_BACKWARD] = "backward",
	},
	.purpose = ", for ",
	.holder = " held by ",
};
