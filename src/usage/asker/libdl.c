/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the C library when the asker is linked, so that it wants dlopen() and dlsym() of no
 * particular version: glibc has had them in libdl.so.2, and since 2.34 in libc.so.6. It is never
 * loaded.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT void *dlopen(const char *file, int mode);
void *dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return 0;
}

EXPORT void *dlsym(void *handle, const char *name);
void *dlsym(void *handle, const char *name)
{
	(void)handle, (void)name;
	return 0;
}
