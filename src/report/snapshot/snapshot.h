/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.cuda.memory._snapshot() would have returned in the process at that moment, as the
 * pickle that torch.cuda.memory._dump_snapshot() writes of it: for memory_viz and the functions of
 * torch.cuda._memory_viz. vramtap adds only what their readers show or pass over:
 *
 * - in a block with a known owner "user_metadata", a dict;
 * - in such a block without a backtrace, where PyTorch would have written no frames, frames whose
 *   "filename" is VT_SNAPSHOT_FILE: the owner, then its category;
 * - "vramtap", a dict about the file, also how many segments and blocks have no frames because
 *   their recorded backtraces could not be read.
 */
#ifndef VT_REPORT_SNAPSHOT_SNAPSHOT_H
#define VT_REPORT_SNAPSHOT_SNAPSHOT_H

#include "report/writer.h"

/* In the angle brackets of what is no file, as Python's "<string>". */
#define VT_SNAPSHOT_FILE "<vramtap>"

/*
 * Why there is no snapshot of a struct vt_model, NULL if there is one: there is no allocator whose
 * blocks can be listed, or it is not known for sure what they are. Part of a snapshot would look
 * like a whole one.
 */
struct vt_error *vt_snapshot_refuse(const void *what);

/* Of one that is not refused. */
vt_write_fn vt_write_report_snapshot;

#endif
