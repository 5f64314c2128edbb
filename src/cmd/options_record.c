/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define DEFAULT_MEMORY (256 * MIB)
#define MIN_MEMORY (4 * MIB)
#define MAX_MEMORY (UINT64_C(1) << 40)

enum {
	KEY_PYTHON = 448, /* between those of cmd/options_core.c and VT_KEY_COMMAND */
	KEY_NATIVE,
	KEY_BOTH,
	KEY_MAX_MEMORY,
	KEY_SAMPLE,
	KEY_CUPTI,
	KEY_NO_DRIVER,
	KEY_LAUNCHES,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to record:", 1 },
	{ "both", KEY_BOTH, NULL, 0, "Python and native backtraces (default)", 0 },
	{ "python", KEY_PYTHON, NULL, 0,
	  "Python backtraces only, at about half the cost; allocations of a backward pass have "
	  "none",
	  0 },
	{ "native", KEY_NATIVE, NULL, 0, "Native backtraces only", 0 },
	{ "max-memory", KEY_MAX_MEMORY, "SIZE", 0,
	  "Use at most this much of the process's memory, in bytes or with K, M or G (default "
	  "256M); when it is full, only a sample is recorded",
	  0 },
	{ "sample", KEY_SAMPLE, "BYTES", 0,
	  "Record about one allocation per BYTES, and every larger one (default: every allocation)",
	  0 },
	{ "cupti", KEY_CUPTI, NULL, 0,
	  "Observe driver calls through CUPTI, which includes those of NCCL, cuBLAS and ctypes. "
	  "The first use waits for the GPU to go idle, and kernel launches block until then. A "
	  "CUPTI thread stays in the process. If PyTorch's profiler is first used while this is "
	  "on, it never sees the device in this process",
	  0 },
	{ "no-driver", KEY_NO_DRIVER, NULL, 0,
	  "Record PyTorch's allocator only, not the driver's allocations", 0 },
	{ "launches", KEY_LAUNCHES, NULL, 0,
	  "Record what streams are given, too: kernels, graphs, host functions, with the Python "
	  "frames that launched them, so that a report names what may hang. Costs 0.1 to 0.2 us a "
	  "launch",
	  0 },
	{ 0 },
};

/* "256M", "1G", "65536" */
static uint64_t parse_size(struct argp_state *state, const char *option, const char *text,
			   uint64_t min, uint64_t max)
{
	static const char units[] = "KMGT";
	unsigned long long number;
	const char *unit;
	uint64_t size;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	size = number;
	if (unit) {
		size = number << 10 * (unit - units + 1);
		if (number >> (64 - 10 * (unit - units + 1)))
			errno = ERANGE;
		end++;
	}
	if (errno || end == text || *text < '0' || *text > '9' || *end || size < min || size > max)
		argp_error(state,
			   "%s must be a number of bytes, K, M or G, from %llu to %llu, not \"%s\"",
			   option, (unsigned long long)min, (unsigned long long)max, text);
	return size;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vt_record_options *record = state->input;
	struct vt_record_request *request = &record->request;

	switch (key) {
	case ARGP_KEY_INIT:
		*record = (struct vt_record_options){
			.request = { .python = true,
				     .native = true,
				     .driver = true,
				     .max_memory = DEFAULT_MEMORY },
		};
		return 0;
	case KEY_PYTHON:
	case KEY_NATIVE:
	case KEY_BOTH:
		request->python = key != KEY_NATIVE;
		request->native = key != KEY_PYTHON;
		break;
	case KEY_MAX_MEMORY:
		request->max_memory =
			parse_size(state, "--max-memory", arg, MIN_MEMORY, MAX_MEMORY);
		break;
	case KEY_SAMPLE:
		request->sample_bytes = parse_size(state, "--sample", arg, 0, MAX_MEMORY);
		break;
	case KEY_CUPTI:
		request->cupti = true;
		break;
	case KEY_LAUNCHES:
		request->launches = true;
		break;
	case KEY_NO_DRIVER:
		request->driver = false;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	record->given = true;
	return 0;
}

const struct argp vt_record_argp = { .options = options, .parser = parse_option };
