/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds elements of a table by their hash; 8 bytes an entry. The table is the caller's, who also
 * tells whether an element is the one: equal hashes do not say so. Zero-initialised is empty.
 *
 *	for (size_t at = vt_index_first(&index, hash); vt_index_next(&index, hash, &at, &number);)
 *		if (is_it(&table[number]))
 *			return number;
 */
#ifndef VT_BASE_INDEX_H
#define VT_BASE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_INDEX_MOST (UINT32_MAX - 1) /* numbers are below it */

struct vt_index_slot {
	uint32_t hash;
	uint32_t number; /* plus one; 0: empty */
};

struct vt_index {
	struct vt_index_slot *slots;
	size_t n;
	size_t mask; /* number of slots - 1 */
};

void vt_index_deinit(struct vt_index *index);

/* Adds, whatever is there. False when out of memory or number is too large: nothing has changed. */
bool vt_index_put(struct vt_index *index, uint64_t hash, size_t number);

/* Hashes are of vt_hash_mix(), whose upper half is the better one. */
static inline size_t vt_index_first(const struct vt_index *index, uint64_t hash)
{
	return (size_t)(hash >> 32) & index->mask;
}

/* The next number that was put with this hash; false: there is none. */
static inline bool vt_index_next(const struct vt_index *index, uint64_t hash, size_t *at,
				 uint32_t *number)
{
	while (index->slots && index->slots[*at].number) {
		const struct vt_index_slot *slot = &index->slots[*at];

		*at = (*at + 1) & index->mask;
		if (slot->hash == (uint32_t)(hash >> 32)) {
			*number = slot->number - 1;
			return true;
		}
	}
	return false;
}

#endif
