/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define MAX_PATH 512

static char directory[] = "/tmp/vramtap-fuzz.XXXXXX";
static pid_t owner; /* a child that exits does not remove it */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	(void)remove(path);
	return 0;
}

static void remove_all(void)
{
	if (getpid() == owner)
		nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_directory(void)
{
	if (!owner) {
		fuzz_check(mkdtemp(directory), "%s", directory);
		owner = getpid();
		atexit(remove_all);
	}
	return directory;
}

void scratch_write(const char *name, const void *data, size_t size, unsigned int mode)
{
	char path[MAX_PATH];
	int n = snprintf(path, sizeof(path), "%s%s", scratch_directory(), name), fd;

	fuzz_check(n > 0 && (size_t)n < sizeof(path), "%s is too long", name);
	for (char *slash = path + strlen(directory) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		fuzz_check(!mkdir(path, 0700) || errno == EEXIST, "%s", path);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size && !close(fd), "%s", path);
}
