/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_threads STATS_FILE: threads that come and go, threads with the smallest stacks there
 * can be, handlers on alternate stacks, signals a thousand times a second with and without
 * SA_RESTART, and libraries that are opened and closed all the time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "targets/spy.h"

#define N_SHORT 8
#define TINY 16384 /* PTHREAD_STACK_MIN without AVX-512; glibc says what it is here */
#define CANARY 0x5afe5afe5afe5afeu

static void *short_lived(void *arg)
{
	unsigned int microseconds = (unsigned int)(uintptr_t)arg;

	usleep(microseconds);
	return (void *)(uintptr_t)(microseconds + 1);
}

static void do_come_and_go(struct spy *spy)
{
	pthread_t ids[N_SHORT];
	uintptr_t waits[N_SHORT];
	void *ret;

	for (int i = 0; i < N_SHORT; i++) {
		waits[i] = (uintptr_t)(rand_r(&spy->seed) % 3000);
		if (pthread_create(&ids[i], NULL, short_lived, (void *)waits[i])) {
			spy_wrong(spy, "pthread_create: errno %d", errno);
			return;
		}
	}
	for (int i = 0; i < N_SHORT; i++) {
		pthread_join(ids[i], &ret);
		spy_check(spy, "the thread's result", (long)(uintptr_t)ret, (long)waits[i] + 1);
	}
}

/* A stack whose last page is full of a pattern: below it nobody may write. */
struct tiny {
	uint64_t *stack;
	size_t bytes;
	_Atomic int stop;
	int wrong;
};

static void *tiny_thread(void *arg)
{
	struct tiny *tiny = arg;

	for (int i = 0; i < 10; i++)
		if (usleep(2000))
			tiny->wrong = errno;
	return NULL;
}

/* The smallest stack: there is a guard page below it, and 2 KiB of pattern right above that. */
static void do_tiny(struct spy *spy)
{
	size_t page = 4096, bytes = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	struct tiny tiny = { .bytes = bytes < TINY ? TINY : bytes };
	size_t all = tiny.bytes + 2 * page, canaries = 256;
	pthread_attr_t attr;
	uint8_t *memory;
	pthread_t id;

	memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
		      -1, 0);
	if (memory == MAP_FAILED) {
		spy_wrong(spy, "mmap: errno %d", errno);
		return;
	}
	mprotect(memory, page, PROT_NONE);
	tiny.stack = (uint64_t *)(void *)(memory + page);
	for (size_t i = 0; i < canaries; i++)
		tiny.stack[i] = CANARY;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, tiny.stack, tiny.bytes);
	if (pthread_create(&id, &attr, tiny_thread, &tiny)) {
		spy_wrong(spy, "pthread_create with a stack: errno %d", errno);
	} else {
		pthread_join(id, NULL);
		for (size_t i = 0; i < canaries; i++)
			if (tiny.stack[i] != CANARY) {
				spy_wrong(spy, "a word at the end of a tiny stack changed");
				break;
			}
		spy_check(spy, "usleep on a tiny stack", tiny.wrong, 0);
	}
	pthread_attr_destroy(&attr);
	munmap(memory, all);
}

/* Signals */

#define ALT_BYTES 32768

static __thread volatile sig_atomic_t handled, off_stack;
static __thread uint8_t *alternate;

static void on_signal(int sig)
{
	char here;

	(void)sig;
	handled++;
	if (alternate &&
	    ((uint8_t *)&here < alternate || (uint8_t *)&here >= alternate + ALT_BYTES))
		off_stack = 1;
}

/* SIGUSR1 has SA_RESTART, SIGUSR2 has not. Each thread is sent one of them. */
static int pipe_fds[2];

static void use_alternate(struct spy *spy)
{
	if (alternate)
		return;
	alternate =
		mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alternate == MAP_FAILED ||
	    sigaltstack(&(stack_t){ .ss_sp = alternate, .ss_size = ALT_BYTES }, NULL))
		spy_wrong(spy, "no alternate stack");
}

