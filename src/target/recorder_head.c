/* SPDX-License-Identifier: Apache-2.0 */
#include "target/recorder_head.h"

#include <stdbool.h>
#include <stddef.h>

#include "vramtap/recorder.h"

#define PAGE 4096u

static bool is_head(const uint64_t *words)
{
	uint32_t abi = (uint32_t)words[1], size = (uint32_t)(words[1] >> 32);

	return words[0] == VT_RECORDER_MAGIC && abi > 0 &&
	       size >= offsetof(struct vt_recorder_head, python);
}

/* A page at a time and a word more, since the head may begin with the last word of a page. */
uint64_t vt_recorder_head_find(struct vt_memsrc *src, uint64_t start, uint64_t end,
			       uint64_t *budget)
{
	uint64_t words[PAGE / sizeof(uint64_t) + 1];

	for (uint64_t page = start; page < end && *budget >= PAGE; page += PAGE, *budget -= PAGE) {
		size_t size = end - page > PAGE ? sizeof(words) : PAGE;

		if (vt_mem_read(src, page, words, size))
			continue;
		for (size_t i = 0; i + 1 < size / sizeof(uint64_t); i++)
			if (is_head(&words[i]))
				return page + i * sizeof(uint64_t);
	}
	return 0;
}
