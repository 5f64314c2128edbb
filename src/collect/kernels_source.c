/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python source of kernels that Triton has made, where the code has no line information: from
 * Triton's cache on disk. A child of ours looks there, as a file system can let a reader wait for
 * ever, and gets little time: what is not found by then is not known.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/close.h"
#include "base/null.h"
#include "collect/collect.h"
#include "kernels/triton.h"
#include "target/files.h"
#include "target/in_root.h"
#include "target/task.h"

#define TIME_NS (50 * VT_NS_PER_MS)
#define ENDING_NS (5 * VT_NS_PER_MS)
#define LOOK_NS VT_NS_PER_MS
#define MAX_ENTRIES 20000 /* of all caches together */
#define MAX_FILES 256     /* that are read */
#define MAX_BEGIN 65536   /* bytes of one: the place comes first */
#define MAX_WANTED 16     /* kernels */
#define MAX_ENVIRON ((size_t)1 << 20)
#define MAX_PATH 2048
#define OUT 3

/* One place, as it comes through the pipe: whole, as it is shorter than PIPE_BUF. */
struct found {
	uint32_t kernel; /* index in wanted; NOBODY: the end, and all was looked at */
	int32_t line;
	char file[MAX_PATH];
};
#define NOBODY UINT32_MAX

struct wanted {
	struct vt_model_kernel *kernels[MAX_WANTED];
	size_t n;
};

struct search {
	const struct wanted *wanted;
	uid_t uid;           /* of the process */
	const char *environ; /* of n bytes, and a 0 */
	size_t n;
	const char *user;
	size_t entries, files;
	bool cut;
	bool told[MAX_WANTED]; /* a place was found */
	uint64_t deadline_ns;
};

/* ---- the child ---- */

static void say(const struct found *found)
{
	ssize_t ignored = write(OUT, found, sizeof(*found));

	(void)ignored;
}

/* Everybody can write to /tmp: what another user has put there is no word of this process's. */
static bool is_its_own(const struct search *s, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_uid == s->uid || st.st_uid == 0);
}

static void read_file(struct search *s, int fd, uint32_t kernel)
{
	static char text[MAX_BEGIN];
	struct found found = { .kernel = kernel };
	ssize_t n = is_its_own(s, fd) ? pread(fd, text, sizeof(text), 0) : -1;
	struct vt_span file;
	int line;

	if (n <= 0 ||
	    !vt_triton_read_place(text, (size_t)n, s->wanted->kernels[kernel]->name, &file, &line))
		return;
	if (file.n >= sizeof(found.file)) {
		s->cut = true;
		return;
	}
	memcpy(found.file, file.p, file.n);
	found.line = line;
	say(&found);
	s->told[kernel] = true;
}

/* The cache is the root here: no link in it leads out of it. */
static void look_at(struct search *s, int cache, const char *entry)
{
	char path[600];

	for (size_t i = 0; i < s->wanted->n; i++) {
		VT_CLOSE int fd = -1;

		snprintf(path, sizeof(path), "%s/%s.ttir", entry, s->wanted->kernels[i]->name);
		fd = vt_files_open_in(cache, path);
		if (fd < 0)
			continue;
		if (s->files++ == MAX_FILES)
			s->cut = true;
		if (!s->cut)
			read_file(s, fd, (uint32_t)i);
	}
}

