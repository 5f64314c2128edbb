/* SPDX-License-Identifier: Apache-2.0 */
#include "target/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/absent.h"
#include "target/confined.h"
#include "target/container.h"
#include "target/task.h"

#define MAX_CMDLINE 4096
#define MAX_STATUS 32768       /* the list of supplementary groups can be long */
#define PF_KTHREAD 0x00200000u /* include/linux/sched.h; in the flags of /proc/PID/stat */

/* /proc/PID/stat */

struct stat_fields {
	char state;
	pid_t ppid;
	unsigned int flags;
	uint64_t utime, stime;
	int n_threads;
	uint64_t start_ticks;
	int cpu;
	char name[64];
};

/*
 * "pid (comm) S ppid ...": comm may contain spaces, parentheses and newlines, so it ends at the
 * last parenthesis. Field numbers as in proc(5).
 */
static bool parse_stat(char *text, struct stat_fields *fields)
{
	char *open = strchr(text, '(');
	char *close = strrchr(text, ')');
	char *save = NULL;
	int field = 3;

	if (!open || !close || close < open)
		return false;
	*fields = (struct stat_fields){ .cpu = -1 };
	*close = '\0';
	snprintf(fields->name, sizeof(fields->name), "%s", open + 1);
	for (char *word = strtok_r(close + 1, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save), field++) {
		switch (field) {
		case 3:
			fields->state = word[0];
			break;
		case 4:
			fields->ppid = (pid_t)strtol(word, NULL, 10);
			break;
		case 9:
			fields->flags = (unsigned int)strtoul(word, NULL, 10);
			break;
		case 14:
			fields->utime = strtoull(word, NULL, 10);
			break;
		case 15:
			fields->stime = strtoull(word, NULL, 10);
			break;
		case 20:
			fields->n_threads = (int)strtol(word, NULL, 10);
			break;
		case 22:
			fields->start_ticks = strtoull(word, NULL, 10);
			break;
		case 39:
			fields->cpu = (int)strtol(word, NULL, 10);
			break;
		}
	}
	return field > 22;
}

/* 0 or a negative errno. */
static int read_stat(int dirfd, const char *path, struct stat_fields *fields)
{
	char text[1024];
	ssize_t n = vt_task_record(dirfd, path, text, sizeof(text));

	if (n < 0)
		return (int)n;
	return parse_stat(text, fields) ? 0 : -EBADMSG;
}

/* /proc/PID/status */

/*
 * The rest of the line that begins with key ("Uid:"), without the blanks before it; NULL when there
 * is none.
 */
static const char *status_value(const char *status, const char *key)
{
	size_t n = strlen(key);

	/* A newline in the name of the process is escaped there, so it cannot fake a line. */
	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n))
			return line + n + strspn(line + n, " \t");
	}
	return NULL;
}

static unsigned long status_number(const char *status, const char *key, int base)
{
	const char *value = status_value(status, key);

	return value ? strtoul(value, NULL, base) : 0;
}

/* The k-th number of a line, from 0. */
static unsigned long status_nth(const char *status, const char *key, int k)
{
	const char *value = status_value(status, key);
	char *end;

	for (; value && k > 0; k--) {
		strtoul(value, &end, 10);
		value = end;
	}
	return value ? strtoul(value, NULL, 10) : 0;
}

/* NSpid lists the pid in each namespace from ours inwards; the last one is the innermost. */
static pid_t innermost_pid(const char *status, pid_t pid)
{
	const char *value = status_value(status, "NSpid:");
	long last = pid;

	while (value && *value && *value != '\n') {
		char *end;
		long v = strtol(value, &end, 10);

		if (end == value)
			break;
		last = v;
		value = end + strspn(end, " \t");
	}
	return (pid_t)last;
}

/* "x86_Thread_features:\tshstk wrss" (Linux 6.6) */
static bool has_feature(const char *status, const char *feature)
{
	const char *value = status_value(status, "x86_Thread_features:");
	size_t n = strlen(feature);

	while (value && *value && *value != '\n') {
		size_t len = strcspn(value, " \t\n");

		if (len == n && !strncmp(value, feature, n))
			return true;
		value += len;
		value += strspn(value, " \t");
	}
	return false;
}

