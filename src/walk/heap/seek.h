/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds this address? A search backwards for what no walker explains, as caches of cuBLAS and
 * buckets of DistributedDataParallel: all words of the process's own writable memory that equal an
 * address, with what each lies in. A holder in memory of malloc() is looked for in turn, until a
 * static variable or a thread's stack is found. It is a guess: a word may be left over, or a
 * number. The memory is streamed, not kept.
 */
#ifndef VT_WALK_HEAP_SEEK_H
#define VT_WALK_HEAP_SEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/maps.h"
#include "target/resident.h"
#include "vramtap/mem.h"
#include "walk/heap/chunks.h"

#define VT_SEEK_NONE UINT32_MAX

enum {
	VT_SEEK_MAX_LEVELS = 6,
	VT_SEEK_MAX_TARGETS = 4096, /* looked for in one pass; more are not looked for */
};

/* Where a word lies, the best answer first. */
enum vt_seek_place {
	VT_SEEK_STATIC, /* data of a module */
	VT_SEEK_STACK,  /* of a thread, above its stack pointer */
	VT_SEEK_OTHER,  /* in another mapping: an arena of CPython's allocator, or unknown */
	VT_SEEK_CHUNK,  /* memory of malloc() */
	VT_SEEK_OWN,    /* data of a module whose lists have all addresses (own_modules) */
};

/* What is looked for: the targets first, in the caller's order, then chunks that hold them. */
struct vt_seek_node {
	uint64_t addr;
	uint64_t bytes;        /* of a chunk; 0: a target */
	uint32_t hits, n_hits; /* after the search: of seek->hits */
	uint8_t level;         /* how many words it is from a target */
	bool rooted;    /* by a static variable, maybe through chunks, or a chunk by a stack */
	bool own;       /* a chunk that own_modules hold */
	bool truncated; /* has more hits than max_hits_each */
};

struct vt_seek_hit {
	uint64_t at; /* address of the word */
	/* start of what it lies in: the module, the chunk, the mapping; the stack pointer */
	uint64_t start;
	uint32_t to;   /* node that it refers to */
	uint32_t from; /* VT_SEEK_CHUNK: node of the chunk; else VT_SEEK_NONE */
	/* entry of maps: where the word is; VT_SEEK_STATIC: that of the module's start */
	uint32_t map;
	pid_t tid;     /* VT_SEEK_STACK: the thread; else 0 */
	uint8_t place; /* enum vt_seek_place */
	bool inside; /* it points 16 bytes into the chunk, as to an object of std::make_shared() */
};

/* What of a stack is in use: from the stack pointer to its beginning, which is above. */
struct vt_seek_stack {
	pid_t tid;
	uint64_t sp, end;
};

struct vt_seek_options {
	const struct vt_maps *maps;
	const struct vt_resident *resident; /* what is searched */
	const struct vt_chunks *chunks;     /* NULL: unknown; then all heaps are VT_SEEK_OTHER */
	const struct vt_seek_stack *stacks;
	size_t n_stacks;
	unsigned int max_levels; /* at most VT_SEEK_MAX_LEVELS */
	size_t max_hits, max_hits_each;
	uint64_t deadline_ns; /* of vt_now_ns() */
	/*
	 * Beginnings of file names of modules that know each address without being its user, as the
	 * allocator and the driver. What they hold, at any distance, is no answer.
	 */
	const char *const *own_modules;
	size_t n_own_modules;
	/* Whether a hit is to be left out, as of a list that is known. May be NULL. */
	bool (*leave_out)(void *arg, const struct vt_seek_hit *hit);
	void *arg;
};

struct vt_seek {
	VT_VEC(struct vt_seek_node) nodes;
	VT_VEC(struct vt_seek_hit) hits; /* sorted by the node that they refer to */
	size_t n_targets;
	unsigned int levels; /* that were searched completely */
	uint64_t bytes;      /* read, in all levels */
	bool cut;            /* a bound was reached: there may be more */
};

/* Searches for n addresses. VT_ERR_NOMEM, VT_ERR_GONE. */
struct vt_error *vt_seek_init(struct vt_seek *seek, struct vt_memsrc *src,
			      const struct vt_seek_options *options, const uint64_t *targets,
			      size_t n);
void vt_seek_deinit(struct vt_seek *seek);

/*
 * The shortest chain from a target to the best place: hits, the first one refers to the target. How
 * many; 0: nobody holds it, as far as can be seen. A chain that ends on a stack without a chunk is
 * weak: such a word is often left over. When it ends with VT_SEEK_CHUNK, nobody was found that
 * holds that chunk. Own modules are in no chain.
 */
size_t vt_seek_chain(const struct vt_seek *seek, uint32_t target,
		     const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS]);

#endif
