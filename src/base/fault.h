/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points: named places where a test kills or delays this tool. Compiled in only with
 * --enable-fault-points; VRAMTAP_FAULT="kill:NAME" then sends SIGKILL to ourselves at NAME,
 * "stop:NAME" SIGSTOP, "sleep:NAME" sleeps there for a second.
 */
#ifndef VT_BASE_FAULT_H
#define VT_BASE_FAULT_H

#ifdef VT_FAULT_POINTS
void vt_fault_point(const char *name);
#else
static inline void vt_fault_point(const char *name)
{
	(void)name;
}
#endif

#endif
