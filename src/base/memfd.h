/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_BASE_MEMFD_H
#define VT_BASE_MEMFD_H

/*
 * A file in memory that nobody can run, closed on exec. vm.memfd_noexec can refuse every other
 * form; before Linux 6.3 there is only the other. flags: more of memfd_create()'s, for that one.
 * -1 and errno.
 */
int vt_memfd_create(const char *name, unsigned int flags);

#endif
