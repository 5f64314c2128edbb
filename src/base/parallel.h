/* SPDX-License-Identifier: Apache-2.0 */
/* A loop whose turns do not depend on each other, on several processors. */
#ifndef VT_BASE_PARALLEL_H
#define VT_BASE_PARALLEL_H

#include <stddef.h>

/*
 * Calls turn(arg, first, end) for parts of [0, n), at most grain items each, in no order, from the
 * caller's thread and up to `threads` more (a few at most). Returns when all are done. With fewer
 * threads, or none, it takes longer.
 */
void vt_parallel(unsigned int threads, size_t n, size_t grain,
		 void (*turn)(void *arg, size_t first, size_t end), void *arg);

#endif
