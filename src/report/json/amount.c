/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/amount.h"

void vt_json_amount(struct vt_json *json, const char *key, uint64_t bytes, uint64_t blocks)
{
	vt_json_object_line(json, key);
	vt_json_uint(json, "bytes", bytes);
	vt_json_uint(json, "blocks", blocks);
	vt_json_end_object(json);
}

void vt_json_amount_and_largest(struct vt_json *json, uint64_t bytes, uint64_t blocks,
				uint64_t largest)
{
	vt_json_uint(json, "bytes", bytes);
	vt_json_uint(json, "blocks", blocks);
	vt_json_uint(json, "largest_bytes", largest);
}
