/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's own loader loads the recorder: C++ exceptions pass through the recorder's frames,
 * and the unwinder asks the loader for call frame information.
 *
 * The loader wants a path. It gets the path of a memory file in the descriptor table of a thread
 * that we start for this purpose. So the target can neither close the file, nor pass it on to a
 * child, nor put another in its place.
 */
#include <stdbool.h>

#include "vramtap/freestanding.h"

#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/sched.h>

#include "ops.h"

#define NS_PER_US UINT64_C(1000)
#define EINVAL_ 22
#define MANY_FDS 65536 /* before Linux 5.9, which has close_range() */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
#define SEALS 0xf /* F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE */

/* dlfcn.h of glibc */
#define RTLD_NOW_ 0x2
#define RTLD_NODELETE_ 0x1000

/* link.h: the beginning of a handle of dlopen(). */
struct link_map_head {
	uint64_t addr;
	char *name;
};

enum file_state { FILE_STARTING, FILE_READY, FILE_FAILED };

/* What the two threads share. One request runs at a time. */
static struct {
	const struct vt_load_recorder_args *args;
	const char *bytes;
	uint32_t state; /* enum file_state; futex */
	uint32_t done;  /* futex: the file is not needed any more */
	uint32_t busy;  /* futex: the kernel clears it when the thread is off its stack */
	int32_t fd, tid;
	int32_t error; /* positive errno */
	const char *what;
} file;

static char file_stack[16384] __attribute__((aligned(16)));

/*
 * long vt_load_start(long flags, void *stack, uint32_t *busy): clone(2) of a thread that runs
 * vt_load_file() and ends. It shares our thread pointer, so no code of the C library may run on it.
 */
long vt_load_start(long flags, void *stack, uint32_t *busy);
__attribute__((used)) void vt_load_file(void);
VT_ARCH_START_THREAD(vt_load_start, vt_load_file);

static void wake(uint32_t *word)
{
	vt_sys4(SYS_futex, (long)word, FUTEX_WAKE, INT32_MAX, 0);
}

/*
 * Sleeps while the word has this value. Both threads are ours, and the other's next step is certain
 * to come.
 */
static void wait_while(uint32_t *word, uint32_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
		long ret = vt_sys6(SYS_futex, (long)word, FUTEX_WAIT, value, 0, 0, 0);

		/* A filter that forbids this call must not make us spin. */
		if (ret && ret != -11 /* EAGAIN */ && ret != -4 /* EINTR */)
			vt_sys_sleep_ns(100 * NS_PER_US);
	}
}

/* ---- the file's thread ---- */

/*
 * Closes the copies of the target's descriptors: they must not keep a connection open that the
 * target closes.
 */
static void close_copies(void)
{
	if (!vt_sys4(SYS_close_range, 0, UINT32_MAX, 0, 0))
		return;
	for (int fd = 0; fd < MANY_FDS; fd++)
		vt_sys2(SYS_close, fd, 0);
}

/*
 * As in inject/stub/stub.c: first the only form that every setting of vm.memfd_noexec accepts, then
 * the form for older kernels.
 */
