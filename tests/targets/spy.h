/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs that are injected into share: threads that do one kind of thing for ever, check
 * what comes of it, and tell a file (victim.h). A program ends when it gets SIGTERM, which only its
 * main thread does: with SPY_UNHARMED if nothing was wrong.
 */
#ifndef VT_TESTS_SPY_H
#define VT_TESTS_SPY_H

#include <stddef.h>
#include <stdint.h>

#include "victim.h"

/* Exit codes, which say more than 0 and 1: those could be anybody's. */
#define SPY_UNHARMED 42
#define SPY_HARMED 43

struct spy {
	struct victim_thread *shared;
	const struct spy_kind *kind;
	unsigned int seed;
	uint64_t seq; /* of the kind's own use, as is fd */
	int fd;
};

struct spy_kind {
	const char *name;
	void (*round)(struct spy *spy);
	/* NULL, or what runs once, before any round; all descriptors are opened here. */
	void (*prepare)(struct spy *spy);
};

extern struct victim_stats *spy_stats;

uint64_t spy_now_ns(void);
double spy_now_ms(void);

/* Something is wrong; the first text of all threads is kept. */
__attribute__((format(printf, 2, 3))) void spy_wrong(struct spy *spy, const char *format, ...);
void spy_check(struct spy *spy, const char *what, long got, long want);

/* It must have taken ms, or longer on a busy machine. */
void spy_check_duration(struct spy *spy, double start_ms, double ms);

/*
 * main() of such a program: maps the file, prepares and starts a thread for each kind, and returns
 * the exit code when it was asked to end.
 */
int spy_main(const char *stats_path, const struct spy_kind *kinds, size_t n);

/* The thread that does kinds[i], for other threads that look at it. */
struct spy *spy_thread(size_t i);

#endif