static void parse_status(struct vt_proc *proc, const char *status)
{
	proc->tracer = (pid_t)status_number(status, "TracerPid:", 10);
	proc->uid = (uid_t)status_nth(status, "Uid:", 0);
	proc->euid = (uid_t)status_nth(status, "Uid:", 1);
	proc->gid = (gid_t)status_nth(status, "Gid:", 0);
	proc->ns_pid = innermost_pid(status, proc->pid);
}

/* What belongs to a thread and is gone once it has ended. */
static void read_thread_status(struct vt_proc *proc, int dirfd)
{
	char status[MAX_STATUS];

	if (vt_task_slurp(dirfd, "status", status, sizeof(status)) < 0)
		return;
	proc->seccomp = (int)status_number(status, "Seccomp:", 10);
	proc->no_new_privs = status_number(status, "NoNewPrivs:", 10);
	proc->shadow_stack = has_feature(status, "shstk");
}

/* The other files. Each of these sets a string of proc; false when out of memory. */

static bool read_cmdline(struct vt_proc *proc, int dirfd)
{
	char text[MAX_CMDLINE + 1];
	ssize_t n = vt_task_slurp(dirfd, "cmdline", text, sizeof(text));

	if (n < 0)
		n = 0;
	while (n > 0 && text[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	proc->cmdline = vt_arena_strndup(&proc->arena, text, (size_t)n);
	return proc->cmdline;
}

static bool read_exe(struct vt_proc *proc, int dirfd)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(dirfd, "exe", path, sizeof(path));

	proc->exe = vt_arena_strndup(&proc->arena, path, n > 0 ? (size_t)n : 0);
	return proc->exe;
}

/*
 * Our own /etc/passwd: a static program cannot use name services, and this one must not wait for
 * them.
 */
static bool read_user(struct vt_proc *proc)
{
	VT_FCLOSE FILE *fp = fopen("/etc/passwd", "re");
	struct passwd *entry;

	while (fp && (entry = fgetpwent(fp))) {
		if (entry->pw_uid == proc->uid) {
			proc->user = vt_arena_strdup(&proc->arena, entry->pw_name);
			return proc->user;
		}
	}
	proc->user = vt_arena_printf(&proc->arena, "%u", (unsigned int)proc->uid);
	return proc->user;
}

static void read_tracer_name(struct vt_proc *proc)
{
	char path[64];

	if (proc->tracer <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)proc->tracer);

	ssize_t n = vt_task_slurp(AT_FDCWD, path, proc->tracer_name, sizeof(proc->tracer_name));

	if (n > 0 && proc->tracer_name[n - 1] == '\n')
		proc->tracer_name[n - 1] = '\0';
}

/* Also false when one of the two may not be read. */
static bool is_same_namespace(int dirfd, const char *name)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "ns/%s", name);
	if (fstatat(dirfd, path, &theirs, 0))
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return !stat(path, &ours) && ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static bool read_container(struct vt_proc *proc, int dirfd)
{
	char text[8192], id[64] = "";

	if (vt_task_slurp(dirfd, "cgroup", text, sizeof(text)) > 0)
		vt_container_of_cgroup(text, id, sizeof(id));
	proc->container = vt_arena_strdup(&proc->arena, id);
	return proc->container;
}

/* The executable */

