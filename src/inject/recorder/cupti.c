/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/recorder/cupti.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool vt_recorder_cupti_find(struct vt_modules *modules, struct vt_recorder_cupti *cupti)
{
	static const char *const names[] = { "cuptiSubscribe", "cuptiUnsubscribe",
					     "cuptiEnableCallback" };
	struct vt_module *module;
	size_t index = 0;

	while ((module = vt_modules_by_name(modules, "libcupti.so", &index))) {
		uint64_t addrs[3];
		struct vt_error *err VT_ERROR = vt_module_dynsyms(modules, module, names, 3, addrs);

		if (err || !addrs[0] || !addrs[1] || !addrs[2])
			continue;
		cupti->cuptiSubscribe = addrs[0];
		cupti->cuptiUnsubscribe = addrs[1];
		cupti->cuptiEnableCallback = addrs[2];
		return true;
	}
	return false;
}

/*
 * Where libcupti is, relative to the directory of libcudart: NVIDIA's wheels (nvidia/cu13/lib has
 * both; before that each had its own: nvidia/cuda_runtime/lib, nvidia/cuda_cupti/lib), the toolkit
 * (lib64 or targets/x86_64-linux/lib, extras/CUPTI/lib64), conda and distributions (one directory).
 */
static const char *const patterns[] = {
	"%s/libcupti.so.%s",
	"%s/../../cuda_cupti/lib/libcupti.so.%s",
	"%s/../extras/CUPTI/lib64/libcupti.so.%s",
	"%s/../../../extras/CUPTI/lib64/libcupti.so.%s",
};

/* "libcudart.so.12.4.127" and "libcudart-e409450e.so.11.0": 12, 11. */
static bool version_of(const char *name, char version[8])
{
	const char *so = strstr(name, ".so.");
	size_t len = so ? strspn(so + 4, "0123456789") : 0;

	if (!len || len >= 8)
		return false;
	memcpy(version, so + 4, len);
	version[len] = '\0';
	return true;
}

/* Whether this file exists in the mount namespace of the process. */
static bool is_there(pid_t pid, const char *path)
{
	char outside[384];
	struct stat st;

	return snprintf(outside, sizeof(outside), "/proc/%d/root%s", (int)pid, path) <
		       (int)sizeof(outside) &&
	       !stat(outside, &st) && S_ISREG(st.st_mode);
}

static bool look_beside(const struct vt_module *runtime, pid_t pid, char *path, size_t size)
{
	const char *slash = strrchr(runtime->path, '/');
	char directory[256], version[8];

	if (!slash || runtime->path[0] != '/' || !version_of(slash + 1, version) ||
	    (size_t)(slash - runtime->path) >= sizeof(directory))
		return false;
	memcpy(directory, runtime->path, (size_t)(slash - runtime->path));
	directory[slash - runtime->path] = '\0';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		int len;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		len = snprintf(path, size, patterns[i], directory, version);
#pragma GCC diagnostic pop
		if (len > 0 && (size_t)len < size && is_there(pid, path))
			return true;
	}
	return false;
}

/* In libc since glibc 2.34, before in libdl. */
static uint64_t find_dlopen(struct vt_modules *modules)
{
	uint64_t addr = vt_modules_symbol(modules, "libdl.so", "dlopen");

	if (!addr)
		addr = vt_modules_symbol(modules, "libdl-2.", "dlopen");
	return addr ? addr : vt_modules_symbol(modules, "libc.so.6", "dlopen");
}

bool vt_recorder_cupti_choose(struct vt_modules *modules, pid_t pid,
			      struct vt_recorder_cupti *cupti)
{
	struct vt_module *module;
	size_t index = 0;

	cupti->dlopen = find_dlopen(modules);
	if (!cupti->dlopen)
		return false;
	while ((module = vt_modules_by_name(modules, "libcudart", &index)))
		if (look_beside(module, pid, cupti->path, sizeof(cupti->path)))
			return true;
	cupti->path[0] = '\0';
	return false;
}
