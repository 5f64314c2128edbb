/* SPDX-License-Identifier: Apache-2.0 */
#include "target/confined.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "target/task.h"

/* "1 1" or "1": on. */
static bool is_on(const char *path)
{
	char text[8];

	return vt_task_slurp(AT_FDCWD, path, text, sizeof(text)) > 0 && text[0] == '1';
}

/* AppArmor's label has the profile's mode: only some forbid. */
static bool profile_forbids(const char *label)
{
	return !strstr(label, " (complain)") && !strstr(label, " (unconfined)");
}

#define SELINUX "/sys/fs/selinux/"

/* Where selinuxfs is hidden, as in containers, SELinux is taken to enforce. */
static char *why_selinux(const char *label, struct vt_arena *arena)
{
	if (strstr(label, ":unconfined_t")) {
		if (!is_on(SELINUX "booleans/deny_ptrace"))
			return NULL;
		return vt_arena_strdup(arena, "SELinux's boolean deny_ptrace is on, and forbids it "
					      "to all: sudo setsebool deny_ptrace off");
	}
	if (!access(SELINUX "enforce", R_OK) && !is_on(SELINUX "enforce"))
		return NULL;
	return vt_arena_printf(
		arena,
		"SELinux forbids it to this shell (%s): start the container with --security-opt "
		"label=disable (Kubernetes: securityContext.seLinuxOptions.type: spc_t), or run this "
		"command on the host with sudo",
		label);
}

char *vt_why_confined(struct vt_arena *arena)
{
	char label[256];

	if (vt_task_slurp(AT_FDCWD, "/proc/self/attr/current", label, sizeof(label)) <= 0)
		return NULL;
	label[strcspn(label, "\n")] = '\0';
	if (!label[0])
		return NULL;
	if (label[strlen(label) - 1] != ')')
		return strchr(label, ':') ? why_selinux(label, arena) : NULL;
	if (!profile_forbids(label))
		return NULL;
	return vt_arena_printf(
		arena,
		"the security profile %s of this shell forbids it: start the container with "
		"--security-opt apparmor=unconfined, or run this command on the host with sudo",
		label);
}
