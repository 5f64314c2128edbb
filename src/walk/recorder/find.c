/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/find.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "target/recorder_head.h"
#include "vramtap/recorder.h"

/* bytes that are searched; the recorder has some 100 KiB of data */
#define MAX_DATA (UINT64_C(4) << 20)

/*
 * Whether this is the path of a mapping of the recorder: a memory file of the tool's, or a file of
 * that name.
 */
static bool is_recorder(const char *path)
{
	const char *name = vt_base_name(path);

	if (!strncmp(name, "memfd:", 6))
		name += 6;
	return !strncmp(name, VT_RECORDER_FILE_NAME, sizeof(VT_RECORDER_FILE_NAME) - 1);
}

static bool is_on(struct vt_memsrc *src, uint64_t head)
{
	uint32_t state;

	return !vt_mem_read_u32(src, head + offsetof(struct vt_recorder_head, state), &state) &&
	       state == VT_RECORDER_ON;
}

uint64_t vt_recorder_find(const struct vt_maps *maps, struct vt_memsrc *src)
{
	uint64_t budget = MAX_DATA, idle = 0;

	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];
		uint64_t found;

		if (!(entry->flags & VT_MAP_WRITE) || !is_recorder(entry->path))
			continue;
		found = vt_recorder_head_find(src, entry->start, entry->end, &budget);
		if (found && is_on(src, found))
			return found;
		if (!idle)
			idle = found;
	}
	return idle;
}
