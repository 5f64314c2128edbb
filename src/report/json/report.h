/* SPDX-License-Identifier: Apache-2.0 */
/* The report's JSON as a part of another document. */
#ifndef VT_REPORT_JSON_REPORT_H
#define VT_REPORT_JSON_REPORT_H

#include "json/out.h"
#include "model/model.h"
#include "report/writer.h"

/* How blocks are written: most of a large report is blocks. */
struct vt_json_blocks {
	/* In the object of a segment: its blocks, which have these indices in model.blocks. */
	void (*segment)(struct vt_json *json, const struct vt_model *model, size_t first,
			size_t end);
	/* What belongs to all blocks, in the report's object after all else; NULL nothing. */
	void (*rest)(struct vt_json *json, const struct vt_model *model);
};

/* As doc/report.schema.json has them: one object a block. */
extern const struct vt_json_blocks vt_json_blocks_plain;

/* The report as one object; json is initialised, and the caller finishes it. */
void vt_json_report(struct vt_json *json, const struct vt_model *model,
		    const struct vt_writer_options *options, const struct vt_json_blocks *blocks);

#endif
