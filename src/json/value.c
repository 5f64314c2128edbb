/* SPDX-License-Identifier: Apache-2.0 */
#include "json/value.h"

#include <string.h>

const struct vt_json_value *vt_json_get(const struct vt_json_value *object, const char *key)
{
	size_t n = strlen(key), keys = vt_json_keys(object);

	for (size_t i = 0; i < keys; i++)
		if (object->parts[2 * i].n == n && !memcmp(object->parts[2 * i].text, key, n))
			return &object->parts[2 * i + 1];
	return NULL;
}
