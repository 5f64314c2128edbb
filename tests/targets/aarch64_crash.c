/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes in a leaf that a comparison called, in a handler of a signal that came in a function: for
 * tests/functional/core_aarch64.py. Another thread sleeps.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) static int leaf(const volatile int *p)
{
	return *p;
}

__attribute__((noinline)) static int middle(int n)
{
	char variable[n * 16 + 64];

	memset(variable, n, sizeof(variable));
	sink = variable[n];
	sink = leaf((const volatile int *)(long)(n - 3));
	return sink + 1;
}

static int compare(const void *a, const void *b)
{
	(void)a, (void)b;
	sink = middle(3) + 1;
	return sink;
}

static void handler(int sig)
{
	int values[] = { 3, 1, 2, 0 };

	(void)sig;
	qsort(values, 4, sizeof(values[0]), compare);
	sink = values[0];
}

__attribute__((noinline)) static void interrupted(void)
{
	raise(SIGUSR1);
	sink++;
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleeper, NULL);
	usleep(100000);
	signal(SIGUSR1, handler);
	interrupted();
	return sink;
}
