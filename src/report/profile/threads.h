/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of processes are, as a profile. */
#ifndef VT_REPORT_PROFILE_THREADS_H
#define VT_REPORT_PROFILE_THREADS_H

#include "report/profile/profile.h"
#include "report/writer.h"

/*
 * Each thread counts once. A process is a group; each of its threads, and its asyncio tasks, are
 * groups that repeat it.
 */
void vt_profile_of_threads(struct vt_profile *profile, const struct vt_stacks_document *document);

/* Of a struct vt_stacks_document. */
vt_write_fn vt_write_stacks_speedscope;
vt_write_fn vt_write_stacks_folded;

#endif
