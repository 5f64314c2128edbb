/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/native.h"

/*
 * Not yet: here the kernel decides about a restart before it lets a tracer look
 * (arch/arm64/kernel/signal.c, do_signal()), so a tracer would have to put back pc and x0 itself,
 * and a signal with a handler that comes then would not end the wait.
 */
void vt_native_restart(pid_t tid)
{
	(void)tid;
}
