/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source lines and inlined functions of addresses, by libdw. To be called in a child process only (walk/native/lines.c):
 * libdw 0.188 can be made to crash, and to take very long, by a damaged file.
 */
#ifndef VT_WALK_NATIVE_DWARF_LINES_H
#define VT_WALK_NATIVE_DWARF_LINES_H

#include <stddef.h>
#include <stdint.h>

#define VT_DWARF_MAX_FRAMES 64 /* of one address: functions that were inlined into each other */

struct vt_dwarf; /* opaque */

/* One function that an address is in. */
struct vt_dwarf_frame {
	const char *name; /* as in the object file, mangled where that is known; NULL unknown. Owned by libdw */
	const char *file; /* NULL unknown */
	int line;         /* 0 unknown */
};

/* An ELF file with .debug_info in private mappings, and the file that it shares parts with (NULL, 0: none). NULL when it has none. */
struct vt_dwarf *vt_dwarf_open(const uint8_t *image, uint64_t size, const uint8_t *shared, uint64_t shared_size);
void vt_dwarf_close(struct vt_dwarf *dwarf);

/* The functions at an address in the file, innermost first: all but the last are inlined. Returns how many there are. */
size_t vt_dwarf_find(struct vt_dwarf *dwarf, uint64_t vaddr, struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES]);

#endif
