/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from 64-bit keys (addresses, ids) to 64-bit values. Open addressing; zero-initialised
 * is empty.
 */
#ifndef VT_BASE_MAP_H
#define VT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_map_slot {
	uint64_t key;
	uint64_t value;
	bool used;
};

struct vt_map {
	struct vt_map_slot *slots;
	size_t n;
	size_t mask; /* number of slots - 1 */
};

void vt_map_deinit(struct vt_map *map);

/* Adds or replaces; false when out of memory (the map is unchanged). */
bool vt_map_put(struct vt_map *map, uint64_t key, uint64_t value);

/* A pointer to the value of key, or NULL. Valid until the next vt_map_put(). */
uint64_t *vt_map_get(const struct vt_map *map, uint64_t key);

#endif
