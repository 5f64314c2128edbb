/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"

bool vt_random(void *bytes, size_t size)
{
	if (getrandom(bytes, size, GRND_NONBLOCK) == (ssize_t)size)
		return true;

	/* Never waits, and is as good but in the first moments after booting. */
	VT_CLOSE int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, bytes, size) == (ssize_t)size;
}
