/* SPDX-License-Identifier: Apache-2.0 */
#include "model/words_0_1.h"

#include <string.h>

static const struct {
	const char *sentence;
	enum vt_verdict_code code;
} verdicts[] = {
	{ "waits for the GIL", VT_VERDICT_GIL },
	{ "waits for the world to be started again (free-threaded Python)",
	  VT_VERDICT_PYTHON_WORLD },
	{ "in Python's garbage collector", VT_VERDICT_PYTHON_GC },
	{ "ran out of GPU memory, kept for vramtap watch", VT_VERDICT_OOM },
	{ "in backward, waits for autograd's other threads", VT_VERDICT_BACKWARD_WAITS },
	{ "waits for a DataLoader worker", VT_VERDICT_LOADER },
	{ "waits for another rank (TCPStore)", VT_VERDICT_STORE },
	{ "in Python's debugger (pdb)", VT_VERDICT_PDB },
	{ "waits for a collective (NCCL)", VT_VERDICT_COLLECTIVE_NCCL },
	{ "waits for a collective (Gloo)", VT_VERDICT_COLLECTIVE_GLOO },
	{ "waits for a collective", VT_VERDICT_COLLECTIVE },
	{ "waits for a compilation (torch.compile)", VT_VERDICT_COMPILATION },
	{ "waits for a child process", VT_VERDICT_CHILD },
	{ "waits for an import in another thread", VT_VERDICT_IMPORT },
	{ "waits for its other threads to end", VT_VERDICT_OTHER_THREADS },
	{ "waits for another thread to end", VT_VERDICT_JOIN },
	{ "waits for a lock of malloc", VT_VERDICT_MALLOC_LOCK },
	{ "waits for the dynamic loader's lock", VT_VERDICT_LOADER_LOCK },
	{ "in dlopen", VT_VERDICT_DLOPEN },
	{ "in malloc", VT_VERDICT_MALLOC },
	{ "in free", VT_VERDICT_FREE },
	{ "in fork", VT_VERDICT_FORK },
	{ "waits on a Python event", VT_VERDICT_PYTHON_EVENT },
	{ "waits on a Python condition", VT_VERDICT_PYTHON_CONDITION },
	{ "waits on a Python queue", VT_VERDICT_PYTHON_QUEUE },
	{ "waits for a Python lock", VT_VERDICT_PYTHON_LOCK },
	{ "waits in asyncio's event loop", VT_VERDICT_ASYNCIO },
	{ "in autograd's backward pass", VT_VERDICT_BACKWARD },
	{ "waits in a page fault that userfaultfd is to resolve", VT_VERDICT_USERFAULTFD },
	{ "waits for the child that it has made to call exec or to end", VT_VERDICT_VFORK },
	{ "waits for an NFS server", VT_VERDICT_NFS },
	{ "waits for a FUSE file system", VT_VERDICT_FUSE },
	{ "waits for a Lustre server", VT_VERDICT_LUSTRE },
	{ "in NVIDIA's kernel driver", VT_VERDICT_NVIDIA_DRIVER },
	{ "writes a core dump", VT_VERDICT_CORE_DUMP },
	{ "ends", VT_VERDICT_ENDS },
	{ "in a page fault, waits for a disk", VT_VERDICT_FAULT_DISK },
	{ "waits for a disk", VT_VERDICT_DISK },
	{ "waits for a file system's journal", VT_VERDICT_JOURNAL },
	{ "waits for memory that is being reclaimed", VT_VERDICT_RECLAIM },
	{ "waits for a lock in the kernel", VT_VERDICT_KERNEL_LOCK },
	{ "idle autograd thread", VT_VERDICT_IDLE_AUTOGRAD },
	{ "idle thread of c10::ThreadPool", VT_VERDICT_IDLE_C10_POOL },
	{ "idle OpenMP thread", VT_VERDICT_IDLE_OPENMP },
	{ "idle OpenBLAS thread", VT_VERDICT_IDLE_OPENBLAS },
	{ "idle TBB thread", VT_VERDICT_IDLE_TBB },
	{ "idle thread of pthreadpool", VT_VERDICT_IDLE_PTHREADPOOL },
	{ "idle NCCL watchdog", VT_VERDICT_IDLE_NCCL_WATCHDOG },
	{ "idle NCCL heartbeat monitor", VT_VERDICT_IDLE_NCCL_MONITOR },
	{ "idle NCCL proxy thread", VT_VERDICT_IDLE_NCCL_PROXY },
	{ "idle NCCL RAS thread", VT_VERDICT_IDLE_NCCL_RAS },
	{ "idle TCPStore server", VT_VERDICT_IDLE_STORE },
	{ "idle Gloo thread", VT_VERDICT_IDLE_GLOO },
	{ "idle DataLoader worker", VT_VERDICT_IDLE_LOADER },
	{ "idle pin-memory thread", VT_VERDICT_IDLE_PIN_MEMORY },
	{ "idle feeder of a multiprocessing queue", VT_VERDICT_IDLE_FEEDER },
	{ "idle server of multiprocessing's resource sharer", VT_VERDICT_IDLE_SHARER },
	{ "idle thread of an executor", VT_VERDICT_IDLE_EXECUTOR },
	{ "idle worker of a pool", VT_VERDICT_IDLE_POOL_WORKER },
	{ "idle thread of a pool", VT_VERDICT_IDLE_POOL },
	{ "idle compile worker", VT_VERDICT_IDLE_COMPILE_WORKER },
	{ "idle tqdm monitor", VT_VERDICT_IDLE_TQDM },
	{ "idle CUDA driver thread", VT_VERDICT_IDLE_CUDA },
	{ "idle jemalloc thread", VT_VERDICT_IDLE_JEMALLOC },
};

