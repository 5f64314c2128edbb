/* SPDX-License-Identifier: Apache-2.0 */
/* What a security module (AppArmor, SELinux) makes of this process. */
#ifndef VT_TARGET_CONFINED_H
#define VT_TARGET_CONFINED_H

#include "base/arena.h"

/*
 * Why it may be this process that is not permitted to trace, with the remedy; NULL when no module
 * confines it. The label of this process says which module it is: "docker-default (enforce)" is
 * AppArmor's word, "system_u:system_r:container_t:s0:c1,c2" SELinux's.
 */
char *vt_why_confined(struct vt_arena *arena);

#endif
