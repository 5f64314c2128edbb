/* SPDX-License-Identifier: Apache-2.0 */
/* The build id in the notes of an ELF file. */
#ifndef VT_TARGET_BUILDID_H
#define VT_TARGET_BUILDID_H

#include <stdint.h>

#define VT_BUILD_ID_MAX 64

/*
 * Looks through n bytes of notes, each a multiple of align long. Returns the length of what it put
 * into id, 0 for none.
 */
uint8_t vt_build_id_in_notes(const uint8_t *notes, uint64_t n, uint64_t align,
			     uint8_t id[VT_BUILD_ID_MAX]);

#endif
