/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a job. */
#ifndef VT_JOB_HTML_HTML_H
#define VT_JOB_HTML_HTML_H

#include "job/job.h"
#include "report/writer.h"

/*
 * Of a struct vt_job, accounted: its JSON, and the reports of as many processes as there is room
 * for.
 */
vt_write_fn vt_write_job_html;

#endif
