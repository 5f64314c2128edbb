/* SPDX-License-Identifier: Apache-2.0 */
#include "report/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define ANY_MODE 0777
#define NEW_FILE (O_CREAT | O_EXCL | O_NOFOLLOW)

/* A report has arguments and values of variables; metrics are for another user, who reads them. */
static mode_t mode_of_new(const struct vt_writer_options *options)
{
	return options->for_others ? 0666 : 0600;
}

/* *opened: it is there, whatever came of the rest. */
static struct vt_error *write_to(vt_write_fn *write, const void *what,
				 const struct vt_writer_options *options, const char *path,
				 int flags, mode_t mode, bool *opened)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, mode);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	*opened = fd >= 0;
	if (!file) {
		struct vt_error *failed = vt_error_create_os(errno, "cannot write %s", path);

		if (fd >= 0)
			close(fd);
		return failed;
	}

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

/*
 * Whether another user may have put this into a directory where everybody can, to have us write to
 * it, or to what it leads to. fs.protected_symlinks and its kin refuse that, where they are on
 * (proc_sys_fs(5)); these are their conditions.
 */
static bool is_planted(const char *path, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	VT_FREE char *parent = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) :
				       strdup(".");
	struct stat dir;

	if (!parent || stat(parent, &dir))
		return true;
	return (dir.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) &&
	       st->st_uid != geteuid() && st->st_uid != dir.st_uid;
}

static struct vt_error *error_planted(const char *path)
{
	return vt_error_create(VT_ERR_PERMISSION,
			       "cannot write %s: another user has put it there, in a directory "
			       "where everybody can",
			       path);
}

/*
 * Of a link to a regular file: that file, so that it can be replaced as a whole, too. NULL: of
 * others, and of a link that the kernel does not let us follow (fs.protected_symlinks), which only
 * opening finds out.
 */
static char *follow(const char *path, struct stat *st)
{
	VT_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
	char self[64];
	char *file;
	struct stat found;

	if (fd < 0 || fstat(fd, st) || !S_ISREG(st->st_mode))
		return NULL;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	file = realpath(self, NULL);
	if (file && !lstat(file, &found) && found.st_dev == st->st_dev &&
	    found.st_ino == st->st_ino)
		return file;
	free(file);
	return NULL;
}

struct vt_error *vt_save(vt_write_fn *write, const void *what,
			 const struct vt_writer_options *options, const char *path)
{
	VT_FREE char *temporary = NULL;
	VT_FREE char *followed = NULL;
	mode_t mode = mode_of_new(options);
	bool opened = false;
	struct stat st;

	if (!lstat(path, &st)) {
		bool link = S_ISLNK(st.st_mode);

		if (!S_ISREG(st.st_mode) && is_planted(path, &st))
			return error_planted(path);
		if (link)
			followed = follow(path, &st);
		if (link ? !followed : !S_ISREG(st.st_mode))
			return write_to(write, what, options, path, O_CREAT | O_TRUNC, mode,
					&opened);
		/* What its owner has chosen, unless that is somebody else. */
		if (st.st_uid == geteuid())
			mode = st.st_mode & ANY_MODE;
	}
	if (followed)
		path = followed;
	temporary = temporary_name(path);
	if (!temporary)
		return &vt_enomem;

	struct vt_error *err = write_to(write, what, options, temporary, NEW_FILE, mode, &opened);

	if (!err && rename(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err && opened)
		unlink(temporary);
	return err;
}

/* Where neither way of renaming is known to the file system: a reader can see the empty file. */
static int claim_and_rename(const char *from, const char *to)
{
	int fd = open(to, O_WRONLY | NEW_FILE | O_CLOEXEC, 0600);

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
	err = write_to(write, what, options, temporary, NEW_FILE, mode_of_new(options), &opened);
	if (!err && rename_to_new(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err && opened)
		unlink(temporary);
	return err;
}
