/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzzer is: one source file with the two functions below, linked either to libFuzzer
 * (configure --enable-libfuzzer with CC=clang) or to driver.c, which mutates by itself and so runs
 * everywhere, also in "make check".
 */
#ifndef VT_TESTS_FUZZ_H
#define VT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An input longer than this is never made. */
#define FUZZ_MAX_INPUT (256u << 10)

/*
 * One input. It ends the process (fuzz_check(), a sanitizer, a signal) when something is wrong, and
 * must depend on nothing but the input. What it takes from input to input it makes new, or puts
 * back.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Inputs to begin with, those that are well-formed: puts number (from 0 on) into data, at most max
 * bytes; returns its length, 0 when there are no more. number 0 must exist.
 */
size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max);

/* The same of texts, n of them. */
static inline size_t fuzz_seed_of(const char *const *texts, size_t n_texts, unsigned int number,
				  uint8_t *data, size_t max)
{
	size_t n = number < n_texts ? strlen(texts[number]) : 0;

	if (n > max)
		return 0;
	if (n)
		memcpy(data, texts[number], n);
	return n;
}

/* The oracle. Not assert(): it must be there in every build. */
#define fuzz_check(condition, ...)                                                      \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                                   \
			fputc('\n', stderr);                                            \
			abort();                                                        \
		}                                                                       \
	} while (0)

#endif