static bool pread_all(int fd, void *buf, size_t len, uint64_t offset)
{
	return offset < INT64_MAX && pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

static void read_interpreter(struct vt_proc *proc, int fd, const Elf64_Phdr *phdr)
{
	char name[256];
	size_t n = phdr->p_filesz < sizeof(name) - 1 ? (size_t)phdr->p_filesz : sizeof(name) - 1;

	proc->is_static = false;
	if (!pread_all(fd, name, n, phdr->p_offset))
		return;
	name[n] = '\0';
	/* /lib/ld-musl-x86_64.so.1 */
	proc->is_musl = strstr(name, "ld-musl");
}

static void read_elf(struct vt_proc *proc, int dirfd)
{
	VT_CLOSE int fd = openat(dirfd, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr ehdr;

	if (fd < 0 || !pread_all(fd, &ehdr, sizeof(ehdr), 0) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return;
	proc->is_32bit = ehdr.e_ident[EI_CLASS] == ELFCLASS32;
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr.e_phoff > INT32_MAX)
		return;
	proc->is_static = true;
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		Elf64_Phdr phdr;

		if (!pread_all(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr)))
			return;
		if (phdr.p_type == PT_INTERP) {
			read_interpreter(proc, fd, &phdr);
			return;
		}
	}
}

static double uptime_of(uint64_t start_ticks)
{
	long hz = sysconf(_SC_CLK_TCK);
	struct timespec now;

	/* start time counts from boot and includes suspended time (Linux 3.17 and later). */
	if (hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &now))
		return 0;

	double s = (double)now.tv_sec + (double)now.tv_nsec / (double)VT_NS_PER_S -
		   (double)start_ticks / (double)hz;

	return s > 0 ? s : 0;
}

static int open_proc(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : errno == ENOENT ? -ESRCH : -errno;
}

static struct vt_error *no_such_process(pid_t pid)
{
	return vt_error_create(VT_ERR_GONE, "there is no process %d", (int)pid);
}

/*
 * What /proc/PID/status says; an error when pid is a thread of another process (/proc/TID exists
 * for those, too).
 */
static struct vt_error *read_status(struct vt_proc *proc, int dirfd)
{
	char status[MAX_STATUS];
	ssize_t n = vt_task_slurp(dirfd, "status", status, sizeof(status));

	if (n == -ESRCH)
		return no_such_process(proc->pid);
	if (n < 0)
		return vt_task_error((int)-n, proc->pid, "status");

	pid_t tgid = (pid_t)status_number(status, "Tgid:", 10);

	if (tgid > 0 && tgid != proc->pid)
		return vt_error_create(
			VT_ERR_GONE,
			"%d is not a process but a thread of process %d: use that number",
			(int)proc->pid, (int)tgid);
	parse_status(proc, status);
	return NULL;
}

/*
 * The directory of a thread other than the main one, which has ended; negative when none is alive.
 */
