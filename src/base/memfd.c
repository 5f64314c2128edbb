/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memfd.h"

#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

int vt_memfd_create(const char *name, unsigned int flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd >= 0 ? fd : memfd_create(name, MFD_CLOEXEC | flags);
}
