/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further looks at a process of which there is a report, without a stop: which threads ran, and
 * which moved. The first look is the report's own.
 */
#ifndef VT_COLLECT_AGAIN_H
#define VT_COLLECT_AGAIN_H

#include "collect/collect.h"

struct vt_again;

/*
 * Right after vt_collect_report(), which got the same subject and options. NULL: there is nothing
 * to look at again, which is no error: a core, a process that is stopped or held, without threads,
 * or no memory.
 */
struct vt_again *vt_again_begin(const struct vt_subject *subject,
				const struct vt_collect_options *options, struct vt_model *model);

/* When the first look's successor is due, interval_ns after the last one; CLOCK_MONOTONIC. */
uint64_t vt_again_due(const struct vt_again *again, uint64_t interval_ns);

/*
 * One more look. False: it was the last one, for the process has ended, has become another one, or
 * cannot be looked at any more.
 */
bool vt_again_look(struct vt_again *again);

/* The verdict and its headline, in the model; releases again (NULL is fine). */
void vt_again_end(struct vt_again *again, uint64_t interval_ns, bool interrupted);

#endif
