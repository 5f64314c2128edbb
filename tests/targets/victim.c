/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim STATS_FILE: a program that notices every trace of being injected into. A thread for each
 * kind of system call that one may be borrowed from, each checking results, durations, errno, its
 * signal mask, and two of them every register around the call; one that gets signals, one with a
 * timer, one that audits memory and open files.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spy.h"
#include "victim_probe.h"

static int pipe_fds[2], signal_fds[2], socket_fds[2];
static uint32_t wake_word;
static volatile sig_atomic_t n_handled, n_ticks;

/* Each round of each thread */

static void do_nanosleep(struct spy *spy)
{
	struct timespec ts = { 0, 20000000 };
	double start = spy_now_ms();

	spy_check(spy, "clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
	spy_check_duration(spy, start, 20);
}

static void do_condition(struct spy *spy)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attr;
	pthread_cond_t cond;
	struct timespec ts;
	double start = spy_now_ms();

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &attr);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += 30000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	spy_check(spy, "pthread_cond_timedwait", pthread_cond_timedwait(&cond, &mutex, &ts),
		  ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
	spy_check_duration(spy, start, 30);
	pthread_cond_destroy(&cond);
	pthread_condattr_destroy(&attr);
}

static void do_poll(struct spy *spy)
{
	double start = spy_now_ms();

	spy_check(spy, "poll", poll(NULL, 0, 25), 0);
	spy_check_duration(spy, start, 25);
}

static void do_select(struct spy *spy)
{
	struct timeval tv = { 0, 22000 };
	double start = spy_now_ms();

	spy_check(spy, "select", select(0, NULL, NULL, NULL, &tv), 0);
	spy_check_duration(spy, start, 22);
}

static void do_pipe(struct spy *spy)
{
	uint64_t value = 0;

	spy_check(spy, "read", read(pipe_fds[0], &value, sizeof(value)), sizeof(value));
	spy_check(spy, "the pipe's sequence", (long)value, (long)spy->seq++);
}

static void do_socket(struct spy *spy)
{
	uint64_t value = 0;

	spy_check(spy, "recv", recv(socket_fds[0], &value, sizeof(value), 0), sizeof(value));
	spy_check(spy, "the socket's sequence", (long)value, (long)spy->seq++);
}

static void open_epoll(struct spy *spy)
{
	spy->fd = epoll_create1(EPOLL_CLOEXEC);
}

static void do_epoll(struct spy *spy)
{
	struct epoll_event event;
	double start = spy_now_ms();
	int ret;

	ret = epoll_wait(spy->fd, &event, 1, 40);
	if (ret < 0 && errno == EINTR)
		spy->shared->eintr++;
	else
		spy_check(spy, "epoll_wait", ret, 0);
	if (ret == 0 && spy_now_ms() - start < 39.9)
		spy_wrong(spy, "epoll_wait returned early");
}

/* The call must leave errno alone when it succeeds. */
static void do_errno(struct spy *spy)
{
	struct timespec ts = { 0, 12000000 };

	errno = 12345;
	spy_check(spy, "nanosleep", nanosleep(&ts, NULL), 0);
	spy_check(spy, "errno", errno, 12345);
}

static void do_wait(struct spy *spy)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		usleep(30000);
		_exit(7);
	}
	spy_check(spy, "waitpid", waitpid(pid, &status, 0), pid);
	spy_check(spy, "the child's status", WEXITSTATUS(status), 7);
}

/* Registers */

static void do_probe_sleep(struct spy *spy)
{
	struct timespec ts = { 0, 10000000 };
	double start = spy_now_ms();

	spy_check(spy, "raw nanosleep", victim_probe_call(spy, SYS_nanosleep, &ts, 0, 0, NULL), 0);
	spy_check_duration(spy, start, 10);
}

