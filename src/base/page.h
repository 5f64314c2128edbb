/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size of pages of this kernel: what mmap() and its kin round to, and /proc/PID/pagemap counts.
 * On aarch64 a kernel is built for 4, 16 or 64 KiB. A core may be of another one.
 *
 * Constants of 4096 elsewhere are pieces that are read together: all these sizes are multiples.
 */
#ifndef VT_BASE_PAGE_H
#define VT_BASE_PAGE_H

#include <stdint.h>
#include <unistd.h>

#include "vramtap/arch.h"

/* Async-signal-safe: the C library knows it from the start. */
static inline uint64_t vt_page_size(void)
{
#ifdef VT_ARCH_PAGE
	return VT_ARCH_PAGE;
#else
	return (uint64_t)getpagesize();
#endif
}

#endif
