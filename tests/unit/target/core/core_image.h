/* SPDX-License-Identifier: Apache-2.0 */
/* A small core made by hand, for the tests and the fuzzer of its reader. */
#ifndef VT_TESTS_CORE_IMAGE_H
#define VT_TESTS_CORE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CORE_IMAGE_PID 4711
/* two pages, the byte at address a is (uint8_t)(a >> 4) */
#define CORE_IMAGE_STACK UINT64_C(0x7ffd00000000)
/* libfoo.so: headers, code, constants, data; only headers and data are in the core */
#define CORE_IMAGE_LIB UINT64_C(0x7f0000000000)
#define CORE_IMAGE_PATH "/nowhere/libfoo.so"

struct core_image_options {
	uint16_t machine; /* e_machine, 0: EM_X86_64; its threads have the registers below */
	/* the code begins in the second page of its mapping, as where pages are larger */
	bool coarse;
	bool like_gdb;         /* no segments of what was not dumped, notes at the end */
	unsigned int segments; /* more of these: empty ones; from 65535 segments on with PN_XNUM */
};

/*
 * Of thread n: in libfoo.so's code, the stack pointer 256 * n above CORE_IMAGE_STACK, the thread
 * pointer a page above it, 17 in the register of results. On aarch64 it is also in system call 98,
 * and return addresses may be signed in the bits of CORE_IMAGE_PAC.
 */
#define CORE_IMAGE_PAC UINT64_C(0x007f000000000000)

/* A core; returns its length, 0 when it needs more than max bytes. */
size_t core_image_make(const struct core_image_options *options, uint8_t *data, size_t max);

#endif
