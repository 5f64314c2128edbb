/* SPDX-License-Identifier: Apache-2.0 */
#include "target/container.h"

#include <stdio.h>
#include <string.h>

static bool is_hex(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
			return false;
	return true;
}

/*
 * What container engines put before the id in the name of a systemd scope: docker-ID.scope,
 * cri-containerd-ID.scope ...
 */
static const char *const scope_prefixes[] = {
	"docker-", "libpod-", "cri-containerd-", "crio-", "containerd-", "nerdctl-",
};

/* Directories whose children are named by the container (LXC before and since version 4). */
static const char *const named_parents[] = { "lxc", "lxc.payload" };

static size_t skip_scope_prefix(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(scope_prefixes) / sizeof(scope_prefixes[0]); i++) {
		size_t len = strlen(scope_prefixes[i]);

		if (n > len && !strncmp(name, scope_prefixes[i], len))
			return len;
	}
	return 0;
}

/*
 * One component of a cgroup path: the short id when it names a container. Engines name containers
 * by 64 hexadecimal digits. (libpod-conmon-ID.scope and crio-conmon-ID.scope hold the engine's
 * monitor, not the container.)
 */
static bool id_of_component(const char *name, size_t n, char *id, size_t size)
{
	size_t skip;

	if (n > 6 && !strncmp(name + n - 6, ".scope", 6))
		n -= 6;
	skip = skip_scope_prefix(name, n);
	if (n - skip != 64 || !is_hex(name + skip, 64))
		return false;
	snprintf(id, size, "%.12s", name + skip);
	return true;
}

static bool id_of_named_parent(const char *parent, size_t parent_n, const char *name, size_t n,
			       char *id, size_t size)
{
	static const char payload[] = "lxc.payload.";

	if (n > sizeof(payload) - 1 && !strncmp(name, payload, sizeof(payload) - 1)) {
		snprintf(id, size, "%.*s", (int)(n - (sizeof(payload) - 1)),
			 name + sizeof(payload) - 1);
		return true;
	}
	for (size_t i = 0; i < sizeof(named_parents) / sizeof(named_parents[0]); i++) {
		if (parent_n == strlen(named_parents[i]) &&
		    !strncmp(parent, named_parents[i], parent_n)) {
			snprintf(id, size, "%.*s", (int)n, name);
			return true;
		}
	}
	return false;
}

/*
 * The innermost container in one path; nested ones (kind, docker in docker) end with the one that
 * holds the process.
 */
static void id_of_path(const char *path, size_t len, char *id, size_t size)
{
	const char *parent = "";
	size_t parent_n = 0;

	for (size_t i = 0; i < len;) {
		size_t n = 0;

		while (i + n < len && path[i + n] != '/')
			n++;
		if (n > 0) {
			if (!id_of_component(path + i, n, id, size))
				id_of_named_parent(parent, parent_n, path + i, n, id, size);
			parent = path + i;
			parent_n = n;
		}
		i += n + 1;
	}
}

/* Lines "hierarchy:controllers:path"; the first that names a container counts. */
bool vt_container_of_cgroup(char *text, char *id, size_t size)
{
	char *save = NULL;

	id[0] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line && !id[0];
	     line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line, ':');
		char *path = colon ? strchr(colon + 1, ':') : NULL;

		if (path)
			id_of_path(path + 1, strlen(path + 1), id, size);
	}
	return id[0];
}
