/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_RECORD_LOADED_H
#define VT_RECORD_LOADED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the process has mapped a library whose file name begins so. */
bool vt_record_has_library(pid_t pid, const char *name);
/* Where the first such one begins; 0: there is none. */
uint64_t vt_record_library_at(pid_t pid, const char *name);

/* A number that another program in the same process does not have; 0: not known. */
uint64_t vt_record_program(pid_t pid);

#endif
