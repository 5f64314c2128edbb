/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regular.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

/*
 * sysfs shows the registers of a PCI device as a regular file that can be mapped; reading them may
 * have side effects.
 */
static bool is_of_device(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == SYSFS_MAGIC;
}

int vt_open_regular(const char *path)
{
	/*
	 * O_PATH finds a file without calling its driver. Its name under /proc then stands for
	 * exactly that file, whatever path names by now.
	 */
	VT_CLOSE int found = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	char self[64];

	if (found < 0 || fstat(found, &st) || !S_ISREG(st.st_mode) || is_of_device(found))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	/*
	 * O_NONBLOCK: another process may hold a lease on the file (fcntl(F_SETLEASE)) and may take
	 * its time to give it up.
	 */
	return open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}
