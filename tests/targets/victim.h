/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a victim (a program that is injected into) tells the spy (the test that does it) about its
 * own health: a file that both map. Every thread of a victim does one kind of thing for ever,
 * checks its outcome and counts.
 */
#ifndef VT_TESTS_VICTIM_H
#define VT_TESTS_VICTIM_H

#include <stdint.h>

#define VICTIM_MAX_THREADS 40

struct victim_thread {
	uint64_t tid;
	uint64_t rounds; /* completed: a thread that does not get on is hung */
	uint64_t errors; /* outcomes that cannot be without somebody's interference */
	uint64_t eintr;  /* EINTR where no signal was sent: not an error, but a trace of us */
	char name[32];
};

struct victim_stats {
	uint64_t ready;
	uint64_t n_threads;
	char first_error[160];
	struct victim_thread threads[VICTIM_MAX_THREADS];
};

#endif