static int open_view(int dirfd, pid_t pid)
{
	pid_t tid = vt_proc_view(pid);
	char path[32];

	snprintf(path, sizeof(path), "task/%d", (int)tid);
	return tid == pid ? -1 : openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* dirfd is the directory of a live thread, if there is any. */
static struct vt_error *read_view(struct vt_proc *proc, int dirfd)
{
	read_thread_status(proc, dirfd);
	proc->same_mnt_ns = is_same_namespace(dirfd, "mnt");
	proc->same_pid_ns = is_same_namespace(dirfd, "pid");
	proc->same_user_ns = is_same_namespace(dirfd, "user");
	read_elf(proc, dirfd);
	if (!read_cmdline(proc, dirfd) || !read_exe(proc, dirfd) || !read_user(proc) ||
	    !read_container(proc, dirfd))
		return &vt_enomem;
	return NULL;
}

static struct vt_error *read_all(struct vt_proc *proc, int dirfd)
{
	struct stat_fields stat;
	int ret = read_stat(dirfd, "stat", &stat);

	if (ret == -ESRCH)
		return no_such_process(proc->pid);
	if (ret)
		return vt_task_error(-ret, proc->pid, "state");
	memcpy(proc->name, stat.name, sizeof(proc->name));
	proc->state = stat.state;
	proc->ppid = stat.ppid;
	proc->start_ticks = stat.start_ticks;
	proc->uptime_s = uptime_of(stat.start_ticks);
	proc->n_threads = stat.n_threads;
	proc->kernel_thread = stat.flags & PF_KTHREAD;
	VT_TRY(read_status(proc, dirfd));
	read_tracer_name(proc);
	if (stat.state != 'Z' && stat.state != 'X')
		return read_view(proc, dirfd);

	VT_CLOSE int view = open_view(dirfd, proc->pid);

	/* The numbers of the process remain valid; the state becomes that of a live thread. */
	if (view >= 0 && !read_stat(view, "stat", &stat))
		proc->state = stat.state;
	return read_view(proc, view >= 0 ? view : dirfd);
}

/* /proc with hidepid gives EPERM, a security module EACCES. */
static struct vt_error *error_closed(pid_t pid, int errnum)
{
	struct vt_arena arena = { 0 };
	struct vt_error *err;
	const char *why;

	if (errnum == EPERM)
		return vt_hidden_error(pid);
	why = errnum == EACCES ? vt_why_confined(&arena) : NULL;
	err = why ? vt_error_create(VT_ERR_PERMISSION, "not permitted to look at process %d: %s",
				    (int)pid, why) :
		    vt_task_error(errnum, pid, "directory in /proc");
	vt_arena_deinit(&arena);
	return err;
}

struct vt_error *vt_proc_init(struct vt_proc *proc, pid_t pid)
{
	/*
	 * Everything is read relative to this descriptor, so that all of it belongs to the same
	 * process.
	 */
	VT_CLOSE int dirfd = pid > 0 ? open_proc(pid) : -ESRCH;
	struct vt_proc fresh = { .pid = pid };

	if (dirfd == -ESRCH)
		return vt_absent_error(pid);
	if (dirfd < 0)
		return error_closed(pid, -dirfd);

	struct vt_error *err = read_all(&fresh, dirfd);

	if (err) {
		vt_arena_deinit(&fresh.arena);
		return err;
	}
	*proc = fresh;
	return NULL;
}

void vt_proc_deinit(struct vt_proc *proc)
{
	vt_arena_deinit(&proc->arena);
	*proc = (struct vt_proc){ 0 };
}

bool vt_proc_is_alive(const struct vt_proc *proc)
{
	struct stat_fields stat;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)proc->pid);
	return !read_stat(AT_FDCWD, path, &stat) && stat.start_ticks == proc->start_ticks;
}

/* Threads */

/*
 * "running", or "-1 SP PC" (in the kernel for another reason than a system call), or "NR A0 ... A5
 * SP PC", all but NR in hexadecimal. Reading it needs the same permission as ptrace.
 */
static void parse_syscall(struct vt_thread_info *info, char *text)
{
	uint64_t value[9];
	int n = 0;
	char *p = text;

	for (; n < 9; n++) {
		char *end;

		value[n] = n == 0 ? (uint64_t)strtoll(p, &end, 0) : strtoull(p, &end, 16);
		if (end == p)
			break;
		p = end;
	}
	if (n != 9 && n != 3)
		return;
	info->syscall_known = true;
	info->syscall_nr = (long)value[0];
	info->in_syscall = n == 9 && info->syscall_nr >= 0;
	if (n == 9)
		memcpy(info->syscall_args, value + 1, sizeof(info->syscall_args));
	info->sp = value[n - 2];
	info->pc = value[n - 1];
}

static void read_wchan(struct vt_thread_info *info, int dirfd, const char *path)
{
	ssize_t n = vt_task_record(dirfd, path, info->wchan, sizeof(info->wchan));

	if (n <= 0 || !strcmp(info->wchan, "0"))
		info->wchan[0] = '\0';
}

/* dirfd is /proc/PID/task. 0 or a negative errno. */
static int read_thread(int dirfd, pid_t tid, struct vt_thread_info *info)
{
	struct vt_thread_info fresh = { .tid = tid, .syscall_nr = -1 };
	struct stat_fields stat;
	char path[40], text[512];

	snprintf(path, sizeof(path), "%d/stat", (int)tid);

	int ret = read_stat(dirfd, path, &stat);

	if (ret)
		return ret;
	memcpy(fresh.name, stat.name, sizeof(fresh.name));
	fresh.state = stat.state;
	fresh.cpu = stat.cpu;
	fresh.start_ticks = stat.start_ticks;
	fresh.utime_ticks = stat.utime;
	fresh.stime_ticks = stat.stime;
	snprintf(path, sizeof(path), "%d/syscall", (int)tid);
	if (vt_task_record(dirfd, path, text, sizeof(text)) > 0)
		parse_syscall(&fresh, text);
	snprintf(path, sizeof(path), "%d/wchan", (int)tid);
	read_wchan(&fresh, dirfd, path);
	*info = fresh;
	return 0;
}

