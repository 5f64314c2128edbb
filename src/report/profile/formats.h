/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of profiles: each writes a struct vt_profile, without whatever it cannot express. */
#ifndef VT_REPORT_PROFILE_FORMATS_H
#define VT_REPORT_PROFILE_FORMATS_H

#include "report/profile/profile.h"
#include "report/writer.h"

/*
 * Google's pprof: profile.proto of github.com/google/pprof, compressed by gzip. Only of memory. All
 * samples, with their labels.
 */
vt_write_fn vt_write_profile_pprof;

/*
 * speedscope's own format (speedscope.app, file-format-schema.json): each group is one of its
 * profiles.
 */
vt_write_fn vt_write_profile_speedscope;

/*
 * Folded stacks, as flame graph tools read them: a line for each, its frames outermost first with
 * ';' between them, and its weight.
 */
vt_write_fn vt_write_profile_folded;

#endif
