/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_REPORT_JSON_LEDGER_H
#define VT_REPORT_JSON_LEDGER_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

/* The member "ledger": all allocations of the driver, and what they add up to. */
void vt_json_ledger(struct vt_json *json, const struct vt_model *model);

/* The same from a file; what account would fill in is in the file, too. */
void vt_json_in_ledger(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_ledger *ledger);

#endif
