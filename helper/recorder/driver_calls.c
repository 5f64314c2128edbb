/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's allocations: what each of its functions means. */
#include "driver.h"
#include "launch_names.h"
#include "vramtap/freestanding.h"

enum what {
	ALLOCATES = 1, /* its out argument points to the address */
	/* the same; size is the width (rounded up to the pitch) times the height */
	ALLOCATES_PITCHED,
	FREES,
	CREATES, /* physical memory, without an address */
	RELEASES,
	MAPS,
	UNMAPS,
	DESTROYS_CONTEXT,
	RESETS_DEVICE, /* named by its argument */
	RESETS_CURRENT,
};

#define NO_ARG 0xff
#define CUDA_ERROR_OUT_OF_MEMORY 2 /* the runtime's cudaErrorMemoryAllocation has the same number */
#define CU_MEM_LOCATION_TYPE_DEVICE 1

/*
 * cbid: CUpti_driver_api_trace_cbid. NVIDIA only ever appends to that list (CUDA 11.0's
 * cupti_driver_cbid.h and 13.0's agree in all of those below), so a number is the same in all
 * releases that have the function. Positions of arguments: the parameter structs of CUPTI
 * (generated_cuda_meta.h, 13.0) hold them in the function's order, and none that is used here comes
 * after one that is narrower than a word. So args[i] is argument i both there and in a call's
 * registers.
 */
static const struct call {
	uint16_t cbid;
	uint8_t what;   /* enum what */
	uint8_t kind;   /* enum vt_recorder_driver_kind */
	uint8_t size;   /* which argument */
	uint8_t stream; /* which argument, NO_ARG: none */
} calls[VT_N_CALLS] = {
	[VT_CALL_cuMemAlloc_v2] = { 243, ALLOCATES, VT_DRIVER_DEVICE, 1, NO_ARG },
	[VT_CALL_cuMemAllocPitch_v2] = { 244, ALLOCATES_PITCHED, VT_DRIVER_DEVICE, 3, NO_ARG },
	[VT_CALL_cuMemAllocManaged] = { 371, ALLOCATES, VT_DRIVER_MANAGED, 1, NO_ARG },
	[VT_CALL_cuMemAllocHost_v2] = { 294, ALLOCATES, VT_DRIVER_HOST, 1, NO_ARG },
	[VT_CALL_cuMemHostAlloc] = { 39, ALLOCATES, VT_DRIVER_HOST, 1, NO_ARG },
	[VT_CALL_cuMemHostAlloc_v2] = { 271, ALLOCATES, VT_DRIVER_HOST, 1, NO_ARG },
	[VT_CALL_cuMemAllocAsync] = { 598, ALLOCATES, VT_DRIVER_ASYNC, 1, 2 },
	[VT_CALL_cuMemAllocAsync_ptsz] = { 599, ALLOCATES, VT_DRIVER_ASYNC, 1, 2 },
	[VT_CALL_cuMemAllocFromPoolAsync] = { 611, ALLOCATES, VT_DRIVER_ASYNC, 1, 3 },
	[VT_CALL_cuMemAllocFromPoolAsync_ptsz] = { 612, ALLOCATES, VT_DRIVER_ASYNC, 1, 3 },
	[VT_CALL_cuMemFree_v2] = { 245, FREES, 0, 0, NO_ARG },
	[VT_CALL_cuMemFreeHost] = { 38, FREES, 0, 0, NO_ARG },
	[VT_CALL_cuMemFreeAsync] = { 600, FREES, 0, 0, NO_ARG },
	[VT_CALL_cuMemFreeAsync_ptsz] = { 601, FREES, 0, 0, NO_ARG },
	[VT_CALL_cuMemCreate] = { 549, CREATES, VT_DRIVER_VMM, 1, NO_ARG },
	[VT_CALL_cuMemRelease] = { 550, RELEASES, 0, 0, NO_ARG },
	[VT_CALL_cuMemMap] = { 551, MAPS, VT_DRIVER_VMM, 1, NO_ARG },
	[VT_CALL_cuMemUnmap] = { 552, UNMAPS, 0, 1, NO_ARG },
	[VT_CALL_cuCtxDestroy_v2] = { 322, DESTROYS_CONTEXT, 0, 0, NO_ARG },
	[VT_CALL_cuDevicePrimaryCtxReset] = { 389, RESETS_DEVICE, 0, 0, NO_ARG },
	[VT_CALL_cuDevicePrimaryCtxReset_v2] = { 545, RESETS_DEVICE, 0, 0, NO_ARG },
	[VT_CALL_cudaMalloc] = { 0, ALLOCATES, VT_DRIVER_DEVICE, 1, NO_ARG },
	[VT_CALL_cudaMallocPitch] = { 0, ALLOCATES_PITCHED, VT_DRIVER_DEVICE, 3, NO_ARG },
	[VT_CALL_cudaMallocManaged] = { 0, ALLOCATES, VT_DRIVER_MANAGED, 1, NO_ARG },
	[VT_CALL_cudaMallocHost] = { 0, ALLOCATES, VT_DRIVER_HOST, 1, NO_ARG },
	[VT_CALL_cudaHostAlloc] = { 0, ALLOCATES, VT_DRIVER_HOST, 1, NO_ARG },
	[VT_CALL_cudaMallocAsync] = { 0, ALLOCATES, VT_DRIVER_ASYNC, 1, 2 },
	[VT_CALL_cudaMallocAsync_ptsz] = { 0, ALLOCATES, VT_DRIVER_ASYNC, 1, 2 },
	[VT_CALL_cudaMallocFromPoolAsync] = { 0, ALLOCATES, VT_DRIVER_ASYNC, 1, 3 },
	[VT_CALL_cudaMallocFromPoolAsync_ptsz] = { 0, ALLOCATES, VT_DRIVER_ASYNC, 1, 3 },
	[VT_CALL_cudaFree] = { 0, FREES, 0, 0, NO_ARG },
	[VT_CALL_cudaFreeHost] = { 0, FREES, 0, 0, NO_ARG },
	[VT_CALL_cudaFreeAsync] = { 0, FREES, 0, 0, NO_ARG },
	[VT_CALL_cudaFreeAsync_ptsz] = { 0, FREES, 0, 0, NO_ARG },
	[VT_CALL_cudaDeviceReset] = { 0, RESETS_CURRENT, 0, 0, NO_ARG },
};

