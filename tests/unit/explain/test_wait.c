/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads wait for: a child process whose threads wait in known ways, and verdicts over stacks
 * made by hand.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "target/live.h"
#include "explain/verdicts.h"
#include "explain/wait.h"
#include "model/words.h"

/* As people read it; "" nothing. */
static const char *waits_words(const struct vt_model_thread *thread, struct vt_arena *arena)
{
	struct vt_str words = { 0 };
	const char *copy;

	vt_words_waits(&words, &thread->waits, VT_FORM_ALONE, VT_DETAIL_ALL);
	copy = vt_arena_strdup(arena, vt_str_get(&words));
	vt_str_deinit(&words);
	return copy;
}

static const char *verdict_words(const struct vt_model_thread *thread, struct vt_arena *arena)
{
	struct vt_str words = { 0 };
	const char *copy;

	vt_words_verdict(&words, &thread->verdict, VT_FORM_ALONE);
	copy = vt_arena_strdup(arena, vt_str_get(&words));
	vt_str_deinit(&words);
	return copy;
}

/* ---- the child ---- */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER,
		       inheriting;
static pthread_mutex_t for_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, locked;
static pthread_t holder_thread;
static int pipe_fds[2], sockets[2], epfd, eventfd_fd;
static pid_t grandchild;

static void hold(void)
{
	pthread_mutex_lock(&held);
	pthread_mutex_lock(&inheriting);
	sem_post(&locked);
	for (;;)
		pause();
}

static void wait_mutex(void)
{
	pthread_mutex_lock(&held);
}

static void wait_own(void)
{
	pthread_mutex_lock(&own);
	pthread_mutex_lock(&own);
}

static void wait_pi(void)
{
	pthread_mutex_lock(&inheriting);
}

static void wait_condition(void)
{
	pthread_mutex_lock(&for_condition);
	for (;;)
		pthread_cond_wait(&condition, &for_condition);
}

static void wait_semaphore(void)
{
	sem_wait(&semaphore);
}

static void wait_join(void)
{
	pthread_join(holder_thread, NULL);
}

static void wait_poll(void)
{
	struct pollfd fds[] = { { .fd = pipe_fds[0], .events = POLLIN },
				{ .fd = -1 },
				{ .fd = sockets[0], .events = POLLIN },
				{ .fd = pipe_fds[0], .events = POLLIN } };

	poll(fds, 4, 600 * 1000);
}

static void wait_read(void)
{
	char c;

	if (read(pipe_fds[0], &c, 1) != 1)
		_exit(1);
}

static void wait_recv(void)
{
	char c;

	recv(sockets[0], &c, 1, 0);
}

static void wait_epoll(void)
{
	struct epoll_event event;

	epoll_wait(epfd, &event, 1, -1);
}

static void wait_select(void)
{
	fd_set set;
	struct timeval tv = { .tv_sec = 7200 };

	FD_ZERO(&set);
	FD_SET(eventfd_fd, &set);
	select(eventfd_fd + 1, &set, NULL, NULL, &tv);
}

static void wait_sleep(void)
{
	struct timespec ts = { .tv_sec = 1000 };

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}