struct reading {
	int dirfd; /* /proc/PID/task */
	const pid_t *tids;
	struct vt_thread_info *infos; /* tid 0: it has ended */
};

static void read_threads(void *arg, size_t first, size_t end)
{
	const struct reading *r = arg;

	for (size_t i = first; i < end; i++) {
		if (read_thread(r->dirfd, r->tids[i], &r->infos[i]))
			r->infos[i].tid = 0;
	}
}

static struct vt_error *fill_list(struct vt_thread_list *list, int dirfd, pid_t pid,
				  const pid_t *tids, size_t n)
{
	struct reading reading = { .dirfd = dirfd, .tids = tids };

	if (!vt_vec_reserve(&list->threads, n ? n : 1))
		return &vt_enomem;
	reading.infos = list->threads.data;
	vt_task_each(n, read_threads, &reading);
	for (size_t i = 0; i < n; i++) {
		if (reading.infos[i].tid)
			list->threads.data[list->threads.n++] = reading.infos[i];
	}
	if (list->threads.n == 0)
		return no_such_process(pid);
	/*
	 * The main thread first, though its number need not be the smallest (numbers wrap around).
	 */
	for (size_t i = 1; i < list->threads.n; i++) {
		struct vt_thread_info main_thread = list->threads.data[i];

		if (main_thread.tid != pid)
			continue;
		memmove(list->threads.data + 1, list->threads.data, i * sizeof(main_thread));
		list->threads.data[0] = main_thread;
		break;
	}
	return NULL;
}

struct vt_error *vt_thread_list_init(struct vt_thread_list *list, pid_t pid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);

	return vt_thread_list_init_at(list, dirfd, pid);
}

struct vt_error *vt_thread_list_init_at(struct vt_thread_list *list, int dirfd, pid_t pid)
{
	VT_FREE pid_t *tids = NULL;
	struct vt_thread_list fresh = { 0 };
	size_t n = 0;
	int ret = dirfd < 0 ? dirfd : vt_task_list(dirfd, VT_MAX_THREADS, &tids, &n);

	if (ret == -ESRCH)
		return no_such_process(pid);
	if (ret)
		return vt_task_error(-ret, pid, "threads");

	struct vt_error *err = fill_list(&fresh, dirfd, pid, tids, n);

	if (err) {
		vt_thread_list_deinit(&fresh);
		return err;
	}
	*list = fresh;
	return NULL;
}

void vt_thread_list_deinit(struct vt_thread_list *list)
{
	vt_vec_deinit(&list->threads);
}

bool vt_proc_has_driver_thread(pid_t pid)
{
	struct vt_thread_list list = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_list_init(&list, pid);
	bool found = false;

	for (size_t i = 0; !err && i < list.threads.n; i++)
		found = found || !strncmp(list.threads.data[i].name, "cuda", 4);
	vt_thread_list_deinit(&list);
	return found;
}

struct vt_error *vt_thread_info_read(struct vt_thread_info *info, pid_t pid, pid_t tid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);
	int ret = dirfd < 0 ? dirfd : read_thread(dirfd, tid, info);

	if (ret == -ESRCH)
		return vt_error_create(VT_ERR_GONE, "thread %d of process %d ended", (int)tid,
				       (int)pid);
	if (ret)
		return vt_task_error(-ret, pid, "threads");
	return NULL;
}

static char *read_kernel_stack(pid_t pid, pid_t tid)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stack", (int)pid, (int)tid);
	return vt_task_record(AT_FDCWD, path, text, sizeof(text)) > 0 ? strdup(text) : NULL;
}

