/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the driver from a library of its own, as PyTorch's are: the recorder sees those that go
 * through pointers in memory. Python's ctypes has none that it could change.
 * On a machine without a compiler bring it along, beside vramtap:
 * cc -shared -fPIC -O1 -o values.so tests/gpu/values.c -ldl
 */
#include <dlfcn.h>
#include <stdint.h>

static int (*wait)(void *, uint64_t, unsigned, unsigned);
static int (*write_to)(void *, uint64_t, unsigned, unsigned);

int init(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	*(void **)&wait = dlsym(driver, "cuStreamWaitValue32_v2");
	*(void **)&write_to = dlsym(driver, "cuStreamWriteValue32_v2");

	return wait && write_to;
}

int wait_value(void *stream, uint64_t at, unsigned value)
{
	return wait(stream, at, value, 0);
}

int write_value(void *stream, uint64_t at, unsigned value)
{
	return write_to(stream, at, value, 0);
}
