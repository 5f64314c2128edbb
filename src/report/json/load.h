/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report that was saved as JSON, as a model again: what is compared by diff, and nothing else. That is who and when, the
 * devices' memory, the allocators with their totals, groups and blocks, the recorded backtraces with their sites, how old what
 * is, what others than PyTorch asked of the driver, and the diagnostics. Everything that vt_model_account() fills in is taken
 * from the file as it is; it must not be called.
 */
#ifndef VT_REPORT_JSON_LOAD_H
#define VT_REPORT_JSON_LOAD_H

#include "base/error.h"
#include "model/model.h"

/* From a file, a pipe, or standard input ("-"). Fills model (initialised). VT_ERR_FORMAT names the file and what is wrong with
 * it. */
struct vt_error *vt_report_load(const char *path, struct vt_model *model);

/* The same of n bytes of text. */
struct vt_error *vt_report_load_text(const char *text, size_t n, struct vt_model *model);

#endif
