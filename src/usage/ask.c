/* SPDX-License-Identifier: Apache-2.0 */
/* The asker as a process: started with as little as possible, read with a deadline, killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/close.h"
#include "base/memfd.h"
#include "base/null.h"
#include "usage/health.h"
#include "usage/usage.h"

#define IMAGE 4 /* its descriptor there */
#define MAX_CPU_S 2
#define REAP_NS (2 * VT_NS_PER_MS)
#define MAX_ENDING 16
/* A text of the environment that the loader needs to find the driver's libraries. */
#define LIBRARY_PATH "LD_LIBRARY_PATH"

extern const char vt_usage_asker[], vt_usage_asker_end[];

struct vt_usage {
	pid_t pid;
	int socket;
	uint32_t asked, answered; /* numbers of requests */
	struct vt_usage_request request;
	struct vt_usage_record record; /* as far as it has come: */
	size_t n;
	VT_VEC(struct vt_usage_record) healths;
};

/* ---- which devices ---- */

static bool minor_of(const char *address, uint64_t *minor)
{
	char path[320], line[256];
	static const char key[] = "Device Minor:";

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%.255s/information", address);

	VT_FCLOSE FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, sizeof(key) - 1)) {
			*minor = strtoull(line + sizeof(key) - 1, NULL, 10);
			return true;
		}
	return false;
}

/* As long as one minor number has no address, all devices are asked for. */
static void choose_devices(struct vt_usage_request *request, uint64_t minors)
{
	VT_CLOSEDIR DIR *dir = minors ? opendir("/proc/driver/nvidia/gpus") : NULL;
	struct dirent *entry;
	uint64_t found = 0, minor;

	while (dir && (entry = readdir(dir)) && request->n_wanted < VT_USAGE_MAX_WANTED) {
		size_t n = strlen(entry->d_name);

		if (*entry->d_name == '.' || n >= sizeof(request->wanted[0]) ||
		    !minor_of(entry->d_name, &minor) || minor >= 64 || !(minors >> minor & 1))
			continue;
		memcpy(request->wanted[request->n_wanted++], entry->d_name, n + 1);
		found |= UINT64_C(1) << minor;
	}
	if (found != minors)
		request->n_wanted = 0;
}

/* ---- the process ---- */

static int make_image(void)
{
	size_t n = (size_t)(vt_usage_asker_end - vt_usage_asker), done = 0;
	int fd = vt_memfd_create("vramtap-asker", 0);

	while (fd >= 0 && done < n) {
		ssize_t wrote = write(fd, vt_usage_asker + done, n - done);

		if (wrote <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)wrote;
	}
	return fd;
}

/*
 * All but one: the driver shows MIG instances and processes of others to an administrator
 * (CAP_SYS_ADMIN), if this user is one. What the process may not do is forbidden by name when it
 * runs (asker.c).
 */
static void give_up_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (cap != CAP_SYS_ADMIN)
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		uint32_t keep = i == 0 ? 1u << CAP_SYS_ADMIN : 0;

		data[i].effective &= keep;
		data[i].permitted &= keep;
		data[i].inheritable = 0;
	}
	(void)syscall(SYS_capset, &header, data);
}

static void set_limits(void)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t limit;
	} limits[] = { { RLIMIT_CORE, 0 }, { RLIMIT_CPU, MAX_CPU_S }, { RLIMIT_FSIZE, 0 } };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit = { limits[i].limit, limits[i].limit };

		(void)setrlimit(limits[i].what, &limit);
	}
}

static bool arrange_descriptors(int out, int image)
{
	int null = vt_open_null(0);
	/* Above all numbers that are about to be taken. */
	int a = fcntl(out, F_DUPFD, 16), b = fcntl(image, F_DUPFD, 16);

	for (int fd = 0; fd < 3; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return false;
	if (a < 0 || b < 0 || dup2(a, VT_USAGE_SOCKET) < 0 || dup2(b, IMAGE) < 0)
		return false;
	vt_close_from(IMAGE + 1);
	return true;
}

static void default_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The first is glibc's on every machine but those that have it only elsewhere. */
static const char *const loaders[] = {
	"/lib64/ld-linux-x86-64.so.2",
	"/usr/lib64/ld-linux-x86-64.so.2",
	"/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
	"/lib/ld-linux-x86-64.so.2",
};

bool vt_usage_has_loader(void)
{
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++)
		if (!access(loaders[i], X_OK))
			return true;
	return false;
}

/* The loader opens the image by its path, which needs no permission to execute it. */
static _Noreturn void become_asker(pid_t parent, int out, int image, char *library_path)
{
	char loader[] = "vramtap-asker", path[] = "/proc/self/fd/4";
	char *argv[] = { loader, path, NULL }, *envp[] = { library_path, NULL };

	default_signals();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || !arrange_descriptors(out, image))
		_exit(1);
	set_limits();
	give_up_capabilities();
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++)
		execve(loaders[i], argv, envp);
	_exit(1);
}

static char *library_path(void)
{
	const char *value = getenv(LIBRARY_PATH);
	char *text = NULL;

	if (value && asprintf(&text, LIBRARY_PATH "=%s", value) < 0)
		text = NULL;
	return text;
}

