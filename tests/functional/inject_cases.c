/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injection into targets that are in every kind of trouble: each must be refused or served, and be
 * as it was afterwards. The targets are forks of this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "functional/census.h"
#include "inject/channel.h"
#include "inject/inject.h"
#include "inject/space.h"

/* What must happen may take this long on a busy machine. */
#define LONG_MS 20000
#define LONG_NS (LONG_MS * VT_NS_PER_MS)
#define PATIENCE_S 5

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#ifndef HAVE_ASAN
#define HAVE_ASAN 0
#endif

/* What a target and the test tell each other. */
struct shared {
	atomic_int ready;
	atomic_int command;
	atomic_int done;
	atomic_long result;
	atomic_long rounds;
};

static struct shared *shared;

/* The tool's side of one target. */
struct tool {
	struct vt_proc proc;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_inject_timing timing;
	struct vt_helper *helper;
};

static void assert_ok(struct vt_error *err)
{
	if (err)
		fail_msg("%s: %s", vt_error_code_name(err->code), err->message);
}

static void assert_code(struct vt_error *err, enum vt_error_code code, const char *part)
{
	assert_non_null(err);
	if (err->code != code || !strstr(err->message, part))
		fail_msg("%s: %s; expected %s with \"%s\"", vt_error_code_name(err->code),
			 err->message, vt_error_code_name(code), part);
	vt_error_destroy(err);
}

/* Targets */

static pid_t start(void (*body)(void))
{
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		body();
		_exit(0);
	}
	for (int i = 0; i < LONG_MS && !shared->ready; i++)
		usleep(1000);
	assert_true(shared->ready);
	usleep(20000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	munmap(shared, sizeof(*shared));
}

static void wait_done(void)
{
	for (int i = 0; i < LONG_MS && !shared->done; i++)
		usleep(1000);
	assert_true(shared->done);
}

static void body_pause(void)
{
	shared->ready = 1;
	for (;;)
		pause();
}

static void *wait_thread(void *arg)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	return arg;
}

static void start_waiter(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, wait_thread, NULL))
		_exit(1);
}

static char state_of(pid_t pid)
{
	struct vt_thread_info info = { 0 };

	assert_ok(vt_thread_info_read(&info, pid, pid));
	return info.state;
}

static bool becomes(pid_t pid, char state)
{
	int ms;

	for (ms = 0; ms < LONG_MS && state_of(pid) != state; ms++)
		usleep(1000);
	return ms < LONG_MS;
}

/* The process comes to have so many. A thread that has ended stays in /proc for a moment. */
static void assert_census(pid_t pid, int threads, int fds)
{
	for (int i = 0; i < LONG_MS &&
			(count_entries(pid, "task") != threads || count_entries(pid, "fd") != fds);
	     i++)
		usleep(1000);
	assert_int_equal(count_entries(pid, "task"), threads);
	assert_int_equal(count_entries(pid, "fd"), fds);
}

/* Nothing of ours is left. */
static void assert_clean(pid_t pid, int threads, int fds)
{
	assert_census(pid, threads, fds);
	for (int i = 0; i < LONG_MS && count_maps(pid, !HAVE_ASAN); i++)
		usleep(1000);
	assert_int_equal(count_maps(pid, !HAVE_ASAN), 0);
}

/* The tool */

static void open_tool(struct tool *tool, pid_t pid)
{
	*tool = (struct tool){ 0 };
	assert_ok(vt_proc_init(&tool->proc, pid));
	assert_ok(vt_maps_init(&tool->maps, pid));
	assert_ok(vt_modules_init(&tool->modules, pid, &tool->maps));
	assert_ok(vt_live_create(pid, &tool->live));
}

static struct vt_error *create(struct tool *tool, bool allow_resume, uint64_t budget_ns)
{
	struct vt_inject_options options = { .budget_ns = budget_ns, .allow_resume = allow_resume };

