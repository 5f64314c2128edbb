/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of system calls that the headers of older systems lack, the same on all architectures. */
#ifndef VT_TARGET_ARCH_SYSCALLS_H
#define VT_TARGET_ARCH_SYSCALLS_H

#include <sys/syscall.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif

#endif