static void do_probe_wake(struct spy *spy)
{
	long ret;

	__atomic_store_n(&wake_word, 0, __ATOMIC_SEQ_CST);
	ret = victim_probe_call(spy, SYS_futex, &wake_word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0,
				NULL);
	if (ret != 0 && errno != EAGAIN)
		spy_wrong(spy, "raw futex wait gave %ld, errno %d", ret, errno);
}

static void do_probe_timeout(struct spy *spy)
{
	static uint32_t word;
	struct timespec ts = { 0, 15000000 };
	double start = spy_now_ms();
	long ret =
		victim_probe_call(spy, SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &ts);

	if (ret != -1 || errno != ETIMEDOUT)
		spy_wrong(spy, "raw futex wait with a time gave %ld, errno %d", ret, errno);
	spy_check_duration(spy, start, 15);
}

/* Signals */

#define INTERRUPTED_READ 12 /* in kinds[] below */

static void on_signal(int sig)
{
	(void)sig;
	n_handled++;
}

/* A tick that comes while the one before it is still pending is counted by the kernel instead. */
static void on_tick(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	n_ticks += 1 + info->si_overrun;
}

/* Its handler has no SA_RESTART: each signal must end a read() with EINTR, and nothing else may. */
static void do_interrupted_read(struct spy *spy)
{
	char byte;
	long ret = read(signal_fds[0], &byte, 1);

	if (ret < 0 && errno == EINTR)
		__atomic_fetch_add(&spy->shared->eintr, 1, __ATOMIC_SEQ_CST);
	else
		spy_wrong(spy, "read gave %ld, errno %d", ret, errno);
}

/*
 * Sends a signal and waits for its EINTR. "eintr" counts those that never came: a signal just
 * before read() gives none (nobody can help that), so that is no error by itself; without
 * injections it must be rare.
 */
static void do_signaller(struct spy *spy)
{
	struct victim_thread *reader = spy_thread(INTERRUPTED_READ)->shared;
	uint64_t before = __atomic_load_n(&reader->eintr, __ATOMIC_SEQ_CST);
	int i;

	while (!__atomic_load_n(&reader->tid, __ATOMIC_SEQ_CST))
		usleep(1000);
	syscall(SYS_tgkill, getpid(), (pid_t)reader->tid, SIGUSR1);
	for (i = 0; i < 3000 && __atomic_load_n(&reader->eintr, __ATOMIC_SEQ_CST) == before; i++)
		usleep(100);
	spy->shared->eintr += i == 3000;
	usleep(500 + (unsigned int)rand_r(&spy->seed) % 3000);
}

#define TICK_NS UINT64_C(3000000)
#define TICK_LOOKS 1000 /* at intervals of 1 ms or more */

static uint64_t ticks_since(uint64_t begin_ns, uint64_t now)
{
	return now > begin_ns ? (now - begin_ns) / TICK_NS : 0;
}

/*
 * A late tick is no lost one: the timer may be armed on a processor that gets no time (it is
 * virtual) while the thread runs on another. But a late one catches up, and a count that lost
 * one lags behind the clock for ever.
 */
static void check_ticks(struct spy *spy, uint64_t begin)
{
	uint64_t n = 0, least = 0, most = 0, lag_since = 0;

	for (int i = 0; i < TICK_LOOKS; i++) {
		least = ticks_since(begin, spy_now_ns());
		n = (uint64_t)n_ticks;
		most = ticks_since(begin, spy_now_ns());
		if (n > most || n == least)
			break;
		if (!lag_since)
			lag_since = least;
		usleep(1000);
	}
	if (n > most || n < least)
		spy_wrong(spy, "%llu ticks instead of %llu, since tick %llu", (unsigned long long)n,
			  (unsigned long long)most, (unsigned long long)lag_since);
}

