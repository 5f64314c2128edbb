/* SPDX-License-Identifier: Apache-2.0 */
/* A job as metrics. */
#ifndef VT_JOB_PROMETHEUS_PROMETHEUS_H
#define VT_JOB_PROMETHEUS_PROMETHEUS_H

#include "report/writer.h"

vt_write_fn vt_write_job_prometheus; /* of a struct vt_job, after vt_job_account() */

#endif
