/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of our own. A child that the process forks while we have it does not inherit it. */
#ifndef VT_HELPER_MAP_H
#define VT_HELPER_MAP_H

#include <stdint.h>

/* Zeros; NULL when there is no memory. flags: more of mmap()'s. */
void *vt_helper_map(uint64_t size, long flags);
void vt_helper_unmap(void *p, uint64_t size); /* NULL is fine */

#endif
