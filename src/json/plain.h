/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/json: how far a text is plain. Special are bytes below 0x20, quotes, backslashes,
 * and those of a longer character.
 */
#ifndef VT_JSON_PLAIN_H
#define VT_JSON_PLAIN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool vt_json_is_special(char c)
{
	return (unsigned char)c < 0x20 || c == '"' || c == '\\' || (unsigned char)c >= 0x80;
}

#if defined(__SSE2__)

#include <emmintrin.h>

#define VT_JSON_STRIDE sizeof(__m128i)

/* Which of the bytes is the first special one; VT_JSON_STRIDE: none is. */
static inline size_t vt_json_first_special(const char *at)
{
	const __m128i bytes = _mm_loadu_si128((const __m128i *)at);
	/* Bytes of a longer character are negative. */
	const __m128i special =
		_mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)),
			     _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
					  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
	int mask = _mm_movemask_epi8(special);

	return mask ? (size_t)__builtin_ctz((unsigned int)mask) : VT_JSON_STRIDE;
}

#else

#define VT_JSON_STRIDE sizeof(uint64_t)

/* The lowest mark is true; one above it may be there because of a borrow. */
static inline size_t vt_json_first_special(const char *at)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
	uint64_t word, quote, backslash, special;

	memcpy(&word, at, sizeof(word));
	word = le64toh(word);
	quote = word ^ ones * '"';
	backslash = word ^ ones * '\\';
	special = ((word - ones * 0x20) | (quote - ones) | (backslash - ones) | word) & highs;
	return special ? (size_t)__builtin_ctzll(special) / 8 : VT_JSON_STRIDE;
}

#endif

/* The first special byte from here. */
static inline const char *vt_json_plain_end(const char *at, const char *end)
{
	while ((size_t)(end - at) >= VT_JSON_STRIDE) {
		size_t n = vt_json_first_special(at);

		at += n;
		if (n < VT_JSON_STRIDE)
			return at;
	}
	while (at < end && !vt_json_is_special(*at))
		at++;
	return at;
}

#endif
