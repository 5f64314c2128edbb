/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/aarch64/pthread.h"

/*
 * It ends where the thread pointer points to, and begins with 24 words of padding, no word of which
 * points to itself. A list follows, in which every thread is (nptl/descr.h, since 2.4).
 */
#define LIST 192
#define NEXT 0
#define PREV 8

static bool is_one(struct vt_memsrc *src, uint64_t pthread)
{
	uint64_t list = pthread + LIST, next, prev, back, forth;

	return !vt_mem_read_u64(src, list + NEXT, &next) &&
	       !vt_mem_read_u64(src, list + PREV, &prev) &&
	       !vt_mem_read_u64(src, next + PREV, &back) && back == list &&
	       !vt_mem_read_u64(src, prev + NEXT, &forth) && forth == list;
}

const struct vt_arch_pthread vt_aarch64_pthread = { .tid = 208, .is_one = is_one };
