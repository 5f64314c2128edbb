/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Python's pickles: dicts, lists, tuples of two, texts, numbers and truth values, with the
 * opcodes of protocol 4 that PyTorch's memory_viz reads. None of them names or calls anything, so
 * whoever loads the file runs no code of it.
 *
 * A value is written by one call, or by a pair that brackets its parts. In a dict, keys and values
 * take turns; a key is a text.
 */
#ifndef VT_REPORT_SNAPSHOT_PICKLE_H
#define VT_REPORT_SNAPSHOT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/map.h"

#define VT_PICKLE_BUFFER (UINT32_C(1) << 16)

struct vt_pickle {
	FILE *out;
	int errnum; /* sticky; 0 none */
	uint32_t n_kept;
	struct vt_map texts; /* address of a text → its number among what is kept */
	size_t n;            /* bytes in buf */
	unsigned char buf[VT_PICKLE_BUFFER];
};

/* Also writes the head. */
void vt_pickle_init(struct vt_pickle *pickle, FILE *out);
/* Writes the end. Fails with VT_ERR_OS or VT_ERR_NOMEM if anything did. */
struct vt_error *vt_pickle_finish(struct vt_pickle *pickle);
void vt_pickle_deinit(struct vt_pickle *pickle);

/* Out of memory: finish fails. */
void vt_pickle_no_memory(struct vt_pickle *pickle);

void vt_pickle_bool(struct vt_pickle *pickle, bool value);
void vt_pickle_int(struct vt_pickle *pickle, int64_t value);
void vt_pickle_uint(struct vt_pickle *pickle, uint64_t value);

/* A hostile text is fine: what is no UTF-8 becomes U+FFFD. */
void vt_pickle_text(struct vt_pickle *pickle, const char *text);
/* The same of a text that stays where it is until the end: it is in the file once. */
void vt_pickle_name(struct vt_pickle *pickle, const char *text);

/* Makes a tuple of the two values before. */
void vt_pickle_pair(struct vt_pickle *pickle);

void vt_pickle_dict(struct vt_pickle *pickle);
void vt_pickle_end_dict(struct vt_pickle *pickle);

/* What a list needs while it is written: zero-initialised. */
struct vt_pickle_list {
	size_t n;
};

void vt_pickle_list(struct vt_pickle *pickle);
/* Before each item. */
void vt_pickle_item(struct vt_pickle *pickle, struct vt_pickle_list *list);
void vt_pickle_end_list(struct vt_pickle *pickle, const struct vt_pickle_list *list);

/* Keeps the value before; its number makes the same object a value again. */
uint32_t vt_pickle_keep(struct vt_pickle *pickle);
void vt_pickle_again(struct vt_pickle *pickle, uint32_t kept);

#endif
