/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#ifdef VT_FAULT_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void vt_fault_point(const char *name)
{
	const char *want = getenv("VRAMTAP_FAULT");
	const char *colon = want ? strchr(want, ':') : NULL;

	if (!colon || strcmp(colon + 1, name) != 0)
		return;
	if (!strncmp(want, "kill:", 5))
		raise(SIGKILL);
	else if (!strncmp(want, "stop:", 5))
		raise(SIGSTOP);
	else if (!strncmp(want, "sleep:", 6))
		sleep(1);
}
#else
/* ISO C wants at least one declaration in each file. */
typedef int vt_fault_unused;
#endif