	return vt_helper_create(&tool->proc, &tool->modules, tool->live, &options, &tool->timing,
				&tool->helper);
}

static void close_tool(struct tool *tool)
{
	vt_helper_destroy(tool->helper);
	vt_live_destroy(tool->live);
	vt_modules_deinit(&tool->modules);
	vt_maps_deinit(&tool->maps);
	vt_proc_deinit(&tool->proc);
}

/*
 * For a tool in a child process: an assertion that fails there would go on with the tests in the
 * child. Returns only when the session stands.
 */
static void create_or_exit(struct tool *tool, pid_t pid, bool allow_resume)
{
	struct vt_inject_options options = { .budget_ns = LONG_NS, .allow_resume = allow_resume };
	struct vt_error *err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	*tool = (struct tool){ 0 };
	if ((err = vt_proc_init(&tool->proc, pid)) || (err = vt_maps_init(&tool->maps, pid)) ||
	    (err = vt_modules_init(&tool->modules, pid, &tool->maps)) ||
	    (err = vt_live_create(pid, &tool->live)) ||
	    (err = vt_helper_create(&tool->proc, &tool->modules, tool->live, &options,
				    &tool->timing, &tool->helper))) {
		fprintf(stderr, "the tool: %s\n", err->message);
		_exit(1);
	}
}

/* The helper answers: it says that it does not know the request. */
static void assert_answers(struct tool *tool)
{
	assert_code(vt_helper_call(tool->helper, (enum vt_helper_op)1000, vt_now_ns() + LONG_NS),
		    VT_ERR_FORMAT, "does not know");
}

static void assert_refused(pid_t pid, enum vt_error_code code, const char *part)
{
	int threads = count_entries(pid, "task"), fds = count_entries(pid, "fd");
	struct tool tool;

	open_tool(&tool, pid);
	assert_code(create(&tool, false, LONG_NS), code, part);
	close_tool(&tool);
	assert_clean(pid, threads, fds);
}

static void assert_served(pid_t pid)
{
	int threads = count_entries(pid, "task"), fds = count_entries(pid, "fd");
	struct tool tool;

	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	assert_census(pid, threads + 1, fds);
	assert_answers(&tool);
	close_tool(&tool);
	assert_clean(pid, threads, fds);
}

/* Sessions */

static void sessions_follow_each_other(void **state)
{
	pid_t pid = start(body_pause);

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_served(pid);
	end(pid);
}

static void sessions_run_at_the_same_time(void **state)
{
	pid_t pid = start(body_pause);
	struct tool a, b;

	(void)state;
	open_tool(&a, pid);
	open_tool(&b, pid);
	assert_ok(create(&a, false, LONG_NS));
	assert_ok(create(&b, false, LONG_NS));
	assert_answers(&a);
	assert_answers(&b);
	close_tool(&a);
	assert_answers(&b);
	close_tool(&b);
	assert_clean(pid, 1, count_entries(pid, "fd"));
	end(pid);
}

static void stub_is_written_once(void **state)
{
	pid_t pid = start(body_pause);
	uint64_t first, second;
	struct tool tool;
	bool present;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(vt_space_for_stub(&tool.modules, tool.live, vt_stub_blob, vt_stub_size(), &first,
				    &present));
	assert_false(present);
	assert_ok(create(&tool, false, LONG_NS));
	assert_ok(vt_space_for_stub(&tool.modules, tool.live, vt_stub_blob, vt_stub_size(), &second,
				    &present));
	assert_true(present);
	assert_int_equal(first, second);
	close_tool(&tool);
	end(pid);
}

