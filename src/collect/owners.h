/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/owners*.c. */
#ifndef VT_COLLECT_OWNERS_H
#define VT_COLLECT_OWNERS_H

#include "collect/collect.h"

/* collect/owners_unseen.c: names what is in no tensor, where that is much. */
void vt_collect_owners_unseen(struct vt_collect *c);

#endif