struct kernel_stacks {
	pid_t pid;
	const struct vt_thread_info *infos;
	char **texts;
};

static void read_kernel_stacks(void *arg, size_t first, size_t end)
{
	const struct kernel_stacks *k = arg;

	for (size_t i = first; i < end; i++) {
		const struct vt_thread_info *info = &k->infos[i];

		k->texts[i] = info->state == 'R' ? NULL : read_kernel_stack(k->pid, info->tid);
	}
}

void vt_thread_kernel_stacks(pid_t pid, const struct vt_thread_info *infos, size_t n, char **texts)
{
	struct kernel_stacks k = { .pid = pid, .infos = infos, .texts = texts };

	vt_task_each(n, read_kernel_stacks, &k);
}

size_t vt_thread_kernel_frames(char *text, const char **frames, struct vt_arena *arena)
{
	char *rest = NULL;
	size_t n = 0;

	/* "[<0>] futex_wait+0x5f/0x120", with the address in the brackets before Linux 4.11 */
	for (char *line = strtok_r(text, "\n", &rest); line && n < VT_MAX_KERNEL_FRAMES;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *name = strstr(line, "] ");

		frames[n] = name ? vt_arena_strdup(arena, name + 2) : NULL;
		if (!frames[n])
			break;
		n++;
	}
	return n;
}

/* Samples of threads */

static bool read_sample_status(struct vt_thread_sample *sample, int dirfd)
{
	char path[40], status[MAX_STATUS];
	const char *state, *voluntary, *involuntary;

	snprintf(path, sizeof(path), "%d/status", (int)sample->info.tid);
	if (vt_task_slurp(dirfd, path, status, sizeof(status)) <= 0)
		return false;
	state = status_value(status, "State:");
	/* The last two lines: gone when a long list of groups has filled the buffer. */
	voluntary = status_value(status, "voluntary_ctxt_switches:");
	involuntary = status_value(status, "nonvoluntary_ctxt_switches:");
	if (!state || !voluntary || !involuntary)
		return false;
	sample->info.state = *state;
	sample->switches = strtoull(voluntary, NULL, 10) + strtoull(involuntary, NULL, 10);
	sample->ns_tid = innermost_pid(status, sample->info.tid);
	return true;
}

static bool read_sample_syscall(struct vt_thread_sample *sample, int dirfd)
{
	char path[40], text[512];

	snprintf(path, sizeof(path), "%d/syscall", (int)sample->info.tid);
	if (vt_task_record(dirfd, path, text, sizeof(text)) > 0)
		parse_syscall(&sample->info, text);
	/*
	 * Both are 0 when the thread has ended. Only the instruction pointer is 0 after a call
	 * through a null pointer.
	 */
	return sample->info.syscall_known && (sample->info.sp || sample->info.pc);
}

void vt_thread_sample_take(struct vt_thread_sample *sample, pid_t pid, pid_t tid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);

	*sample = (struct vt_thread_sample){ .info = { .tid = tid, .cpu = -1, .syscall_nr = -1 } };
	/*
	 * Reads the counters before the registers here, and after them below, so they span what is
	 * read in between.
	 */
	sample->asleep = dirfd >= 0 && read_sample_status(sample, dirfd) &&
			 read_sample_syscall(sample, dirfd);
}

bool vt_thread_sample_holds(const struct vt_thread_sample *sample, pid_t pid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);
	struct vt_thread_sample now = { .info = { .tid = sample->info.tid, .syscall_nr = -1 } };
	const struct vt_thread_info *a = &sample->info, *b = &now.info;

	return sample->asleep && dirfd >= 0 && read_sample_syscall(&now, dirfd) &&
	       read_sample_status(&now, dirfd) && now.switches == sample->switches &&
	       a->sp == b->sp && a->pc == b->pc && a->syscall_nr == b->syscall_nr &&
	       a->in_syscall == b->in_syscall &&
	       !memcmp(a->syscall_args, b->syscall_args, sizeof(a->syscall_args));
}

/* Permission */