static void wait_until(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += 100000;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void wait_child(void)
{
	waitpid(grandchild, NULL, 0);
}

static void wait_signal(void)
{
	pause();
}

static void run(void)
{
	for (volatile unsigned int i = 0;; i++)
		;
}

static const struct {
	const char *name; /* of the thread */
	void (*wait)(void);
	const char *function; /* a name in its stack */
	const char *syscall;
	const char *waits; /* pattern */
} kinds[] = {
	/* Kernels for aarch64 have the newer calls only. */
	{ "t-holder", hold, "pause", "p*", "waits for a signal" },
	{ "t-mutex", wait_mutex, "pthread_mutex_lock", "futex",
	  "waits for a lock held by * (t-holder)" },
	{ "t-own", wait_own, "pthread_mutex_lock", "futex",
	  "waits for a lock that it already holds" },
	{ "t-pi", wait_pi, "pthread_mutex_lock", "futex", "waits for a lock held by * (t-holder)" },
	{ "t-cond", wait_condition, "pthread_cond_wait", "futex", "waits on a condition" },
	{ "t-sem", wait_semaphore, "sem_wait", "futex", "waits for a semaphore" },
	{ "t-join", wait_join, "pthread_join", "futex",
	  "waits for the end of thread * (t-holder)" },
	{ "t-poll", wait_poll, "poll", "*poll",
	  "waits in poll on 3 descriptors (a pipe, a socket), for at most 10 min" },
	{ "t-read", wait_read, "read", "read", "waits in read on descriptor *, a pipe" },
	{ "t-recv", wait_recv, "recv", "recvfrom",
	  "waits in recvfrom on descriptor *, a Unix socket" },
	{ "t-epoll", wait_epoll, "epoll_wait", "epoll_*wait",
	  "waits in epoll on 2 descriptors (*)" },
	/* glibc passes select() on as pselect6 */
	{ "t-select", wait_select, "select", "*select*",
	  "waits in select on descriptor *, an eventfd, for at most 2 h" },
	{ "t-sleep", wait_sleep, "syscall", "clock_nanosleep", "in clock_nanosleep for 16 min" },
	{ "t-until", wait_until, "clock_nanosleep", "clock_nanosleep",
	  "in clock_nanosleep, 27 h to go" },
	{ "t-child", wait_child, "wait4", "wait4", "waits for the end of child process *" },
	{ "t-signal", wait_signal, "pause", "p*", "waits for a signal" },
	{ "t-run", run, "run", NULL, "running on CPU *" },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void *thread_main(void *arg)
{
	size_t i = (size_t)arg;

	prctl(PR_SET_NAME, kinds[i].name);
	kinds[i].wait();
	return NULL;
}

static void child_main(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	pthread_mutexattr_t attr;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inheriting, &attr);
	sem_init(&semaphore, 0, 0);
	sem_init(&locked, 0, 0);
	eventfd_fd = eventfd(0, 0);
	epfd = epoll_create1(0);
	if (pipe(pipe_fds) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		_exit(1);
	epoll_ctl(epfd, EPOLL_CTL_ADD, pipe_fds[0], &event);
	epoll_ctl(epfd, EPOLL_CTL_ADD, sockets[0], &event);
	grandchild = fork();
	if (grandchild == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	pthread_create(&holder_thread, NULL, thread_main, NULL);
	sem_wait(&locked);
	for (size_t i = 1; i < N_KINDS; i++)
		pthread_create(&thread, NULL, thread_main, (void *)i);
	for (;;)
		pause();
}

static size_t kind_of(const char *name)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i].name, name))
			return i;
	return N_KINDS;
}

/* All threads are there and those that wait do: in a system call, the same one as a moment ago. */
static bool is_settled(const struct vt_thread_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->threads.n; i++) {
		const struct vt_thread_info *info = &list->threads.data[i];
		size_t k = kind_of(info->name);

		if (k < N_KINDS && (info->in_syscall || !kinds[k].syscall))
			n++;
	}
	return n == N_KINDS;
}

static void check_thread(const struct vt_thread_info *info, size_t k, pid_t pid,
			 struct vt_memsrc *src)
{
	struct vt_model_frame frame = { .kind = VT_FRAME_NATIVE,
					.function = kinds[k].function,
					.module = "libc.so.6" };
	struct vt_model_thread thread = { .tid = info->tid,
					  .stack = { .frames = &frame, .n_frames = 1 } };
	struct vt_arena arena = { 0 };

	struct vt_wait wait = { .pid = pid, .src = src, .arena = &arena };

	vt_wait_describe(&wait, &thread, info);
	vt_wait_deinit(&wait);
	if (!kinds[k].syscall != !thread.syscall ||
	    (thread.syscall && !vt_glob(kinds[k].syscall, thread.syscall)))
		fail_msg("%s is in %s", info->name, thread.syscall ? thread.syscall : "(none)");
	if (!vt_glob(kinds[k].waits, waits_words(&thread, &arena)))
		fail_msg("%s %s", info->name, waits_words(&thread, &arena));
	vt_arena_deinit(&arena);
}

