/* SPDX-License-Identifier: Apache-2.0 */
#include "triage/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/writer.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "job/job.h"

/*
 * Our files, and their first bytes without blanks: a file with another name or other first bytes is
 * not ours.
 */
static const struct kind {
	/*
	 * * is any text; NULL: as triage/label.c names the report of a process or core,
	 * "HOST-4711.json", "HOST-core1.json"
	 */
	const char *name;
	const char *begins; /* NULL: ours if the others are */
} kinds[] = {
	{ VT_TRIAGE_REPORT, "{\"schema\":\"" VT_JOB_SCHEMA "\"" },
	{ VT_TRIAGE_SUMMARY, NULL },
	{ "nccl-ras-*.json", NULL },
	{ "nccl-ras-*.txt", NULL },
	/* what vramtap html makes of the others */
	{ "*.html", "<!DOCTYPEhtml><htmllang=\"en\"><!--SPDX-License-Identifier:Apache-2.0-->" },
	{ NULL, "{\"schema\":\"" VT_REPORT_SCHEMA "\"" },
};

static bool begins_with(int dir, const char *name, const char *text)
{
	VT_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char buf[256];
	ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf));

	for (ssize_t i = 0; i < n && *text; i++)
		if (!strchr(" \n", buf[i]) && buf[i] != *text++)
			return false;
	return !*text;
}

/* end: what follows the number: ".json" or (a worker was killed during a write) ".json.4711.tmp" */
static bool is_report_name(const char *name, const char **end)
{
	const char *p = strrchr(name, '-');
	size_t digits;

	if (!p)
		return false;
	p += strncmp(p, "-core", 5) ? 1 : 5;
	digits = strspn(p, "0123456789");
	*end = p + digits;
	return digits > 0;
}

static bool is_unfinished(const char *name)
{
	const char *end;
	size_t digits;

	if (!is_report_name(name, &end) || strncmp(end, ".json.", 6) != 0)
		return false;
	digits = strspn(end + 6, "0123456789");
	return digits > 0 && !strcmp(end + 6 + digits, ".tmp");
}

static bool is_report(const char *name)
{
	const char *end;

	return is_report_name(name, &end) && !strcmp(end, ".json");
}

static bool is_of_triage(int dir, const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i];

		if (kind->name ? !vt_glob(kind->name, name) : !is_report(name))
			continue;
		return begins_with(dir, kind->begins ? name : VT_TRIAGE_REPORT,
				   kind->begins ? kind->begins : kinds[0].begins);
	}
	return false;
}

/* Calls for each file, other than directories; stops at the first error. */
static struct vt_error *for_each(int dir, const char *path,
				 struct vt_error *(*what)(int dir, const char *path,
							  const char *name))
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	VT_CLOSEDIR DIR *list = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!list)
		return vt_error_create_os(errno, "cannot list %s", path);
	while ((entry = readdir(list))) {
		struct stat st;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    (!fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode)))
			continue;
		VT_TRY(what(dir, path, entry->d_name));
	}
	return NULL;
}

static struct vt_error *check_file(int dir, const char *path, const char *name)
{
	if (is_of_triage(dir, name) || is_unfinished(name))
		return NULL;
	return vt_error_create(VT_ERR_BUSY,
			       "%s is neither empty nor from an earlier triage: it contains %s",
			       path, name);
}

/* The report beside it identifies the summary, so the report goes last. */
static struct vt_error *remove_file(int dir, const char *path, const char *name)
{
	if (strcmp(name, VT_TRIAGE_REPORT) != 0 && unlinkat(dir, name, 0) && errno != ENOENT)
		return vt_error_create_os(errno, "cannot remove %s/%s", path, name);
	return NULL;
}

/* Other users could put links into a directory that they can write to. */
static struct vt_error *check_owner(int dir, const char *path)
{
	struct stat st;

	if (fstat(dir, &st))
		return vt_error_create_os(errno, "cannot look at %s", path);
	if (st.st_uid != geteuid())
		return vt_error_create(VT_ERR_BUSY, "%s belongs to another user", path);
	if (st.st_mode & (S_IWOTH | S_IWGRP))
		return vt_error_create(VT_ERR_BUSY, "other users can write to %s", path);
	return NULL;
}

/* Of two triages at once, one would remove what the other writes. */
static struct vt_error *take_lock(const char *path, int *lock)
{
	VT_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*lock = -1;
	if (dir < 0)
		return vt_error_create_os(errno, "cannot open the directory %s", path);
	if (!flock(dir, LOCK_EX | LOCK_NB)) {
		*lock = dir;
		dir = -1;
	} else if (errno == EWOULDBLOCK) {
		return vt_error_create(VT_ERR_BUSY, "another vramtap triage is writing to %s",
				       path);
	}
	return NULL;
}

static struct vt_error *prepare(const char *path, bool remove)
{
	VT_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return vt_error_create_os(errno, "cannot open the directory %s", path);
	VT_TRY(check_owner(dir, path));
	VT_TRY(for_each(dir, path, check_file));
	if (!remove)
		return NULL;
	VT_TRY(for_each(dir, path, remove_file));
	if (unlinkat(dir, VT_TRIAGE_REPORT, 0) && errno != ENOENT)
		return vt_error_create_os(errno, "cannot remove %s/%s", path, VT_TRIAGE_REPORT);
	return NULL;
}

struct vt_error *vt_triage_dir_prepare(const char *path, bool remove, int *lock)
{
	struct vt_error *err;
	int taken;

	if (mkdir(path, 0700) && errno != EEXIST)
		return vt_error_create_os(errno, "cannot create the directory %s", path);
	VT_TRY(take_lock(path, &taken));
	err = prepare(path, remove);
	if (!err)
		*lock = taken;
	else if (taken >= 0)
		close(taken);
	return err;
}

const char *vt_triage_dir_prefix(const char *directory, const char *source, struct vt_arena *arena)
{
	VT_FREE char *from = realpath(source, NULL);
	VT_FREE char *to = directory ? realpath(directory, NULL) : NULL;
	size_t n = to ? strlen(to) : 0;

	if (!from)
		return vt_arena_strdup(arena, source);
	if (n == 1) /* the root itself ends with the separator */
		n = 0;
	if (!to || strncmp(from, to, n) != 0 || (from[n] && from[n] != '/'))
		return vt_arena_strdup(arena, from);
	return vt_arena_strdup(arena, from[n] ? from + n + 1 : "");
}
