/* SPDX-License-Identifier: Apache-2.0 */
/* How the parts of discovery read. */
#include "walk/torch/finder.h"

#define PAGE 4096u

size_t vt_torch_read_some(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;

	if (!vt_mem_read(src, addr, buf, len))
		return len;
	while (done < len) {
		size_t some = PAGE - (addr + done) % PAGE;

		if (some > len - done)
			some = len - done;
		if (vt_mem_read(src, addr + done, (uint8_t *)buf + done, some))
			break;
		done += some;
	}
	return done;
}

bool vt_torch_is_readable(const struct vt_torch_finder *f, uint64_t addr)
{
	const struct vt_map_entry *map = vt_maps_find(f->maps, addr);

	return map && (map->flags & VT_MAP_READ);
}