/*
 * Behind ", for ". A text that ends with a dot, and the last one, go on with a function's name. The
 * longer ones come first.
 */
static const struct {
	const char *text;
	enum vt_purpose purpose;
} purposes[] = {
	{ "torch.distributed.", VT_PURPOSE_TORCH_DISTRIBUTED },
	{ ".item() or a copy to the CPU", VT_PURPOSE_COPY_TO_CPU },
	{ "torch.cuda.synchronize", VT_PURPOSE_SYNCHRONIZE },
	{ "the caching allocator, empty_cache", VT_PURPOSE_EMPTY_CACHE },
	{ "the caching allocator, which retries a request", VT_PURPOSE_RETRY },
	{ "the caching allocator", VT_PURPOSE_ALLOCATOR },
	{ "a collective", VT_PURPOSE_COLLECTIVE },
	{ "an optimizer step", VT_PURPOSE_OPTIMIZER },
	{ "backward", VT_PURPOSE_BACKWARD },
	{ "nccl", VT_PURPOSE_NCCL },
};

/* How sentences about waits begin; the longer ones come first. The rest is detail. */
static const struct {
	const char *begin;
	enum vt_waits_code code;
	size_t call; /* where the name of the call begins in the sentence; 0: there is none */
} waits[] = {
	{ "running", VT_WAITS_RUNNING, 0 },
	{ "in select, without descriptors", VT_WAITS_SELECT_NOTHING, 0 },
	{ "in nanosleep", VT_WAITS_SLEEP, 3 },
	{ "in clock_nanosleep", VT_WAITS_SLEEP, 3 },
	{ "in exec, to become another program", VT_WAITS_EXEC, 0 },
	{ "waits in a page fault", VT_WAITS_PAGE_FAULT, 0 },
	{ "waits in clock_nanosleep", VT_WAITS_SLEEP, 9 },
	{ "waits in nanosleep", VT_WAITS_SLEEP, 9 },
	{ "waits in ", VT_WAITS_CALL, 9 },
	{ "waits for the end of child process", VT_WAITS_CHILD, 0 },
	{ "waits for the end of a child process", VT_WAITS_ANY_CHILD, 0 },
	{ "waits for the end of a process", VT_WAITS_PROCESS, 0 },
	{ "waits for the end of thread", VT_WAITS_JOIN, 0 },
	{ "waits until the child that it has made (vfork) calls exec or ends", VT_WAITS_VFORK, 0 },
	{ "waits for a signal", VT_WAITS_SIGNAL, 0 },
	{ "waits for a lock that it holds itself", VT_WAITS_LOCK_OWN, 0 },
	{ "waits for a lock held by", VT_WAITS_LOCK_HELD, 0 },
	{ "waits for a lock", VT_WAITS_LOCK, 0 },
	{ "waits on a condition", VT_WAITS_CONDITION, 0 },
	{ "waits for a semaphore", VT_WAITS_SEMAPHORE, 0 },
	{ "waits for a read-write lock", VT_WAITS_RWLOCK, 0 },
	{ "waits at a barrier", VT_WAITS_BARRIER, 0 },
	{ "waits at an OpenMP barrier", VT_WAITS_OPENMP_BARRIER, 0 },
	{ "waits for an initialisation in another thread", VT_WAITS_INITIALISATION, 0 },
	{ "waits for futex", VT_WAITS_FUTEX, 0 },
	{ "stuck in the kernel in ", VT_WAITS_KERNEL, 23 },
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* "torch.distributed.all_reduce" */
static bool read_purpose(const char *text, struct vt_verdict *verdict, struct vt_arena *arena)
{
	for (size_t i = 0; i < sizeof(purposes) / sizeof(purposes[0]); i++) {
		size_t n = strlen(purposes[i].text);

		if (!begins(text, purposes[i].text))
			continue;
		verdict->purpose = purposes[i].purpose;
		if (verdict->purpose != VT_PURPOSE_NCCL &&
		    verdict->purpose != VT_PURPOSE_TORCH_DISTRIBUTED)
			return true;
		verdict->for_function = vt_arena_strdup(
			arena, verdict->purpose == VT_PURPOSE_NCCL ? text : text + n);
		return verdict->for_function;
	}
	return true;
}

bool vt_verdict_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_verdict *verdict)
{
	const char *purpose = strstr(sentence, ", for ");

	*verdict = (struct vt_verdict){ 0 };
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (!strcmp(sentence, verdicts[i].sentence))
			verdict->code = verdicts[i].code;
	if (begins(sentence, "waits for the GIL"))
		/* "held by ..." goes on with what is different in each process */
		verdict->code = VT_VERDICT_GIL;
	if (verdict->code || !begins(sentence, "in "))
		return true;
	verdict->code = VT_VERDICT_IN_FUNCTION;
	verdict->function =
		vt_arena_strndup(arena, sentence + 3,
				 purpose ? (size_t)(purpose - sentence - 3) : strlen(sentence + 3));
	return verdict->function &&
	       (!purpose || read_purpose(purpose + strlen(", for "), verdict, arena));
}

bool vt_waits_of_0_1(const char *sentence, struct vt_arena *arena, struct vt_waits *found)
{
	*found = (struct vt_waits){ 0 };
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		const char *rest = sentence + strlen(waits[i].begin);

		if (!begins(sentence, waits[i].begin))
			continue;
		found->code = waits[i].code;
		if (waits[i].call) {
			const char *call = sentence + waits[i].call;
			size_t n = strcspn(call, " ,");

			found->call = vt_arena_strndup(arena, call, n);
			rest = call + n;
		}
		/* Today the words of the code end before these. */
		if (found->code == VT_WAITS_LOCK_HELD)
			rest -= strlen(" held by");
		found->detail = vt_arena_strdup(arena, rest);
		return found->detail && (found->call || !waits[i].call);
	}
	return true;
}
