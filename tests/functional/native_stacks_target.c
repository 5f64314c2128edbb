/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose threads stand still in stacks that are hard to unwind; native_stacks.sh compares
 * what eu-stack and this tool say about them. Built without frame pointers. Prints "ready" when all
 * threads are in their places.
 */
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, used))

static sem_t in_place;

/* Prevents tail calls and the removal of what was computed. */
static volatile int sink;

/* For ever, which the compiler must not know. */
KEEP static void stand_still(void)
{
	sem_post(&in_place);
	while (sink != INT_MIN) {
		pause();
		sink++;
	}
}

/* 3000 frames deep. */
KEEP static int recurse(int n)
{
	if (n == 0)
		stand_still();
	return recurse(n - 1) + sink;
}

KEEP static void *deep(void *arg)
{
	(void)arg;
	sink = recurse(3000);
	return NULL;
}

/* Inside a signal handler on a stack of its own, inside another one. */
static void inner_handler(int sig)
{
	(void)sig;
	stand_still();
	sink++;
}

static void outer_handler(int sig)
{
	(void)sig;
	raise(SIGUSR2);
	sink++;
}

KEEP static void *in_handler(void *arg)
{
	stack_t alt = { .ss_size = 65536, .ss_sp = malloc(65536) };

	(void)arg;
	sigaltstack(&alt, NULL);
	raise(SIGUSR1);
	sink++;
	return NULL;
}

/* Frames of a size known only at run time, stack pointers aligned more than the ABI asks for. */
KEEP static void with_alloca(size_t n)
{
	char *p = alloca(n);
	_Alignas(64) char aligned[64];

	memset(p, 1, n);
	memset(aligned, 1, sizeof(aligned));
	sink = p[n / 2] + aligned[3];
	if (n > 1000)
		stand_still();
	with_alloca(n * 2);
	sink = p[0] + aligned[1];
}

KEEP static void *varying(void *arg)
{
	(void)arg;
	with_alloca(17);
	sink++;
	return NULL;
}

/* Called back from the C library. */
static int compare(const void *a, const void *b)
{
	stand_still();
	return *(const int *)a - *(const int *)b;
}

KEEP static void *in_callback(void *arg)
{
	int numbers[] = { 3, 1, 2 };

	(void)arg;
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	sink = numbers[0];
	return NULL;
}

/* On a stack that makecontext() made. */
static void coroutine(void)
{
	stand_still();
	sink++;
}

KEEP static void *on_other_stack(void *arg)
{
	static ucontext_t here, there;

	(void)arg;
	getcontext(&there);
	there.uc_stack.ss_size = 65536;
	there.uc_stack.ss_sp = malloc(65536);
	there.uc_link = &here;
	makecontext(&there, coroutine, 0);
	swapcontext(&here, &there);
	sink++;
	return NULL;
}

/* Through a null pointer, seen from the handler. */
KEEP static void call_null(void (*volatile fn)(void))
{
	fn();
	sink++;
}

static void fault_handler(int sig)
{
	(void)sig;
	stand_still();
	sink++;
}

KEEP static void *crashed(void *arg)
{
	(void)arg;
	call_null(NULL);
	sink++;
	return NULL;
}

/* Code that was generated at run time, with a frame record but without unwind information. */
KEEP static void *in_generated_code(void *arg)
{
	/* push %rbp; mov %rsp,%rbp; sub $32,%rsp; call *%rdi; leave; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83,
					      0xec, 0x20, 0xff, 0xd7, 0xc9, 0xc3 };
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	void (*run)(void (*)(void));

	(void)arg;
	if (p == MAP_FAILED)
		return NULL;
	memcpy(p, code, sizeof(code));
	run = (void (*)(void (*)(void)))(unsigned long)p;
	run(stand_still);
	sink++;
	return NULL;
}

/* Jumped to, not called: its caller is the caller of jumps(). */
KEEP static int is_jumped_to(int n)
{
	sink = n;
	stand_still();
	return sink;
}

KEEP static int jumps(int n)
{
	sink++;
	return is_jumped_to(n + 1);
}

KEEP static void *at_tail(void *arg)
{
	(void)arg;
	sink = jumps(3) + 1;
	return NULL;
}

/* The call is its last instruction: the return address is behind it, in another function. */
KEEP _Noreturn static void never_returns(int n)
{
	sink = n;
	for (;;)
		stand_still();
}

KEEP static void *at_the_end(void *arg)
{
	(void)arg;
	if (sink == INT_MAX)
		return NULL;
	never_returns(1);
}

/* The compiler puts what is unlikely elsewhere, as has_a_cold_part.cold. */
KEEP __attribute__((cold)) static int is_unlikely(int n)
{
	stand_still();
	return sink + n;
}

KEEP static int has_a_cold_part(int n)
{
	if (__builtin_expect(n == 3, 0))
		sink = is_unlikely(n) + is_unlikely(n + 1);
	return sink + n;
}

KEEP static void *in_cold_part(void *arg)
{
	static volatile int three = 3;

	(void)arg;
	sink = has_a_cold_part(three) + 1;
	return NULL;
}

/* Running: in the vDSO much of the time. */
KEEP static void *asking_the_time(void *arg)
{
	struct timespec ts;

	(void)arg;
	sem_post(&in_place);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		sink = (int)ts.tv_nsec;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static void *(*const threads[])(
		void *) = { deep,           in_handler,   varying,           in_callback,
			    on_other_stack, crashed,      in_generated_code, at_tail,
			    at_the_end,     in_cold_part, asking_the_time };
	/* The one that runs is wanted only where the whole process is stopped. */
	size_t n = sizeof(threads) / sizeof(threads[0]) - (argc > 1 && !strcmp(argv[1], "still"));
	struct sigaction inner = { .sa_handler = inner_handler, .sa_flags = SA_ONSTACK };
	struct sigaction outer = { .sa_handler = outer_handler, .sa_flags = SA_ONSTACK };
	struct sigaction fault = { .sa_handler = fault_handler };
	pthread_t thread;

	sem_init(&in_place, 0, 0);
	sigaction(SIGUSR2, &inner, NULL);
	sigaction(SIGUSR1, &outer, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&thread, NULL, threads[i], NULL))
			return 1;
	for (size_t i = 0; i < n; i++)
		sem_wait(&in_place);
	puts("ready");
	fflush(stdout);
	alarm(300);
	for (;;)
		pause();
}
