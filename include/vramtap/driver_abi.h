/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the helper needs of the CUDA driver API's types: its binary interface, which never changes
 * (the driver gives a function whose signature changes a new name). So building takes no header of
 * NVIDIA's, whose packages have gigabytes or cannot be had everywhere.
 * tests/unit/helper/driver_abi.sh compares them with NVIDIA's, where there are any.
 */
#ifndef VRAMTAP_DRIVER_ABI_H
#define VRAMTAP_DRIVER_ABI_H

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUstream_st *CUstream;

typedef struct {
	char bytes[16];
} CUuuid;

typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
} CUresult;

typedef enum {
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
} CUdevice_attribute;

typedef enum {
	CU_EVENT_DISABLE_TIMING = 2,
} CUevent_flags;

typedef enum {
	CU_LIMIT_STACK_SIZE = 0,
} CUlimit;

typedef enum {
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

/* helper/ranges_what.c has those that are asked for. */
typedef int CUpointer_attribute;

typedef enum {
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

#define CU_STREAM_LEGACY ((CUstream)0x1)

#endif