static void open_timer(struct spy *spy)
{
	spy->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

/*
 * A timer whose signal goes to this thread: its ticks must all arrive, its read() is restarted
 * (SA_RESTART). It is armed for an instant, not for a time from now: else nobody knew how many
 * ticks there must be if the thread loses the processor around that call.
 */
static void do_timer(struct spy *spy)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	struct itimerspec every = { { 0, TICK_NS }, { 0, 0 } }, off = { { 0, 0 }, { 0, 0 } };
	uint64_t expirations = 0, begin;
	timer_t timer;

	event._sigev_un._tid = (int)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
		spy_wrong(spy, "timer_create");
		return;
	}
	n_ticks = 0;
	begin = spy_now_ns();
	every.it_value.tv_sec = (time_t)((begin + TICK_NS) / 1000000000);
	every.it_value.tv_nsec = (long)((begin + TICK_NS) % 1000000000);
	timer_settime(timer, TIMER_ABSTIME, &every, NULL);
	timerfd_settime(spy->fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, 31000000 } }, NULL);
	spy_check(spy, "read of a timer", read(spy->fd, &expirations, sizeof(expirations)),
		  sizeof(expirations));
	check_ticks(spy, begin);
	timer_settime(timer, 0, &off, NULL);
	timer_delete(timer);
}

/* Feeds those that wait for something. */
static void do_feeder(struct spy *spy)
{
	uint64_t value = spy->seq++;
	struct timespec ts = { 0, 8000000 };

	spy_check(spy, "write", write(pipe_fds[1], &value, sizeof(value)), sizeof(value));
	spy_check(spy, "send", send(socket_fds[1], &value, sizeof(value), 0), sizeof(value));
	spy_check(spy, "clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
	__atomic_store_n(&wake_word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &wake_word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

/* Memory and open files */

#define AUDIT_BYTES (4 << 20)

static uint64_t checksum(const uint64_t *p, size_t n)
{
	uint64_t sum = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ p[i]) * 1099511628211u;
	return sum;
}

static void do_audit(struct spy *spy)
{
	static uint64_t *memory, sum;
	static struct stat files[3];
	const int fds[] = { pipe_fds[0], socket_fds[1], signal_fds[0] };

	if (!memory) {
		memory = mmap(NULL, AUDIT_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (size_t i = 0; i < AUDIT_BYTES / sizeof(*memory); i++)
			memory[i] = (uint64_t)rand_r(&spy->seed) * 0x9e3779b97f4a7c15u;
		sum = checksum(memory, AUDIT_BYTES / sizeof(*memory));
		for (int i = 0; i < 3; i++)
			fstat(fds[i], &files[i]);
	}
	if (checksum(memory, AUDIT_BYTES / sizeof(*memory)) != sum)
		spy_wrong(spy, "memory changed");
	for (int i = 0; i < 3; i++) {
		struct stat st;

		if (fstat(fds[i], &st) || st.st_ino != files[i].st_ino ||
		    st.st_dev != files[i].st_dev)
			spy_wrong(spy, "file %d is another", fds[i]);
	}
	usleep(30000);
}

static const struct spy_kind kinds[] = {
	{ "nanosleep", do_nanosleep },
	{ "condition", do_condition },
	{ "poll", do_poll },
	{ "select", do_select },
	{ "pipe", do_pipe },
	{ "socket", do_socket },
	{ "epoll", do_epoll, open_epoll },
	{ "errno", do_errno },
	{ "wait", do_wait },
	{ "probe-sleep", do_probe_sleep },
	{ "probe-wake", do_probe_wake },
	{ "probe-timeout", do_probe_timeout },
	{ "interrupted-read", do_interrupted_read },
	{ "signaller", do_signaller },
	{ "timer", do_timer, open_timer },
	{ "feeder", do_feeder },
	{ "audit", do_audit },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

int main(int argc, char **argv)
{
	if (argc != 2)
		return 64;
	if (pipe2(pipe_fds, O_CLOEXEC) || pipe2(signal_fds, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_fds))
		return 1;
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGRTMIN,
		  &(struct sigaction){ .sa_sigaction = on_tick,
				       .sa_flags = SA_RESTART | SA_SIGINFO },
		  NULL);
	return spy_main(argv[1], kinds, N_KINDS);
}
