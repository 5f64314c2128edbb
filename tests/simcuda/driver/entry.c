/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: an unversioned name gets the newest version that we have. */
#define _GNU_SOURCE
#include "drv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *own_handle(void)
{
	static void *handle;
	Dl_info info;

	if (!handle && dladdr(&handle, &info))
		handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	return handle;
}

DRV(cuGetProcAddress_v2, const char *symbol, void **fn, int version, uint64_t flags, int *status)
{
	static const char *const suffixes[] = { "_v4", "_v3", "_v2", "" };
	char name[128];
	int err = sim_enter(__func__);

	(void)version, (void)flags;
	if (err)
		return err;
	*fn = NULL;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && !*fn; i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
		*fn = dlsym(own_handle(), name);
	}
	if (status)
		*status = *fn ? 0 : 1; /* CU_GET_PROC_ADDRESS_SUCCESS, ..._SYMBOL_NOT_FOUND */
	return *fn ? SIM_OK : SIM_ENOTFOUND;
}

DRV(cuGetProcAddress, const char *symbol, void **fn, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}
