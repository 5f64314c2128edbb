/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a report that was saved as JSON into a model: only the parts that diff compares. These are
 * the process and the time, the devices' memory, the allocators with their totals, groups and
 * blocks, the recorded backtraces with their sites, ages, driver allocations outside PyTorch, and
 * the diagnostics. Everything that vt_model_account() computes comes from the file: do not call it.
 */
#ifndef VT_REPORT_JSON_LOAD_H
#define VT_REPORT_JSON_LOAD_H

#include "base/error.h"
#include "model/model.h"

/*
 * Reads a file, a pipe, or standard input ("-"). Fills model (initialised). VT_ERR_FORMAT names the
 * file and the fault.
 */
struct vt_error *vt_report_load(const char *path, struct vt_model *model);

/* The same for n bytes of text. */
struct vt_error *vt_report_load_text(const char *text, size_t n, struct vt_model *model);

#endif
