/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a fuzzer's own, for readers that open files by their paths. */
#ifndef VT_TESTS_SCRATCH_H
#define VT_TESTS_SCRATCH_H

#include <stddef.h>

/* Its path; made by the first call, removed when the process exits. */
const char *scratch_directory(void);

/* Writes a file there, and the directories above it. name begins with a slash. */
void scratch_write(const char *name, const void *data, size_t size, unsigned int mode);

#endif
