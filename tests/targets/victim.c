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

#include "victim.h"

/* A busy machine may keep a thread from the processor this long; a longer hang means harm. */
#define LATE_MS 3000.0

struct thread {
	struct victim_thread *shared;
	unsigned int seed;
	uint64_t seq;
	int fd;
};

static struct victim_stats *stats;
static int pipe_fds[2], signal_fds[2], socket_fds[2];
static uint32_t wake_word;
static pthread_t signalled;
static volatile sig_atomic_t n_handled, n_ticks;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static double now_ms(void)
{
	return (double)now_ns() / 1e6;
}

__attribute__((format(printf, 2, 3))) static void wrong(struct thread *thread, const char *format,
							...)
{
	char text[112];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!__atomic_fetch_add(&thread->shared->errors, 1, __ATOMIC_SEQ_CST) &&
	    !stats->first_error[0])
		snprintf(stats->first_error, sizeof(stats->first_error), "%s: %s",
			 thread->shared->name, text);
}

static void check(struct thread *thread, const char *what, long got, long want)
{
	if (got != want)
		wrong(thread, "%s gave %ld (errno %d), not %ld", what, got, errno, want);
}

static void check_duration(struct thread *thread, double start, double ms)
{
	double took = now_ms() - start;

	if (took < ms - 0.05 || took > ms + LATE_MS)
		wrong(thread, "took %.2f ms, not %.0f", took, ms);
}

/* Each round of each thread */

static void do_nanosleep(struct thread *thread)
{
	struct timespec ts = { 0, 20000000 };
	double start = now_ms();

	check(thread, "clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
	check_duration(thread, start, 20);
}

static void do_condition(struct thread *thread)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attr;
	pthread_cond_t cond;
	struct timespec ts;
	double start = now_ms();

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &attr);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += 30000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	check(thread, "pthread_cond_timedwait", pthread_cond_timedwait(&cond, &mutex, &ts),
	      ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
	check_duration(thread, start, 30);
	pthread_cond_destroy(&cond);
	pthread_condattr_destroy(&attr);
}

static void do_poll(struct thread *thread)
{
	double start = now_ms();

	check(thread, "poll", poll(NULL, 0, 25), 0);
	check_duration(thread, start, 25);
}

static void do_select(struct thread *thread)
{
	struct timeval tv = { 0, 22000 };
	double start = now_ms();

	check(thread, "select", select(0, NULL, NULL, NULL, &tv), 0);
	check_duration(thread, start, 22);
}

static void do_pipe(struct thread *thread)
{
	uint64_t value = 0;

	check(thread, "read", read(pipe_fds[0], &value, sizeof(value)), sizeof(value));
	check(thread, "the pipe's sequence", (long)value, (long)thread->seq++);
}

static void do_socket(struct thread *thread)
{
	uint64_t value = 0;

	check(thread, "recv", recv(socket_fds[0], &value, sizeof(value), 0), sizeof(value));
	check(thread, "the socket's sequence", (long)value, (long)thread->seq++);
}

static void do_epoll(struct thread *thread)
{
	struct epoll_event event;
	double start = now_ms();
	int ret;

	ret = epoll_wait(thread->fd, &event, 1, 40);
	if (ret < 0 && errno == EINTR)
		thread->shared->eintr++;
	else
		check(thread, "epoll_wait", ret, 0);
	if (ret == 0 && now_ms() - start < 39.9)
		wrong(thread, "epoll_wait returned early");
}

/* The call must leave errno alone when it succeeds. */
static void do_errno(struct thread *thread)
{
	struct timespec ts = { 0, 12000000 };

	errno = 12345;
	check(thread, "nanosleep", nanosleep(&ts, NULL), 0);
	check(thread, "errno", errno, 12345);
}

static void do_wait(struct thread *thread)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		usleep(30000);
		_exit(7);
	}
	check(thread, "waitpid", waitpid(pid, &status, 0), pid);
	check(thread, "the child's status", WEXITSTATUS(status), 7);
}

/* Registers */