static void search_cache(struct search *s, int root, const char *path)
{
	VT_CLOSE int found = vt_in_root_find(root, path);
	char self[64];
	DIR *dir;

	if (found < 0)
		return;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	dir = opendir(self);
	for (const struct dirent *entry; dir && !s->cut && (entry = readdir(dir));) {
		if (*entry->d_name == '.')
			continue;
		s->cut = ++s->entries > MAX_ENTRIES || vt_deadline_passed(s->deadline_ns);
		if (!s->cut)
			look_at(s, found, entry->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- without a place there: Inductor's Python file ---- */

static bool is_left(const struct search *s)
{
	for (size_t i = 0; i < s->wanted->n; i++)
		if (!s->told[i] && !strncmp(s->wanted->kernels[i]->name, "triton_", 7))
			return true;
	return false;
}

static void read_python(struct search *s, int fd, const char *path)
{
	static char text[MAX_BEGIN];
	ssize_t n = is_its_own(s, fd) ? pread(fd, text, sizeof(text), 0) : -1;

	for (size_t i = 0; n > 0 && i < s->wanted->n; i++) {
		struct found found = { .kernel = (uint32_t)i };

		if (s->told[i])
			continue;
		found.line = vt_triton_read_line(text, (size_t)n, s->wanted->kernels[i]->name);
		if (!found.line)
			continue;
		snprintf(found.file, sizeof(found.file), "%s", path);
		say(&found);
	}
}

static bool goes_on(struct search *s)
{
	s->cut = s->cut || ++s->entries > MAX_ENTRIES || vt_deadline_passed(s->deadline_ns);
	return !s->cut;
}

/* A directory for the two first letters of a file's hash. */
static void search_pythons(struct search *s, int cache, const char *base, const char *two)
{
	VT_CLOSE int found = vt_in_root_find(cache, two);
	char self[64], path[MAX_PATH];
	DIR *dir;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	dir = found < 0 ? NULL : opendir(self);
	for (const struct dirent *entry; dir && (entry = readdir(dir)) && goes_on(s);) {
		size_t n = strlen(entry->d_name);
		VT_CLOSE int fd = -1;

		if (n < 4 || strcmp(entry->d_name + n - 3, ".py") != 0 ||
		    snprintf(path, sizeof(path), "%s/%s/%s", base, two, entry->d_name) >=
			    (int)sizeof(path))
			continue;
		fd = vt_files_open_in(found, entry->d_name);
		s->cut = s->cut || (fd >= 0 && s->files++ >= MAX_FILES);
		if (fd >= 0 && !s->cut)
			read_python(s, fd, path);
	}
	if (dir)
		closedir(dir);
}

static void search_inductor(struct search *s, int root, const char *base)
{
	VT_CLOSE int found = vt_in_root_find(root, base);
	char self[64];
	DIR *dir;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	dir = found < 0 ? NULL : opendir(self);
	for (const struct dirent *entry; dir && (entry = readdir(dir)) && goes_on(s);)
		if (*entry->d_name != '.' && strlen(entry->d_name) == 2)
			search_pythons(s, found, base, entry->d_name);
	if (dir)
		closedir(dir);
}

static void search(struct search *s, pid_t view)
{
	struct vt_str path = { 0 };
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/root", (int)view);

	VT_CLOSE int root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (unsigned int i = 0;
	     root >= 0 && !s->cut && vt_triton_cache(s->environ, s->n, s->user, i, &path); i++)
		search_cache(s, root, vt_str_get(&path));
	vt_str_clear(&path);
	vt_triton_inductor(s->environ, s->n, s->user, &path);
	if (root >= 0 && !s->cut && is_left(s))
		search_inductor(s, root, vt_str_get(&path));
	if (root >= 0 && !s->cut && !path.failed)
		say(&(struct found){ .kernel = NOBODY });
	vt_str_deinit(&path);
}

/*
 * It may stay for long: it keeps nothing of ours, neither a pipe that somebody reads to its end nor
 * a lock.
 */
static _Noreturn void be_child(struct search *s, pid_t view, pid_t parent, int out)
{
	int null = vt_open_null(0);
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent || null < 0)
		_exit(1);
	for (int fd = 0; fd < OUT; fd++)
		if (dup2(null, fd) < 0)
			_exit(1);
	if (out != OUT && dup2(out, OUT) < 0)
		_exit(1);
	vt_close_from(OUT + 1);
	search(s, view);
	_exit(0);
}

/* ---- the parent ---- */

static void add_source(struct vt_collect *c, struct vt_model_kernel *k, const struct found *found)
{
	struct vt_model_kernel_source *sources = k->sources;

	for (size_t i = 0; i < k->n_sources; i++)
		if (sources[i].line == found->line && !strcmp(sources[i].file, found->file))
			return;
	if (k->n_sources == VT_KERNEL_MAX_SOURCES) {
		k->more_sources = true;
		return;
	}
	sources[k->n_sources].file = vt_collect_copy(c, found->file, sizeof(found->file));
	sources[k->n_sources++].line = found->line;
}

/* What comes from the child was read from hostile files. False: it is no such record. */
static bool take(struct vt_collect *c, const struct wanted *wanted, struct found *found)
{
	found->file[sizeof(found->file) - 1] = '\0';
	if (found->kernel == NOBODY) {
		for (size_t i = 0; i < wanted->n; i++)
			wanted->kernels[i]->sources_whole = true;
		return false;
	}
	if (found->kernel >= wanted->n || found->line <= 0 || !*found->file)
		return false;
	add_source(c, wanted->kernels[found->kernel], found);
	return true;
}

static void hear(struct vt_collect *c, const struct wanted *wanted, int in, uint64_t deadline_ns)
{
	struct pollfd fd = { .fd = in, .events = POLLIN };
	struct found found;

	for (uint64_t now; (now = vt_now_ns()) < deadline_ns;) {
		int ms = (int)((deadline_ns - now) / VT_NS_PER_MS) + 1;

		if (poll(&fd, 1, ms) < 0 && errno == EINTR)
			continue;
		if (!fd.revents || read(in, &found, sizeof(found)) != (ssize_t)sizeof(found) ||
		    !take(c, wanted, &found))
			return;
	}
}

static void end(pid_t child)
{
	uint64_t until_ns = vt_now_ns() + ENDING_NS;

	kill(child, SIGKILL);
	while (waitpid(child, NULL, WNOHANG) == 0 && !vt_deadline_passed(until_ns))
		vt_sleep_ns(LOOK_NS);
}

static void ask_child(struct vt_collect *c, struct search *s)
{
	pid_t view = vt_proc_view(c->target.proc.pid), parent = getpid(), child;
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC))
		return;
	s->deadline_ns = vt_now_ns() + TIME_NS;
	child = fork();
	if (child == 0)
		be_child(s, view, parent, pipes[1]);
	close(pipes[1]);
	if (child > 0) {
		hear(c, s->wanted, pipes[0], s->deadline_ns);
		end(child);
	}
	close(pipes[0]);
}

