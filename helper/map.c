/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include <stddef.h>

#include "vramtap/freestanding.h"

/* From linux/mman.h; the C library's counterparts are not available here. */
#define PROT_READ_WRITE 3
#define MAP_PRIVATE_ANONYMOUS 0x22
#define MADV_DONTFORK_ 10

void *vt_helper_map(uint64_t size, long flags)
{
	long p = vt_sys6(SYS_mmap, 0, (long)size, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS | flags,
			 -1, 0);

	if (p < 0 && p > -4096)
		return NULL;
	vt_sys4(SYS_madvise, p, (long)size, MADV_DONTFORK_, 0);
	return (void *)p;
}

void vt_helper_unmap(void *p, uint64_t size)
{
	if (p)
		vt_sys2(SYS_munmap, (long)p, (long)size);
}
