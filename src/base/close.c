/* SPDX-License-Identifier: Apache-2.0 */
#include "base/close.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
/* Without /proc and before Linux 5.9. */
#define MAX_DESCRIPTORS 65536

/*
 * Before Linux 5.9, which has close_range(): those that are open. Trying all numbers would take
 * longer than a sandbox has. No malloc(): another thread may have had its lock in fork().
 */
static bool close_listed(int first)
{
	char buf[4096] __attribute__((aligned(8)));
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;
	bool more;

	if (dir < 0)
		return false;
	do {
		more = false;
		lseek(dir, 0, SEEK_SET);
		while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
			for (long at = 0; at < n;) {
				const struct dirent64 *entry = (const void *)(buf + at);
				int fd = (int)strtol(entry->d_name, NULL, 10);

				if (fd >= first && fd != dir && entry->d_name[0] != '.')
					more |= !close(fd);
				at += entry->d_reclen;
			}
	} while (n == 0 && more); /* the list may have moved below the reader */
	close(dir);
	return n == 0;
}

void vt_close_from(int first)
{
	if (syscall(SYS_close_range, first, UINT32_MAX, 0) == 0 || close_listed(first))
		return;
	for (int fd = first; fd < MAX_DESCRIPTORS; fd++)
		close(fd);
}
