/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_USAGE_HEALTH_H
#define VT_USAGE_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "vramtap/usage.h"

/* The asker is not believed: what cannot be loses its bit in known. */
void vt_usage_health_check(struct vt_usage_health *health);

#endif
