/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_RECORD_LOADED_H
#define VT_RECORD_LOADED_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the process has mapped a library whose file name begins so. */
bool vt_record_has_library(pid_t pid, const char *name);

#endif
