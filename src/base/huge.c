/* SPDX-License-Identifier: Apache-2.0 */
#include "base/huge.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/page.h"

#define LARGE ((size_t)4 << 20) /* malloc() gives such pieces a mapping of their own */

void vt_want_huge_pages(void *data, size_t bytes)
{
	uintptr_t page = (uintptr_t)vt_page_size();
	uintptr_t start = ((uintptr_t)data + page - 1) & ~(page - 1);
	uintptr_t end = ((uintptr_t)data + bytes) & ~(page - 1);

	if (bytes < LARGE)
		return;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	madvise((void *)start, end - start, MADV_HUGEPAGE);
}
