/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source lines and inlined functions of addresses, from libdw. Call this in a child process only
 * (walk/native/lines.c): a damaged file can make libdw 0.188 crash or run very long.
 */
#ifndef VT_WALK_NATIVE_DWARF_LINES_H
#define VT_WALK_NATIVE_DWARF_LINES_H

#include <stddef.h>
#include <stdint.h>

#define VT_DWARF_MAX_FRAMES 64 /* for one address: functions inlined into each other */

struct vt_dwarf; /* opaque */

/* One function that contains an address. */
struct vt_dwarf_frame {
	const char *name; /* as in the object file, mangled if known; NULL unknown; libdw's */
	const char *file; /* NULL unknown */
	int line;         /* 0 unknown */
};

/*
 * Opens an ELF file with .debug_info, and the file that it shares parts with (NULL, 0: none). Both
 * are private mappings. NULL when it has no .debug_info.
 */
struct vt_dwarf *vt_dwarf_open(const uint8_t *image, uint64_t size, const uint8_t *shared,
			       uint64_t shared_size);
void vt_dwarf_close(struct vt_dwarf *dwarf);

/*
 * Finds the functions at an address in the file, innermost first: all but the last are inlined.
 * Returns their number.
 */
size_t vt_dwarf_find(struct vt_dwarf *dwarf, uint64_t vaddr,
		     struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES]);

#endif