static void file_grows(void **state)
{
	pid_t pid = start(body_pause);
	struct vt_block_rec *blocks;
	void (*release)(struct vt_block_rec *, size_t);
	struct tool tool;
	size_t n;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	assert_ok(vt_helper_grow(tool.helper, 8 << 20));
	assert_true(vt_helper_shared(tool.helper)->file_size >= 8 << 20);
	assert_answers(&tool);

	struct vt_helper_shared *s = vt_helper_shared(tool.helper);

	s->torch.blocks_offset = VT_HELPER_ROOM_OFFSET;
	s->torch.n_blocks = 2;
	memset((char *)s + VT_HELPER_ROOM_OFFSET, 7, 2 * sizeof(**(&blocks)));
	assert_ok(vt_helper_take_blocks(tool.helper, &blocks, &n, &release));
	assert_int_equal(n, 2);
	assert_int_equal(blocks[1].addr, UINT64_C(0x0707070707070707));
	release(blocks, n);
	s->torch.n_blocks = (8 << 20) / sizeof(*blocks);
	assert_code(vt_helper_take_blocks(tool.helper, &blocks, &n, &release), VT_ERR_FORMAT,
		    "out of bounds");
	s->torch.n_blocks = UINT64_MAX / 64;
	assert_code(vt_helper_take_blocks(tool.helper, &blocks, &n, &release), VT_ERR_FORMAT,
		    "out of bounds");
	s->torch.blocks_offset = UINT64_MAX;
	s->torch.n_blocks = 0;
	assert_code(vt_helper_take_blocks(tool.helper, &blocks, &n, &release), VT_ERR_FORMAT,
		    "out of bounds");
	assert_code(vt_helper_grow(tool.helper, UINT64_C(1) << 40), VT_ERR_UNSUPPORTED,
		    "more than its limit");
	close_tool(&tool);
	end(pid);
}

static void helper_ends_when_forgotten(void **state)
{
	pid_t pid = start(body_pause);
	int fds = count_entries(pid, "fd");
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	sleep(PATIENCE_S + 1);
	assert_clean(pid, 1, fds);
	assert_code(vt_helper_call(tool.helper, VT_OP_CUDA, vt_now_ns() + 200 * VT_NS_PER_MS),
		    VT_ERR_TIMEOUT, "in time");
	close_tool(&tool);
	end(pid);
}

static void target_dies_during_session(void **state)
{
	pid_t pid = start(body_pause);
	uint64_t begin;
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	end(pid);
	begin = vt_now_ns();
	assert_code(vt_helper_call(tool.helper, VT_OP_CUDA, vt_now_ns() + LONG_NS), VT_ERR_GONE,
		    "ended");
	assert_true(vt_now_ns() - begin < LONG_NS / 2);
	close_tool(&tool);
}

static void target_is_gone(void **state)
{
	pid_t pid = start(body_pause);
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_code(create(&tool, false, LONG_NS), VT_ERR_GONE, "");
	close_tool(&tool);
}

/* What the target does in the meantime */

static void body_fork(void)
{
	start_waiter();
	shared->ready = 1;
	while (!shared->command)
		usleep(1000);
	pid_t pid = fork();

	if (pid == 0) {
		shared->result = count_maps(getpid(), !HAVE_ASAN);
		shared->done = 1;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pause();
}

static void child_of_fork_inherits_nothing(void **state)
{
	pid_t pid = start(body_fork);
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	assert_true(count_maps(pid, !HAVE_ASAN) > 0);
	shared->command = 1;
	wait_done();
	assert_int_equal(shared->result, 0);
	assert_answers(&tool);
	close_tool(&tool);
	end(pid);
}

/*
 * setuid() and its like make every thread change with signal 33: a thread that blocks it would hang
 * them.
 */
static void body_setuid(void)
{
	start_waiter();
	shared->ready = 1;
	while (!shared->command)
		usleep(1000);
	for (int i = 0; i < 100; i++)
		shared->result = setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1);
	shared->done = 1;
	pause();
}

static void target_may_change_its_user(void **state)
{
	pid_t pid = start(body_setuid);
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	assert_ok(create(&tool, false, LONG_NS));
	shared->command = 1;
	wait_done();
	assert_int_equal(shared->result, 0);
	assert_answers(&tool);
	close_tool(&tool);
	end(pid);
}

