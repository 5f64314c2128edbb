/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of the debugger's session, $TMPDIR/cuda-dbg/PID, with PID its own. cuda-gdb makes
 * cuda-dbg writable for all without the sticky bit, and at its start empties what it finds at PID,
 * through links (cuda_gdb_tmpdir_setup() in its source; tried with 13.0): whoever guesses the
 * number has it delete a tree of the caller's. So the directory is made before, and is ours.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernels/kernels.h"

#define BASE "cuda-dbg"

const char *vt_debugger_tmp(void)
{
	const char *named = getenv("TMPDIR");

	return named ? named : "/tmp";
}

bool vt_debugger_is_safe(const struct stat *st)
{
	bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);

	return (st->st_uid == 0 || st->st_uid == geteuid()) &&
	       (sticky || !(st->st_mode & (S_IWGRP | S_IWOTH)));
}

static const char *open_base(int top, int *base)
{
	VT_CLOSE int fd = -1;
	mode_t mask = umask(0);
	struct stat st;

	(void)mkdirat(top, BASE, 01777);
	umask(mask);
	fd = openat(top, BASE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return "cuda-dbg in the temporary directory is no directory that can be opened";
	if (st.st_uid == geteuid() && (fchmod(fd, 01777) || fstat(fd, &st)))
		return "cuda-dbg in the temporary directory cannot be made sticky";
	if (!vt_debugger_is_safe(&st))
		return "others can change cuda-dbg in the temporary directory: its owner must be root or this user, and it needs the sticky bit";
	*base = fd;
	fd = -1;
	return NULL;
}

const char *vt_debugger_session_create(void)
{
	VT_CLOSE int top = open(vt_debugger_tmp(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	VT_CLOSE int base = -1;
	const char *why;
	char name[16];
	struct stat st;

	if (top < 0 || fstat(top, &st))
		return "the temporary directory cannot be opened";
	if (!vt_debugger_is_safe(&st))
		return "others can change the temporary directory";
	why = open_base(top, &base);
	if (why)
		return why;
	snprintf(name, sizeof(name), "%d", (int)getpid());
	/* The process, which may be another user's, must get through. */
	(void)mkdirat(base, name, 0751);
	if (fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return "another user has taken the place of its files";
	return NULL;
}