uint32_t vt_rec_driver_cbid(enum vt_recorder_call call)
{
	return calls[call].cbid;
}

/*
 * The device of the thread's current context. This call takes no lock of the driver and is not
 * followed, so it is safe inside a callback of CUPTI, too.
 */
static int current_device(void)
{
	int (*get)(int *device) = (int (*)(int *))vt_recorder.config.imports.cuCtxGetDevice;
	int device;

	return get && !get(&device) && device >= 0 && device <= INT16_MAX ? device : -1;
}

static uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

/* CUmemAllocationProp: type, handle types, then the location (its type and its number). */
static int device_of_prop(uint64_t prop)
{
	const int *words = (const int *)prop;

	return words && words[2] == CU_MEM_LOCATION_TYPE_DEVICE && words[3] >= 0 &&
			       words[3] <= INT16_MAX ?
		       words[3] :
		       -1;
}

static uint64_t requested(const struct call *call, const uint64_t *args, bool done)
{
	if (call->what != ALLOCATES_PITCHED)
		return args[call->size];
	/*
	 * cuMemAllocPitch(address *, pitch *, width, height, ...): the pitch is known afterwards.
	 */
	return (done ? word_at(args[1]) : args[2]) * args[3];
}

static void keep_driver_block(const struct call *call, uint64_t addr, uint64_t size,
			      const uint64_t *args, const struct vt_rec_regs *regs)
{
	struct vt_recorder_driver_block block = {
		.addr = addr,
		.size = size,
		.stream = call->stream == NO_ARG ? 0 : args[call->stream],
		.device = -1,
		.kind = call->kind,
	};

	if (!addr || !size)
		return;
	if (call->what == MAPS)
		block.device = (int16_t)vt_rec_handle_map(args[3]);
	else if (call->kind != VT_DRIVER_HOST)
		block.device = (int16_t)current_device();
	block.time = (uint32_t)vt_rec_now();
	block.tid = vt_rec_tid();
	block.stack = vt_rec_stack_here(regs);
	vt_rec_driver_put(&block);
	__atomic_add_fetch(&vt_recorder.driver_allocations, 1, __ATOMIC_RELAXED);
}

