/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a process has in use on devices, as a profile. */
#ifndef VT_REPORT_PROFILE_MEMORY_H
#define VT_REPORT_PROFILE_MEMORY_H

#include "report/profile/profile.h"
#include "report/writer.h"

/*
 * One sample for the blocks that have everything in common. PyTorch's add up to what it has in use.
 * Their stack is the recorded backtrace, or else the way to their owner. What other libraries have
 * in use is there, too, by the same counts as in the report.
 */
void vt_profile_of_memory(struct vt_profile *profile, const struct vt_model *model);

/* Of a struct vt_model. */
vt_write_fn vt_write_report_pprof;
vt_write_fn vt_write_report_speedscope;
vt_write_fn vt_write_report_folded;

#endif
