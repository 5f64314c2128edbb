/* SPDX-License-Identifier: Apache-2.0 */
#include "report/save.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static struct vt_error *write_to(vt_write_fn *write, const void *what,
				 const struct vt_writer_options *options, const char *path,
				 const char *mode)
{
	FILE *file = fopen(path, mode);

	if (!file)
		return vt_error_create_os(errno, "cannot write %s", path);

	struct vt_error *err = write(what, options, file);

	if (fclose(file) && !err)
		err = vt_error_create_os(errno, "cannot write %s", path);
	return err;
}

struct vt_error *vt_save(vt_write_fn *write, const void *what,
			 const struct vt_writer_options *options, const char *path)
{
	VT_FREE char *temporary = NULL;
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return write_to(write, what, options, path, "we");
	if (asprintf(&temporary, "%s.%d.tmp", path, getpid()) < 0) {
		temporary = NULL;
		return &vt_enomem;
	}

	struct vt_error *err = write_to(write, what, options, temporary, "wxe");

	if (!err && rename(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err)
		unlink(temporary);
	return err;
}
