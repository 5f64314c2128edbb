/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process has pages of its own that can be read without harm. A read of an address that was
 * never touched makes page tables in the target, and of one that is swapped out brings it in; who
 * reads all memory reads these ranges only.
 */
#ifndef VT_TARGET_RESIDENT_H
#define VT_TARGET_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/maps.h"

struct vt_range {
	uint64_t start, end; /* end is exclusive */
};

struct vt_resident {
	VT_VEC(struct vt_range) ranges; /* sorted; neighbours are merged */
	uint64_t bytes;                 /* in all of them */
	uint64_t swapped;               /* bytes that are swapped out and in no range */
	bool cut;                       /* a bound was reached: there may be more */
};

/*
 * All pages of private writable mappings that the process has changed (the others still have what
 * is in the file). max_bytes bounds their sum. Reads /proc/PID/pagemap. VT_ERR_PERMISSION,
 * VT_ERR_GONE.
 */
struct vt_error *vt_resident_init(struct vt_resident *resident, pid_t pid,
				  const struct vt_maps *maps, uint64_t max_bytes);

/* The same of n mappings. */
struct vt_error *vt_resident_init_some(struct vt_resident *resident, pid_t pid,
				       const struct vt_map_entry *entries, size_t n,
				       uint64_t max_bytes);

/* For a core: all of such mappings, since a core has what was there. */
struct vt_error *vt_resident_init_all(struct vt_resident *resident, const struct vt_maps *maps,
				      uint64_t max_bytes);

void vt_resident_deinit(struct vt_resident *resident);

#endif
