/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the target's C library that we call in the target, or that a borrowed thread
 * must not be in.
 */
#ifndef VT_INJECT_SYMBOLS_H
#define VT_INJECT_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "target/elfsym.h"

struct vt_range {
	uint64_t start, end;
};

#define VT_MAX_RANGES 64

/* The kinds of code that an address on a stack may belong to. */
enum vt_code_kind {
	VT_CODE_OTHER,
	VT_CODE_LIBC,      /* libc or libpthread, and none of the following */
	VT_CODE_VDSO,      /* of the kernel's */
	VT_CODE_MALLOC,    /* the allocator of libc */
	VT_CODE_CREATE,    /* pthread_create */
	VT_CODE_SETXID,    /* setuid() etc., which wait and hold pthread_create()'s lock */
	VT_CODE_ALLOCATOR, /* an allocator that replaces libc's (such as jemalloc) */
	VT_CODE_LOADER,    /* ld.so */
	VT_CODE_DRIVER,    /* libcuda */
	VT_CODE_RECORDER,  /* our own recorder */
	VT_CODE_N_KINDS
};

struct vt_target_symbols {
	uint64_t pthread_create;
	uint64_t pthread_attr_init;
	uint64_t pthread_attr_setdetachstate;
	uint64_t pthread_attr_setstacksize;
	uint64_t errno_location;
	struct {
		struct vt_range range;
		enum vt_code_kind kind;
	} code[VT_MAX_RANGES]; /* the first that contains an address decides */
	unsigned int n_code;
	uint64_t address_mask; /* the bits of a word that are an address, if it is one */
};

/* VT_ERR_UNSUPPORTED when the process has no GNU C library that can start threads. */
struct vt_error *vt_target_symbols_init(struct vt_target_symbols *symbols,
					struct vt_modules *modules);

enum vt_code_kind vt_code_kind_of(const struct vt_target_symbols *symbols, uint64_t addr);

#endif
