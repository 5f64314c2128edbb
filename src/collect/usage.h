/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses the devices, by the kernel driver's count: what the asker says, and who they are. */
#ifndef VT_COLLECT_USAGE_H
#define VT_COLLECT_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "model/usage.h"
#include "usage/usage.h"

/*
 * Takes one more answer, to the question that was asked last, and fills usage (zeroed) with it;
 * strings are in the arena. first: the answer before it, NULL none: then it is not known whether
 * anything changed. ours: the process that the report is of, 0 none.
 */
void vt_collect_count(struct vt_usage *asker, uint64_t deadline_ns,
		      const struct vt_usage_reading *first, pid_t ours, struct vt_arena *arena,
		      struct vt_model_usage *usage);

/* Whether we are in the machine's first pid namespace, where all processes have a number. */
bool vt_usage_is_first_namespace(void);

/* There is no answer but this one, which says why. */
void vt_collect_count_none(const struct vt_usage_reading *reading, struct vt_arena *arena,
			   struct vt_model_usage *usage);

/*
 * collect/usage_who.c: what /proc shows of those that hold memory. They may have ended: those that
 * are gone have to be in an answer to a later question, too.
 */
enum vt_counted_life vt_usage_life_of(pid_t pid);
/* Names, users, containers and the like of all that are there. */
void vt_usage_identify(struct vt_model_usage *usage, struct vt_arena *arena);

#endif