static long create(void)
{
	long fd = vt_sys2(SYS_memfd_create, (long)file.args->name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd == -EINVAL_)
		fd = vt_sys2(SYS_memfd_create, (long)file.args->name,
			     MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static long write_all(long fd)
{
	for (uint64_t done = 0; done < file.args->size;) {
		long n = vt_sys4(SYS_write, fd, (long)(file.bytes + done),
				 (long)(file.args->size - done), 0);

		if (n == -4 /* EINTR */)
			continue;
		if (n <= 0)
			return n ? n : -28 /* ENOSPC */;
		done += (uint64_t)n;
	}
	return 0;
}

static void fail(const char *what, long error)
{
	file.what = what;
	file.error = (int32_t)-error;
	__atomic_store_n(&file.state, FILE_FAILED, __ATOMIC_RELEASE);
	wake(&file.state);
}

void vt_load_file(void)
{
	long fd, ret, high;

	close_copies();
	fd = create();
	if (fd < 0) {
		fail("memfd_create", fd);
		return;
	}
	ret = write_all(fd);
	if (ret) {
		fail("write", ret);
		return;
	}
	/* From here on it cannot be changed: it is code. */
	vt_sys4(SYS_fcntl, fd, F_ADD_SEALS, SEALS, 0);
	/* A low number works as well, but is less unique. */
	high = vt_sys4(SYS_fcntl, fd, F_DUPFD_CLOEXEC, (long)file.args->fd, 0);
	file.fd = (int32_t)(high < 0 ? fd : high);
	file.tid = (int32_t)vt_sys0(SYS_gettid);
	__atomic_store_n(&file.state, FILE_READY, __ATOMIC_RELEASE);
	wake(&file.state);
	/*
	 * Keeps the file for as long as the loader may still open it, even for ever: the path never
	 * names another file.
	 */
	wait_while(&file.done, 0);
}

/* ---- the helper's thread ---- */

static void start_file(const struct vt_load_recorder_args *args, const void *bytes)
{
	long ret;

	file.args = args;
	file.bytes = bytes;
	file.state = FILE_STARTING;
	file.done = 0;
	file.busy = 1;
	/* Without CLONE_FILES: the table is its own. */
	ret = vt_load_start(CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				    CLONE_CHILD_CLEARTID,
			    file_stack + sizeof(file_stack), &file.busy);
	if (ret < 0) {
		file.busy = 0;
		fail("clone", ret);
		return;
	}
	wait_while(&file.state, FILE_STARTING);
}

/* Waits until the thread has left its stack, which is ours. */
static void end_file(void)
{
	__atomic_store_n(&file.done, 1, __ATOMIC_RELEASE);
	wake(&file.done);
	wait_while(&file.busy, 1);
}

static char *add_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	*at = '\0';
	return at;
}

static char *add_number(char *at, uint32_t number)
{
	char digits[12];
	int n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (n)
		*at++ = digits[--n];
	*at = '\0';
	return at;
}

static uint64_t length(const char *text)
{
	uint64_t n = 0;

	while (text[n])
		n++;
	return n;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

#define PATH_MAX_ 160
#define NAME_PREFIX "/memfd:"

/* At least as long as the name that replaces it afterwards. */
static void make_path(char path[PATH_MAX_])
{
	uint64_t wanted = sizeof(NAME_PREFIX) - 1 + length(file.args->name);
	char *at = add_text(path, "/proc/self/");

	while ((uint64_t)(at - path) < wanted)
		at = add_text(at, "./");
	at = add_text(at, "task/");
	at = add_number(at, (uint32_t)file.tid);
	at = add_text(at, "/fd/");
	add_number(at, (uint32_t)file.fd);
}

/*
 * The loader keeps the path for debuggers and for programs that open the files of their own stacks.
 * The path is dead now, but might name another file one day. So it is replaced by what
 * /proc/PID/maps shows, which is not the name of a file. The loader itself only compares the path.
 */
static void rename_map(struct link_map_head *map, const char *path)
{
	if (!map->name || !same(map->name, path))
		return;
	add_text(add_text(map->name, NAME_PREFIX), file.args->name);
}

static uint32_t load(struct vt_helper_shared *shared)
{
	void *(*dlopen)(const char *, int) = (void *)file.args->dlopen;
	const char *(*dlerror)(void) = (void *)file.args->dlerror;
	struct link_map_head *map;
	char path[PATH_MAX_];

	make_path(path);
	map = dlopen(path, RTLD_NOW_ | RTLD_NODELETE_);
	if (!map) {
		vt_helper_say_why(shared,
				  "the loader refused the recorder: ", dlerror ? dlerror() : NULL);
		return VT_HELPER_FAILED;
	}
	rename_map(map, path);
	shared->recorder.base = map->addr;
	return VT_HELPER_OK;
}

uint32_t vt_helper_op_load_recorder(struct vt_helper_shared *shared, const void *room,
				    uint64_t room_size)
{
	const struct vt_load_recorder_args *args = &shared->args.load_recorder;
	uint32_t status;

	if (!args->dlopen || !args->size || args->size > room_size)
		return VT_HELPER_BAD_ARGS;
	start_file(args, room);
	if (file.state == FILE_READY) {
		status = load(shared);
	} else {
		char number[12];

		add_number(number, (uint32_t)file.error);
		vt_helper_say_why(shared, file.what, " failed with error ");
		vt_helper_say_why(shared, shared->why, number);
		status = VT_HELPER_FAILED;
	}
	end_file();
	return status;
}

uint32_t vt_helper_op_call_recorder(struct vt_helper_shared *shared, const void *room,
				    uint64_t room_size)
{
	const struct vt_call_recorder_args *args = &shared->args.call_recorder;
	vt_recorder_control_fn *control = (vt_recorder_control_fn *)args->control;
	struct vt_recorder_config config = args->config;

	if (!control || config.got > room_size ||
	    config.n_got > (room_size - config.got) / sizeof(struct vt_recorder_got))
		return VT_HELPER_BAD_ARGS;
	config.got = (uint64_t)room + config.got;
	shared->recorder.status = control(args->op, args->op == VT_RECORD_OFF ? NULL : &config);
	return VT_HELPER_OK;
}
