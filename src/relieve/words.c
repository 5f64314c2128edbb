/* SPDX-License-Identifier: Apache-2.0 */
#include "relieve/words.h"

#include <string.h>

static const struct {
	const char *name, *call, *cost;
} reliefs[VT_N_RELIEFS] = {
	[VT_RELIEF_EMPTY_CACHE] = { "empty-cache", "torch.cuda.empty_cache()",
				    "the next allocations ask the driver for memory again, which takes some ms each and "
				    "can wait for the GPU" },
	[VT_RELIEF_COLLECT_GARBAGE] = { "collect-garbage", "gc.collect()",
					"no Python code runs meanwhile, some 0.1 s a million objects; finalisers of the "
					"program (__del__, weakref callbacks, gc.callbacks) run on vramtap's thread" },
	[VT_RELIEF_TRIM_PINNED] = { "trim-pinned", "torch._C._host_emptyCache()",
				    "the next pinned buffers are allocated anew, which takes about 1 ms for 4 MiB" },
};

static const char *const outcomes[VT_N_RELIEVE_OUTCOMES] = {
	[VT_RELIEVE_REFUSED] = "refused",   [VT_RELIEVE_WOULD] = "would-be-done",
	[VT_RELIEVE_DONE] = "done",         [VT_RELIEVE_RAISED] = "raised",
	[VT_RELIEVE_RUNS] = "not-returned", [VT_RELIEVE_ENDED] = "process-ended",
};

/*
 * %d is the device (%t the thread, %s the text). remedy: what the reader can do.
 */
