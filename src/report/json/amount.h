/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes and blocks, as each part of the report has them. */
#ifndef VT_REPORT_JSON_AMOUNT_H
#define VT_REPORT_JSON_AMOUNT_H

#include "json/out.h"

/* {"bytes": ..., "blocks": ...} */
void vt_json_amount(struct vt_json *json, const char *key, uint64_t bytes, uint64_t blocks);

/* The fields of an object that the caller opened. */
void vt_json_amount_and_largest(struct vt_json *json, uint64_t bytes, uint64_t blocks,
				uint64_t largest);

#endif
