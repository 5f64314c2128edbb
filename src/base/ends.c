/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ends.h"

#include <stddef.h>

static const int ends[VT_N_ENDS] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

void vt_ends_fill(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < VT_N_ENDS; i++)
		sigaddset(set, ends[i]);
}

void vt_ends_handle(void (*handler)(int signo), struct sigaction before[VT_N_ENDS])
{
	const struct sigaction action = { .sa_handler = handler };

	for (size_t i = 0; i < VT_N_ENDS; i++)
		sigaction(ends[i], &action, before ? &before[i] : NULL);
}

void vt_ends_restore(const struct sigaction before[VT_N_ENDS])
{
	for (size_t i = 0; i < VT_N_ENDS; i++)
		sigaction(ends[i], &before[i], NULL);
}