/* What decides on our side whether ptrace is allowed. */
struct own {
	uid_t uid;
	uint64_t cap_effective;
	uint64_t cap_permitted;
	unsigned long seccomp;
};

static struct own read_own(void)
{
	char status[MAX_STATUS];
	struct own own = { .uid = getuid() };

	if (vt_task_slurp(AT_FDCWD, "/proc/self/status", status, sizeof(status)) > 0) {
		own.cap_effective = status_number(status, "CapEff:", 16);
		own.cap_permitted = status_number(status, "CapPrm:", 16);
		own.seccomp = status_number(status, "Seccomp:", 10);
	}
	return own;
}

static bool may_ptrace_all(const struct own *own)
{
	return own->cap_effective >> CAP_SYS_PTRACE & 1;
}

static uint64_t permitted_caps_of(pid_t pid)
{
	char path[32], status[MAX_STATUS];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (vt_task_slurp(AT_FDCWD, path, status, sizeof(status)) <= 0)
		return 0;
	return status_number(status, "CapPrm:", 16);
}

/* kernel.yama.ptrace_scope, 0 when there is no Yama. */
static int yama_scope(void)
{
	char text[16];

	if (vt_task_slurp(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) <= 0)
		return 0;
	return (int)strtol(text, NULL, 10);
}

static bool is_descendant(pid_t pid)
{
	char path[32];
	struct stat_fields stat;

	/* Bounded: the tree can change during the walk to its root. */
	for (int hops = 0; pid > 1 && hops < 1024; hops++, pid = stat.ppid) {
		if (pid == getpid())
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		if (read_stat(AT_FDCWD, path, &stat))
			return false;
	}
	return false;
}

static bool owner_of_files(const struct vt_proc *proc, uid_t *uid)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)vt_proc_view(proc->pid));
	if (stat(path, &st))
		return false;
	*uid = st.st_uid;
	return true;
}

/*
 * The /proc files of a process that may not be dumped (a program with set-user-id or file
 * capabilities, or one that called prctl(PR_SET_DUMPABLE, 0)) belong to root.
 */
static bool is_undumpable(const struct vt_proc *proc)
{
	uid_t uid;

	return proc->euid != 0 && owner_of_files(proc, &uid) && uid != proc->euid;
}

/*
 * Every user may read /proc/PID/uid_map, but /proc/PID/ns/user needs permission to trace. So when
 * the namespace is not known to be ours, the maps decide. pid 0: our own.
 */
static ssize_t read_uid_map(pid_t pid, char *text, size_t size)
{
	char path[32] = "/proc/self/uid_map";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	return vt_task_slurp(AT_FDCWD, path, text, size);
}

static bool is_other_user_namespace(const struct vt_proc *proc)
{
	char ours[4096], theirs[4096];

	return !proc->same_user_ns && read_uid_map(0, ours, sizeof(ours)) >= 0 &&
	       read_uid_map(proc->pid, theirs, sizeof(theirs)) >= 0 && strcmp(ours, theirs) != 0;
}

/* The initial namespace maps all ids to themselves; privilege there is privilege in all others. */
static bool is_initial_user_namespace(void)
{
	char text[4096], *p = text;
	unsigned long value[3]; /* first id inside, first id outside, how many */

	if (read_uid_map(0, text, sizeof(text)) <= 0)
		return false;
	for (int i = 0; i < 3; i++)
		value[i] = strtoul(p, &p, 10);
	return value[0] == 0 && value[1] == 0 && value[2] == UINT32_MAX;
}

/* Reasons that hold for every user. */
static char *why_nobody(const struct vt_proc *proc, struct vt_arena *arena)
{
	if (proc->kernel_thread)
		return vt_arena_printf(arena, "%d is a kernel thread", (int)proc->pid);
	if (proc->state == 'Z')
		return vt_arena_printf(arena,
				       "process %d has already ended (a zombie); its parent is %d",
				       (int)proc->pid, (int)proc->ppid);
	if (proc->tracer == getpid())
		return NULL;
	if (proc->tracer > 0)
		return vt_arena_printf(
			arena,
			"process %d (%s) traces it already, and there can be only one: "
			"let that one detach first",
			(int)proc->tracer, proc->tracer_name);
	if (yama_scope() >= 3)
		return vt_arena_strdup(arena, "kernel.yama.ptrace_scope is 3: no process may "
					      "attach until this machine is booted again with a "
					      "lower value");
	return NULL;
}

