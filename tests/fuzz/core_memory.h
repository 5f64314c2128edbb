/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process, damaged: that of a core, of which some words are changed as they are
 * read. FUZZ_CORES names a directory with cores (tests/fuzz/cores.py makes them), FUZZ_CORE a part
 * of the name of those that are taken. The first one is always the one that test_core makes by
 * hand.
 *
 * The first look at a core, undamaged, shows which words are read at all: only these are changed. A
 * fuzzer that reads only a part of a process each time looks once for each part, so that what is
 * changed is what it reads.
 *
 * An input is a byte (which core; two bits of it are the fuzzer's own), a byte of the fuzzer's own,
 * and edits of 8 bytes each.
 */
#ifndef VT_TESTS_CORE_MEMORY_H
#define VT_TESTS_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "target/core/core.h"

#define CORE_MEMORY_EDIT 8
#define CORE_MEMORY_PARTS 8
#define CORE_MEMORY_WHICH 0x3f /* of the first byte */

/* How many cores there are. */
size_t core_memory_cores(void);

/*
 * Begins with an input of at least two bytes: the core's path. From now on its memory, as
 * vt_core_source() gives it, has the edits. look is called if this core is new, or this part of it:
 * it is to read all that will be read.
 */
const char *core_memory_begin(const uint8_t *data, size_t size, unsigned int part,
			      void (*look)(const char *path, unsigned int part));

/*
 * While a core is looked at: an object that decides much, and what it points to. Half of the
 * changes are there. (Of pages that are read as a whole nothing tells which words count.)
 */
void core_memory_note(uint64_t object, int depth);

/* Edits to begin with, at most 64 bytes; returns how many. */
size_t core_memory_seed(unsigned int number, uint8_t *data);

/*
 * As if the process ran: one read of three sees the edits, the others what was there. Call it
 * before vt_core_source(); ends with the next core_memory_begin().
 */
void core_memory_moves(void);

#endif
