/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of what is kept once. Targets choose names, and must not choose collisions: each process
 * has its own seed.
 */
#ifndef VT_BASE_HASH_H
#define VT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

/* 8 of the 16 random bytes that the kernel gives every program. */
static inline uint64_t vt_hash_seed(void)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	const void *bytes = (const void *)getauxval(AT_RANDOM);
	uint64_t seed = UINT64_C(0xcbf29ce484222325);

	if (bytes)
		memcpy(&seed, bytes, sizeof(seed));
	return seed;
}

static inline uint64_t vt_hash_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Eight bytes at a time: a job of a thousand members has megabytes of names. */
static inline uint64_t vt_hash_bytes(uint64_t seed, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t hash = vt_hash_mix(seed, n), word;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = vt_hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, p, n);
	return vt_hash_mix(hash, word);
}

#endif
