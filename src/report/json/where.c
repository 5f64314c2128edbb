/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/where.h"

/* The zones of this world are within 14 hours. */
#define MAX_OFFSET_MIN (24 * 60)

void vt_json_where(struct vt_json *json, const struct vt_model_where *where)
{
	vt_json_object_line(json, "where");
	vt_json_name(json, "host", where->host);
	if (where->zone_known) {
		vt_json_text(json, "zone", where->zone);
		vt_json_int(json, "utc_offset_min", where->utc_offset_min);
	} else {
		vt_json_null(json, "zone");
		vt_json_null(json, "utc_offset_min");
	}
	vt_json_end_object(json);
}

/* A file of an older vramtap has none. */
void vt_json_in_where(struct vt_json_in *in, const struct vt_json_value *root,
		      struct vt_model_where *where)
{
	const struct vt_json_value *from = vt_json_in_object(in, root, "where");

	where->host = vt_json_in_text(in, from, "host");
	where->zone = vt_json_in_text(in, from, "zone");
	where->zone_known = vt_json_in_int(in, from, "utc_offset_min", -MAX_OFFSET_MIN,
					   MAX_OFFSET_MIN, &where->utc_offset_min) &&
			    where->zone;
}
