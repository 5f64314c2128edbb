/* SPDX-License-Identifier: Apache-2.0 */
#include "target/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/page.h"
#include "target/proc.h"
#include "target/task.h"

#define ENTRIES ((size_t)1 << 13) /* of the page map, read together */

/* Address space that is looked at; /proc/PID/pagemap has 8 bytes for each page of it. */
#define MAX_LOOKED_AT (UINT64_C(256) << 30)

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61) /* or of shared memory: not a changed private page */

static bool is_private_data(const struct vt_map_entry *entry)
{
	/* [vvar] and its like are not writable; device mappings may be private, too. */
	return entry->flags & VT_MAP_READ && entry->flags & VT_MAP_WRITE &&
	       !(entry->flags & VT_MAP_SHARED) && strncmp(entry->path, "/dev/", 5) != 0;
}

/* False: out of memory. */
static bool add(struct vt_resident *resident, uint64_t start, uint64_t end, uint64_t max_bytes)
{
	size_t n = resident->ranges.n;
	struct vt_range *range;

	if (end - start > max_bytes - resident->bytes) {
		resident->cut = true;
		end = start + (max_bytes - resident->bytes);
		if (start == end)
			return true;
	}
	resident->bytes += end - start;
	if (n && resident->ranges.data[n - 1].end == start) {
		resident->ranges.data[n - 1].end = end;
		return true;
	}
	range = vt_vec_append(&resident->ranges);
	if (!range)
		return false;
	*range = (struct vt_range){ start, end };
	return true;
}

/* Entries of the page map: false when out of memory. */
static bool add_present(struct vt_resident *resident, uint64_t start, const uint64_t *map, size_t n,
			uint64_t max_bytes)
{
	uint64_t page = vt_page_size();

	for (size_t i = 0, end; i < n; i = end) {
		bool there = map[i] & PAGE_PRESENT && !(map[i] & PAGE_OF_FILE);

		for (end = i + 1; end < n; end++)
			if ((map[end] & PAGE_PRESENT && !(map[end] & PAGE_OF_FILE)) != there)
				break;
		if (there && !add(resident, start + i * page, start + end * page, max_bytes))
			return false;
		for (size_t j = i; !there && j < end; j++)
			resident->swapped += map[j] & PAGE_SWAPPED ? page : 0;
	}
	return true;
}

/* 0 or a negative errno. */
static int look_at(struct vt_resident *resident, int fd, const struct vt_map_entry *entry,
		   uint64_t *map, uint64_t max_bytes)
{
	uint64_t page = vt_page_size();

	for (uint64_t at = entry->start; at < entry->end && resident->bytes < max_bytes;) {
		uint64_t pages = (entry->end - at) / page, n = pages < ENTRIES ? pages : ENTRIES;
		ssize_t got = pread(fd, map, n * sizeof(*map), (off_t)(at / page * sizeof(*map)));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		n = (size_t)got / sizeof(*map);
		if (n == 0)
			return -ESRCH; /* the address space is gone */
		if (!add_present(resident, at, map, n, max_bytes))
			return -ENOMEM;
		at += n * page;
	}
	return 0;
}

struct vt_error *vt_resident_init_some(struct vt_resident *resident, pid_t pid,
				       const struct vt_map_entry *entries, size_t n_entries,
				       uint64_t max_bytes)
{
	VT_CLOSE int fd = vt_task_open(pid, vt_proc_view(pid), "pagemap", O_RDONLY);
	VT_FREE uint64_t *map = malloc(ENTRIES * sizeof(*map));
	uint64_t left = MAX_LOOKED_AT;
	int ret = fd < 0 ? fd : map ? 0 : -ENOMEM;

	*resident = (struct vt_resident){ 0 };
	for (size_t i = 0; i < n_entries && !ret; i++) {
		const struct vt_map_entry *entry = &entries[i];

		if (!is_private_data(entry))
			continue;
		if (entry->end - entry->start > left) {
			resident->cut = true;
			continue; /* a large reservation hides nothing that comes after it */
		}
		left -= entry->end - entry->start;
		ret = look_at(resident, fd, entry, map, max_bytes);
	}
	resident->cut |= resident->bytes >= max_bytes;
	if (!ret)
		return NULL;
	vt_resident_deinit(resident);
	return ret == -ENOMEM ? &vt_enomem : vt_task_error(-ret, pid, "page map");
}

struct vt_error *vt_resident_init(struct vt_resident *resident, pid_t pid,
				  const struct vt_maps *maps, uint64_t max_bytes)
{
	return vt_resident_init_some(resident, pid, maps->entries.data, maps->entries.n, max_bytes);
}

struct vt_error *vt_resident_init_all(struct vt_resident *resident, const struct vt_maps *maps,
				      uint64_t max_bytes)
{
	*resident = (struct vt_resident){ 0 };
	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];

		if (!is_private_data(entry))
			continue;
		if (entry->end - entry->start > max_bytes) {
			resident->cut = true;
			continue; /* as above */
		}
		if (add(resident, entry->start, entry->end, max_bytes))
			continue;
		vt_resident_deinit(resident);
		return &vt_enomem;
	}
	return NULL;
}

void vt_resident_deinit(struct vt_resident *resident)
{
	vt_vec_deinit(&resident->ranges);
	*resident = (struct vt_resident){ 0 };
}
