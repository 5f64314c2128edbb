/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triton's cache, which has a directory for each compiled kernel: HASH/NAME.ttir begins with the
 * place in Python that the kernel was made from. NAME is the kernel's name on the device. Inductor
 * keeps one for each device below its own cache. Texts are hostile.
 */
#ifndef VT_KERNELS_TRITON_H
#define VT_KERNELS_TRITON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/str.h"

/*
 * The line of the function in a file of Inductor's that has this kernel alone; the one that calls
 * it has its text, too, and does not count. 0: it is none.
 */
int vt_triton_read_line(const char *text, size_t n, const char *name);

/* The name can be one of Triton's: an identifier of Python, of no more bytes than a file's name. */
bool vt_triton_is_name(const char *name);

/*
 * The place in the beginning of a .ttir file, n bytes, of the kernel with this name. False: there
 * is none, or it is another kernel's.
 */
bool vt_triton_read_place(const char *text, size_t n, const char *name, struct vt_span *file,
			  int *line);

/*
 * Where a process with this environment (variables that end with '\0', n bytes) has its caches;
 * user: the name of its user, if the environment does not tell. Adds absolute paths; number: from 0
 * on. False: there are no more.
 */
bool vt_triton_cache(const char *environment, size_t n, const char *user, unsigned int number,
		     struct vt_str *path);

/* Inductor's own cache: directories with Python files. */
void vt_triton_inductor(const char *environment, size_t n, const char *user, struct vt_str *path);

#endif
