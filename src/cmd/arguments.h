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

/* --timeout in nanoseconds. */
uint64_t vt_parse_timeout(struct argp_state *state, const char *text);

#endif
