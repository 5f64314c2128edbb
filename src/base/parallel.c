/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { MAX_THREADS = 7 };

struct loop {
	atomic_size_t next;
	size_t n, grain;
	void (*turn)(void *arg, size_t first, size_t end);
	void *arg;
};

static void *run(void *arg)
{
	struct loop *loop = arg;
	size_t first;

	while ((first = atomic_fetch_add(&loop->next, loop->grain)) < loop->n) {
		size_t left = loop->n - first;

		loop->turn(loop->arg, first, first + (left < loop->grain ? left : loop->grain));
	}
	return NULL;
}

void vt_parallel(unsigned int threads, size_t n, size_t grain,
		 void (*turn)(void *arg, size_t first, size_t end), void *arg)
{
	struct loop loop = { .n = n, .grain = grain ? grain : 1, .turn = turn, .arg = arg };
	pthread_t helpers[MAX_THREADS];
	unsigned int started = 0;
	sigset_t all, before;

	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < threads && started < MAX_THREADS && started * loop.grain < n &&
	       !pthread_create(&helpers[started], NULL, run, &loop))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	run(&loop);
	while (started)
		pthread_join(helpers[--started], NULL);
}
