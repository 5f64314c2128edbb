/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the error codes that the stand-in returns. */
#include "sim.h"

static const struct {
	int code;
	const char *driver, *runtime, *text;
} errors[] = {
	{ 0, "CUDA_SUCCESS", "cudaSuccess", "no error" },
	{ 1, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError", "initialization error" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice", "no CUDA-capable device is detected" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "cudaErrorInvalidDevice", "invalid device ordinal" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "cudaErrorDeviceUninitialized",
	  "invalid device context" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle",
	  "invalid resource handle" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound", "named symbol not found" },
	{ 600, "CUDA_ERROR_NOT_READY", "cudaErrorNotReady", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress",
	  "an illegal memory access was encountered" },
	{ 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "cudaErrorPeerAccessAlreadyEnabled",
	  "peer access is already enabled" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "cudaErrorHostMemoryAlreadyRegistered",
	  "part or all of the requested memory range is already mapped" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "cudaErrorHostMemoryNotRegistered",
	  "pointer does not correspond to a registered memory region" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure", "unspecified launch failure" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported", "operation not supported" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cudaErrorStreamCaptureUnsupported",
	  "operation not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "cudaErrorStreamCaptureInvalidated",
	  "operation failed due to a previous error during capture" },
};

static int find(int code)
{
	for (int i = 0; i < (int)(sizeof(errors) / sizeof(errors[0])); i++)
		if (errors[i].code == code)
			return i;
	return -1;
}

const char *sim_error_name(int error)
{
	int i = find(error);

	return i < 0 ? "CUDA_ERROR_UNKNOWN" : errors[i].driver;
}

const char *sim_error_name_rt(int error)
{
	int i = find(error);

	return i < 0 ? "cudaErrorUnknown" : errors[i].runtime;
}

const char *sim_error_text(int error)
{
	int i = find(error);

	return i < 0 ? "unknown error" : errors[i].text;
}
