/* SPDX-License-Identifier: Apache-2.0 */
/* Why an operation failed, for the tool to report. */
#include "ops.h"

void vt_helper_say_why(struct vt_helper_shared *shared, const char *what, const char *more)
{
	uint64_t n = 0;

	for (; *what && n + 1 < sizeof(shared->why); what++)
		shared->why[n++] = *what;
	for (; more && *more && n + 1 < sizeof(shared->why); more++)
		shared->why[n++] = *more;
	shared->why[n] = '\0';
}