static void test_waits(void **state)
{
	pid_t pid = fork();
	struct vt_thread_list list = { 0 };
	struct vt_live *live;
	size_t checked = 0;

	(void)state;
	if (pid == 0)
		child_main();
	assert_true(pid > 0);
	for (int i = 0; i < 500; i++) {
		vt_thread_list_deinit(&list);
		memset(&list, 0, sizeof(list));
		assert_null(vt_thread_list_init(&list, pid));
		if (is_settled(&list))
			break;
		vt_sleep_ns(20 * VT_NS_PER_MS);
	}
	assert_true(is_settled(&list));
	/* once more: those that were on their way have arrived */
	vt_sleep_ns(100 * VT_NS_PER_MS);
	vt_thread_list_deinit(&list);
	memset(&list, 0, sizeof(list));
	assert_null(vt_thread_list_init(&list, pid));
	assert_null(vt_live_create(pid, &live));
	for (size_t i = 0; i < list.threads.n; i++) {
		size_t k = kind_of(list.threads.data[i].name);

		if (k == N_KINDS)
			continue;
		check_thread(&list.threads.data[i], k, pid, vt_live_source(live));
		checked++;
	}
	assert_int_equal(checked, N_KINDS);
	vt_live_destroy(live);
	vt_thread_list_deinit(&list);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- one thread's state made by hand ---- */

static int no_memory(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	(void)buf;
	(void)len;
	src->fault_addr = addr;
	return -EFAULT;
}

static int random_memory(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	(void)src;
	(void)addr;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(rand() % 3 ? 0 : rand());
	return 0;
}

static const char *describe(const struct vt_thread_info *info, struct vt_model_thread *thread,
			    struct vt_arena *arena)
{
	static const struct vt_memsrc_ops ops = { .read = no_memory };
	struct vt_memsrc src = { .ops = &ops };

	struct vt_wait wait = { .pid = 1, .src = &src, .arena = arena };

	vt_wait_describe(&wait, thread, info);
	vt_wait_deinit(&wait);
	return waits_words(thread, arena);
}

static void test_states(void **state)
{
	struct vt_arena arena = { 0 };
	struct vt_thread_info stuck = {
		.tid = 2, .state = 'D', .cpu = 1, .wchan = "uvm_spin_loop"
	};
	struct vt_thread_info in_ioctl = { .tid = 2,
					   .state = 'D',
					   .cpu = 1,
					   .wchan = "uvm_spin_loop",
					   .syscall_known = true,
					   .in_syscall = true,
					   .syscall_nr = SYS_ioctl,
					   .syscall_args = { 1 << 30 } };
	struct vt_thread_info running = {
		.tid = 2, .state = 'R', .cpu = 3, .syscall_known = false
	};
	struct vt_thread_info unknown = { .tid = 2,
					  .state = 'S',
					  .cpu = 3,
					  .syscall_known = true,
					  .in_syscall = true,
					  .syscall_nr = 9999 };
	struct vt_thread_info nothing = { .tid = 2, .state = 'S', .cpu = -1 };
	struct vt_model_thread thread = { 0 };

	(void)state;
	assert_string_equal(describe(&stuck, &thread, &arena),
			    "stuck in the kernel in uvm_spin_loop");
	assert_null(thread.syscall);
	thread = (struct vt_model_thread){ 0 };
	assert_string_equal(
		describe(&in_ioctl, &thread, &arena),
		"waits in ioctl on descriptor 1073741824, stuck in the kernel in uvm_spin_loop");
	assert_string_equal(thread.syscall, "ioctl");
	thread = (struct vt_model_thread){ 0 };
	assert_string_equal(describe(&running, &thread, &arena), "running on CPU 3");
	thread = (struct vt_model_thread){ 0 };
	assert_string_equal(describe(&unknown, &thread, &arena), "");
	assert_string_equal(thread.syscall, "system call 9999");
	thread = (struct vt_model_thread){ 0 };
	assert_string_equal(describe(&nothing, &thread, &arena), "");
	assert_null(thread.syscall);
	vt_arena_deinit(&arena);
}

/*
 * A thread that the recorder's trap keeps wakes up every 2 ms: the trap's own record decides, not
 * what the thread does at that moment.
 */
static void test_kept_threads(void **state)
{
	static const struct vt_memsrc_ops ops = { .read = no_memory };
	static const struct {
		const char *name, *innermost; /* NULL: there are no frames */
		char state;
		struct vt_wait_kept kept;
		bool verdict;
	} cases[] = {
		{ "asleep", "memfd:vramtap-recorder-1", 'S', { true, true, 1, { 7 } }, true },
		{ "awake", "memfd:vramtap-recorder-1", 'R', { true, true, 1, { 7 } }, true },
		{ "asks for the time", "[vdso]", 'R', { true, true, 2, { 8, 7 } }, true },
		{ "was not read", NULL, 'R', { true, true, 1, { 7 } }, true },
		{ "another one is",
		  "memfd:vramtap-recorder-1",
		  'R',
		  { true, true, 1, { 8 } },
		  false },
		{ "waits for a lock",
		  "memfd:vramtap-recorder-1",
		  'S',
		  { true, true, 0, { 0 } },
		  false },
		{ "unknown, awake", "memfd:vramtap-recorder-1", 'R', { 0 }, false },
		{ "unknown, asleep", "memfd:vramtap-recorder-1", 'S', { 0 }, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_frame frames[] = {
			{ .kind = VT_FRAME_NATIVE, .module = cases[i].innermost },
			{ .kind = VT_FRAME_NATIVE, .module = "memfd:vramtap-recorder-1" },
			{ .kind = VT_FRAME_NATIVE, .module = "libgcc_s.so.1" },
		};
		struct vt_thread_info info = { .tid = 7, .state = cases[i].state, .cpu = 3 };
		struct vt_model_thread thread = {
			.tid = 7,
			.stack = { .frames = frames,
				   .n_frames = cases[i].innermost ? 3 : 0,
				   .has_native = cases[i].innermost != NULL },
		};
		struct vt_arena arena = { 0 };
		struct vt_memsrc src = { .ops = &ops };
		struct vt_wait wait = {
			.pid = 1, .src = &src, .arena = &arena, .kept = cases[i].kept
		};
		bool runs = info.state == 'R' && !cases[i].verdict;

		vt_wait_describe(&wait, &thread, &info);
		vt_wait_deinit(&wait);
		if ((thread.verdict.code == VT_VERDICT_OOM) != cases[i].verdict ||
		    (thread.waits.code == VT_WAITS_RUNNING) != runs)
			fail_msg("%s: %d, %s", cases[i].name, (int)thread.verdict.code,
				 waits_words(&thread, &arena));
		vt_arena_deinit(&arena);
	}
}

/* The only thread is borrowed to start the helper: there is no way out of the stub. */
static void test_kept_and_borrowed(void **state)
{
	static const struct vt_memsrc_ops ops = { .read = no_memory };
	struct vt_model_frame frame = { .kind = VT_FRAME_NATIVE, .module = "libc.so.6" };
	struct vt_thread_info info = { .tid = 7, .state = 'R', .cpu = 3 };
	struct vt_model_thread thread = { .tid = 7,
					  .stack = { .frames = &frame,
						     .n_frames = 1,
						     .has_native = true,
						     .why = "no unwind information" } };
	struct vt_arena arena = { 0 };
	struct vt_memsrc src = { .ops = &ops };
	struct vt_wait wait = {
		.pid = 1, .src = &src, .arena = &arena, .kept = { true, true, 1, { 7 } }
	};

	(void)state;
	vt_wait_describe(&wait, &thread, &info);
	vt_wait_deinit(&wait);
	assert_int_equal(thread.verdict.code, VT_VERDICT_OOM);
	assert_int_equal(thread.waits.code, VT_WAITS_NONE);
	vt_arena_deinit(&arena);
}

/* An event whose thread could not say that it went on: the thread is elsewhere by now. */
static void test_kept_no_more(void **state)
{
	static const struct vt_memsrc_ops ops = { .read = no_memory };
	struct vt_model_frame frame = { .kind = VT_FRAME_NATIVE, .module = "libtorch_cpu.so" };
	struct vt_thread_info info = { .tid = 7, .state = 'R', .cpu = 3 };
	struct vt_model_thread thread = {
		.tid = 7, .stack = { .frames = &frame, .n_frames = 1, .has_native = true }
	};
	struct vt_arena arena = { 0 };
	struct vt_memsrc src = { .ops = &ops };
	struct vt_wait wait = {
		.pid = 1, .src = &src, .arena = &arena, .kept = { true, true, 1, { 7 } }
	};

	(void)state;
	vt_wait_describe(&wait, &thread, &info);
	vt_wait_deinit(&wait);
	assert_int_equal(thread.verdict.code, VT_VERDICT_NONE);
	assert_int_equal(thread.waits.code, VT_WAITS_RUNNING);
	vt_arena_deinit(&arena);
}

/*
 * An interrupted call goes on as restart_syscall with the old arguments: the stack says which it
 * is.
 */
static void test_restarted(void **state)
{
	struct vt_arena arena = { 0 };
	struct vt_thread_info info = { .tid = 2,
				       .state = 'S',
				       .syscall_known = true,
				       .in_syscall = true,
				       .syscall_nr = SYS_restart_syscall };
	struct vt_model_frame frame = { .kind = VT_FRAME_NATIVE,
					.function = "__futex_abstimed_wait_common" };
	struct vt_model_thread thread = { .stack = { .frames = &frame, .n_frames = 1 } };

	(void)state;
	info.syscall_args[0] = 0x1234;
	info.syscall_args[1] = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;
	assert_string_equal(describe(&info, &thread, &arena), "waits for futex 0x1234");
	assert_string_equal(thread.syscall, "futex");
	frame.function = "main";
	assert_string_equal(describe(&info, &thread, &arena), "waits for futex 0x1234");
	assert_string_equal(thread.syscall, "restart_syscall");
	vt_arena_deinit(&arena);
}

/* A mutex of thread 4194303 wherever one looks. */
static int mutex_memory(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	static const int32_t mutex[] = { 2, 0, 4194303, 1, 0, 0 };

	(void)src;
	(void)addr;
	memset(buf, 0, len);
	memcpy(buf, mutex, len < sizeof(mutex) ? len : sizeof(mutex));
	return 0;
}

static const char *describe_futex(const char *function, uint64_t op, uint64_t expected,
				  struct vt_arena *arena)
{
	static const struct vt_memsrc_ops ops = { .read = mutex_memory };
	struct vt_memsrc src = { .ops = &ops };
	struct vt_thread_info info = { .tid = 2,
				       .state = 'S',
				       .syscall_known = true,
				       .in_syscall = true,
				       .syscall_nr = SYS_futex,
				       .syscall_args = { 0x1234, op, expected } };
	struct vt_model_frame frame = { .kind = VT_FRAME_NATIVE,
					.function = function,
					.module = "libc.so.6" };
	struct vt_model_thread thread = { .stack = { .frames = &frame, .n_frames = 1 } };
	struct vt_wait wait = { .pid = getpid(), .src = &src, .arena = arena };

	vt_wait_describe(&wait, &thread, &info);
	vt_wait_deinit(&wait);
	assert_int_equal(thread.waits_for, 0);
	return waits_words(&thread, arena);
}

/*
 * What waits for a word to change from 2, or has something like a mutex there, is not always a
 * mutex.
 */
static void test_no_mutex(void **state)
{
	struct vt_arena arena = { 0 };

	(void)state;
	assert_string_equal(
		describe_futex("pthread_mutex_lock", FUTEX_WAIT_PRIVATE, 2, &arena),
		"waits for a lock held by thread 4194303, which this process does not have");
	assert_string_equal(describe_futex("syscall", FUTEX_WAIT_PRIVATE, 2, &arena),
			    "waits for futex 0x1234");
	assert_string_equal(describe_futex("pthread_barrier_wait", FUTEX_WAIT_PRIVATE, 2, &arena),
			    "waits at a barrier");
	assert_string_equal(describe_futex("pthread_cond_wait", FUTEX_WAIT_REQUEUE_PI_PRIVATE, 7,
					   &arena),
			    "waits on a condition");
	vt_arena_deinit(&arena);
}

/* Every system call with random arguments and memory. */
static void test_random_calls(void **state)
{
	static const struct vt_memsrc_ops ops = { .read = random_memory };
	struct vt_memsrc src = { .ops = &ops };
	struct vt_arena arena = { 0 };

	(void)state;
	struct vt_wait wait = { .pid = getpid(), .src = &src, .arena = &arena };

	srand(8);
	for (int round = 0; round < 20000; round++) {
		struct vt_thread_info info = { .tid = getpid(),
					       .state = "RSDTtZ"[rand() % 6],
					       .cpu = rand() % 4 - 1,
					       .syscall_known = true,
					       .in_syscall = true,
					       .syscall_nr = rand() % 470 - 1 };
		struct vt_model_thread thread = { 0 };

		for (int i = 0; i < 6; i++)
			info.syscall_args[i] = rand() % 3 ? (uint64_t)(rand() % 300) :
							    (uint64_t)rand() * (uint64_t)rand() * 8;
		vt_wait_describe(&wait, &thread, &info);
	}
	vt_wait_deinit(&wait);
	vt_arena_deinit(&arena);
}

/* ---- verdicts ---- */

#define MAX_FRAMES 12

struct stack_case {
	const char *name; /* of the thread */
	char state;
	bool futex;
	const char *frames[MAX_FRAMES]; /* "module:function", or "file.py>function" */
	const char *verdict;            /* NULL: none */
	bool idle;
};

static void check_case(const struct stack_case *c)
{
	struct vt_arena arena = { 0 };
	struct vt_model_frame frames[MAX_FRAMES] = { 0 };
	struct vt_model_thread thread = { .name = c->name,
					  .state = c->state,
					  .stack = { .frames = frames } };
	size_t n = 0;

	for (; n < MAX_FRAMES && c->frames[n]; n++) {
		const char *text = c->frames[n], *mark = strpbrk(text, ">:");
		char *where = vt_arena_strndup(&arena, text, (size_t)(mark - text));

		if (*mark == '>') {
			frames[n] = (struct vt_model_frame){ .kind = VT_FRAME_PYTHON,
							     .file = where,
							     .function = mark + 1 };
			thread.stack.has_python = true;
		} else {
			frames[n] =
				(struct vt_model_frame){ .kind = VT_FRAME_NATIVE,
							 .module = where,
							 .function = mark[1] ? mark + 1 : NULL };
			thread.stack.has_native = true;
		}
	}
	thread.stack.n_frames = n;
	vt_find_verdict(&thread, c->state == 'S' || c->state == 'D', c->futex, VT_KEPT_UNKNOWN);
	if (strcmp(c->verdict ? c->verdict : "", verdict_words(&thread, &arena)) != 0)
		fail_msg("the verdict over %s is %s, not %s", c->frames[0],
			 verdict_words(&thread, &arena), c->verdict ? c->verdict : "(none)");
	assert_int_equal(thread.idle, c->idle);
	vt_arena_deinit(&arena);
}

static void test_verdicts(void **state)
{
	static const struct stack_case cases[] = {
		/* CUDA: the function that people call, and what for */
		{ "python",
		  'R',
		  false,
		  { "libcuda.so.580.1:", "libcuda.so.580.1:cuStreamSynchronize",
		    "libcudart.so.13:", "libcudart.so.13:cudaStreamSynchronize",
		    "libc10_cuda.so:c10::cuda::CUDAStream::synchronize",
		    "libtorch_cuda.so:at::native::_local_scalar_dense_cuda", "/a/train.py>train" },
		  "in cudaStreamSynchronize, for .item() or a copy to the CPU",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:__lll_lock_wait", "libcuda.so.580.1:",
		    "libcuda.so.580.1:cuMemFree_v2", "libcudart.so.13:cudaFree",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::(anonymous namespace)::release_block" },
		  "in cudaFree, for the caching allocator",
		  false },
		/* A request has failed; or the program wants it */
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:ioctl", "libcuda.so.1:", "libcudart.so.13:cudaFree",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_blocks",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_cached_blocks",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc" },
		  "in cudaFree, for the caching allocator, which retries a request",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libcudart.so.13:cudaFree",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_available_cached_blocks",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc" },
		  "in cudaFree, for the caching allocator, which retries a request",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libcudart.so.13:cudaFree",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_cached_blocks",
		    "libc10_cuda.so:c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::emptyCache" },
		  "in cudaFree, for the caching allocator, empty_cache",
		  false },
		/* PyTorch's store, and Python's debugger */
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:__poll", "libtorch_cpu.so:c10d::detail::SocketImpl::waitForInput",
		    "libtorch_cpu.so:c10d::TCPStore::doWait",
		    "libtorch_cpu.so:c10d::TCPStore::wait", "/a/train.py>main" },
		  "waits for another rank (TCPStore)",
		  false },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:read", "python3.12:", "/usr/lib/python3.12/pdb.py>Pdb.interaction",
		    "/a/train.py>main" },
		  "in Python's debugger (pdb)",
		  false },
		{ "python",
		  'R',
		  false,
		  { "libcudart.so.13:cudaDeviceSynchronize",
		    "/t/torch/cuda/__init__.py>synchronize" },
		  "in cudaDeviceSynchronize, for torch.cuda.synchronize",
		  false },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:poll", "libcuda.so.1:cuLibraryLoadData", "driver.so:launch",
		    "/a/b.py>f" },
		  "in cuLibraryLoadData",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_wait", "libnccl.so.2:",
		    "libnccl.so.2:ncclGroupEndInternal", "libnccl.so.2:ncclAllReduce",
		    "libtorch_cuda.so:c10d::ProcessGroupNCCL::allreduce",
		    "/t/torch/distributed/distributed_c10d.py>all_reduce" },
		  "in ncclAllReduce, for torch.distributed.all_reduce",
		  false },
		{ "pt_nccl_watchdg",
		  'S',
		  true,
		  { "libc.so.6:futex", "libcuda.so.1:cuEventQuery",
		    "libcudart.so.13:cudaEventQuery",
		    "libtorch_cuda.so:c10d::ProcessGroupNCCL::Watchdog::runLoop",
		    "libc.so.6:start_thread" },
		  "in cudaEventQuery, for a collective",
		  false },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:poll", "libnccl.so.2:", "libnccl.so.2:pncclCommInitRankConfig",
		    "libtorch_cuda.so:c10d::ProcessGroupNCCL::allreduce",
		    "/t/torch/distributed/distributed_c10d.py>all_reduce" },
		  "in ncclCommInitRankConfig, for torch.distributed.all_reduce",
		  false },
		/* idle services and pools */
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:poll", "libnccl.so.2:ncclProxyService", "libc.so.6:start_thread" },
		  "idle NCCL proxy thread",
		  true },
		{ "pt_nccl_watchdg",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_clockwait",
		    "libtorch_cuda.so:c10d::ProcessGroupNCCL::Watchdog::runLoop",
		    "libtorch_cuda.so:c10d::ProcessGroupNCCL::Watchdog::run",
		    "libstdc++.so.6:", "libc.so.6:start_thread" },
		  "idle NCCL watchdog",
		  true },
		{ "pt_autograd_0",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_wait",
		    "libtorch_cpu.so:torch::autograd::ReadyQueue::pop",
		    "libtorch_cpu.so:torch::autograd::Engine::thread_main",
		    "libc.so.6:start_thread" },
		  "idle autograd thread",
		  true },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_wait",
		    "libtorch_cpu.so:torch::autograd::ReadyQueue::pop",
		    "libtorch_cpu.so:torch::autograd::Engine::thread_main",
		    "/a/train.py>backward" },
		  "in backward, waits for autograd's other threads",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libgomp.so.1:", "libgomp.so.1:", "libc.so.6:", "libc.so.6:" },
		  "idle OpenMP thread",
		  true },
		{ "python",
		  'R',
		  false,
		  { "libgomp.so.1:gomp_barrier_wait_end", "libgomp.so.1:gomp_thread_start",
		    "libc.so.6:start_thread", "libc.so.6:__clone3" },
		  "idle OpenMP thread",
		  true },
		{ "python",
		  'R',
		  false,
		  { "libtorch_cpu.so:at::native::add_kernel",
		    "libgomp.so.1:", "libc.so.6:start_thread", "libc.so.6:__clone3" },
		  NULL,
		  false },
		{ "python",
		  'R',
		  false,
		  { "libgomp.so.1:gomp_team_end", "libgomp.so.1:GOMP_parallel",
		    "libtorch_cpu.so:at::internal::invoke_parallel", "libc.so.6:start_thread",
		    "libc.so.6:__clone3" },
		  NULL,
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:syscall", "libtorch_cpu.so:thread_main", "libc.so.6:start_thread",
		    "libc.so.6:" },
		  "idle thread of pthreadpool",
		  true },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_wait", "libc10.so:c10::ThreadPool::main_loop",
		    "libstdc++.so.6:", "libc.so.6:start_thread" },
		  "idle thread of c10::ThreadPool",
		  true },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:write", "libtorch_cpu.so:some_task",
		    "libc10.so:c10::ThreadPool::main_loop", "libc.so.6:start_thread" },
		  NULL,
		  false },
		{ "cuda-EvtHandlr",
		  'S',
		  false,
		  { "libc.so.6:poll", "libcuda.so.1:", "libc.so.6:start_thread" },
		  "idle CUDA driver thread",
		  true },
		/* Python */
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:sem_clockwait",
		    "python3.12:", "/usr/lib/python3.12/threading.py>Condition.wait",
		    "/usr/lib/python3.12/queue.py>Queue.get",
		    "/t/torch/utils/data/dataloader.py>_MultiProcessingDataLoaderIter._try_get_data",
		    "/t/torch/utils/data/dataloader.py>_MultiProcessingDataLoaderIter._next_data",
		    "/a/train.py>main" },
		  "waits for a DataLoader worker",
		  false },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:poll", "/l/selectors.py>select",
		    "/l/multiprocessing/connection.py>wait",
		    "/l/multiprocessing/connection.py>Connection._poll",
		    "/l/multiprocessing/queues.py>Queue.get",
		    "/t/torch/utils/data/_utils/worker.py>_worker_loop",
		    "/l/multiprocessing/process.py>run" },
		  "idle DataLoader worker",
		  true },
		/* with the names that Python has from 3.11 on */
		{ "QueueFeederThre",
		  'S',
		  true,
		  { "libc.so.6:sem_clockwait", "/l/threading.py>Condition.wait",
		    "/l/multiprocessing/queues.py>Queue._feed", "/l/threading.py>Thread.run" },
		  "idle feeder of a multiprocessing queue",
		  true },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:accept4", "_socket.cpython-312-x86_64-linux-gnu.so:sock_accept",
		    "/l/socket.py>socket.accept",
		    "/l/multiprocessing/connection.py>Listener.accept",
		    "/l/multiprocessing/resource_sharer.py>_ResourceSharer._serve" },
		  "idle server of multiprocessing's resource sharer",
		  true },
		{ "python",
		  'R',
		  false,
		  { "numpy.so:f", "/a/dataset.py>__getitem__",
		    "/t/torch/utils/data/_utils/worker.py>_worker_loop" },
		  NULL,
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:pthread_cond_timedwait", "libpython3.12.so.1.0:take_gil",
		    "libpython3.12.so.1.0:PyEval_RestoreThread", "libc10.so:f" },
		  "waits for the GIL",
		  false },
		/* the same of a stripped interpreter, at a Python frame and in C code */
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:", "libc.so.6:pthread_cond_timedwait", "python3.12:", "/a/b.py>f" },
		  "waits for the GIL",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:", "libc.so.6:pthread_cond_timedwait", "libtorch_cpu.so:g",
		    "/a/b.py>f" },
		  NULL,
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:sem_wait", "/l/threading.py>Event.wait", "/a/b.py>main" },
		  "waits on a Python event",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:sem_wait", "python3.12:_queue_SimpleQueue_get",
		    "/l/concurrent/futures/thread.py>_worker" },
		  "idle thread of an executor",
		  true },
		{ "python",
		  'S',
		  false,
		  { "libc.so.6:read", "/a/task.py>task",
		    "/l/concurrent/futures/thread.py>_worker" },
		  NULL,
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:futex", "/l/threading.py>join", "/a/b.py>main" },
		  "waits for another thread to end",
		  false },
		/* the C library */
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:__lll_lock_wait_private", "libc.so.6:malloc", "libfoo.so:f" },
		  "waits for a lock of malloc",
		  false },
		{ "python",
		  'R',
		  false,
		  { "libc.so.6:_int_malloc", "libc.so.6:malloc", "libfoo.so:f" },
		  "in malloc",
		  false },
		{ "python",
		  'R',
		  false,
		  { "libc.so.6:malloc", "libcudart.so.13:cudaLaunchKernel" },
		  "in cudaLaunchKernel",
		  false },
		{ "python",
		  'S',
		  true,
		  { "libc.so.6:pthread_mutex_lock", "libc.so.6:dl_iterate_phdr",
		    "libgcc_s.so.1:_Unwind_Find_FDE" },
		  "waits for the dynamic loader's lock",
		  false },
		{ "python",
		  'D',
		  false,
		  { "libc.so.6:read", "ld-linux-x86-64.so.2:_dl_map_object", "libc.so.6:dlopen" },
		  "in dlopen",
		  false },
		/* nothing known */
		{ "python", 'S', true, { "libc.so.6:poll", "/a/b.py>main" }, NULL, false },
		{ "python", 'S', true, { NULL }, NULL, false },
		{ "cuda-EvtHandlr", 'S', false, { NULL }, "idle CUDA driver thread", true },
		{ "cuda-EvtHandlr", 'R', false, { "libcuda.so.1:" }, NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_case(&cases[i]);
}