static void body_main_exits(void)
{
	start_waiter();
	start_waiter();
	shared->ready = 1;
	pthread_exit(NULL);
}

static void main_thread_has_ended(void **state)
{
	pid_t pid = start(body_main_exits);

	(void)state;
	assert_served(pid);
	end(pid);
}

static void body_spin(void)
{
	shared->ready = 1;
	for (;;)
		shared->rounds++;
}

static void no_thread_is_safe(void **state)
{
	pid_t pid = start(body_spin);
	uint64_t begin = vt_now_ns();
	struct tool tool;
	long rounds;

	(void)state;
	open_tool(&tool, pid);
	assert_code(create(&tool, false, 300 * VT_NS_PER_MS), VT_ERR_TIMEOUT, "safe to borrow");
	assert_true(vt_now_ns() - begin < LONG_NS / 2);
	rounds = shared->rounds;
	for (int i = 0; i < LONG_MS && shared->rounds == rounds; i++)
		usleep(1000);
	assert_true(shared->rounds > rounds);
	close_tool(&tool);
	end(pid);
}

/* Somebody waits for a mutex: its word has the value 2, as the locks of libc have. */
static void *lock_thread(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}

static void body_mutex(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t id;

	pthread_mutex_lock(&mutex);
	pthread_create(&id, NULL, lock_thread, &mutex);
	shared->ready = 1;
	for (;;)
		shared->rounds++;
}

static void waiting_for_a_lock_is_not_safe(void **state)
{
	pid_t pid = start(body_mutex);
	struct tool tool;

	(void)state;
	open_tool(&tool, pid);
	assert_code(create(&tool, false, 300 * VT_NS_PER_MS), VT_ERR_TIMEOUT, "safe to borrow");
	close_tool(&tool);
	end(pid);
}

/* Stopped and traced targets */

static void stopped_target_is_left_stopped(void **state)
{
	pid_t pid = start(body_pause);

	(void)state;
	kill(pid, SIGSTOP);
	assert_true(becomes(pid, 'T'));
	assert_refused(pid, VT_ERR_UNSUPPORTED, "stopped by a signal");
	usleep(10000);
	assert_int_equal(state_of(pid), 'T');
	end(pid);
}

static void stopped_target_is_stopped_again(void **state)
{
	pid_t pid = start(body_pause);
	int fds = count_entries(pid, "fd");
	struct tool tool;

	(void)state;
	kill(pid, SIGSTOP);
	assert_true(becomes(pid, 'T'));
	open_tool(&tool, pid);
	assert_ok(create(&tool, true, LONG_NS));
	assert_answers(&tool);
	close_tool(&tool);
	assert_true(becomes(pid, 'T'));
	kill(pid, SIGCONT);
	assert_clean(pid, 1, fds);
	end(pid);
}

