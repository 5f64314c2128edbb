/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of tests/targets/victim*: starts one, injects into it from a child process (which
 * may be killed), and counts the harm that it has come to. All of that must be 0.
 */
#ifndef VT_TESTS_VICTIMS_H
#define VT_TESTS_VICTIMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "targets/victim.h"

struct harm {
	int died, hung, stopped, leaked_threads, leaked_fds, leaked_maps;
	uint64_t errors;
};

extern struct harm harm;

bool is_any_harm(void);
void print_harm(void); /* without the end of the line */

struct victim {
	pid_t pid;
	struct victim_stats *stats;
	char stats_path[64];
	int threads, fds;
	uint64_t errors; /* seen so far */
};

/* argv ends with NULL and has at most six words; the path of the statistics is added. */
void start_victim(struct victim *victim, const char *const *argv);
bool is_ready(struct victim *victim);
void end_victim(struct victim *victim);
/* The thread of this name; 0: there is none. */
pid_t victim_thread(const struct victim *victim, const char *name);

/*
 * Every thread completes a round, nothing is stopped, nothing was wrong. False when the victim died
 * or hangs.
 */
bool is_unharmed(struct victim *victim, const char *what);
/* Whatever was left by killed injectors must be gone when the helper's patience has ended. */
void count_leaks(struct victim *victim);

/* What an injector reports before it exits. */
struct report {
	bool created;
	bool called;
	enum vt_error_code code;
	uint64_t borrowed_ns, total_ns, whole_ns;
	char message[200];
};

/*
 * The injector, a child process: borrows the thread tid (0: which it likes), asks the helper one
 * question, ends the session, writes its report to out and exits. fault is for VRAMTAP_FAULT (NULL:
 * none).
 */
extern uint64_t helper_stack; /* of the helper's thread; 0: what it has by default */
void injector(pid_t pid, pid_t tid, const char *fault, int out) __attribute__((noreturn));

#endif
