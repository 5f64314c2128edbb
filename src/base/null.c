/* SPDX-License-Identifier: Apache-2.0 */
#include "base/null.h"

#include <fcntl.h>
#include <sys/mman.h>

int vt_open_null(int flags)
{
	int fd = open("/dev/null", O_RDWR | flags);

	return fd >= 0 ? fd : memfd_create("null", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}