static void done(const struct call *call, const uint64_t *args, uint32_t before,
		 const struct vt_rec_regs *regs)
{
	switch (call->what) {
	case ALLOCATES:
	case ALLOCATES_PITCHED:
		keep_driver_block(call, word_at(args[0]), requested(call, args, true), args, regs);
		return;
	case MAPS:
		keep_driver_block(call, args[0], args[1], args, regs);
		return;
	case CREATES:
		vt_rec_handle_put(word_at(args[0]), device_of_prop(args[2]));
		return;
	case RELEASES:
		vt_rec_handle_remove(args[0]);
		return;
	case FREES:
		vt_rec_driver_remove(args[0], before);
		break;
	case UNMAPS:
		vt_rec_driver_remove_range(args[0], args[1], before);
		break;
	case RESETS_DEVICE:
		vt_rec_names_forget();
		vt_rec_driver_remove_device((int)(uint32_t)args[0], before);
		return;
	case RESETS_CURRENT:
		vt_rec_names_forget();
		vt_rec_driver_remove_device(current_device(), before);
		return;
	case DESTROYS_CONTEXT:
		vt_rec_names_forget();
		/*
		 * Its device can no longer be queried. A missing record is better than a wrong one.
		 */
		vt_rec_driver_remove_device(-1, before);
		return;
	default:
		return;
	}
	__atomic_add_fetch(&vt_recorder.driver_frees, 1, __ATOMIC_RELAXED);
}

/* ---- out of memory ---- */

void vt_rec_entry_allocate(void); /* entry.S: the first of the entries of PyTorch's allocator */
extern const uint8_t vt_rec_entries_end[];

static bool is_in_entry(uint64_t pc)
{
	return pc > (uint64_t)vt_rec_entry_allocate && pc < (uint64_t)vt_rec_entries_end;
}

/*
 * Whether PyTorch's allocator made the call: it frees what it has cached and tries again, and when
 * it gives up it throws, which is seen elsewhere (oom.c). Without native frames there is no
 * unwinding; then any word of the stack that is a return address into an entry counts, even a stale
 * one. That may lose an event, but never invents one.
 */
static bool is_pytorchs(const struct vt_rec_regs *regs)
{
	static const uint32_t max_words = 32768;
	uint64_t words[64];
	struct vt_rec_frames frames;
	bool found = false;

	frames.n_python = frames.n_words_python = frames.n_native = frames.flags = 0;
	if (vt_rec_enter()) {
		vt_rec_native_capture(regs, &frames);
		vt_rec_leave();
	}
	for (uint16_t i = 0; i < frames.n_native && !found; i++)
		found = is_in_entry(frames.words[i]);
	if (frames.n_native > 1)
		return found;
	for (uint64_t i = 0; i < max_words && !found; i += 64) {
		if (vt_sys_peek(regs->sp + i * sizeof(words[0]), words, sizeof(words)))
			break;
		for (unsigned int k = 0; k < 64 && !found; k++)
			found = is_in_entry(words[k]);
	}
	return found;
}

static bool allocates(const struct call *call)
{
	return call->what == ALLOCATES || call->what == ALLOCATES_PITCHED || call->what == CREATES;
}

void vt_rec_driver_call(enum vt_recorder_call which, const uint64_t *args, int result,
			uint32_t before, const struct vt_rec_regs *regs)
{
	const struct call *call = &calls[which];

	/*
	 * This may wait for a watcher, so it must not be between vt_rec_enter() and vt_rec_leave().
	 */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && allocates(call) && vt_rec_is_on() &&
	    !is_pytorchs(regs))
		vt_rec_out_of_memory(VT_OOM_DRIVER, requested(call, args, false), result, regs);
	if (result || !vt_rec_enter())
		return;
	done(call, args, before, regs);
	vt_rec_leave();
}