/* What CAP_SYS_PTRACE would lift, NULL when nothing. */
static char *what_is_in_the_way(const struct vt_proc *proc, const struct own *own,
				struct vt_arena *arena)
{
	int scope = yama_scope();

	if (own->uid != proc->uid)
		return vt_arena_printf(arena, "the process belongs to user %s",
				       proc->user ? proc->user : "?");
	if (is_other_user_namespace(proc))
		return vt_arena_strdup(arena, "the process is in another user namespace");
	if (own->uid != proc->euid || is_undumpable(proc))
		return vt_arena_strdup(
			arena, "the process is protected from debuggers (set-user-id program, or "
			       "PR_SET_DUMPABLE)");
	if (permitted_caps_of(proc->pid) & ~own->cap_permitted)
		return vt_arena_strdup(arena, "the process has capabilities that you lack");
	if (scope == 2)
		return vt_arena_strdup(arena,
				       "kernel.yama.ptrace_scope is 2 (administrators only)");
	if (scope == 1 && !is_descendant(proc->pid))
		return vt_arena_strdup(arena, "kernel.yama.ptrace_scope is 1 (own children only)");
	return NULL;
}

static char *why_without_capability(const struct vt_proc *proc, const struct own *own,
				    struct vt_arena *arena)
{
	const char *what = what_is_in_the_way(proc, own, arena);

	if (!what)
		return NULL;
	if (own->uid == 0)
		return vt_arena_printf(
			arena,
			"%s, and root lacks CAP_SYS_PTRACE here: start the container with "
			"--cap-add=SYS_PTRACE (Kubernetes: securityContext.capabilities.add: "
			"[\"SYS_PTRACE\"]), or run this command on the host with sudo",
			what);
	return vt_arena_printf(
		arena, "%s: run the same command with sudo%s", what,
		strstr(what, "scope is 1") ? ", or: sudo sysctl kernel.yama.ptrace_scope=0" : "");
}

/*
 * CAP_SYS_PTRACE opens no file: those in /proc of another user's process, or of one that may not be
 * dumped, have another owner.
 */
static char *why_files_are_closed(const struct vt_proc *proc, const struct own *own,
				  struct vt_arena *arena)
{
	uid_t uid;

	if (own->cap_effective >> CAP_DAC_OVERRIDE & 1 || !owner_of_files(proc, &uid) ||
	    uid == geteuid())
		return NULL;
	return vt_arena_strdup(arena, "CAP_SYS_PTRACE is not enough for the files in /proc of "
				      "another user's process or of a protected one: "
				      "CAP_DAC_OVERRIDE is needed, too, or run the same command "
				      "with sudo");
}

char *vt_proc_why_not_permitted(const struct vt_proc *proc, struct vt_arena *arena)
{
	struct own own = read_own();
	char *why = why_nobody(proc, arena);

	if (why)
		return why;
	if (!may_ptrace_all(&own))
		why = why_without_capability(proc, &own, arena);
	else if (!is_initial_user_namespace() && is_other_user_namespace(proc))
		why = vt_arena_strdup(
			arena,
			"the process is in another user namespace, where CAP_SYS_PTRACE of this one "
			"does not count: run this command on the host with sudo");
	else
		why = why_files_are_closed(proc, &own, arena);
	if (!why)
		why = vt_why_confined(arena);
	if (why)
		return why;
	if (own.seccomp == 2)
		return vt_arena_strdup(
			arena,
			"a seccomp filter of this shell forbids it: start the container with "
			"--cap-add=SYS_PTRACE (old engines: --security-opt seccomp=unconfined), or run "
			"this command on the host with sudo");
	return NULL;
}