/*
 * Functions of the kernel count when nothing else is known, in uninterruptible sleep and in page
 * faults only.
 */
static void test_kernel_verdicts(void **state)
{
	static const struct {
		char state;
		const char *syscall, *wchan, *kernel[4], *function, *verdict;
	} cases[] = {
		{ 'D', "read", "folio_wait_bit_common", { NULL }, NULL, "waits for a disk" },
		{ 'D',
		  "read",
		  NULL,
		  { "folio_wait_bit_common+0x1/0x2", "filemap_fault+0x1/0x2" },
		  NULL,
		  "in a page fault, waits for a disk" },
		{ 'D',
		  "ioctl",
		  "rwsem_down_read_slowpath",
		  { "rwsem_down_read_slowpath+0x1/0x2", "nvidia_ioctl+0x1/0x2" },
		  NULL,
		  "in NVIDIA's kernel driver" },
		{ 'S',
		  NULL,
		  "handle_userfault",
		  { NULL },
		  NULL,
		  "waits in a page fault that userfaultfd must resolve" },
		{ 'S', "read", "fuse_dev_do_read", { NULL }, NULL, NULL },
		{ 'R', NULL, "folio_wait_bit_common", { NULL }, NULL, NULL },
		{ 'D', "ioctl", "nvidia_ioctl", { NULL }, "cudaMalloc", "in cudaMalloc" },
		{ 'D', "read", "some_driver_wait", { NULL }, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_frame frame = { .function = cases[i].function,
						.module = "libcudart.so.13" };
		struct vt_model_thread thread = {
			.state = cases[i].state,
			.syscall = cases[i].syscall,
			.wchan = cases[i].wchan,
			.kernel = cases[i].kernel,
			.stack = { .frames = &frame, .n_frames = cases[i].function != NULL },
		};
		struct vt_arena arena = { 0 };

		while (thread.n_kernel < 4 && cases[i].kernel[thread.n_kernel])
			thread.n_kernel++;
		vt_find_verdict(&thread, true, false, VT_KEPT_UNKNOWN);
		if (strcmp(cases[i].verdict ? cases[i].verdict : "",
			   verdict_words(&thread, &arena)) != 0)
			fail_msg("case %zu: %s", i, verdict_words(&thread, &arena));
		vt_arena_deinit(&arena);
	}
}

static void test_glob(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "a", "a", true },      { "a", "b", false },        { "a*", "a", true },
		{ "a*", "abc", true },   { "*c", "abc", true },      { "*c", "abd", false },
		{ "a*c", "abbc", true }, { "a*b*c", "aXbYc", true }, { "a*b*c", "aXc", false },
		{ "*", "", true },       { "", "", true },           { "", "a", false },
		{ "*ab", "aab", true },  { "*aab", "aaab", true },   { "[vdso]", "[vdso]", true },
		{ "**", "x", true },
	};
	char text[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (vt_glob(cases[i].pattern, cases[i].text) != cases[i].matches)
			fail_msg("%s, %s", cases[i].pattern, cases[i].text);
	/* no pattern of ours takes more than quadratic time */
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(vt_glob("*a*a*a*a*a*a*a*a*b", text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_kernel_verdicts),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_kept_threads),
		cmocka_unit_test(test_kept_and_borrowed),
		cmocka_unit_test(test_kept_no_more),
		cmocka_unit_test(test_restarted),
		cmocka_unit_test(test_no_mutex),
		cmocka_unit_test(test_random_calls),
		cmocka_unit_test(test_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
