/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How vramtap ends: its exit codes, which --help and the man pages document, and the message before
 * one.
 */
#ifndef VT_BASE_EXIT_H
#define VT_BASE_EXIT_H

#include "base/error.h"

/* The first three are those of enum vt_completeness. */
enum {
	VT_EXIT_COMPLETE = 0,
	VT_EXIT_PARTIAL = 1,
	VT_EXIT_NOTHING = 2,
	VT_EXIT_NOT_PERMITTED = 3,
	VT_EXIT_NO_EVENT = 4, /* what was watched for did not happen */
	VT_EXIT_USAGE = 64,
};

/*
 * Prints "vramtap: message" to standard error, escaped, and returns the exit code that belongs to
 * the error. Only commands, and the processes that they fork, call it; all other code passes its
 * errors on.
 */
int vt_exit_with(const struct vt_error *err);

#endif
