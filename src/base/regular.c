/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regular.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

/* The registers of a PCI device are a regular file there, which can be mapped; reading them may have an effect. */
static bool is_of_device(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == SYSFS_MAGIC;
}

int vt_open_regular(const char *path)
{
	/* O_PATH finds a file without asking its driver, and its name under /proc is that very file, whatever path is by now. */
	VT_CLOSE int found = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	char self[64];

	if (found < 0 || fstat(found, &st) || !S_ISREG(st.st_mode) || is_of_device(found))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	/* O_NONBLOCK: somebody may hold a lease of the file (fcntl(F_SETLEASE)), and need not give it back at once. */
	return open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}
