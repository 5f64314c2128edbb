/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting by address: the walk's blocks, and what is read in the order of addresses. */
#include "walk/torch/walk_state.h"

#define INSERTION_MAX 48 /* so few keys are sorted faster than a histogram is cleared */

static void insert_keys(uint64_t *keys, const uint64_t *values, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t to = i;

		for (; to && values[keys[to - 1]] > values[i]; to--)
			keys[to] = keys[to - 1];
		keys[to] = i;
	}
}

/*
 * Sorts keys by the bits of `any` (those that differ), a digit at a time; equal digits keep their
 * order.
 */
static void radix_sort(struct vt_torch_walk *w, uint64_t n, uint64_t any)
{
	uint32_t *histogram = w->fixed->histogram;

	while (any) {
		uint64_t *from = w->keys, *to = w->spare;
		unsigned int shift = (unsigned int)__builtin_ctzll(any);
		uint32_t sum = 0;

		memset(histogram, 0, sizeof(w->fixed->histogram));
		for (uint64_t i = 0; i < n; i++)
			histogram[(from[i] >> shift) & ((1 << DIGIT_BITS) - 1)]++;
		for (unsigned int d = 0; d < 1 << DIGIT_BITS; d++) {
			uint32_t some = histogram[d];

			histogram[d] = sum;
			sum += some;
		}
		for (uint64_t i = 0; i < n; i++)
			to[histogram[(from[i] >> shift) & ((1 << DIGIT_BITS) - 1)]++] = from[i];
		w->keys = to;
		w->spare = from;
		any = shift + DIGIT_BITS >= 64 ?
			      0 :
			      any >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
	}
}

/*
 * Puts the indices of n values into ascending order of the values: vt_torch_walk_index_at() then
 * says which one has a place. A key is an index with as many of the value's differing bits above it
 * as fit, which are all of them for any device's address space; if not, the rest follows in another
 * round.
 */
void vt_torch_walk_order_by(struct vt_torch_walk *w, const uint64_t *values, uint64_t n)
{
	unsigned int index_bits = n > 1 ? 64 - (unsigned int)__builtin_clzll(n - 1) : 1;
	uint64_t any = 0, all = UINT64_MAX;

	w->index_mask = (UINT64_C(1) << index_bits) - 1; /* n fits 32 bits */
	if (n <= INSERTION_MAX) {
		insert_keys(w->keys, values, n);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		any |= values[i];
		all &= values[i];
		w->keys[i] = i;
	}
	any &= ~all;
	while (any) {
		unsigned int shift = (unsigned int)__builtin_ctzll(any),
			     end = shift + 64 - index_bits;

		for (uint64_t i = 0; i < n; i++) {
			uint64_t index = vt_torch_walk_index_at(w, i);

			w->keys[i] = values[index] >> shift << index_bits | index;
		}
		radix_sort(w, n, any >> shift << index_bits);
		any = end >= 64 ? 0 : any >> end << end;
	}
}
