/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References in machine code: how an object that nobody exports is found from a function that is
 * exported, also by a stripped library.
 */
#ifndef VT_WALK_TORCH_CODE_H
#define VT_WALK_TORCH_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "walk/torch/abi.h"

#define VT_CODE_REFERENCE_SIZE 7

/*
 * Whether the code is a mov or lea with a 64-bit register and an operand relative to the
 * instruction pointer: REX.W, 8b or 8d, ModRM with mod 0 and r/m 5, displacement (Intel SDM volume
 * 2, 2.2.1.6). Bytes that only look like one lead nowhere. VT_CODE_REFERENCE_SIZE bytes.
 */
static inline bool vt_code_is_reference(const uint8_t *code)
{
	return (code[0] & 0xfb) == 0x48 && (code[1] == 0x8b || code[1] == 0x8d) &&
	       (code[2] & 0xc7) == 0x05;
}

/* The address that a displacement leads to; next: that of the next instruction. */
static inline uint64_t vt_code_relative(uint64_t next, const uint8_t *displacement)
{
	return next + (uint64_t)(int64_t)(int32_t)vt_load32(displacement);
}

#endif
