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

enum vt_recorder_call {
#define X(name) VT_CALL_##name,
	VT_RECORDER_DRIVER_CALLS(X) VT_RECORDER_RUNTIME_CALLS(X)
#undef X
		VT_N_CALLS
};

#endif