static bool start(struct vt_usage *usage)
{
	VT_CLOSE int image = make_image();
	VT_FREE char *path = library_path();
	pid_t parent = getpid();
	int ends[2];

	if (image < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	usage->pid = fork();
	if (usage->pid == 0)
		become_asker(parent, ends[1], image, path);
	close(ends[1]);
	usage->socket = ends[0];
	return usage->pid > 0;
}

/*
 * The driver takes its time to close what a process had open, or hangs there. Those that had not
 * ended when we went on are waited for before the next one.
 */
static pid_t ending[MAX_ENDING];

static bool reap(void)
{
	bool all = true;

	for (size_t i = 0; i < MAX_ENDING; i++) {
		if (ending[i] && waitpid(ending[i], NULL, WNOHANG))
			ending[i] = 0;
		all = all && !ending[i];
	}
	return all;
}

static void reap_later(pid_t pid)
{
	for (size_t i = 0; i < MAX_ENDING; i++) {
		if (ending[i])
			continue;
		ending[i] = pid;
		return;
	}
}

struct vt_usage *vt_usage_start(uint64_t minors, bool health)
{
	/* The last one hangs in the driver: another would, too. */
	struct vt_usage *usage = reap() ? calloc(1, sizeof(*usage)) : NULL;

	if (!usage)
		return NULL;
	usage->socket = -1;
	usage->request.magic = VT_USAGE_MAGIC;
	usage->request.want_health = health;
	choose_devices(&usage->request, minors);
	if (!start(usage)) {
		vt_usage_stop(usage);
		return NULL;
	}
	vt_usage_ask(usage);
	usage->request.want_health = 0; /* once is enough */
	return usage;
}

/* A request that cannot be sent has no answer, and the one who takes it learns that. */
void vt_usage_ask(struct vt_usage *usage)
{
	const char *at = (const char *)&usage->request;
	size_t left = sizeof(usage->request);

	usage->request.number = ++usage->asked;
	while (left) {
		ssize_t n = send(usage->socket, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		at += n;
		left -= (size_t)n;
	}
}

/* ---- its answers ---- */

static enum vt_usage_outcome receive(struct vt_usage *usage, uint64_t deadline_ns)
{
	struct vt_usage_record *record = &usage->record;

	while (usage->n < sizeof(*record)) {
		struct pollfd pollfd = { .fd = usage->socket, .events = POLLIN };
		uint64_t now = vt_now_ns();
		ssize_t got = -1;

		if (now >= deadline_ns)
			return VT_USAGE_LATE;
		errno = EINTR;
		if (poll(&pollfd, 1, (int)((deadline_ns - now) / VT_NS_PER_MS) + 1) > 0)
			got = recv(usage->socket, (char *)record + usage->n,
				   sizeof(*record) - usage->n, MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return VT_USAGE_ENDED;
		usage->n += (size_t)got;
	}
	usage->n = 0;
	return VT_USAGE_COMPLETE;
}

/* Behind an answer, so before the next one. */
static bool take_health(struct vt_usage *usage)
{
	struct vt_usage_record *record = &usage->record, *kept;

	if (record->kind != VT_USAGE_HEALTH || usage->healths.n == VT_USAGE_MAX_DEVICES)
		return false;
	kept = vt_vec_append(&usage->healths);
	if (!kept)
		return true;
	*kept = *record;
	kept->uuid[sizeof(kept->uuid) - 1] = '\0';
	vt_usage_health_check(&kept->health);
	return true;
}

void vt_usage_take(struct vt_usage *usage, uint64_t deadline_ns, struct vt_usage_reading *reading)
{
	do {
		reading->outcome = receive(usage, deadline_ns);
		if (reading->outcome != VT_USAGE_COMPLETE)
			return;
	} while (take_health(usage) ||
		 vt_usage_reading_add(reading, &usage->record, usage->answered + 1));
	usage->answered++;
}

const struct vt_usage_health *vt_usage_health(const struct vt_usage *usage, const char *uuid)
{
	for (size_t i = 0; usage && *uuid && i < usage->healths.n; i++)
		if (!strcmp(usage->healths.data[i].uuid, uuid))
			return &usage->healths.data[i].health;
	return NULL;
}

void vt_usage_forget(struct vt_usage *usage)
{
	if (usage && usage->socket >= 0)
		close(usage->socket);
	if (usage)
		usage->socket = -1;
}

/*
 * One that hangs in the kernel cannot be killed, nor waited for: it goes when the driver lets it
 * go, and we or init clean up after it.
 */
void vt_usage_stop(struct vt_usage *usage)
{
	uint64_t until_ns = vt_now_ns() + REAP_NS;
	pid_t pid;

	if (!usage)
		return;
	if (usage->socket >= 0)
		close(usage->socket);
	if (usage->pid > 0) {
		kill(usage->pid, SIGKILL);
		while ((pid = waitpid(usage->pid, NULL, WNOHANG)) == 0 &&
		       !vt_deadline_passed(until_ns))
			vt_sleep_ns(VT_NS_PER_MS / 10);
		if (!pid)
			reap_later(usage->pid);
	}
	vt_vec_deinit(&usage->healths);
	free(usage);
}
