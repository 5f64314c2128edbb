/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_BASE_HUGE_H
#define VT_BASE_HUGE_H

#include <stddef.h>

/*
 * Asks for huge pages for memory of malloc(), if it is large enough for that. Tables of millions
 * are looked at here and there, and most looks miss the TLB; and it is a page fault instead of
 * hundreds. Only a wish: no result.
 */
void vt_want_huge_pages(void *data, size_t bytes);

#endif
