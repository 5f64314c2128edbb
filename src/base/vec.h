/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed growing arrays: VT_VEC(struct foo) is a struct type with data, n and capacity.
 * Zero-initialised is empty.
 */
#ifndef VT_BASE_VEC_H
#define VT_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VT_VEC(type)             \
	struct {                 \
		type *data;      \
		size_t n;        \
		size_t capacity; \
	}

/*
 * Room for at least `want` elements of `size` bytes; false when out of memory (the array is
 * unchanged).
 */
bool vt_vec_reserve_(void **data, size_t *capacity, size_t want, size_t size);

#define vt_vec_reserve(v, want) \
	vt_vec_reserve_((void **)&(v)->data, &(v)->capacity, (want), sizeof(*(v)->data))

/* A pointer to a new last element (contents undefined), or NULL when out of memory. */
#define vt_vec_append(v) \
	((v)->n < (v)->capacity || vt_vec_reserve((v), (v)->n + 1) ? &(v)->data[(v)->n++] : NULL)

/* Gives room back that is not in use. */
void vt_vec_trim_(void **data, size_t *capacity, size_t n, size_t size);

#define vt_vec_trim(v) vt_vec_trim_((void **)&(v)->data, &(v)->capacity, (v)->n, sizeof(*(v)->data))

#define vt_vec_deinit(v)           \
	do {                       \
		free((v)->data);   \
		(v)->data = NULL;  \
		(v)->n = 0;        \
		(v)->capacity = 0; \
	} while (0)

#endif
