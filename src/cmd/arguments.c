/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/arguments.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define MAX_TIMEOUT_S 3600

long vt_parse_number(struct argp_state *state, const char *what, const char *text, long min,
		     long max)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);

	if (errno || end == text || *end || value < min || value > max)
		argp_error(state, "%s must be a number from %ld to %ld, not \"%s\"", what, min, max,
			   text);
	return value;
}

pid_t vt_parse_pid(struct argp_state *state, const char *text)
{
	return (pid_t)vt_parse_number(state, "PID", text, 1, 1 << 30);
}

uint64_t vt_parse_timeout(struct argp_state *state, const char *text)
{
	return (uint64_t)vt_parse_number(state, "--timeout", text, 1, MAX_TIMEOUT_S) * VT_NS_PER_S;
}
