/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_calls STATS_FILE [no-children]: a thread in each system call that waits, of every class
 * of restart that the kernel has (ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
 * ERESTART_RESTARTBLOCK), and in those that end with EINTR without a handler when a tracer
 * interrupts them (signal(7)). No signal is ever sent: none of them may see EINTR. What wakes the
 * endless ones is another thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "targets/spy.h"

/* Above each other's noise, so that all of them wait nearly all the time. */
#define WAIT_MS 30
#define WAIT_NS (WAIT_MS * 1000000L)
#define FEED_US 12000

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static const struct timespec wait_time = { 0, WAIT_NS };

/*
 * EINTR of a call that gives it whenever it is interrupted: vramtap takes it back, unless it is
 * killed just before. It is counted, and judged by what was done to vramtap. True if that is it.
 */
static int is_traced_eintr(struct spy *spy, long ret)
{
	if (ret >= 0 || errno != EINTR)
		return 0;
	spy->shared->eintr++;
	return 1;
}

/* What the feeder wakes: one end of each. */
enum { PIPE, SOCKET, SOCKET_TIMED, FULL_PIPE, EVENT, ACCEPT, MESSAGE, SEMAPHORE, FUTEX, N_FED };

static int fed[N_FED][2];
static uint32_t futex_word, never;
static uint64_t sent[N_FED];
static struct sockaddr_un listen_at = { .sun_family = AF_UNIX };

struct message {
	long type;
	uint64_t value;
};

/* Each round of each thread */