static bool has_lines(const struct vt_model_kernels *kernels, const struct vt_model_kernel *k)
{
	return k->n_places && kernels->places.data[k->first_place].file;
}

/* Kernels that can be Triton's, and of which cuda-gdb does not know the source. */
static void find_wanted(struct vt_collect *c, struct wanted *wanted)
{
	struct vt_model_kernels *kernels = &c->model->kernels;
	size_t at = 0;
	bool has_triton = vt_modules_by_name(&c->target.modules, "libtriton.so", &at);

	for (size_t i = 0; i < kernels->kernels.n && wanted->n < MAX_WANTED; i++) {
		struct vt_model_kernel *k = &kernels->kernels.data[i];

		if (k->name && vt_triton_is_name(k->name) && !has_lines(kernels, k) &&
		    (has_triton || !strncmp(k->name, "triton_", 7)))
			wanted->kernels[wanted->n++] = k;
	}
}

void vt_collect_kernels_source(struct vt_collect *c)
{
	struct wanted wanted = { .n = 0 };
	struct search s = { .wanted = &wanted,
			    .uid = c->model->process.uid,
			    .user = c->model->process.user };
	VT_FREE char *env = NULL;
	char path[64];
	ssize_t n;

	find_wanted(c, &wanted);
	env = wanted.n ? malloc(MAX_ENVIRON) : NULL;
	if (!env)
		return;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)vt_proc_view(c->target.proc.pid));
	n = vt_task_slurp(AT_FDCWD, path, env, MAX_ENVIRON);
	if (n < 0 || (size_t)n >= MAX_ENVIRON - 1)
		return;
	s.environ = env;
	s.n = (size_t)n;
	ask_child(c, &s);
}
