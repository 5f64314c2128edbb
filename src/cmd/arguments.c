/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exit.h"

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

void vt_missing_pid(struct argp_state *state, const char *json, const char *what)
{
	if (json && *json && !json[strspn(json, "0123456789")])
		argp_error(state,
			   "%s missing: --json took %s as its file; write --json - %s, for "
			   "example",
			   what, json, json);
	argp_error(state, "%s missing", what);
}

uint64_t vt_parse_time(struct argp_state *state, const char *option, const char *text,
		       uint64_t most_s)
{
	static const struct {
		const char *name;
		uint64_t seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0;
	     !errno && text[0] >= '0' && text[0] <= '9' && i < sizeof(units) / sizeof(units[0]);
	     i++)
		if (!strcmp(end, units[i].name) && number > 0 &&
		    number <= most_s / units[i].seconds)
			return number * units[i].seconds * VT_NS_PER_S;
	argp_error(state,
		   "%s takes a time such as 90, 90s, 30m or 12h, of %" PRIu64
		   " s at most, not \"%s\"",
		   option, most_s, text);
	return 0;
}

uint64_t vt_parse_timeout(struct argp_state *state, const char *text)
{
	return vt_parse_time(state, "--timeout", text, MAX_TIMEOUT_S);
}

#define KERNELS_NS (30 * VT_NS_PER_S)
#define MAX_KERNELS_S 600

uint64_t vt_parse_kernels(struct argp_state *state, const char *text)
{
	return text ? vt_parse_time(state, "--kernels", text, MAX_KERNELS_S) : KERNELS_NS;
}

/* What a command's own parser gets, below the one for -h. */
static error_t parse_help(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void vt_parse_command(const struct argp *argp, int argc, char **argv, unsigned int flags,
		      void *input)
{
	static const struct argp_option help[] = {
		{ NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1 },
		{ 0 },
	};
	const struct argp_child command[] = { { argp, 0, NULL, 0 }, { 0 } };
	const struct argp all = { .options = help, .parser = parse_help, .children = command };

	argp_err_exit_status = VT_EXIT_USAGE;
	argp_parse(&all, argc, argv, flags, NULL, input);
}
