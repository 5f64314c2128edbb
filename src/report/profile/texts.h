/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a profile, each once and with a number. All are clean: valid UTF-8 that a terminal
 * shows harmlessly, so that no writer has to escape a name of the target again.
 */
#ifndef VT_REPORT_PROFILE_TEXTS_H
#define VT_REPORT_PROFILE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

struct vt_texts {
	VT_VEC(const char *) list; /* 0 is "" */
	/* private: */
	struct vt_arena arena;
	struct vt_map by_hash;
	struct vt_str clean; /* scratch */
	uint64_t seed;
	bool failed; /* out of memory: some are missing */
};

void vt_texts_init(struct vt_texts *texts);
void vt_texts_deinit(struct vt_texts *texts);

/* The number of a text, which is escaped on the way; 0: "", NULL, or out of memory. */
uint32_t vt_texts_add(struct vt_texts *texts, const char *text);
uint32_t vt_texts_addn(struct vt_texts *texts, const char *text, size_t n);

const char *vt_texts_get(const struct vt_texts *texts, uint32_t number);

#endif
