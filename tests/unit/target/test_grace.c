/* SPDX-License-Identifier: Apache-2.0 */
/* A grace period, of this process's own threads and of a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/grace.h"

#define RUN_NS (50 * VT_NS_PER_US)

static atomic_bool stop;
static atomic_ulong rounds;

static void *spin(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		atomic_fetch_add(&rounds, 1);
	return NULL;
}

static void *sleeping(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		vt_sleep_ns(VT_NS_PER_MS);
	return NULL;
}

/* The one that asks is among them, and runs. */
static void threads_that_run_and_sleep(void **state)
{
	pthread_t threads[3];
	unsigned long before;

	(void)state;
	assert_int_equal(pthread_create(&threads[0], NULL, spin, NULL), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, sleeping, NULL), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, spin, NULL), 0);
	while (!atomic_load(&rounds))
		vt_sleep_ns(VT_NS_PER_MS);
	before = atomic_load(&rounds);
	assert_int_equal(vt_grace_wait(getpid(), RUN_NS, vt_now_ns() + 30 * VT_NS_PER_S), 0);
	assert_true(atomic_load(&rounds) > before);
	atomic_store(&stop, true);
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* One that does not come to run is counted: nothing runs a million seconds in a millisecond. */
static void threads_that_do_not_run_enough(void **state)
{
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child)
		for (;;)
			atomic_fetch_add(&rounds, 1);
	vt_sleep_ns(20 * VT_NS_PER_MS);
	assert_int_equal(vt_grace_wait(child, VT_NS_PER_S * 1000000, vt_now_ns() + VT_NS_PER_MS),
			 1);
	kill(child, SIGSTOP);
	waitpid(child, NULL, WUNTRACED);
	assert_int_equal(vt_grace_wait(child, VT_NS_PER_S * 1000000, vt_now_ns() + VT_NS_PER_MS),
			 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(vt_grace_wait(child, RUN_NS, vt_now_ns() + VT_NS_PER_S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_run_and_sleep),
		cmocka_unit_test(threads_that_do_not_run_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