struct probe {
	uint64_t call[7];
	uint64_t kept[6];
	uint64_t after[9];
	uint64_t red_zone[16];
	uint64_t masks[8];
	uint64_t pad[2];
	uint64_t vectors[32][8];
} __attribute__((aligned(64)));

long victim_probe_avx512(const struct probe *in, struct probe *out);
long victim_probe_avx(const struct probe *in, struct probe *out);

enum { AFTER_RDI, AFTER_RSI, AFTER_RDX, AFTER_R10, AFTER_R8, AFTER_R9, AFTER_RCX, AFTER_R11 };
#define CALL_VALUES (sizeof(uint64_t) * 6)

static void fill_random(struct thread *thread, struct probe *probe)
{
	uint8_t *p = (uint8_t *)probe;

	for (size_t i = 0; i < sizeof(*probe); i++)
		p[i] = (uint8_t)(rand_r(&thread->seed) >> 7);
}

static void compare(struct thread *thread, const struct probe *in, const struct probe *out,
		    bool avx512)
{
	if (memcmp(in->kept, out->kept, sizeof(in->kept)) != 0)
		wrong(thread, "rbx, rbp, r12 to r15 changed");
	/* syscall() shifts its arguments: number in rdi, the first argument in rsi ... */
	if (memcmp(in->call + 1, out->after, CALL_VALUES) != 0)
		wrong(thread, "rdi, rsi, rdx, r10, r8, r9 changed");
	/* r11 has the flags: carry was set, direction and trap were not. */
	if (!(out->after[AFTER_R11] & 1) || (out->after[AFTER_R11] & 0x500))
		wrong(thread, "flags 0x%llx", (unsigned long long)out->after[AFTER_R11]);
	if (memcmp(in->red_zone, out->red_zone, sizeof(in->red_zone)) != 0)
		wrong(thread, "the red zone changed");
	if (avx512 && memcmp(in->masks, out->masks, sizeof(in->masks)) != 0)
		wrong(thread, "k0 to k7 changed");
	for (int i = 0; i < (avx512 ? 32 : 16); i++)
		if (memcmp(in->vectors[i], out->vectors[i], avx512 ? 64 : 32) != 0)
			wrong(thread, "vector register %d changed", i);
}

/*
 * Makes a system call with everything set, and control words of the floating point units that
 * nobody else has.
 */
static long probe_call(struct thread *thread, long nr, const void *a, long b, long c, const void *d)
{
	static __thread struct probe in, out;
	bool avx512 = __builtin_cpu_supports("avx512bw");
	uint32_t mxcsr = 0x1f80 | (uint32_t)(rand_r(&thread->seed) & 3) << 13, mxcsr_after,
		 mxcsr_default = 0x1f80;
	uint16_t control = (uint16_t)(0x37f & ~((rand_r(&thread->seed) & 1) << 8)), control_after,
		 control_default = 0x37f;
	long ret;

	fill_random(thread, &in);
	in.call[0] = (uint64_t)nr;
	in.call[1] = (uint64_t)(uintptr_t)a;
	in.call[2] = (uint64_t)b;
	in.call[3] = (uint64_t)c;
	in.call[4] = (uint64_t)(uintptr_t)d;
	__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(control));
	ret = avx512 ? victim_probe_avx512(&in, &out) : victim_probe_avx(&in, &out);
	__asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr_after), "=m"(control_after));
	__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr_default), "m"(control_default));
	compare(thread, &in, &out, avx512);
	if ((mxcsr & 0xffc0) != (mxcsr_after & 0xffc0) || control != control_after)
		wrong(thread, "mxcsr 0x%x is 0x%x, x87 control word 0x%x is 0x%x", mxcsr,
		      mxcsr_after, control, control_after);
	return ret;
}

static void do_probe_sleep(struct thread *thread)
{
	struct timespec ts = { 0, 10000000 };
	double start = now_ms();

	check(thread, "raw nanosleep", probe_call(thread, SYS_nanosleep, &ts, 0, 0, NULL), 0);
	check_duration(thread, start, 10);
}

