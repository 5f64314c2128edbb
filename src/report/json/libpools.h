/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_LIBPOOLS_H
#define VT_REPORT_JSON_LIBPOOLS_H

#include "json/out.h"
#include "model/model.h"

/* "libpools": the memory pools of libraries other than PyTorch, or null. */
void vt_json_libpools(struct vt_json *json, const struct vt_model *model);

#endif
