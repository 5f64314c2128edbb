/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/again.c: the streams are asked once more, after the last look. */
#ifndef VT_COLLECT_AGAIN_STREAMS_H
#define VT_COLLECT_AGAIN_STREAMS_H

#include "collect/collect.h"
#include "target/glance.h"

/*
 * Into the report's model, if a stream had unfinished work in the report. Runs code in the process
 * and stops it, as the report did; what was not allowed then has left no such stream. options: the
 * report's. first: of the process that it is about; what another one answers does not count.
 */
void vt_again_streams_ask(const struct vt_subject *subject,
			  const struct vt_collect_options *options, const struct vt_glances *first,
			  struct vt_model *model);

#endif
