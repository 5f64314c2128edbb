/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder_find.h"

#include <stddef.h>
#include <string.h>

#include "vramtap/recorder.h"

#define PAGE 4096u
#define MAX_DATA (UINT64_C(4) << 20) /* bytes that are looked at; the recorder has some 100 KiB of data */

bool vt_recorder_is_path(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!strncmp(name, "memfd:", 6))
		name += 6;
	return !strncmp(name, VT_RECORDER_FILE_NAME, sizeof(VT_RECORDER_FILE_NAME) - 1);
}

/* Whether there is a head here, of whatever version. */
static bool is_head(const uint64_t *words)
{
	uint32_t abi = (uint32_t)words[1], size = (uint32_t)(words[1] >> 32);

	return words[0] == VT_RECORDER_MAGIC && abi > 0 && size >= offsetof(struct vt_recorder_head, python);
}

/* In [start, end), both at pages; a page at a time and a word more, since the head may begin with the last word of a page. */
static uint64_t find_in(struct vt_memsrc *src, uint64_t start, uint64_t end, uint64_t *budget)
{
	uint64_t words[PAGE / sizeof(uint64_t) + 1];

	for (uint64_t page = start; page < end && *budget >= PAGE; page += PAGE, *budget -= PAGE) {
		size_t size = end - page > PAGE ? sizeof(words) : PAGE;

		if (vt_mem_read(src, page, words, size))
			continue;
		for (size_t i = 0; i + 1 < size / sizeof(uint64_t); i++)
			if (is_head(&words[i]))
				return page + i * sizeof(uint64_t);
	}
	return 0;
}

static bool is_on(struct vt_memsrc *src, uint64_t head)
{
	uint32_t state;

	return !vt_mem_read_u32(src, head + offsetof(struct vt_recorder_head, state), &state) && state == VT_RECORDER_ON;
}

uint64_t vt_recorder_find(const struct vt_maps *maps, struct vt_memsrc *src)
{
	uint64_t budget = MAX_DATA, idle = 0;

	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];
		uint64_t found;

		if (!(entry->flags & VT_MAP_WRITE) || !vt_recorder_is_path(entry->path))
			continue;
		found = find_in(src, entry->start, entry->end, &budget);
		if (found && is_on(src, found))
			return found;
		if (!idle)
			idle = found;
	}
	return idle;
}
