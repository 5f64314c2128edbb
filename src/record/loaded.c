/* SPDX-License-Identifier: Apache-2.0 */
#include "record/loaded.h"

#include <string.h>

#include "target/maps.h"

bool vt_record_has_library(pid_t pid, const char *name)
{
	struct vt_maps maps = { 0 };
	struct vt_error *err VT_ERROR = vt_maps_init(&maps, pid);
	bool found = false;

	for (size_t i = 0; !err && i < maps.entries.n && !found; i++) {
		const char *slash = strrchr(maps.entries.data[i].path, '/');

		found = slash && !strncmp(slash + 1, name, strlen(name));
	}
	vt_maps_deinit(&maps);
	return found;
}
