/* SPDX-License-Identifier: Apache-2.0 */
#include "report/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* *opened: it is there, whatever came of the rest. */
static struct vt_error *write_to(vt_write_fn *write, const void *what,
				 const struct vt_writer_options *options, const char *path,
				 const char *mode, bool *opened)
{
	FILE *file = fopen(path, mode);

	*opened = file;
	if (!file)
		return vt_error_create_os(errno, "cannot write %s", path);

	struct vt_error *err = write(what, options, file);

	if (fclose(file) && !err)
		err = vt_error_create_os(errno, "cannot write %s", path);
	return err;
}

/*
 * Beside the file. Others that write the same one may be on another host, or in another pid
 * namespace, and have our number. Only digits: triage/dir.c knows them.
 */
static char *temporary_name(const char *path)
{
	unsigned int salt = 0;
	char *name;

	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt))
		salt = (unsigned int)vt_now_ns();
	return asprintf(&name, "%s.%d%010u.tmp", path, getpid(), salt) < 0 ? NULL : name;
}

struct vt_error *vt_save(vt_write_fn *write, const void *what,
			 const struct vt_writer_options *options, const char *path)
{
	VT_FREE char *temporary = NULL;
	bool opened = false;
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return write_to(write, what, options, path, "we", &opened);
	temporary = temporary_name(path);
	if (!temporary)
		return &vt_enomem;

	struct vt_error *err = write_to(write, what, options, temporary, "wxe", &opened);

	if (!err && rename(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err && opened)
		unlink(temporary);
	return err;
}

/* Where neither way of renaming is known to the file system: a reader can see the empty file. */
static int claim_and_rename(const char *from, const char *to)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return -1;
	close(fd);
	return rename(from, to);
}

/* Fails with EEXIST where there is such a file. */
static int rename_to_new(const char *from, const char *to)
{
	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno == EEXIST)
		return -1;
	if (!link(from, to)) {
		unlink(from);
		return 0;
	}
	return errno == EEXIST ? -1 : claim_and_rename(from, to);
}

struct vt_error *vt_save_new(vt_write_fn *write, const void *what,
			     const struct vt_writer_options *options, const char *path)
{
	VT_FREE char *temporary = NULL;
	struct vt_error *err;
	bool opened = false;
	struct stat st;

	if (!lstat(path, &st))
		return vt_error_create_os(EEXIST, "cannot write %s", path);
	temporary = temporary_name(path);
	if (!temporary)
		return &vt_enomem;
	err = write_to(write, what, options, temporary, "wxe", &opened);
	if (!err && rename_to_new(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err && opened)
		unlink(temporary);
	return err;
}
