/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_HTML_SAVED_JOB_H
#define VT_REPORT_HTML_SAVED_JOB_H

#include "report/html/attach.h"
#include "report/html/saved.h"

/*
 * Of a saved job: the reports of its processes, where triage left them beside it. Those that cannot
 * be read are left out. Texts are saved's.
 */
struct vt_error *vt_html_saved_job_attach(struct vt_html_saved *saved,
					  struct vt_html_attached *attached);

#endif
