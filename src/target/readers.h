/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that copy memory of another process together: one alone copies some 5 GB/s, and the
 * target may be stopped for as long as the copy takes. They sleep until there is something to copy.
 */
#ifndef VT_TARGET_READERS_H
#define VT_TARGET_READERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "vramtap/mem.h"

struct vt_readers; /* opaque */

/* How many threads would have a processor besides the caller's at this moment. */
unsigned int vt_readers_useful(void);

/* n threads (a few at most) in addition to the caller's. NULL when there are none. */
struct vt_readers *vt_readers_create(unsigned int n);
void vt_readers_destroy(struct vt_readers *readers);

/*
 * Copies all of vec from the process of the thread tid, with process_vm_readv(). False: some parts
 * are missing, and it is not known which. The caller's thread takes part.
 */
bool vt_readers_copy(struct vt_readers *readers, pid_t tid, const struct vt_memvec *vec, size_t n);

#endif
