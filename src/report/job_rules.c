/* SPDX-License-Identifier: Apache-2.0 */
#include "report/job_parts.h"

bool vt_job_make_verdicts(struct vt_job *job)
{
	(void)job;
	return true;
}
