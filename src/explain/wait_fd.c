/* SPDX-License-Identifier: Apache-2.0 */
/* What a file descriptor of the target is, from the links in /proc/PID/fd. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "explain/wait_internal.h"

#define MAX_KINDS 4
#define MAX_PATH_SHOWN 80
#define MAX_FDINFO_LINES 4096

size_t wait_live_link_of(const struct wait_context *c, int fd, char *target, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)c->info->tid, fd);
	n = readlink(path, target, size - 1);
	target[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/*
 * Adds what the descriptor is; a socket's addresses only if detailed. Adds nothing when it is
 * unknown.
 */
static void add_kind(struct wait_context *c, struct vt_str *out, int fd, bool detailed)
{
	/* How the kernel shows descriptors without a path (man 5 proc, /proc/pid/fd). */
	static const struct {
		const char *prefix;
		const char *text;
	} kinds[] = {
		{ "socket:", "a socket" },
		{ "pipe:", "a pipe" },
		{ "anon_inode:[eventfd]", "an eventfd" },
		{ "anon_inode:[eventpoll]", "an epoll instance" },
		{ "anon_inode:[timerfd]", "a timer" },
		{ "anon_inode:[signalfd]", "a signalfd" },
		{ "anon_inode:[pidfd]", "a process" },
		{ "pidfd:", "a process" },
		{ "anon_inode:inotify", "inotify" },
		{ "anon_inode:[io_uring]", "an io_uring" },
		{ "anon_inode:[userfaultfd]", "a userfaultfd" },
	};
	char target[PATH_MAX];
	size_t n = c->ops->link_of ? c->ops->link_of(c, fd, target, sizeof(target)) : 0;

	if (n == 0)
		return;
	if (detailed && !strncmp(target, "socket:[", 8)) {
		vt_str_add(out,
			   wait_socket(c->sockets, c->info->tid, strtoull(target + 8, NULL, 10)));
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strncmp(target, kinds[i].prefix, strlen(kinds[i].prefix))) {
			vt_str_add(out, kinds[i].text);
			return;
		}
	}
	/* Of a long path the end tells more. */
	if (n > MAX_PATH_SHOWN)
		vt_str_addf(out, "...%s", target + n - (MAX_PATH_SHOWN - 3));
	else
		vt_str_addn(out, target, (size_t)n);
}

void wait_add_fd(struct wait_context *c, int fd)
{
	struct vt_str kind = { 0 };

	add_kind(c, &kind, fd, true);
	wait_add(c, "descriptor ");
	wait_add_own(c, "%d", fd);
	wait_add(c, kind.n ? ", " : "");
	wait_add_name(c, vt_str_get(&kind));
	vt_str_deinit(&kind);
}

void wait_add_fds(struct wait_context *c, const int *fds, size_t n)
{
	struct vt_str kinds[MAX_KINDS] = { 0 };
	size_t n_kinds = 0, i = 0;

	for (; i < n && n_kinds < MAX_KINDS; i++) {
		struct vt_str *kind = &kinds[n_kinds];
		bool known = false;

		add_kind(c, kind, fds[i], false);
		for (size_t k = 0; k < n_kinds; k++)
			known = known || !strcmp(vt_str_get(&kinds[k]), vt_str_get(kind));
		if (known || kind->n == 0)
			vt_str_clear(kind);
		else
			n_kinds++;
	}
	for (size_t k = 0; k < n_kinds; k++) {
		wait_add(c, k ? ", " : " (");
		wait_add_name(c, vt_str_get(&kinds[k]));
	}
	if (n_kinds)
		wait_add(c, i < n ? ", ...)" : ")");
	for (size_t k = 0; k < MAX_KINDS; k++)
		vt_str_deinit(&kinds[k]);
}

bool wait_live_epoll_fds(const struct wait_context *c, int epfd, int *fds, size_t max, size_t *n)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)c->info->tid, epfd);

	VT_FCLOSE FILE *file = fopen(path, "re");

	*n = 0;
	for (int i = 0; file && i < MAX_FDINFO_LINES && fgets(line, sizeof(line), file); i++) {
		long fd;

		/* "tfd:        5 events: ..." (fs/eventpoll.c, ep_show_fdinfo) */
		if (strncmp(line, "tfd:", 4) != 0)
			continue;
		fd = strtol(line + 4, NULL, 10);
		if (*n < max && fd >= 0 && fd <= INT_MAX)
			fds[*n] = (int)fd;
		++*n;
	}
	return file;
}
