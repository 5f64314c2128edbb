/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/texts.h"

#include <string.h>

#include "base/hash.h"

void vt_texts_init(struct vt_texts *texts)
{
	const char **empty;

	*texts = (struct vt_texts){ .seed = vt_hash_seed() };
	empty = vt_vec_append(&texts->list);
	if (empty)
		*empty = "";
	texts->failed = !empty;
}

void vt_texts_deinit(struct vt_texts *texts)
{
	vt_vec_deinit(&texts->list);
	vt_map_deinit(&texts->by_hash);
	vt_arena_deinit(&texts->arena);
	vt_str_deinit(&texts->clean);
}

static uint32_t append(struct vt_texts *texts, uint64_t key, const char *text, size_t n)
{
	const char *copy = vt_arena_strndup(&texts->arena, text, n);
	const char **added = copy && texts->list.n < UINT32_MAX ? vt_vec_append(&texts->list) :
								  NULL;

	if (added)
		*added = copy;
	if (!added || !vt_map_put(&texts->by_hash, key, texts->list.n - 1)) {
		texts->failed = true;
		return 0;
	}
	return (uint32_t)texts->list.n - 1;
}

static uint32_t number_of(struct vt_texts *texts, const char *text, size_t n)
{
	uint64_t key = vt_hash_bytes(texts->seed, text, n);
	const uint64_t *found;

	for (; (found = vt_map_get(&texts->by_hash, key)); key++) {
		const char *have = texts->list.data[*found];

		if (!strncmp(have, text, n) && !have[n])
			return (uint32_t)*found;
	}
	return append(texts, key, text, n);
}

static bool is_plain(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

uint32_t vt_texts_addn(struct vt_texts *texts, const char *text, size_t n)
{
	if (!n || texts->failed)
		return 0;
	if (is_plain(text, n))
		return number_of(texts, text, n);
	vt_str_clear(&texts->clean);
	vt_str_add_escaped(&texts->clean, text, n);
	texts->failed |= texts->clean.failed;
	return texts->failed ? 0 : number_of(texts, texts->clean.data, texts->clean.n);
}

uint32_t vt_texts_add(struct vt_texts *texts, const char *text)
{
	return text ? vt_texts_addn(texts, text, strlen(text)) : 0;
}

const char *vt_texts_get(const struct vt_texts *texts, uint32_t number)
{
	return number < texts->list.n ? texts->list.data[number] : "";
}
