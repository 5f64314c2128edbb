/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>

#include "base/huge.h"

/*
 * Fibonacci hashing: the upper bits of the product are well mixed even for aligned addresses. Keys
 * of two numbers can differ in the upper half alone, which has no influence below it.
 */
static size_t home_slot(const struct vt_map *map, uint64_t key)
{
	return (size_t)(((key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & map->mask;
}

static struct vt_map_slot *find_slot(const struct vt_map *map, uint64_t key)
{
	size_t i = home_slot(map, key);

	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & map->mask;
	return &map->slots[i];
}

static bool grow(struct vt_map *map)
{
	size_t n = map->slots ? (map->mask + 1) * 2 : 64;
	struct vt_map bigger = { .slots = calloc(n, sizeof(*map->slots)),
				 .n = map->n,
				 .mask = n - 1 };

	if (!bigger.slots)
		return false;
	vt_want_huge_pages(bigger.slots, n * sizeof(*bigger.slots));
	for (size_t i = 0; map->slots && i <= map->mask; i++)
		if (map->slots[i].used)
			*find_slot(&bigger, map->slots[i].key) = map->slots[i];
	free(map->slots);
	*map = bigger;
	return true;
}

void vt_map_deinit(struct vt_map *map)
{
	free(map->slots);
	*map = (struct vt_map){ 0 };
}

bool vt_map_put(struct vt_map *map, uint64_t key, uint64_t value)
{
	if (!map->slots || (map->n + 1) * 4 > (map->mask + 1) * 3) {
		if (!grow(map))
			return false;
	}

	struct vt_map_slot *slot = find_slot(map, key);

	if (!slot->used)
		map->n++;
	*slot = (struct vt_map_slot){ .key = key, .value = value, .used = true };
	return true;
}

uint64_t *vt_map_get(const struct vt_map *map, uint64_t key)
{
	if (!map->slots)
		return NULL;

	struct vt_map_slot *slot = find_slot(map, key);

	return slot->used ? &slot->value : NULL;
}