static void check_alternate(struct spy *spy)
{
	stack_t now;

	sigaltstack(NULL, &now);
	if (now.ss_sp != alternate || now.ss_size != ALT_BYTES)
		spy_wrong(spy, "the alternate stack is another");
	if (off_stack)
		spy_wrong(spy, "a handler ran on another stack");
	off_stack = 0;
}

/* read() is restarted, whatever comes. */
static void do_restarted(struct spy *spy)
{
	uint64_t value = 0;
	long ret;

	use_alternate(spy);
	ret = read(pipe_fds[0], &value, sizeof(value));
	spy_check(spy, "read", ret, sizeof(value));
	spy_check(spy, "the sequence", (long)value, (long)spy->seq++);
	check_alternate(spy);
}

/* nanosleep() ends with EINTR only if the handler ran, and the rest of its time is right. */
static void do_interrupted(struct spy *spy)
{
	struct timespec ts = { 0, 20000000 }, left = { -1, 0 };
	double start = spy_now_ms();
	sig_atomic_t before = handled;
	int ret;

	use_alternate(spy);
	ret = nanosleep(&ts, &left);
	if (ret && errno != EINTR)
		spy_wrong(spy, "nanosleep gave %d, errno %d", ret, errno);
	if (ret && handled == before)
		spy_wrong(spy, "nanosleep: EINTR without a signal");
	if (ret && left.tv_sec * 1000 + left.tv_nsec / 1000000 > 20)
		spy_wrong(spy, "nanosleep has %ld ns left", left.tv_nsec);
	if (ret && spy_now_ms() - start + (double)left.tv_nsec / 1e6 < 19.9)
		spy_wrong(spy, "nanosleep lost time");
	check_alternate(spy);
}

enum { COME_AND_GO, TINY_STACK, RESTARTED, INTERRUPTED, SENDER, LIBRARIES };

static void do_sender(struct spy *spy)
{
	pid_t a = (pid_t)__atomic_load_n(&spy_thread(RESTARTED)->shared->tid, __ATOMIC_SEQ_CST);
	pid_t b = (pid_t)__atomic_load_n(&spy_thread(INTERRUPTED)->shared->tid, __ATOMIC_SEQ_CST);
	uint64_t value = spy->seq;

	for (int i = 0; a && b && i < 10; i++) {
		syscall(SYS_tgkill, getpid(), a, SIGUSR1);
		if (i % 5 == 0)
			syscall(SYS_tgkill, getpid(), b, SIGUSR2);
		usleep(1000);
	}
	if (a && b) {
		spy_check(spy, "write", write(pipe_fds[1], &value, sizeof(value)), sizeof(value));
		spy->seq++;
	}
}

/* Libraries that nobody needs, which come and go. */
static const char *const libraries[] = { "libm.so.6",   "libutil.so.1", "libresolv.so.2",
					 "libnsl.so.1", "libanl.so.1",  "libz.so.1" };

static void do_libraries(struct spy *spy)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);

		usleep((unsigned int)rand_r(&spy->seed) % 500);
		if (library && dlclose(library))
			spy_wrong(spy, "dlclose: %s", dlerror());
	}
}

static void do_parked(struct spy *spy)
{
	double start = spy_now_ms();

	spy_check(spy, "usleep", usleep(20000), 0);
	spy_check_duration(spy, start, 20);
}

static const struct spy_kind kinds[] = {
	{ "come_and_go", do_come_and_go, NULL }, { "tiny", do_tiny, NULL },
	{ "restarted", do_restarted, NULL },     { "interrupted", do_interrupted, NULL },
	{ "sender", do_sender, NULL },           { "libraries", do_libraries, NULL },
	{ "libraries", do_libraries, NULL },     { "parked", do_parked, NULL },
};

int main(int argc, char **argv)
{
	if (argc != 2 || pipe(pipe_fds))
		return 64;
	sigaction(SIGUSR1,
		  &(struct sigaction){ .sa_handler = on_signal,
				       .sa_flags = SA_RESTART | SA_ONSTACK },
		  NULL);
	sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_ONSTACK },
		  NULL);
	return spy_main(argv[1], kinds, sizeof(kinds) / sizeof(kinds[0]));
}
