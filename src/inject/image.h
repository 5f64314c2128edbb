/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code for the target: the stub unchanged, and the helper library as an image for one load
 * address.
 */
#ifndef VT_INJECT_IMAGE_H
#define VT_INJECT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

extern const uint8_t vt_stub_blob[];
extern const uint8_t vt_stub_blob_end[];

static inline size_t vt_stub_size(void)
{
	return (size_t)(vt_stub_blob_end - vt_stub_blob);
}

/*
 * The library laid out as in memory: text_size bytes of code and constants, then data_size bytes of
 * data (either may be followed by nothing); both are multiples of the page size.
 */
struct vt_helper_image {
	uint64_t text_size;
	uint64_t data_size;
	uint64_t entry;    /* offset of vt_helper_main */
	char build_id[41]; /* hexadecimal */
};

/* Sizes and names; checks that the embedded file has all that the flat layout relies on. */
struct vt_error *vt_helper_image_describe(struct vt_helper_image *image);

/*
 * Writes the text_size + data_size bytes of the image, relocated to base, to buf (zeroed by the
 * caller).
 */
struct vt_error *vt_helper_image_build(const struct vt_helper_image *image, uint64_t base,
				       uint8_t *buf);

#endif