/* The tool is killed while it keeps a stopped target running: the helper stops it. */
static void stopped_target_is_stopped_again_without_us(void **state)
{
	pid_t pid = start(body_pause);
	int fds[2];
	char byte;
	pid_t tool_pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	kill(pid, SIGSTOP);
	assert_true(becomes(pid, 'T'));
	tool_pid = fork();
	if (tool_pid == 0) {
		struct tool tool;

		create_or_exit(&tool, pid, true);
		if (write(fds[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_true(becomes(pid, 'S'));
	kill(tool_pid, SIGKILL);
	waitpid(tool_pid, NULL, 0);
	assert_true(becomes(pid, 'T'));
	close(fds[0]);
	end(pid);
}

static void traced_target_is_busy(void **state)
{
	pid_t pid = start(body_pause);
	char part[64];

	(void)state;
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	snprintf(part, sizeof(part), "traced by process %d", (int)getpid());
	assert_refused(pid, VT_ERR_BUSY, part);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, 0, 0), 0);
	assert_served(pid);
	end(pid);
}

/* Limits */

static void limit_memory(uint64_t more)
{
	char text[64] = "";
	struct rlimit limit;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (read(fd, text, sizeof(text) - 1) <= 0)
		_exit(1);
	close(fd);
	limit.rlim_cur = limit.rlim_max = strtoull(text, NULL, 10) * 4096 + more;
	setrlimit(RLIMIT_AS, &limit);
	body_pause();
}

static void body_no_memory(void)
{
	limit_memory(4096);
}

static void body_no_stack(void)
{
	limit_memory(300 << 10);
}

static void body_no_map(void)
{
	limit_memory(900 << 10);
}

static void body_little_memory(void)
{
	limit_memory(32 << 20);
}

static void body_no_files(void)
{
	struct rlimit limit = { 0, 0 };

	setrlimit(RLIMIT_NOFILE, &limit);
	body_pause();
}

static void limits_are_reported(void **state)
{
	static const struct {
		void (*body)(void);
		const char *part;
	} cases[] = {
		{ body_no_memory, "could not map 256 KiB" },
		{ body_no_stack, "could not start a thread" },
		{ body_no_map, "could not map the helper" },
		{ body_no_files, "could not create a memory file" },
	};

	(void)state;
	if (HAVE_ASAN) /* needs terabytes of address space itself */
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid = start(cases[i].body);

		assert_refused(pid, VT_ERR_OS, cases[i].part);
		assert_true(becomes(pid, 'S'));
		end(pid);
	}
}

static void little_memory_is_enough(void **state)
{
	pid_t pid;

	(void)state;
	if (HAVE_ASAN)
		skip();
	pid = start(body_little_memory);
	assert_served(pid);
	end(pid);
}

/* Seccomp */

static void set_filter(struct sock_filter *filter, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(1);
}

/* Answers one call with this action, allows all others. */
static void filter_one(uint32_t nr, uint32_t action)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	set_filter(filter, sizeof(filter) / sizeof(filter[0]));
	body_pause();
}

static void body_filter_clone3(void)
{
	filter_one(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
}

static void body_filter_memfd(void)
{
	filter_one(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM);
}

static void body_filter_prctl(void)
{
	filter_one(SYS_prctl, SECCOMP_RET_KILL_PROCESS);
}

/*
 * A kernel that lets nobody write to code through /proc/PID/mem (proc_mem.force_override=never):
 * this tool gets a filter that fails just that write, by its length. The stub is then written word
 * by word while the thread is stopped.
 */
static void kernel_may_refuse_writing_code(void **state)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)vt_stub_size(), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	pid_t pid = start(body_pause);
	int status, fds = count_entries(pid, "fd");
	struct tool tool;
	uint64_t addr;
	bool present;
	pid_t tool_pid = fork();

	(void)state;
	if (tool_pid == 0) {
		struct vt_error *err;

		set_filter(filter, sizeof(filter) / sizeof(filter[0]));
		create_or_exit(&tool, pid, false);
		err = vt_helper_call(tool.helper, (enum vt_helper_op)1000, vt_now_ns() + LONG_NS);
		if (!err || err->code != VT_ERR_FORMAT)
			_exit(2);
		vt_helper_destroy(tool.helper);
		_exit(0);
	}
	assert_int_equal(waitpid(tool_pid, &status, 0), tool_pid);
	assert_int_equal(status, 0);
	assert_clean(pid, 1, fds);
	open_tool(&tool, pid);
	assert_ok(vt_space_for_stub(&tool.modules, tool.live, vt_stub_blob, vt_stub_size(), &addr,
				    &present));
	assert_true(present);
	close_tool(&tool);
	assert_served(pid);
	end(pid);
}

static void body_strict(void)
{
	int fds[2];
	char byte;

	if (pipe2(fds, O_CLOEXEC))
		_exit(1);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	shared->ready = 1;
	if (read(fds[0], &byte, 1) < 0)
		_exit(1);
}

