/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "inject/cuda_imports.h"

/*
 * Which field comes from which library under which names, the newest first. cuda.h renames
 * functions whose parameters changed (cuMemGetInfo to cuMemGetInfo_v2, with size_t for unsigned
 * int); only names with today's parameters are listed. File names are those that maps shows:
 * libcuda.so.580.65.06, libc-2.31.so, libcudart-e409450e.so.11.0 in older wheels.
 */
static const struct import {
	const char *prefix;
	size_t field;
	const char *names[2];
} imports_table[] = {
#define FIELD(name) offsetof(struct vt_helper_imports, name)
	/* Threads are in libc since glibc 2.34, before in libpthread. */
	{ "libc.so", FIELD(mutex_trylock), { "pthread_mutex_trylock" } },
	{ "libc.so", FIELD(mutex_unlock), { "pthread_mutex_unlock" } },
	{ "libpthread", FIELD(mutex_trylock), { "pthread_mutex_trylock" } },
	{ "libpthread", FIELD(mutex_unlock), { "pthread_mutex_unlock" } },
	{ "libcuda.so", FIELD(cuDriverGetVersion), { "cuDriverGetVersion" } },
	{ "libcuda.so", FIELD(cuDeviceGetCount), { "cuDeviceGetCount" } },
	{ "libcuda.so", FIELD(cuDeviceGet), { "cuDeviceGet" } },
	{ "libcuda.so", FIELD(cuDeviceGetName), { "cuDeviceGetName" } },
	{ "libcuda.so", FIELD(cuDeviceTotalMem), { "cuDeviceTotalMem_v2" } },
	{ "libcuda.so", FIELD(cuDeviceGetUuid), { "cuDeviceGetUuid_v2", "cuDeviceGetUuid" } },
	{ "libcuda.so", FIELD(cuDevicePrimaryCtxGetState), { "cuDevicePrimaryCtxGetState" } },
	{ "libcuda.so", FIELD(cuDevicePrimaryCtxRetain), { "cuDevicePrimaryCtxRetain" } },
	{ "libcuda.so",
	  FIELD(cuDevicePrimaryCtxRelease),
	  { "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease" } },
	{ "libcuda.so", FIELD(cuCtxPushCurrent), { "cuCtxPushCurrent_v2" } },
	{ "libcuda.so", FIELD(cuCtxPopCurrent), { "cuCtxPopCurrent_v2" } },
	{ "libcuda.so", FIELD(cuMemGetInfo), { "cuMemGetInfo_v2" } },
	{ "libcuda.so", FIELD(cuDeviceGetDefaultMemPool), { "cuDeviceGetDefaultMemPool" } },
	{ "libcuda.so", FIELD(cuDeviceGetMemPool), { "cuDeviceGetMemPool" } },
	{ "libcuda.so", FIELD(cuMemPoolGetAttribute), { "cuMemPoolGetAttribute" } },
	{ "libcuda.so",
	  FIELD(cuThreadExchangeStreamCaptureMode),
	  { "cuThreadExchangeStreamCaptureMode" } },
	{ "libcuda.so", FIELD(cuMemGetAddressRange), { "cuMemGetAddressRange_v2" } },
	{ "libcuda.so", FIELD(cuPointerGetAttribute), { "cuPointerGetAttribute" } },
	{ "libcuda.so", FIELD(cuPointerGetAttributes), { "cuPointerGetAttributes" } },
	{ "libcuda.so", FIELD(cuDeviceGetGraphMemAttribute), { "cuDeviceGetGraphMemAttribute" } },
	{ "libcuda.so", FIELD(cuDeviceGetAttribute), { "cuDeviceGetAttribute" } },
	{ "libcuda.so", FIELD(cuCtxGetLimit), { "cuCtxGetLimit" } },
	{ "libcuda.so", FIELD(cuStreamIsCapturing), { "cuStreamIsCapturing" } },
	{ "libcuda.so", FIELD(cuStreamQuery), { "cuStreamQuery" } },
	{ "libcuda.so", FIELD(cuCtxRecordEvent), { "cuCtxRecordEvent" } },
	{ "libcuda.so", FIELD(cuEventCreate), { "cuEventCreate" } },
	{ "libcuda.so", FIELD(cuEventQuery), { "cuEventQuery" } },
	{ "libcuda.so", FIELD(cuEventDestroy), { "cuEventDestroy_v2" } },
	{ "libcudart", FIELD(cudaMemGetInfo), { "cudaMemGetInfo" } },
	{ "libcudart", FIELD(cudaRuntimeGetVersion), { "cudaRuntimeGetVersion" } },
#undef FIELD
};

#define N_IMPORTS (sizeof(imports_table) / sizeof(imports_table[0]))

static uint64_t *field_of(struct vt_helper_imports *imports, const struct import *import)
{
	return (uint64_t *)((char *)imports + import->field);
}

/*
 * Looks up all names that this library can have, in one pass; the first library that has a name
 * wins.
 */
static void look_in_module(struct vt_modules *modules, struct vt_module *module, const char *prefix,
			   struct vt_helper_imports *imports)
{
	const char *names[2 * N_IMPORTS];
	uint64_t addrs[2 * N_IMPORTS] = { 0 };
	size_t which[2 * N_IMPORTS], n = 0;

	for (size_t i = 0; i < N_IMPORTS; i++) {
		for (size_t k = 0;
		     k < 2 && imports_table[i].names[k] && !strcmp(imports_table[i].prefix, prefix);
		     k++) {
			names[n] = imports_table[i].names[k];
			which[n++] = i;
		}
	}
	struct vt_error *err VT_ERROR = vt_module_dynsyms(modules, module, names, n, addrs);

	if (err)
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t *field = field_of(imports, &imports_table[which[i]]);

		if (!*field)
			*field = addrs[i];
	}
}

void vt_cuda_imports(struct vt_modules *modules, struct vt_helper_imports *imports)
{
	static const struct {
		const char *file, *prefix; /* file name to look for, rows to take */
	} libraries[] = {
		{ "libc.so", "libc.so" },
		{ "libpthread", "libpthread" }, /* before libc-2: here it has the real functions */
		{ "libc-2", "libc.so" },
		{ "libcuda.so", "libcuda.so" },
		{ "libcudart", "libcudart" },
	};

	memset(imports, 0, sizeof(*imports));
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		struct vt_module *module;
		size_t index = 0;

		while ((module = vt_modules_by_name(modules, libraries[i].file, &index)))
			look_in_module(modules, module, libraries[i].prefix, imports);
	}
}
