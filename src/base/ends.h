/* SPDX-License-Identifier: Apache-2.0 */
/* The signals by which a user, a terminal or a system ends vramtap. */
#ifndef VT_BASE_ENDS_H
#define VT_BASE_ENDS_H

#include <signal.h>

#define VT_N_ENDS 4

/* The set of exactly these. */
void vt_ends_fill(sigset_t *set);

/* The same handler for each, without flags. before: what there was for each; NULL: not wanted. */
void vt_ends_handle(void (*handler)(int signo), struct sigaction before[VT_N_ENDS]);
void vt_ends_restore(const struct sigaction before[VT_N_ENDS]);

#endif
