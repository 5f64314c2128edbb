/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/gzip.h"

#include <errno.h>
#include <string.h>

enum {
	WINDOW = 15 + 16, /* of zlib: the largest one; + 16: gzip's head and tail around it */
	MEMORY = 8,       /* zlib's usual one */
};

void vt_gzip_init(struct vt_gzip *gzip, FILE *out)
{
	memset(gzip, 0, offsetof(struct vt_gzip, buf));
	gzip->out = out;
	gzip->failed = deflateInit2(&gzip->stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW, MEMORY,
				    Z_DEFAULT_STRATEGY) != Z_OK;
	gzip->stream.next_out = gzip->buf;
	gzip->stream.avail_out = sizeof(gzip->buf);
}

static void flush(struct vt_gzip *gzip)
{
	size_t n = sizeof(gzip->buf) - gzip->stream.avail_out;

	if (n && !gzip->errnum && fwrite(gzip->buf, 1, n, gzip->out) != n)
		gzip->errnum = errno ? errno : EIO;
	gzip->stream.next_out = gzip->buf;
	gzip->stream.avail_out = sizeof(gzip->buf);
}

void vt_gzip_write(struct vt_gzip *gzip, const void *data, size_t n)
{
	const unsigned char *p = data;

	while (n && !gzip->failed) {
		uInt step = n < 1u << 30 ? (uInt)n : 1u << 30;

		gzip->stream.next_in = (unsigned char *)p;
		gzip->stream.avail_in = step;
		while (gzip->stream.avail_in) {
			deflate(&gzip->stream, Z_NO_FLUSH);
			if (!gzip->stream.avail_out)
				flush(gzip);
		}
		p += step;
		n -= step;
	}
}

struct vt_error *vt_gzip_finish(struct vt_gzip *gzip)
{
	if (gzip->failed)
		return &vt_enomem;
	while (deflate(&gzip->stream, Z_FINISH) == Z_OK)
		flush(gzip);
	flush(gzip);
	deflateEnd(&gzip->stream);
	if (!gzip->errnum && fflush(gzip->out) != 0)
		gzip->errnum = errno ? errno : EIO;
	return gzip->errnum ? vt_error_create_os(gzip->errnum, "cannot write the profile") : NULL;
}