static void do_probe_wake(struct thread *thread)
{
	long ret;

	__atomic_store_n(&wake_word, 0, __ATOMIC_SEQ_CST);
	ret = probe_call(thread, SYS_futex, &wake_word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL);
	if (ret != 0 && errno != EAGAIN)
		wrong(thread, "raw futex wait gave %ld, errno %d", ret, errno);
}

static void do_probe_timeout(struct thread *thread)
{
	static uint32_t word;
	struct timespec ts = { 0, 15000000 };
	double start = now_ms();
	long ret = probe_call(thread, SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &ts);

	if (ret != -1 || errno != ETIMEDOUT)
		wrong(thread, "raw futex wait with a time gave %ld, errno %d", ret, errno);
	check_duration(thread, start, 15);
}

/* Signals */

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
static void do_interrupted_read(struct thread *thread)
{
	char byte;
	long ret = read(signal_fds[0], &byte, 1);

	if (ret < 0 && errno == EINTR)
		__atomic_fetch_add(&thread->shared->eintr, 1, __ATOMIC_SEQ_CST);
	else
		wrong(thread, "read gave %ld, errno %d", ret, errno);
}

/*
 * Sends a signal and waits for its EINTR. "eintr" counts those that never came: a signal just
 * before read() gives none (nobody can help that), so that is no error by itself; without
 * injections it must be rare.
 */
static void do_signaller(struct thread *thread)
{
	struct victim_thread *reader = (struct victim_thread *)(uintptr_t)thread->seq;
	uint64_t before = __atomic_load_n(&reader->eintr, __ATOMIC_SEQ_CST);
	int i;

	pthread_kill(signalled, SIGUSR1);
	for (i = 0; i < 3000 && __atomic_load_n(&reader->eintr, __ATOMIC_SEQ_CST) == before; i++)
		usleep(100);
	thread->shared->eintr += i == 3000;
	usleep(500 + (unsigned int)rand_r(&thread->seed) % 3000);
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
 * one lags behind the clock for ever. The timer was armed between begin and armed; only at instants
 * where both give the same number is it known how many ticks there were.
 */
static void check_ticks(struct thread *thread, uint64_t begin, uint64_t armed)
{
	uint64_t n = 0, least = 0, most = 0;

	for (int i = 0; i < TICK_LOOKS && armed - begin < TICK_NS; i++) {
		least = ticks_since(armed, now_ns());
		n = (uint64_t)n_ticks;
		most = ticks_since(begin, now_ns());
		if (n > most || (n == most && least == most))
			break;
		usleep(1000);
	}
	if (n > most || n < least)
		wrong(thread, "%llu ticks instead of %llu", (unsigned long long)n,
		      (unsigned long long)most);
}

/*
 * A timer whose signal goes to this thread: its ticks must all arrive, its read() is restarted
 * (SA_RESTART).
 */
static void do_timer(struct thread *thread)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	struct itimerspec every = { { 0, TICK_NS }, { 0, TICK_NS } }, off = { { 0, 0 }, { 0, 0 } };
	uint64_t expirations = 0, begin, armed;
	timer_t timer;

	event._sigev_un._tid = (int)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
		wrong(thread, "timer_create");
		return;
	}
	n_ticks = 0;
	begin = now_ns();
	timer_settime(timer, 0, &every, NULL);
	armed = now_ns();
	timerfd_settime(thread->fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, 31000000 } }, NULL);
	check(thread, "read of a timer", read(thread->fd, &expirations, sizeof(expirations)),
	      sizeof(expirations));
	check_ticks(thread, begin, armed);
	timer_settime(timer, 0, &off, NULL);
	timer_delete(timer);
}

