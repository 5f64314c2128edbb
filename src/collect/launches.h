/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/recorded.c. */
#ifndef VT_COLLECT_LAUNCHES_H
#define VT_COLLECT_LAUNCHES_H

#include "base/map.h"
#include "collect/collect.h"

/* Gives the model's launches their names. */
void vt_collect_name_launches(struct vt_collect *c);
/* launch_values.c */
void vt_collect_launch_values(struct vt_collect *c);

#endif