static void do_nanosleep(struct spy *spy)
{
	double start = spy_now_ms();

	spy_check(spy, "nanosleep", nanosleep(&wait_time, NULL), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

/* An instant to wait for: not before it, whenever the call began. */
static struct timespec instant(double *start)
{
	uint64_t until = spy_now_ns() + WAIT_NS;

	*start = (double)(until - WAIT_NS) / 1e6;
	return (struct timespec){ (time_t)(until / 1000000000), (long)(until % 1000000000) };
}

static void do_clock_absolute(struct spy *spy)
{
	double start;
	struct timespec ts = instant(&start);

	spy_check(spy, "clock_nanosleep",
		  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_poll(struct spy *spy)
{
	double start = spy_now_ms();

	spy_check(spy, "poll", poll(NULL, 0, WAIT_MS), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_ppoll(struct spy *spy)
{
	double start = spy_now_ms();
	struct timespec ts = wait_time;
	sigset_t mask;

	sigfillset(&mask);
	spy_check(spy, "ppoll", ppoll(NULL, 0, &ts, &mask), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_select(struct spy *spy)
{
	struct timeval tv = { 0, WAIT_NS / 1000 };
	double start = spy_now_ms();

	spy_check(spy, "select", select(0, NULL, NULL, NULL, &tv), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_pselect(struct spy *spy)
{
	struct timespec ts = wait_time;
	double start = spy_now_ms();
	sigset_t mask;

	sigfillset(&mask);
	spy_check(spy, "pselect", pselect(0, NULL, NULL, NULL, &ts, &mask), 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void open_epoll(struct spy *spy)
{
	spy->fd = epoll_create1(EPOLL_CLOEXEC);
}

static void do_epoll(struct spy *spy)
{
	double start = spy_now_ms();
	struct epoll_event event;
	int ret = epoll_wait(spy->fd, &event, 1, WAIT_MS);

	if (is_traced_eintr(spy, ret))
		return;
	spy_check(spy, "epoll_wait", ret, 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_epoll_masked(struct spy *spy)
{
	double start = spy_now_ms();
	struct epoll_event event;
	sigset_t mask;
	int ret;

	sigfillset(&mask);
	ret = epoll_pwait(spy->fd, &event, 1, WAIT_MS, &mask);
	if (is_traced_eintr(spy, ret))
		return;
	spy_check(spy, "epoll_pwait", ret, 0);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_sigtimedwait(struct spy *spy)
{
	double start = spy_now_ms();
	sigset_t set;
	int ret;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	ret = sigtimedwait(&set, NULL, &wait_time);
	if (is_traced_eintr(spy, ret))
		return;
	if (ret != -1 || errno != EAGAIN)
		spy_wrong(spy, "sigtimedwait gave %d, errno %d", ret, errno);
	spy_check_duration(spy, start, WAIT_MS);
}

/* A sequence of numbers, of which none may be lost or come twice. */
static void check_next(struct spy *spy, const char *what, long ret, const uint64_t *value)
{
	spy_check(spy, what, ret, sizeof(*value));
	spy_check(spy, "the sequence", (long)*value, (long)spy->seq++);
}

static void do_pipe(struct spy *spy)
{
	uint64_t value = 0;

	check_next(spy, "read", read(fed[PIPE][0], &value, sizeof(value)), &value);
}

static void do_recv(struct spy *spy)
{
	uint64_t value = 0;

	check_next(spy, "recv", recv(fed[SOCKET][0], &value, sizeof(value), 0), &value);
}

static void limit_time(struct spy *spy)
{
	struct timeval tv = { 0, 25000 };

	(void)spy;
	setsockopt(fed[SOCKET_TIMED][0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

static void do_recv_timed(struct spy *spy)
{
	uint64_t value = 0;
	long ret = recv(fed[SOCKET_TIMED][0], &value, sizeof(value), 0);

	if (is_traced_eintr(spy, ret) || (ret < 0 && errno == EAGAIN))
		return;
	check_next(spy, "recv with a time limit", ret, &value);
}

static void do_full_pipe(struct spy *spy)
{
	static char page[4096];

	spy_check(spy, "write", write(fed[FULL_PIPE][1], page, sizeof(page)), sizeof(page));
}

static void do_event(struct spy *spy)
{
	uint64_t value = 0;

	spy_check(spy, "read of an eventfd", read(fed[EVENT][0], &value, sizeof(value)),
		  sizeof(value));
}

static void open_timer(struct spy *spy)
{
	spy->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static void do_timerfd(struct spy *spy)
{
	uint64_t expirations = 0;
	double start = spy_now_ms();

	timerfd_settime(spy->fd, 0, &(struct itimerspec){ { 0, 0 }, wait_time }, NULL);
	spy_check(spy, "read of a timerfd", read(spy->fd, &expirations, sizeof(expirations)),
		  sizeof(expirations));
	spy_check(spy, "expirations", (long)expirations, 1);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_accept(struct spy *spy)
{
	int fd = accept4(fed[ACCEPT][0], NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		spy_wrong(spy, "accept gave errno %d", errno);
	else
		close(fd);
}

static void do_msgrcv(struct spy *spy)
{
	struct message message = { 0, 0 };

	check_next(spy, "msgrcv", msgrcv(fed[MESSAGE][0], &message, sizeof(message.value), 0, 0),
		   &message.value);
}

static void do_semtimedop(struct spy *spy)
{
	struct sembuf down = { 0, -1, 0 };
	long ret = semtimedop(fed[SEMAPHORE][0], &down, 1, &wait_time);

	if (is_traced_eintr(spy, ret) || (ret < 0 && errno == EAGAIN))
		return;
	spy_check(spy, "semtimedop", ret, 0);
}

static void do_futex(struct spy *spy)
{
	uint32_t seen = __atomic_load_n(&futex_word, __ATOMIC_SEQ_CST);
	long ret;

	ret = syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, seen, NULL);
	if (ret != 0 && errno != EAGAIN)
		spy_wrong(spy, "futex gave %ld, errno %d", ret, errno);
	else if (ret == 0 && __atomic_load_n(&futex_word, __ATOMIC_SEQ_CST) == seen)
		spy_wrong(spy, "futex woke up for nothing");
}

static void do_futex_timed(struct spy *spy)
{
	double start = spy_now_ms();
	long ret = syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &wait_time);

	if (ret != -1 || errno != ETIMEDOUT)
		spy_wrong(spy, "futex with a time gave %ld, errno %d", ret, errno);
	spy_check_duration(spy, start, WAIT_MS);
}

static void do_futex_bitset(struct spy *spy)
{
	double start;
	struct timespec ts = instant(&start);
	long ret = syscall(SYS_futex, &never, FUTEX_WAIT_BITSET_PRIVATE, 0, &ts, NULL, -1);

	if (ret != -1 || errno != ETIMEDOUT)
		spy_wrong(spy, "futex with a bit set gave %ld, errno %d", ret, errno);
	spy_check_duration(spy, start, WAIT_MS);
}

static pid_t slow_child(struct spy *spy)
{
	pid_t pid = fork();

	if (pid == 0) {
		usleep(WAIT_MS * 1000);
		_exit(7);
	}
	if (pid < 0)
		spy_wrong(spy, "fork: errno %d", errno);
	return pid;
}

static void do_wait4(struct spy *spy)
{
	pid_t pid = slow_child(spy);
	int status = -1;

	spy_check(spy, "wait4", wait4(pid, &status, 0, NULL), pid);
	spy_check(spy, "the child's status", status, 7 << 8);
}

static void do_waitid(struct spy *spy)
{
	pid_t pid = slow_child(spy);
	siginfo_t info = { 0 };

	spy_check(spy, "waitid", waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
	spy_check(spy, "the child's status", info.si_status, 7);
}

/* Two threads and one lock of a file, each through an open file of its own. */
static void open_lock(struct spy *spy)
{
	static int made = -1;
	char path[32];

	if (made < 0)
		made = memfd_create("lock", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", made);
	spy->fd = open(path, O_RDWR | O_CLOEXEC);
}

static void do_flock(struct spy *spy)
{
	spy_check(spy, "flock", flock(spy->fd, LOCK_EX), 0);
	spy_check(spy, "nanosleep", nanosleep(&wait_time, NULL), 0);
	spy_check(spy, "flock", flock(spy->fd, LOCK_UN), 0);
	usleep(1000);
}

/* A ring without liburing: one time-out, waited for in io_uring_enter(). */
struct ring {
	int fd;
	uint8_t *sq, *cq;
	struct io_uring_sqe *sqes;
	struct io_uring_params params;
};

static void *map_ring(const struct ring *ring, size_t bytes, off_t at)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, at);
}

static struct ring ring = { .fd = -1 };

static void open_ring(struct spy *spy)
{
	size_t sq_bytes, cq_bytes;

	(void)spy;
	ring.fd = (int)syscall(SYS_io_uring_setup, 4, &ring.params);
	if (ring.fd < 0)
		return;
	sq_bytes = ring.params.sq_off.array + ring.params.sq_entries * sizeof(uint32_t);
	cq_bytes = ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe);
	ring.sq = map_ring(&ring, sq_bytes, IORING_OFF_SQ_RING);
	ring.cq = map_ring(&ring, cq_bytes, IORING_OFF_CQ_RING);
	ring.sqes = map_ring(&ring, ring.params.sq_entries * sizeof(*ring.sqes), IORING_OFF_SQES);
}

static uint32_t *word(uint8_t *base, uint32_t at)
{
	return (uint32_t *)(void *)(base + at);
}

static void do_uring(struct spy *spy)
{
	static struct {
		int64_t sec, nsec;
	} time = { 0, WAIT_NS };
	uint32_t tail, head, mask, submit = 1;
	double start = spy_now_ms();
	long ret;

	if (ring.fd < 0) {
		usleep(WAIT_MS * 1000);
		return;
	}
	mask = *word(ring.sq, ring.params.sq_off.ring_mask);
	tail = *word(ring.sq, ring.params.sq_off.tail);
	ring.sqes[tail & mask] = (struct io_uring_sqe){ .opcode = IORING_OP_TIMEOUT,
							.fd = -1,
							.addr = (uintptr_t)&time,
							.len = 1,
							.user_data = spy->seq };
	word(ring.sq, ring.params.sq_off.array)[tail & mask] = tail & mask;
	__atomic_store_n(word(ring.sq, ring.params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	head = *word(ring.cq, ring.params.cq_off.head);
	while (__atomic_load_n(word(ring.cq, ring.params.cq_off.tail), __ATOMIC_ACQUIRE) == head) {
		ret = syscall(SYS_io_uring_enter, ring.fd, submit, 1, IORING_ENTER_GETEVENTS, NULL,
			      0);
		submit = 0;
		if (ret < 0 && !is_traced_eintr(spy, ret))
			spy_wrong(spy, "io_uring_enter: errno %d", errno);
	}

	const struct io_uring_cqe *cqe = (const void *)(ring.cq + ring.params.cq_off.cqes);

	cqe += head & *word(ring.cq, ring.params.cq_off.ring_mask);
	spy_check(spy, "the completion's number", (long)cqe->user_data, (long)spy->seq++);
	spy_check(spy, "the completion's result", cqe->res, -ETIME);
	__atomic_store_n(word(ring.cq, ring.params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	spy_check_duration(spy, start, WAIT_MS);
}

/* connect() to a socket whose queue is full waits as accept() does, on the other side. */
static void feed_accept(struct spy *spy)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	spy_check(spy, "connect",
		  connect(fd, (const struct sockaddr *)&listen_at, sizeof(listen_at)), 0);
	close(fd);
}

static void do_connect(struct spy *spy)
{
	feed_accept(spy);
}

static void feed(struct spy *spy, int which)
{
	uint64_t value = sent[which]++;

	spy_check(spy, "write", write(fed[which][1], &value, sizeof(value)), sizeof(value));
}

static void do_feeder(struct spy *spy)
{
	struct message message = { 1, sent[MESSAGE]++ };
	struct sembuf up = { 0, 1, 0 };
	uint64_t one = 1;
	static char page[4096];

	usleep(FEED_US);
	feed(spy, PIPE);
	feed(spy, SOCKET);
	feed(spy, SOCKET_TIMED);
	spy_check(spy, "read", read(fed[FULL_PIPE][0], page, sizeof(page)), sizeof(page));
	spy_check(spy, "write", write(fed[EVENT][1], &one, sizeof(one)), sizeof(one));
	spy_check(spy, "msgsnd", msgsnd(fed[MESSAGE][0], &message, sizeof(message.value), 0), 0);
	if (spy->seq++ % 4 == 0)
		spy_check(spy, "semop", semop(fed[SEMAPHORE][0], &up, 1), 0);
	__atomic_fetch_add(&futex_word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Accepts late, so that connect() waits. */
static void do_late_accept(struct spy *spy)
{
	usleep(5000);
	do_accept(spy);
}

static int open_all(void)
{
	static char page[4096];

	for (int i = PIPE; i <= FULL_PIPE; i++) {
		int made = i == PIPE || i == FULL_PIPE ?
				   pipe2(fed[i], O_CLOEXEC) :
				   socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fed[i]);

		if (made)
			return -1;
	}
	fcntl(fed[FULL_PIPE][1], F_SETPIPE_SZ, sizeof(page));
	if (write(fed[FULL_PIPE][1], page, sizeof(page)) != sizeof(page))
		return -1;
	fed[EVENT][0] = fed[EVENT][1] = eventfd(0, EFD_CLOEXEC);
	fed[ACCEPT][0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* An abstract address, which is gone with its socket. */
	memcpy(listen_at.sun_path + 1, &(pid_t){ getpid() }, sizeof(pid_t));
	if (bind(fed[ACCEPT][0], (const struct sockaddr *)&listen_at, sizeof(listen_at)) ||
	    listen(fed[ACCEPT][0], 0))
		return -1;
	fed[MESSAGE][0] = msgget(IPC_PRIVATE, 0600);
	fed[SEMAPHORE][0] = semget(IPC_PRIVATE, 1, 0600);
	return fed[MESSAGE][0] < 0 || fed[SEMAPHORE][0] < 0;
}

/* Where they are not in a namespace that ends with the process. */
static void remove_queues(void)
{
	msgctl(fed[MESSAGE][0], IPC_RMID, NULL);
	semctl(fed[SEMAPHORE][0], 0, IPC_RMID);
}

static const struct spy_kind kinds[] = {
	{ "nanosleep", do_nanosleep, NULL },
	{ "clock_nanosleep", do_clock_absolute, NULL },
	{ "poll", do_poll, NULL },
	{ "ppoll", do_ppoll, NULL },
	{ "select", do_select, NULL },
	{ "pselect", do_pselect, NULL },
	{ "epoll", do_epoll, open_epoll },
	{ "epoll_pwait", do_epoll_masked, open_epoll },
	{ "sigtimedwait", do_sigtimedwait, NULL },
	{ "pipe", do_pipe, NULL },
	{ "recv", do_recv, NULL },
	{ "recv_timed", do_recv_timed, limit_time },
	{ "full_pipe", do_full_pipe, NULL },
	{ "eventfd", do_event, NULL },
	{ "timerfd", do_timerfd, open_timer },
	{ "accept", do_late_accept, NULL },
	{ "connect", do_connect, NULL },
	{ "connect", do_connect, NULL },
	{ "msgrcv", do_msgrcv, NULL },
	{ "semtimedop", do_semtimedop, NULL },
	{ "futex", do_futex, NULL },
	{ "futex_timed", do_futex_timed, NULL },
	{ "futex_bitset", do_futex_bitset, NULL },
	{ "flock", do_flock, open_lock },
	{ "flock", do_flock, open_lock },
	{ "io_uring", do_uring, open_ring },
	{ "feeder", do_feeder, NULL },
	/* last, so that they can be left out */
	{ "wait4", do_wait4, NULL },
	{ "waitid", do_waitid, NULL },
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]), N_OF_CHILDREN = 2 };

int main(int argc, char **argv)
{
	bool own = !unshare(CLONE_NEWIPC), childless = argc == 3 && !strcmp(argv[2], "no-children");
	int code;

	if (argc != 2 + childless)
		return 64;
	if (open_all())
		return 1;
	code = spy_main(argv[1], kinds, N_KINDS - (childless ? N_OF_CHILDREN : 0));
	if (!own)
		remove_queues();
	return code;
}
