/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_STREAMS_H
#define VT_REPORT_JSON_STREAMS_H

#include "json/out.h"
#include "model/model.h"

/* "streams": which have unfinished work, or null: they were not to be asked. */
void vt_json_streams(struct vt_json *json, const struct vt_model *model);

#endif
