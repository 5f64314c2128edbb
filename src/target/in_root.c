/* SPDX-License-Identifier: Apache-2.0 */
#include "target/in_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#define MAX_DEPTH 64
#define MAX_LINKS 40 /* as the kernel has it (MAXSYMLINKS) */

/*
 * A walk: the directories from the root down to where it is. ".." is the directory before, never
 * what the file system says, which could be outside if somebody moves a directory meanwhile.
 */
struct walk {
	int root;
	int dirs[MAX_DEPTH];
	size_t depth;
	unsigned int links;
	char rest[PATH_MAX]; /* what is still to be walked */
};

static int here(const struct walk *walk)
{
	return walk->depth ? walk->dirs[walk->depth - 1] : walk->root;
}

static void go_up(struct walk *walk)
{
	if (walk->depth)
		close(walk->dirs[--walk->depth]);
}

static void go_to_root(struct walk *walk)
{
	while (walk->depth)
		go_up(walk);
}

/* Takes the next component off the rest; false at the end. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1])
{
	const char *at = walk->rest + strspn(walk->rest, "/");
	size_t len = strcspn(at, "/");

	if (!len || len > NAME_MAX) {
		errno = len ? ENAMETOOLONG : ENOENT;
		return false;
	}
	memcpy(name, at, len);
	name[len] = '\0';
	memmove(walk->rest, at + len, strlen(at + len) + 1);
	return true;
}

/* The link's own text comes before what is left. */
static bool follow(struct walk *walk, int link)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
	size_t left = strlen(walk->rest);

	if (n <= 0 || ++walk->links > MAX_LINKS || (size_t)n + left >= sizeof(walk->rest)) {
		errno = n < 0 ? errno : ELOOP;
		return false;
	}
	memmove(walk->rest + n, walk->rest, left + 1);
	memcpy(walk->rest, text, (size_t)n);
	if (text[0] == '/')
		go_to_root(walk);
	return true;
}

/* The descriptor of the last component, or -1; each call takes one component. */
static bool step(struct walk *walk, const char *name, int *found)
{
	VT_CLOSE int fd = -1;
	struct stat st;

	if (!strcmp(name, "..")) {
		go_up(walk);
		return true;
	}
	fd = openat(here(walk), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return false;
	if (S_ISLNK(st.st_mode))
		return follow(walk, fd);
	if (S_ISDIR(st.st_mode)) {
		if (walk->depth == MAX_DEPTH) {
			errno = ENAMETOOLONG;
			return false;
		}
		walk->dirs[walk->depth++] = fd;
		fd = -1;
		return true;
	}
	if (walk->rest[0]) {
		errno = ENOTDIR;
		return false;
	}
	*found = fd;
	fd = -1;
	return true;
}

int vt_in_root_walk(int root, const char *path)
{
	struct walk walk = { .root = root };
	char name[NAME_MAX + 1];
	int found = -1;
	bool ok = strlen(path) < sizeof(walk.rest);

	if (ok)
		strcpy(walk.rest, path);
	else
		errno = ENAMETOOLONG;
	while (ok && found < 0 && walk.rest[strspn(walk.rest, "/")])
		ok = next_name(&walk, name) && (!strcmp(name, ".") || step(&walk, name, &found));
	if (ok && found < 0) /* a directory */
		found = fcntl(here(&walk), F_DUPFD_CLOEXEC, 0);

	int errnum = errno;

	go_to_root(&walk);
	errno = errnum;
	return found;
}

int vt_in_root_find(int root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int found = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	/*
	 * Filters of containers that do not know it say EPERM. EAGAIN: somebody renamed or mounted
	 * anything on this machine while it was at a "..", which the walk does not ask for.
	 */
	if (found < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
		return vt_in_root_walk(root, path);
	return found;
}
