/* SPDX-License-Identifier: Apache-2.0 */
#include "target/absent.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool is_mounted(void)
{
	struct statfs fs;

	return !statfs("/proc", &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

/* /proc shows the PID namespace of whoever mounted it; in any other, "self" leads nowhere. */
static bool is_of_our_namespace(void)
{
	char self[16];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	return strtol(self, NULL, 10) == (long)getpid();
}

struct vt_error *vt_hidden_error(pid_t pid)
{
	return vt_error_create(
		VT_ERR_PERMISSION,
		"process %d is alive, but /proc hides it from this user (mount option hidepid): run vramtap as root%s",
		(int)pid, getuid() ? "" : " with CAP_SYS_PTRACE, which this root lacks");
}

struct vt_error *vt_absent_error(pid_t pid)
{
	if (pid > 0 && !is_mounted())
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"cannot look for process %d: /proc is not mounted here (mount -t proc proc /proc)",
			(int)pid);
	if (pid > 0 && !is_of_our_namespace())
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"there is no process %d in /proc, which shows another PID namespace than vramtap runs in",
			(int)pid);
	/* Signal 0 is not sent, only checked: EPERM says that the process exists. */
	if (pid > 0 && (!kill(pid, 0) || errno == EPERM))
		return vt_hidden_error(pid);
	return vt_error_create(VT_ERR_GONE, "there is no process %d", (int)pid);
}
