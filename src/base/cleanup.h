/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope cleanup: a variable marked with one of these is released when it leaves scope, so early
 * returns need no ladder of labels. vt_steal() hands the value on and disarms the release.
 */
#ifndef VT_BASE_CLEANUP_H
#define VT_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VT_CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void vt_cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void vt_cleanup_closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void vt_cleanup_fclosep(FILE **fp)
{
	if (*fp)
		fclose(*fp);
}

static inline void vt_cleanup_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define VT_FREE VT_CLEANUP(vt_cleanup_freep)
#define VT_CLOSE VT_CLEANUP(vt_cleanup_closep)
#define VT_FCLOSE VT_CLEANUP(vt_cleanup_fclosep)
#define VT_CLOSEDIR VT_CLEANUP(vt_cleanup_closedirp)

/* The value of a pointer variable, which becomes NULL. */
#define vt_steal(ptr)                              \
	({                                         \
		__typeof__(ptr) vt_steal_ = (ptr); \
		(ptr) = NULL;                      \
		vt_steal_;                         \
	})

/* The value of a file descriptor variable, which becomes -1. */
#define vt_steal_fd(fd)               \
	({                            \
		int vt_steal_ = (fd); \
		(fd) = -1;            \
		vt_steal_;            \
	})

#endif
