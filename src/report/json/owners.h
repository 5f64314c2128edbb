/* SPDX-License-Identifier: Apache-2.0 */
/* The owners of blocks in a report's JSON. */
#ifndef VT_REPORT_JSON_OWNERS_H
#define VT_REPORT_JSON_OWNERS_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"
#include "report/writer.h"

/* The member "owners" of the report. */
void vt_json_owners(struct vt_json *json, const struct vt_model *model,
		    const struct vt_writer_options *options);
/* The member "owner" of a block. */
void vt_json_owner(struct vt_json *json, const struct vt_model_owner *owner);

/* The state of the owners of a saved report, which an older vramtap did not write. */
void vt_json_in_owners(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_owners *owners);
/* The owner of the block with this index in model.blocks, if it has one. */
void vt_json_in_owner(struct vt_json_in *in, const struct vt_json_value *block, uint32_t index,
		      struct vt_model_owners *owners);

#endif