static void filters_are_obeyed(void **state)
{
	pid_t pid;

	(void)state;
	pid = start(body_filter_clone3);
	if (geteuid() != 0) {
		assert_refused(pid, VT_ERR_UNSUPPORTED, "seccomp filter that may not be read");
		assert_true(becomes(pid, 'S'));
		end(pid);
		return;
	}
	assert_served(pid);
	end(pid);
	pid = start(body_filter_memfd);
	assert_refused(pid, VT_ERR_UNSUPPORTED, "forbids memfd_create()");
	assert_true(becomes(pid, 'S'));
	end(pid);
	pid = start(body_filter_prctl);
	assert_refused(pid, VT_ERR_UNSUPPORTED, "forbids prctl()");
	assert_true(becomes(pid, 'S'));
	end(pid);
}

static void strict_mode_is_refused(void **state)
{
	pid_t pid = start(body_strict);

	(void)state;
	assert_refused(pid, VT_ERR_UNSUPPORTED, "strict mode");
	assert_true(becomes(pid, 'S'));
	end(pid);
}

/* vfork */

static void body_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		shared->result = getpid();
		shared->ready = 1;
		while (!shared->command)
			syscall(SYS_sched_yield);
		_exit(0);
	}
	shared->done = 1;
	pause();
}

static void vfork_child_is_refused(void **state)
{
	pid_t pid = start(body_vfork);

	(void)state;
	assert_refused((pid_t)shared->result, VT_ERR_UNSUPPORTED,
		       "shares its memory with its parent");
	shared->command = 1;
	wait_done();
	end(pid);
}

/* mq_notify() */

/* The result is whether the registration was there to the end: a second one then fails. */
static void await_messages(bool registered)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	char name[64];
	long queue;

	snprintf(name, sizeof(name), "vramtap-%d", (int)getpid());
	queue = syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	syscall(SYS_mq_unlink, name);
	if (queue < 0 || (registered && syscall(SYS_mq_notify, queue, &event)))
		shared->result = errno;
	shared->ready = 1;
	while (!shared->command)
		usleep(1000);
	shared->result = syscall(SYS_mq_notify, queue, &event) && errno == EBUSY;
	shared->done = 1;
	body_pause();
}

static void body_awaits_messages(void)
{
	await_messages(true);
}

static void body_has_queue(void)
{
	await_messages(false);
}

static void awaited_messages_are_not_missed(void **state)
{
	pid_t pid = start(body_awaits_messages);

	(void)state;
	if (shared->result) { /* ENOSYS, or no queue is left */
		end(pid);
		skip();
	}
	assert_refused(pid, VT_ERR_UNSUPPORTED, "mq_notify()");
	shared->command = 1;
	wait_done();
	assert_true(shared->result);
	end(pid);
	pid = start(body_has_queue);
	assert_served(pid);
	end(pid);
}

/* Lies */

