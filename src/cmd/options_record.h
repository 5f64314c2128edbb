/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands that switch recording on: what to record. */
#ifndef VT_CMD_OPTIONS_RECORD_H
#define VT_CMD_OPTIONS_RECORD_H

#include <argp.h>
#include <stdbool.h>

#include "record/target.h"

struct vt_record_options {
	struct vt_record_request request;
	bool given; /* the user gave at least one of them */
};

/*
 * An argp child of a command: its input is a struct vt_record_options. It first sets this to the
 * defaults.
 */
extern const struct argp vt_record_argp;
#define VT_RECORD_OPTIONS \
	"--python, --native, --both, --max-memory, --sample, --cupti, --no-driver and --launches"

#endif
