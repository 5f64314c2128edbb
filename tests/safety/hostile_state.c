/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_state STATS_FILE: what the kernel keeps for each thread, and what it undoes or hands over
 * when a thread is interrupted or dies: restartable sequences, robust and priority-inheriting
 * mutexes, the bases of fs and gs, queues of pending signals; and plain locks and barriers, whose
 * futex words everybody who is lost would leave locked.
 */
#include <asm/prctl.h>
#include <errno.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "targets/spy.h"

#define REST_US 3000

/* Restartable sequences: counters of processors, which nobody locks. */

#define MAX_CPUS 1024
#define RSEQ_ROUND 2000

static struct {
	intptr_t n;
	char pad[56];
} per_cpu[MAX_CPUS];
static uint64_t added; /* by all threads, atomically */

static struct rseq *own_rseq(void)
{
	return (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* False if the thread was moved, or interrupted, in between: nothing was added then. */
static bool add_on_cpu(struct rseq *rseq, uint32_t cpu)
{
	__asm__ goto(".pushsection __rseq_cs, \"aw\"\n\t"
		     ".balign 32\n\t"
		     "3: .long 0, 0\n\t"
		     ".quad 1f, 2f - 1f, 4f\n\t"
		     ".popsection\n\t"
		     "leaq 3b(%%rip), %%rax\n\t"
		     "movq %%rax, %[cs]\n"
		     "1: cmpl %[cpu], %[current]\n\t"
		     "jnz 4f\n\t"
		     "addq $1, %[n]\n"
		     "2:\n\t"
		     ".pushsection .text.rseq_abort, \"ax\"\n\t"
		     ".byte 0x0f, 0xb9, 0x3d\n\t"
		     ".long 0x53053053\n" /* RSEQ_SIG, which the C library has registered */
		     "4: jmp %l[aborted]\n\t"
		     ".popsection"
		     :
		     : [cs] "m"(rseq->rseq_cs), [cpu] "r"(cpu), [current] "m"(rseq->cpu_id),
		       [n] "m"(per_cpu[cpu].n)
		     : "rax", "memory", "cc"
		     : aborted);
	return true;
aborted:
	return false;
}

static void do_rseq(struct spy *spy)
{
	struct rseq *rseq = own_rseq();

	if (!__rseq_size) {
		usleep(REST_US);
		return;
	}
	for (int i = 0; i < RSEQ_ROUND; i++) {
		while (!add_on_cpu(rseq, rseq->cpu_id_start % MAX_CPUS))
			;
		__atomic_fetch_add(&added, 1, __ATOMIC_SEQ_CST);
	}
	if (syscall(SYS_rseq, rseq, 32, 0, 0x53053053) != -1 || (errno != EBUSY && errno != EINVAL))
		spy_wrong(spy, "the thread's rseq is not registered any more, errno %d", errno);
	usleep(REST_US);
}

/* Between two reads of the sum of what was said to be added, the counters must have passed it. */
static void do_rseq_sum(struct spy *spy)
{
	uint64_t before, after, sum = 0;

	before = __atomic_load_n(&added, __ATOMIC_SEQ_CST);
	for (int i = 0; i < MAX_CPUS; i++)
		sum += (uint64_t)__atomic_load_n(&per_cpu[i].n, __ATOMIC_SEQ_CST);
	after = __atomic_load_n(&added, __ATOMIC_SEQ_CST);
	/* Each of the two threads may have counted one that it has not told of. */
	if (__rseq_size && (sum < before || sum > after + 2))
		spy_wrong(spy, "counted %lu, not %lu to %lu", (unsigned long)sum,
			  (unsigned long)before, (unsigned long)after + 2);
	usleep(REST_US);
}

/* Locks */

static pthread_mutex_t robust, inherit, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static uint64_t guarded[2];

static void make_mutex(pthread_mutex_t *mutex, int is_robust, int protocol)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr,
				    is_robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void *die_locked(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&robust);
	usleep(1000);
	return NULL; /* the kernel marks it, by the list that the thread has registered */
}

static void do_robust(struct spy *spy)
{
	void *head = NULL;
	pthread_t id;
	size_t size = 0;
	int ret;

	spy_check(spy, "get_robust_list", syscall(SYS_get_robust_list, 0, &head, &size), 0);
	if (spy->seq && spy->seq != (uintptr_t)head)
		spy_wrong(spy, "the robust list is another");
	spy->seq = (uintptr_t)head;
	if (pthread_create(&id, NULL, die_locked, NULL)) {
		spy_wrong(spy, "pthread_create: errno %d", errno);
		return;
	}
	pthread_join(id, NULL);
	ret = pthread_mutex_lock(&robust);
	spy_check(spy, "lock of a dead thread's mutex", ret, EOWNERDEAD);
	pthread_mutex_consistent(&robust);
	pthread_mutex_unlock(&robust);
}

static void add_guarded(struct spy *spy, pthread_mutex_t *mutex)
{
	for (int i = 0; i < 20; i++) {
		spy_check(spy, "pthread_mutex_lock", pthread_mutex_lock(mutex), 0);
		guarded[0]++;
		sched_yield();
		guarded[1]++;
		if (guarded[0] != guarded[1])
			spy_wrong(spy, "two threads had the lock");
		spy_check(spy, "pthread_mutex_unlock", pthread_mutex_unlock(mutex), 0);
	}
	usleep(REST_US);
}

static void do_plain(struct spy *spy)
{
	add_guarded(spy, &plain);
}

static void do_inherit(struct spy *spy)
{
	spy_check(spy, "lock", pthread_mutex_lock(&inherit), 0);
	usleep(1000);
	spy_check(spy, "unlock", pthread_mutex_unlock(&inherit), 0);
	usleep(500);
}

static void do_barrier(struct spy *spy)
{
	int ret = pthread_barrier_wait(&barrier);

	if (ret && ret != PTHREAD_BARRIER_SERIAL_THREAD)
		spy_wrong(spy, "barrier gave %d", ret);
	usleep(REST_US);
}

/* Segment bases */

static __thread uint64_t far_away[32];

static void do_bases(struct spy *spy)
{
	unsigned long fs = 0, gs = 0, want = (uintptr_t)&far_away[rand_r(&spy->seed) % 32];
	uint64_t there;

	*(uint64_t *)want = spy->seq;
	syscall(SYS_arch_prctl, ARCH_SET_GS, want);
	usleep(10000);
	__asm__ volatile("movq %%gs:0, %0" : "=r"(there));
	spy_check(spy, "what gs points to", (long)there, (long)spy->seq++);
	syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
	spy_check(spy, "gs", (long)gs, (long)want);
	spy_check(spy, "fs", (long)fs, (long)(uintptr_t)__builtin_thread_pointer());
}

/* Signals that wait while they are blocked: all of them, in order, each with its value. */

#define QUEUED 5
#define QUEUED_SIGNAL (SIGRTMAX - 1)

static void do_pending(struct spy *spy)
{
	struct timespec none = { 0, 0 };
	sigset_t set, usual;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, QUEUED_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, &usual);
	for (int i = 0; i < QUEUED; i++) {
		union sigval value = { .sival_int = i };

		pthread_sigqueue(pthread_self(), QUEUED_SIGNAL, value);
	}
	usleep(10000);
	for (int i = 0; i < QUEUED; i++) {
		spy_check(spy, "sigtimedwait", sigtimedwait(&set, &info, &none), QUEUED_SIGNAL);
		spy_check(spy, "the signal's value", info.si_value.sival_int, i);
		spy_check(spy, "the signal's sender", info.si_pid, getpid());
	}
	pthread_sigmask(SIG_SETMASK, &usual, NULL);
}

static const struct spy_kind kinds[] = {
	{ "rseq", do_rseq, NULL },         { "rseq", do_rseq, NULL },
	{ "rseq_sum", do_rseq_sum, NULL }, { "robust", do_robust, NULL },
	{ "plain", do_plain, NULL },       { "plain", do_plain, NULL },
	{ "plain", do_plain, NULL },       { "inherit", do_inherit, NULL },
	{ "inherit", do_inherit, NULL },   { "barrier", do_barrier, NULL },
	{ "barrier", do_barrier, NULL },   { "barrier", do_barrier, NULL },
	{ "bases", do_bases, NULL },       { "bases", do_bases, NULL },
	{ "pending", do_pending, NULL },
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 64;
	make_mutex(&robust, 1, PTHREAD_PRIO_NONE);
	make_mutex(&inherit, 0, PTHREAD_PRIO_INHERIT);
	pthread_barrier_init(&barrier, NULL, 3);
	return spy_main(argv[1], kinds, sizeof(kinds) / sizeof(kinds[0]));
}