/* Says that the helper is ready and names a descriptor of its own choice. */
static void lie(int fd)
{
	struct vt_stub_control *control =
		mmap((void *)UINT64_C(0x100000000000), 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	control->nonce = 4711;
	control->fd = fd;
	control->file_tid = getpid();
	control->state = VT_STUB_READY;
	body_pause();
}

static char lie_path[] = "/tmp/vramtap-lie-XXXXXX";

static void body_lie_file(void)
{
	lie(open(lie_path, O_RDONLY | O_CLOEXEC));
}

static void body_lie_directory(void)
{
	lie(open("/", O_RDONLY | O_CLOEXEC));
}

static void body_lie_fifo(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		_exit(1);
	lie(fds[0]);
}

static void body_lie_nothing(void)
{
	lie(1 << 20);
}

static void body_lie_negative(void)
{
	lie(-5);
}

static struct vt_error *open_channel_to_liar(pid_t pid)
{
	struct vt_helper_image image = { .text_size = 4096 };
	struct vt_stub_control control = { .nonce = 4711, .region = UINT64_C(0x100000000000) };
	struct vt_channel channel = {
		.image = &image, .control = &control, .block = 4096, .file_size = 65536, .pid = pid
	};
	struct vt_channel_result result;
	struct vt_error *err;

	assert_ok(vt_live_create(pid, &channel.live));
	err = vt_channel_open(&channel, LONG_NS, &result);
	vt_live_destroy(channel.live);
	return err;
}

static void liars_gain_nothing(void **state)
{
	static const struct {
		void (*body)(void);
		enum vt_error_code code;
	} cases[] = {
		{ body_lie_file, VT_ERR_FORMAT },   { body_lie_directory, VT_ERR_FORMAT },
		{ body_lie_fifo, VT_ERR_FORMAT },   { body_lie_nothing, VT_ERR_GONE },
		{ body_lie_negative, VT_ERR_GONE },
	};
	char text[16] = "";
	int fd;

	(void)state;
	if (HAVE_ASAN) /* its shadow lies there */
		skip();
	fd = mkstemp(lie_path);
	assert_int_equal(write(fd, "as it was", 9), 9);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid = start(cases[i].body);

		assert_code(open_channel_to_liar(pid), cases[i].code, "");
		end(pid);
	}
	assert_int_equal(pread(fd, text, sizeof(text), 0), 9);
	assert_string_equal(text, "as it was");
	close(fd);
	unlink(lie_path);
}

/* The lock */

static void lock_excludes(void **state)
{
	pid_t pid = start(body_pause);
	int fds[2], fd;
	pid_t holder;
	char byte, part[64];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	holder = fork();
	if (holder == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!vt_inject_lock(pid, vt_now_ns(), &fd) && write(fds[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	snprintf(part, sizeof(part), "process %d (inject_cases) is already working on process %d",
		 (int)holder, (int)pid);
	assert_code(vt_inject_lock(pid, vt_now_ns() + 30 * VT_NS_PER_MS, &fd), VT_ERR_BUSY, part);
	/* Another process is another lock. */
	assert_ok(vt_inject_lock(getpid(), vt_now_ns(), &fd));
	close(fd);
	kill(holder, SIGKILL);
	assert_ok(vt_inject_lock(pid, vt_now_ns() + VT_NS_PER_S, &fd));
	close(fd);
	waitpid(holder, NULL, 0);
	close(fds[0]);
	end(pid);
	assert_code(vt_inject_lock(pid, vt_now_ns(), &fd), VT_ERR_GONE, "does not exist");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_follow_each_other),
		cmocka_unit_test(sessions_run_at_the_same_time),
		cmocka_unit_test(stub_is_written_once),
		cmocka_unit_test(file_grows),
		cmocka_unit_test(helper_ends_when_forgotten),
		cmocka_unit_test(target_dies_during_session),
		cmocka_unit_test(target_is_gone),
		cmocka_unit_test(child_of_fork_inherits_nothing),
		cmocka_unit_test(target_may_change_its_user),
		cmocka_unit_test(main_thread_has_ended),
		cmocka_unit_test(no_thread_is_safe),
		cmocka_unit_test(waiting_for_a_lock_is_not_safe),
		cmocka_unit_test(stopped_target_is_left_stopped),
		cmocka_unit_test(stopped_target_is_stopped_again),
		cmocka_unit_test(stopped_target_is_stopped_again_without_us),
		cmocka_unit_test(traced_target_is_busy),
		cmocka_unit_test(limits_are_reported),
		cmocka_unit_test(little_memory_is_enough),
		cmocka_unit_test(filters_are_obeyed),
		cmocka_unit_test(strict_mode_is_refused),
		cmocka_unit_test(kernel_may_refuse_writing_code),
		cmocka_unit_test(vfork_child_is_refused),
		cmocka_unit_test(awaited_messages_are_not_missed),
		cmocka_unit_test(liars_gain_nothing),
		cmocka_unit_test(lock_excludes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