/* Feeds those that wait for something. */
static void do_feeder(struct thread *thread)
{
	uint64_t value = thread->seq++;
	struct timespec ts = { 0, 8000000 };

	check(thread, "write", write(pipe_fds[1], &value, sizeof(value)), sizeof(value));
	check(thread, "send", send(socket_fds[1], &value, sizeof(value), 0), sizeof(value));
	check(thread, "clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
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

static void do_audit(struct thread *thread)
{
	static uint64_t *memory, sum;
	static struct stat files[3];
	const int fds[] = { pipe_fds[0], socket_fds[1], signal_fds[0] };

	if (!memory) {
		memory = mmap(NULL, AUDIT_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (size_t i = 0; i < AUDIT_BYTES / sizeof(*memory); i++)
			memory[i] = (uint64_t)rand_r(&thread->seed) * 0x9e3779b97f4a7c15u;
		sum = checksum(memory, AUDIT_BYTES / sizeof(*memory));
		for (int i = 0; i < 3; i++)
			fstat(fds[i], &files[i]);
	}
	if (checksum(memory, AUDIT_BYTES / sizeof(*memory)) != sum)
		wrong(thread, "memory changed");
	for (int i = 0; i < 3; i++) {
		struct stat st;

		if (fstat(fds[i], &st) || st.st_ino != files[i].st_ino ||
		    st.st_dev != files[i].st_dev)
			wrong(thread, "file %d is another", fds[i]);
	}
	usleep(30000);
}

static const struct {
	const char *name;
	void (*round)(struct thread *thread);
} kinds[] = {
	{ "nanosleep", do_nanosleep },
	{ "condition", do_condition },
	{ "poll", do_poll },
	{ "select", do_select },
	{ "pipe", do_pipe },
	{ "socket", do_socket },
	{ "epoll", do_epoll },
	{ "errno", do_errno },
	{ "wait", do_wait },
	{ "probe-sleep", do_probe_sleep },
	{ "probe-wake", do_probe_wake },
	{ "probe-timeout", do_probe_timeout },
	{ "interrupted-read", do_interrupted_read },
	{ "signaller", do_signaller },
	{ "timer", do_timer },
	{ "feeder", do_feeder },
	{ "audit", do_audit },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define EPOLL 6
#define INTERRUPTED_READ 12
#define SIGNALLER 13
#define TIMER 14

static struct thread threads[N_KINDS];

static void *run(void *arg)
{
	struct thread *thread = arg;
	size_t kind = (size_t)(thread - threads);
	sigset_t mask, now;

	/* A mask of its own, to be found unchanged. SIGUSR1 and the timer's signal stay open. */
	sigemptyset(&mask);
	sigaddset(&mask, SIGWINCH);
	sigaddset(&mask, SIGRTMIN + 1 + (int)kind);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	thread->shared->tid = (uint64_t)syscall(SYS_gettid);
	for (;;) {
		kinds[kind].round(thread);
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		if (memcmp(&mask, &now, 8) != 0)
			wrong(thread, "the signal mask changed");
		__atomic_fetch_add(&thread->shared->rounds, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static struct victim_stats *map_stats(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED :
			   mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return p;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 64;
	/* Where Yama lets only ancestors trace. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stats = map_stats(argv[1]);
	if (pipe2(pipe_fds, O_CLOEXEC) || pipe2(signal_fds, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_fds))
		return 1;
	/* All descriptors are there before anybody counts them. */
	threads[EPOLL].fd = epoll_create1(EPOLL_CLOEXEC);
	threads[TIMER].fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGRTMIN,
		  &(struct sigaction){ .sa_sigaction = on_tick,
				       .sa_flags = SA_RESTART | SA_SIGINFO },
		  NULL);
	for (size_t i = 0; i < N_KINDS; i++) {
		struct thread *thread = &threads[i];
		pthread_t id;

		thread->shared = &stats->threads[i];
		thread->seed = (unsigned int)i + 1;
		snprintf(thread->shared->name, sizeof(thread->shared->name), "%s", kinds[i].name);
		if (i == SIGNALLER)
			thread->seq = (uintptr_t)&stats->threads[INTERRUPTED_READ];
		if (pthread_create(&id, NULL, run, thread))
			return 1;
		if (i == INTERRUPTED_READ)
			signalled = id;
	}
	stats->n_threads = N_KINDS;
	__atomic_store_n(&stats->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}
