/* SPDX-License-Identifier: Apache-2.0 */
/* A gzip file as it is written. The same bytes make the same file: it has no time in it. */
#ifndef VT_REPORT_PROFILE_GZIP_H
#define VT_REPORT_PROFILE_GZIP_H

#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

#include "base/error.h"

struct vt_gzip {
	FILE *out;
	z_stream stream;
	bool failed; /* out of memory */
	int errnum;  /* of the first failed write */
	unsigned char buf[65536];
};

void vt_gzip_init(struct vt_gzip *gzip, FILE *out);
void vt_gzip_write(struct vt_gzip *gzip, const void *data, size_t n);

/* Ends the file, flushes, and says whether anything failed. Call it once, whatever happens. */
struct vt_error *vt_gzip_finish(struct vt_gzip *gzip);

#endif
