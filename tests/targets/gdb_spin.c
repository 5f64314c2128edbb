/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gdb_spin: two threads that run on the processor, at the end of known calls, and one that sleeps.
 * Where they are in their innermost functions nobody knows; what called those can only be found
 * with the registers of the very moment: one of the callers keeps its frame in rbp, as its size is
 * not known before. Prints "READY", then for each byte of standard input how far the threads have
 * counted.
 */
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile unsigned long counted[2];

#define NOINLINE __attribute__((noinline, noclone))

/*
 * Steps in a function with a frame of its own and in one without, so that it is stopped in either.
 */
static NOINLINE unsigned long step_leaf(unsigned long n)
{
	for (int i = 0; i < 50; i++)
		n = n * 6364136223846793005ul + 1442695040888963407ul;
	return n;
}

static NOINLINE void spin_innermost(int which, unsigned long *state)
{
	for (;;) {
		*state = step_leaf(*state);
		counted[which]++;
	}
}

static NOINLINE void spin_with_array(int which, size_t size)
{
	unsigned long *state = alloca(size * sizeof(*state));

	memset(state, which, size * sizeof(*state));
	spin_innermost(which, state);
	counted[which] += state[size - 1];
}

static NOINLINE void spin_outermost(int which)
{
	spin_with_array(which, 100 + (size_t)which);
	counted[which]++;
}

static void *first_thread(void *arg)
{
	spin_outermost(0);
	return arg;
}

static void *second_thread(void *arg)
{
	spin_outermost(1);
	return arg;
}

int main(void)
{
	pthread_t threads[2];
	char c;

	pthread_create(&threads[0], NULL, first_thread, NULL);
	pthread_create(&threads[1], NULL, second_thread, NULL);
	while (!counted[0] || !counted[1])
		usleep(1000);
	printf("READY\n");
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		printf("count %lu %lu\n", counted[0], counted[1]);
		fflush(stdout);
	}
	return 0;
}
