/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space in the target for the stub (zero padding behind a text segment) and for what the stub maps
 * (a hole in the map).
 */
#ifndef VT_INJECT_SPACE_H
#define VT_INJECT_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "target/maps.h"

/*
 * Finds room for a stub of these bytes: where the same bytes already are (*present), else zeros.
 * VT_ERR_UNSUPPORTED when there is no room anywhere.
 */
struct vt_error *vt_space_for_stub(struct vt_modules *modules, struct vt_live *live,
				   const uint8_t *stub, size_t size, uint64_t *addr, bool *present);

/* Where user addresses end, as far as the maps show it: a power of two. */
uint64_t vt_space_end(const struct vt_maps *maps);

/*
 * A random page-aligned address with size unused bytes behind it, and some unused room around.
 * VT_ERR_UNSUPPORTED.
 */
struct vt_error *vt_space_for_region(const struct vt_maps *maps, uint64_t size, uint64_t *addr);

#endif
