/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled, never linked, where NVIDIA's headers are: are the layouts that we wrote down true? */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "runtime/props.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)

#if CUDART_VERSION < 12000
#define PROP_SIZE PROP_SIZE_11
#define FUNC_SIZE 56
#undef PROP_MEMBERS_SINCE_12
#define PROP_MEMBERS_SINCE_12(X)
#else
#define FUNC_SIZE 144
SAME(sizeof(cudaLaunchConfig_t), 56);
SAME(offsetof(cudaLaunchConfig_t, stream), 32);
#endif
#if CUDART_VERSION < 13000
#ifndef PROP_SIZE
#define PROP_SIZE PROP_SIZE_12
#endif
#define MEMBER(name, attr, width, twelve, thirteen)          \
	SAME(offsetof(struct cudaDeviceProp, name), twelve); \
	SAME(sizeof(((struct cudaDeviceProp *)0)->name), width);
#else
#define PROP_SIZE PROP_SIZE_13
#define MEMBER(name, attr, width, twelve, thirteen)            \
	SAME(offsetof(struct cudaDeviceProp, name), thirteen); \
	SAME(sizeof(((struct cudaDeviceProp *)0)->name), width);
SAME(sizeof(struct cudaPointerAttributes), 88);
#endif

SAME(sizeof(struct cudaDeviceProp), PROP_SIZE);
PROP_MEMBERS(MEMBER)
SAME(offsetof(struct cudaDeviceProp, uuid), 256);
SAME(offsetof(struct cudaDeviceProp, totalGlobalMem), 288);
SAME(sizeof(struct cudaFuncAttributes), FUNC_SIZE);
SAME(offsetof(struct cudaFuncAttributes, maxThreadsPerBlock), 24);
SAME(offsetof(struct cudaFuncAttributes, maxDynamicSharedSizeBytes), 44);
SAME(offsetof(struct cudaPointerAttributes, devicePointer), 8);
SAME(sizeof(CUmemAllocationProp), 32);
SAME(offsetof(CUmemAllocationProp, location), 8);
SAME(sizeof(CUmemAccessDesc), 12);
SAME(offsetof(CUmemAccessDesc, flags), 8);
SAME((int)CU_MEM_LOCATION_TYPE_DEVICE, 1);
SAME((int)CU_POINTER_ATTRIBUTE_CONTEXT, 1);
SAME((int)CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 19);
SAME((int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75);
SAME((int)CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102);
SAME((int)CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115);
SAME((int)CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4);
SAME((int)CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8);
SAME((int)cudaErrorMemoryAllocation, (int)CUDA_ERROR_OUT_OF_MEMORY);
SAME((int)cudaErrorNotReady, (int)CUDA_ERROR_NOT_READY);
SAME((int)cudaErrorNotSupported, (int)CUDA_ERROR_NOT_SUPPORTED);

/* What core/calls.c and driver/vmm.c say of CUPTI. */
#if __has_include(<cupti_callbacks.h>)
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, 243);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, 371);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, 245);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc, 39);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost, 38);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync, 598);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, 600);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemCreate, 549);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemRelease, 550);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemMap, 551);
SAME(CUPTI_DRIVER_TRACE_CBID_cuMemUnmap, 552);
SAME(CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2, 322);
SAME(CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2, 545);
SAME(offsetof(CUpti_CallbackData, functionParams), 16);
SAME(offsetof(CUpti_CallbackData, functionReturnValue), 24);
SAME(offsetof(CUpti_CallbackData, context), 40);
SAME(offsetof(CUpti_CallbackData, correlationData), 56);
#endif
