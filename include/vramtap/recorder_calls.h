/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the driver and of the runtime whose calls the recorder follows. A tool writes
 * their numbers to struct vt_recorder_got.function. Each function has the same position in each of
 * the lists below.
 */
#ifndef VRAMTAP_RECORDER_CALLS_H
#define VRAMTAP_RECORDER_CALLS_H

/*
 * Of libcuda: seen through CUPTI, and through global offset tables where a library is linked
 * against libcuda.
 */
#define VT_RECORDER_DRIVER_CALLS(X)     \
	X(cuMemAlloc_v2)                \
	X(cuMemAllocPitch_v2)           \
	X(cuMemAllocManaged)            \
	X(cuMemAllocHost_v2)            \
	X(cuMemHostAlloc)               \
	X(cuMemHostAlloc_v2)            \
	X(cuMemAllocAsync)              \
	X(cuMemAllocAsync_ptsz)         \
	X(cuMemAllocFromPoolAsync)      \
	X(cuMemAllocFromPoolAsync_ptsz) \
	X(cuMemFree_v2)                 \
	X(cuMemFreeHost)                \
	X(cuMemFreeAsync)               \
	X(cuMemFreeAsync_ptsz)          \
	X(cuMemCreate)                  \
	X(cuMemRelease)                 \
	X(cuMemMap)                     \
	X(cuMemUnmap)                   \
	X(cuCtxDestroy_v2)              \
	X(cuDevicePrimaryCtxReset)      \
	X(cuDevicePrimaryCtxReset_v2)

/*
 * Of libcudart, which calls the driver through pointers of its own: seen through global offset
 * tables only.
 */
#define VT_RECORDER_RUNTIME_CALLS(X)    \
	X(cudaMalloc)                   \
	X(cudaMallocPitch)              \
	X(cudaMallocManaged)            \
	X(cudaMallocHost)               \
	X(cudaHostAlloc)                \
	X(cudaMallocAsync)              \
	X(cudaMallocAsync_ptsz)         \
	X(cudaMallocFromPoolAsync)      \
	X(cudaMallocFromPoolAsync_ptsz) \
	X(cudaFree)                     \
	X(cudaFreeHost)                 \
	X(cudaFreeAsync)                \
	X(cudaFreeAsync_ptsz)           \
	X(cudaDeviceReset)

/*
 * What puts work into a stream, waits for it, or captures it (launches.c). Each is followed in the
 * words of libraries: their global offset tables, and variables that hold the function's address.
 * DRIVER(X), then RUNTIME(X). _ptsz: of programs with a default stream for each thread.
 */
#define VT_RECORDER_DRIVER_LAUNCHES(X)      \
	X(cuLaunchKernel)                   \
	X(cuLaunchKernel_ptsz)              \
	X(cuLaunchKernelEx)                 \
	X(cuLaunchKernelEx_ptsz)            \
	X(cuLaunchCooperativeKernel)        \
	X(cuLaunchCooperativeKernel_ptsz)   \
	X(cuGraphLaunch)                    \
	X(cuGraphLaunch_ptsz)               \
	X(cuLaunchHostFunc)                 \
	X(cuLaunchHostFunc_ptsz)            \
	X(cuStreamWaitValue32_v2)           \
	X(cuStreamWaitValue32_v2_ptsz)      \
	X(cuStreamWaitValue64_v2)           \
	X(cuStreamWaitValue64_v2_ptsz)      \
	X(cuStreamWriteValue32_v2)          \
	X(cuStreamWriteValue32_v2_ptsz)     \
	X(cuStreamWriteValue64_v2)          \
	X(cuStreamWriteValue64_v2_ptsz)     \
	X(cuStreamBatchMemOp_v2)            \
	X(cuStreamBatchMemOp_v2_ptsz)       \
	X(cuStreamWaitEvent)                \
	X(cuStreamWaitEvent_ptsz)           \
	X(cuEventRecord)                    \
	X(cuEventRecord_ptsz)               \
	X(cuEventRecordWithFlags)           \
	X(cuEventRecordWithFlags_ptsz)      \
	X(cuStreamSynchronize)              \
	X(cuStreamSynchronize_ptsz)         \
	X(cuStreamQuery)                    \
	X(cuStreamQuery_ptsz)               \
	X(cuCtxSynchronize)                 \
	X(cuStreamBeginCapture)             \
	X(cuStreamBeginCapture_ptsz)        \
	X(cuStreamBeginCapture_v2)          \
	X(cuStreamBeginCapture_v2_ptsz)     \
	X(cuStreamBeginCaptureToGraph)      \
	X(cuStreamBeginCaptureToGraph_ptsz) \
	X(cuStreamEndCapture)               \
	X(cuStreamEndCapture_ptsz)          \
	X(cuModuleUnload)                   \
	X(cuLibraryUnload)                  \
	X(cuStreamDestroy_v2)               \
	X(cuDevicePrimaryCtxRelease_v2)

#define VT_RECORDER_RUNTIME_LAUNCHES(X)       \
	X(cudaLaunchKernel)                   \
	X(cudaLaunchKernel_ptsz)              \
	X(__cudaLaunchKernel)                 \
	X(__cudaLaunchKernel_ptsz)            \
	X(cudaLaunchKernelExC)                \
	X(cudaLaunchKernelExC_ptsz)           \
	X(cudaLaunchCooperativeKernel)        \
	X(cudaLaunchCooperativeKernel_ptsz)   \
	X(cudaGraphLaunch)                    \
	X(cudaGraphLaunch_ptsz)               \
	X(cudaLaunchHostFunc)                 \
	X(cudaLaunchHostFunc_ptsz)            \
	X(cudaStreamWaitEvent)                \
	X(cudaStreamWaitEvent_ptsz)           \
	X(cudaEventRecord)                    \
	X(cudaEventRecord_ptsz)               \
	X(cudaEventRecordWithFlags)           \
	X(cudaEventRecordWithFlags_ptsz)      \
	X(cudaStreamSynchronize)              \
	X(cudaStreamSynchronize_ptsz)         \
	X(cudaStreamQuery)                    \
	X(cudaStreamQuery_ptsz)               \
	X(cudaDeviceSynchronize)              \
	X(cudaStreamBeginCapture)             \
	X(cudaStreamBeginCapture_ptsz)        \
	X(cudaStreamBeginCaptureToGraph)      \
	X(cudaStreamBeginCaptureToGraph_ptsz) \
	X(cudaStreamEndCapture)               \
	X(cudaStreamEndCapture_ptsz)          \
	X(cudaStreamDestroy)                  \
	X(__cudaUnregisterFatBinary)

#define VT_RECORDER_CALLS(X) VT_RECORDER_DRIVER_CALLS(X) VT_RECORDER_RUNTIME_CALLS(X)
#define VT_RECORDER_LAUNCHES(X) VT_RECORDER_DRIVER_LAUNCHES(X) VT_RECORDER_RUNTIME_LAUNCHES(X)

enum vt_recorder_call {
#define X(name) VT_CALL_##name,
	VT_RECORDER_CALLS(X)
#undef X
		VT_N_CALLS, /* that allocate or free; those that launch follow */
	VT_CALL_BEFORE_LAUNCHES = VT_N_CALLS - 1,
#define X(name) VT_CALL_##name,
	VT_RECORDER_LAUNCHES(X)
#undef X
		VT_N_ALL_CALLS
};

#endif
