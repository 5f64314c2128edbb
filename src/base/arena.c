/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

#define FIRST_CHUNK (4 * 1024) /* the next ones are twice as large, up to: */
#define CHUNK_SIZE (64 * 1024)
#define LARGE_CHUNK ((size_t)8 << 20) /* at most, and an eighth of what there is: */
#define MANY_CHUNKS ((size_t)32 << 20)
#define ALIGNMENT 16

struct vt_arena_chunk {
	struct vt_arena_chunk *next;
	size_t size;
	size_t used;
	_Alignas(ALIGNMENT) char data[];
};

void vt_arena_deinit(struct vt_arena *arena)
{
	while (arena->chunks) {
		struct vt_arena_chunk *next = arena->chunks->next;

		free(arena->chunks);
		arena->chunks = next;
	}
	arena->size = 0;
}

/* Of the chunks that are not too large the last one is the largest: that is kept. */
void vt_arena_reset(struct vt_arena *arena)
{
	struct vt_arena_chunk *kept = NULL;

	while (arena->chunks) {
		struct vt_arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		if (!kept && chunk->size <= CHUNK_SIZE)
			kept = chunk;
		else
			free(chunk);
	}
	arena->size = kept ? kept->size : 0;
	if (!kept)
		return;
	memset(kept->data, 0, kept->used);
	kept->used = 0;
	kept->next = NULL;
	arena->chunks = kept;
}

/* For something of this size. */
static size_t next_size(const struct vt_arena *arena, size_t size)
{
	size_t next = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;

	if (arena->size >= MANY_CHUNKS)
		next = arena->size / 8 < LARGE_CHUNK ? arena->size / 8 : LARGE_CHUNK;
	else if (next > CHUNK_SIZE)
		next = CHUNK_SIZE;
	return size > next ? size : next;
}

void *vt_arena_alloc(struct vt_arena *arena, size_t size)
{
	struct vt_arena_chunk *chunk = arena->chunks;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = next_size(arena, size);

		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->size = room;
		chunk->next = arena->chunks;
		arena->chunks = chunk;
		arena->size += room;
		vt_want_huge_pages(chunk, sizeof(*chunk) + room);
	}

	void *p = chunk->data + chunk->used;

	chunk->used += size;
	return p;
}

char *vt_arena_strndup(struct vt_arena *arena, const char *text, size_t n)
{
	char *copy = vt_arena_alloc(arena, n + 1);

	if (copy)
		memcpy(copy, text, n);
	return copy;
}

char *vt_arena_strdup(struct vt_arena *arena, const char *text)
{
	return vt_arena_strndup(arena, text, strlen(text));
}

char *vt_arena_vprintf(struct vt_arena *arena, const char *format, va_list args)
{
	char *text, *copy;
	int n = vasprintf(&text, format, args);

	if (n < 0)
		return NULL;
	copy = vt_arena_strndup(arena, text, (size_t)n);
	free(text);
	return copy;
}

char *vt_arena_printf(struct vt_arena *arena, const char *format, ...)
{
	va_list args;

	va_start(args, format);

	char *text = vt_arena_vprintf(arena, format, args);

	va_end(args);
	return text;
}
