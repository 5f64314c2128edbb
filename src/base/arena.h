/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is released all at once. What it hands out is 16-byte aligned and never moves. */
#ifndef VT_BASE_ARENA_H
#define VT_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct vt_arena_chunk;
struct vt_arena {
	struct vt_arena_chunk *chunks;
	size_t size; /* of all of them */
};

void vt_arena_deinit(struct vt_arena *arena);

/* Releases what was handed out, and keeps memory for what comes next. */
void vt_arena_reset(struct vt_arena *arena);

/* Zeroed memory, or NULL when out of memory. */
void *vt_arena_alloc(struct vt_arena *arena, size_t size);

/* Copies; the result ends with a NUL. NULL when out of memory. */
char *vt_arena_strndup(struct vt_arena *arena, const char *text, size_t n);
char *vt_arena_strdup(struct vt_arena *arena, const char *text);
char *vt_arena_printf(struct vt_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
char *vt_arena_vprintf(struct vt_arena *arena, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
