/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/owners*.c. */
#ifndef VT_COLLECT_OWNERS_H
#define VT_COLLECT_OWNERS_H

#include "collect/collect.h"

struct vt_owners;

/* collect/owners_native.c: names what only C++ holds, where it is known how. */
void vt_collect_owners_native(struct vt_collect *c, struct vt_owners *owners);

/* collect/owners_unseen.c: searches all memory for who holds the rest: some seconds. */
void vt_collect_owners_unseen(struct vt_collect *c);

#endif
