/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All words of a process's memory that have one of a few values, found by several threads together:
 * one alone reads some 4 GB/s, and heaps have hundreds of megabytes. The memory is streamed, not
 * kept.
 */
#ifndef VT_TARGET_WORDS_H
#define VT_TARGET_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/live.h"
#include "target/resident.h"
#include "vramtap/mem.h"

#define VT_WORDS_MAX 4096 /* more are not kept */

struct vt_words {
	VT_VEC(uint64_t) at; /* addresses, sorted */
	bool late;           /* the deadline came first: there may be more */
	bool many;           /* there are more than VT_WORDS_MAX */
};

/* What is searched, and for what. Nothing is owned. */
struct vt_words_search {
	struct vt_live *live;  /* of a live process, which threads read together; NULL: src only */
	struct vt_memsrc *src; /* read where the other way is refused */
	const struct vt_range *ranges; /* at multiples of 8 bytes */
	size_t n_ranges;
	const uint64_t *values;
	size_t n_values;
	uint64_t deadline_ns; /* of vt_now_ns() */
};

/* Pages that are gone by now have no such word. VT_ERR_NOMEM. words is set only on success. */
struct vt_error *vt_words_init(struct vt_words *words, const struct vt_words_search *search);
void vt_words_deinit(struct vt_words *words);

#endif