static const struct {
	const char *name, *text, *remedy;
} whys[VT_N_RELIEVE_WHYS] = {
	[VT_RELIEF_MAY] = { "none", "", NULL },
	[VT_RELIEF_NO_CONTEXT] = { "no-context",
				   "the process has no CUDA context, so it holds nothing to give back",
				   NULL },
	[VT_RELIEF_OLD_DRIVER] = { "old-driver",
				   "this driver cannot be asked whether all work of the GPU is done (it needs "
				   "cuCtxRecordEvent, of CUDA 12.5); on a GPU that hangs the call would never "
				   "return",
				   "update the driver, or call it in the program itself" },
	[VT_RELIEF_NO_MODE] = { "no-capture-mode",
				"the driver cannot be told to spare the capture of a CUDA graph",
				NULL },
	[VT_RELIEF_CAPTURE] = { "capture",
				"a CUDA graph is being captured on GPU %d, or allocations go to a pool of "
				"the program's own, or a capture failed and never ended",
				"try again in some seconds" },
	[VT_RELIEF_GPU_WORKS] = { "gpu-works",
				  "the work of GPU %d did not come to an end in time: it may hang, and the "
				  "call waits until all work is done, with the allocator locked",
				  "vramtap report shows whether it hangs; a busy GPU may need a larger "
				  "--timeout, or several tries" },
	[VT_RELIEF_DRIVER_ERROR] = { "driver-error",
				     "the driver answered with CUDA error %e when it was asked about the work "
				     "of GPU %d",
				     NULL },
	[VT_RELIEF_UNATTENDED] = { "unattended",
				   "vramtap gave no sign of life in time, or had given up",
				   "try again" },
	[VT_RELIEF_NO_TORCH] = { "no-torch", "the main interpreter has not imported torch", NULL },
	[VT_RELIEF_NOT_NATIVE] = { "not-native",
				   "PyTorch does not say that its allocator is the native one",
				   NULL },
	[VT_RELIEF_HISTORY] = { "history",
				"PyTorch records its memory's history (or does not say), and would walk "
				"the stack of vramtap's thread",
				"torch.cuda.memory._record_memory_history(None) in the program ends that" },
	[VT_RELIEF_LOCKED] = { "locked", "a thread holds the lock of PyTorch's allocator of GPU %d",
			       "try again; vramtap report names the thread if it keeps it" },
	[VT_RELIEF_NO_FUNCTION] = { "no-function",
				    "this release of PyTorch has no such function, or something has replaced "
				    "it",
				    NULL },
	[VT_RELIEF_RAISED] = { "raised", "it raised an exception, which was dropped", NULL },
	[VT_RELIEF_CAPTURE_BEGAN] = { "capture-began",
				      "the capture of a CUDA graph began on GPU %d just when the driver was "
				      "asked about the GPU's work, which may have ended that capture with an "
				      "error",
				      "look whether the program has reported one; try again when it "
				      "captures nothing" },
	[VT_RELIEF_CAPTURE_BROKEN] = { "capture-broken",
				       "a CUDA graph was being captured on GPU %d without PyTorch's showing "
				       "it, and the driver has ended that capture with an error, as it was "
				       "asked about the GPU's work",
				       "do not try again while the program captures" },
	[VT_RELIEVE_INSIDE] = { "not-inside", "%s", NULL },
	[VT_RELIEVE_TORCH] = { "no-allocator",
			       "there is no PyTorch allocator that could be asked: %s", NULL },
	[VT_RELIEVE_LAYOUT] = { "unknown-layout",
				"whether a CUDA graph is being captured cannot be seen in this release of "
				"PyTorch (%s)",
				NULL },
	[VT_RELIEVE_CAPTURES] = { "may-capture",
				  "the process has loaded %s, which can capture CUDA graphs without "
				  "PyTorch's knowing; the question whether the GPU is idle would break one",
				  "call it in the program itself" },
	[VT_RELIEVE_CALLS_PYTHON] = { "calls-python",
				      "the process has loaded %s, whose allocator calls Python while PyTorch "
				      "holds its own lock: freeing its memory on another thread could stop "
				      "the process for ever",
				      "call it in the program itself" },
	[VT_RELIEVE_ALLOCATOR] = { "allocator-locked",
				   "thread %t holds the lock of PyTorch's allocator of GPU %d",
				   "vramtap report shows what it does" },
	[VT_RELIEVE_PINNED] = { "pinned-locked",
				"thread %t holds the lock of PyTorch's pinned memory",
				"vramtap report shows what it does" },
	[VT_RELIEVE_IN_DRIVER] = { "in-driver",
				   "thread %t stands still inside the CUDA driver, perhaps with its locks",
				   "vramtap stacks shows where" },
	[VT_RELIEVE_INTERPRETER] = { "no-interpreter", "the interpreter cannot be asked: %s",
				     NULL },
	[VT_RELIEVE_GIL] = { "gil-held", "%s", "vramtap stacks shows what that thread does" },
	[VT_RELIEVE_SILENT] = { "driver-silent",
				"the CUDA driver does not answer; the thread \"vramtap\" in the process "
				"still waits for it, %h",
				NULL },
	[VT_RELIEVE_GIL_SILENT] = { "gil-silent",
				    "the GIL was not released; the thread \"vramtap\" in the process still "
				    "waits for it, holds nothing, and ends once it gets it",
				    NULL },
	[VT_RELIEVE_NO_ANSWER] = { "no-answer",
				   "the thread \"vramtap\" in the process did not answer in time; it calls "
				   "nothing any more, %h",
				   "try again" },
};

const char *vt_relieve_action_name(enum vt_relief what)
{
	return reliefs[what].name;
}

const char *vt_relieve_call_name(enum vt_relief what)
{
	return reliefs[what].call;
}

const char *vt_relieve_cost(enum vt_relief what)
{
	return reliefs[what].cost;
}

const char *vt_relieve_outcome_name(enum vt_relieve_outcome outcome)
{
	return outcomes[outcome];
}

const char *vt_relieve_why_name(unsigned int why)
{
	return whys[why].name ? whys[why].name : "none";
}

const char *vt_relieve_remedy(unsigned int why)
{
	return whys[why].remedy;
}

static void add_field(struct vt_str *text, char field, const struct vt_relieve_result *result)
{
	switch (field) {
	case 'd':
		vt_str_addf(text, "%d", result->device);
		break;
	case 'e':
		vt_str_addf(text, "%d", result->answer.error);
		break;
	case 't':
		vt_str_addf(text, "%d", (int)result->tid);
		break;
	case 'h':
		vt_str_add(text, result->has_gil ? "with the GIL: no Python code can run there" :
						   "and holds nothing of the program's");
		break;
	default:
		vt_str_add(text, *result->text ? result->text : "no reason is known");
		break;
	}
}

void vt_relieve_add_why(struct vt_str *text, const struct vt_relieve_result *result)
{
	for (const char *at = whys[result->why].text; at && *at; at++) {
		if (*at != '%')
			vt_str_addn(text, at, 1);
		else
			add_field(text, *++at, result);
	}
}
