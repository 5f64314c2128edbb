/* SPDX-License-Identifier: Apache-2.0 */
/* What stands on the command line: options and values that several commands have. */
#ifndef VT_CMD_ARGUMENTS_H
#define VT_CMD_ARGUMENTS_H

#include <argp.h>
#include <stdint.h>
#include <sys/types.h>

/* A number in [min, max]; anything else ends with a usage error that names what. */
long vt_parse_number(struct argp_state *state, const char *what, const char *text, long min,
		     long max);

/* A process id on the command line. */
pid_t vt_parse_pid(struct argp_state *state, const char *text);

/*
 * A usage error that says that what ("the PID is") is missing; json is what --json was given, NULL:
 * nothing.
 */
void vt_missing_pid(struct argp_state *state, const char *json, const char *what);

/*
 * A time in nanoseconds, from 1 s to most_s: "90", "90s", "30m", "12h" or "7d"; anything else ends
 * with a usage error that names the option.
 */
uint64_t vt_parse_time(struct argp_state *state, const char *option, const char *text,
		       uint64_t most_s);

/* --timeout of one answer: at most an hour. */
uint64_t vt_parse_timeout(struct argp_state *state, const char *text);

/* How long the CUDA debugger may hold a process; text NULL: the default. */
uint64_t vt_parse_kernels(struct argp_state *state, const char *text);

/*
 * Parses the words of a command, as argp_parse() does, which ends the program after --help and
 * after a usage error. Beside that, -h is --help.
 */
void vt_parse_command(const struct argp *argp, int argc, char **argv, unsigned int flags,
		      void *input);

#endif
