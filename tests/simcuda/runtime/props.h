/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of struct cudaDeviceProp that the stand-in fills: X(member, CUdevice_attribute,
 * width, offset in CUDA 12, offset in CUDA 13). The structure lost nine members between the two;
 * that of CUDA 11 is the beginning of that of CUDA 12, in its offsets and its members.
 */
#define PROP_SIZE_11 728
#define PROP_SIZE_12 1032
#define PROP_SIZE_13 1008

#define PROP_MEMBERS(X)                                 \
	X(sharedMemPerBlock, 8, 8, 296, 296)            \
	X(regsPerBlock, 12, 4, 304, 304)                \
	X(warpSize, 10, 4, 308, 308)                    \
	X(memPitch, 11, 8, 312, 312)                    \
	X(maxThreadsPerBlock, 1, 4, 320, 320)           \
	X(maxThreadsDim[0], 2, 4, 324, 324)             \
	X(maxThreadsDim[1], 3, 4, 328, 328)             \
	X(maxThreadsDim[2], 4, 4, 332, 332)             \
	X(maxGridSize[0], 5, 4, 336, 336)               \
	X(maxGridSize[1], 6, 4, 340, 340)               \
	X(maxGridSize[2], 7, 4, 344, 344)               \
	X(totalConstMem, 9, 8, 352, 352)                \
	X(major, 75, 4, 360, 360)                       \
	X(minor, 76, 4, 364, 364)                       \
	X(textureAlignment, 14, 8, 368, 368)            \
	X(multiProcessorCount, 16, 4, 388, 384)         \
	X(canMapHostMemory, 19, 4, 400, 392)            \
	X(concurrentKernels, 31, 4, 576, 560)           \
	X(pciBusID, 33, 4, 584, 568)                    \
	X(asyncEngineCount, 40, 4, 600, 584)            \
	X(unifiedAddressing, 41, 4, 604, 588)           \
	X(memoryBusWidth, 37, 4, 612, 592)              \
	X(l2CacheSize, 38, 4, 616, 596)                 \
	X(maxThreadsPerMultiProcessor, 39, 4, 624, 604) \
	X(streamPrioritiesSupported, 78, 4, 628, 608)   \
	X(sharedMemPerMultiprocessor, 81, 8, 640, 624)  \
	X(regsPerMultiprocessor, 82, 4, 648, 632)       \
	X(managedMemory, 83, 4, 652, 636)               \
	X(cooperativeLaunch, 95, 4, 688, 668)           \
	X(sharedMemPerBlockOptin, 97, 8, 696, 672)      \
	X(maxBlocksPerMultiProcessor, 106, 4, 712, 688) \
	X(reservedSharedMemPerBlock, 111, 8, 720, 696)  \
	PROP_MEMBERS_SINCE_12(X)

#define PROP_MEMBERS_SINCE_12(X)                  \
	X(hostRegisterSupported, 99, 4, 728, 704) \
	X(memoryPoolsSupported, 115, 4, 744, 720) \
	X(clusterLaunch, 120, 4, 772, 748)
