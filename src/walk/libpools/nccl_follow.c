/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations a communicator's structures point to. Not all of its memory proves that: users'
 * buffers are in there, too, in tasks, registrations, windows and scalars of operations. What does
 * (NCCL 2.24 to 2.30, comm.h):
 *
 *	the communicator itself: each channel's devPeers, devRingUserRanks
 *	of what it points to: ncclSharedResources, ncclNvlsSharedRes; and destructors in the
 *		hunks of its memory stacks: one that calls a function of NCCL frees the
 *		communicator's own memory
 *	all below ncclSharedResources: peers, their connectors and transports, the proxy
 *
 * The network's transports keep addresses of users' buffers, too: those that are registered are
 * left out. One that was deregistered since, and whose address a request still has, would not be.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "walk/libpools/nccl.h"

#define MAGIC UINT64_C(0x0280028002800280)      /* NCCL_MAGIC */
#define LEAST_COMMUNICATOR (UINT64_C(32) << 10) /* 64 channels alone are that large */
#define PAGE 4096
#define MAX_BLOCK (UINT64_C(4) << 20)
#define MAX_BLOCKS 4096
#define MAX_KNOWN (1u << 18)           /* words that could begin a block */
#define MAX_BYTES (UINT64_C(32) << 20) /* of all blocks of a communicator */
#define MAX_DEPTH 6
#define MAX_HUNKS 64 /* each points to the next */

/* ---- blocks of malloc() ---- */

/* Private memory of the process that can be written. */
static const struct vt_map_entry *heap_at(const struct vt_nccl *nccl, uint64_t addr)
{
	const struct vt_map_entry *e = vt_maps_find(nccl->target->maps, addr);
	const unsigned int want = VT_MAP_READ | VT_MAP_WRITE;

	if (!e || (e->flags & (want | VT_MAP_SHARED)) != want || e->path[0] == '/')
		return NULL;
	return e;
}

/* glibc: the word before a block has its size and three flags; sizes are multiples of 16. */
uint64_t vt_nccl_block(const struct vt_nccl *nccl, uint64_t addr)
{
	enum { FLAGS = 7, IN_USE = 1, MAPPED = 2, LEAST = 32, LEAST_HEAD = 16, HEAD = 16 };
	const struct vt_map_entry *e;
	uint64_t word, size;

	if (addr % 16 || addr < PAGE || !(e = heap_at(nccl, addr - HEAD)) ||
	    vt_mem_read_u64(nccl->target->mem, addr - 8, &word))
		return 0;
	size = word & ~(uint64_t)FLAGS;
	if (size < LEAST || size % 16 || size > e->end - (addr - HEAD) || size > MAX_BLOCK)
		return 0;
	if (word &
	    MAPPED) /* a mapping of its own, in whole pages; the next one's head is not its */
		return (addr - HEAD) % PAGE || size % PAGE ? 0 : size - HEAD;
	/*
	 * The next block's head says that this one is in use. Without that, a small number before
	 * a task within a hunk would make the task's first words a block: nChannels is the last
	 * field.
	 */
	if (size > e->end - (addr - HEAD) - HEAD ||
	    vt_mem_read_u64(nccl->target->mem, addr - 8 + size, &word) || !(word & IN_USE) ||
	    (word & ~(uint64_t)FLAGS) < LEAST_HEAD)
		return 0;
	return size - 8;
}

bool vt_nccl_is_communicator(const struct vt_nccl *nccl, uint64_t addr)
{
	uint64_t tail[(PAGE + 16) / sizeof(uint64_t)], first;
	uint64_t size = vt_nccl_block(nccl, addr);

	if (size < LEAST_COMMUNICATOR || vt_mem_read_u64(nccl->target->mem, addr, &first) ||
	    first != MAGIC)
		return false;
	/* The last field; malloc() rounds up to 16 bytes or to whole pages. */
	if (vt_mem_read(nccl->target->mem, addr + size - sizeof(tail), tail, sizeof(tail)))
		return false;
	for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
		if (tail[i] == MAGIC)
			return true;
	return false;
}

/* ---- from block to block ---- */

/* What words of a block prove. */
enum proof {
	ALL,         /* each that is an address of an allocation */
	DESTRUCTORS, /* those of destructors */
	NOTHING
};

struct block {
	uint64_t addr, size;
	uint8_t depth;
	uint8_t shared; /* it is ncclSharedResources, or below it */
};

struct walk {
	struct vt_nccl *nccl;
	uint64_t comm;
	VT_VEC(struct block) blocks; /* a queue */
	struct vt_map known;         /* address → block.shared */
	uint64_t bytes;
	uint64_t *words; /* of the block that is looked at */
};

static void walk_deinit(struct walk *w)
{
	vt_vec_deinit(&w->blocks);
	vt_map_deinit(&w->known);
	free(w->words);
}

static bool is_code(const struct vt_nccl *nccl, uint64_t addr)
{
	const struct vt_map_entry *e;

	if (addr < nccl->module->start || addr >= nccl->module->end)
		return false;
	e = vt_maps_find(nccl->target->maps, addr);
	return e && (e->flags & VT_MAP_EXEC);
}

/* ncclDestructor: next, obj, fn. */
static bool is_destroyed(const struct walk *w, size_t i, size_t n)
{
	return i >= 1 && i + 1 < n && is_code(w->nccl, w->words[i + 1]);
}

/* Whether it is an address of an allocation. */
static bool find_allocation(const struct walk *w, uint64_t word, size_t *index)
{
	const struct vt_libpools_target *target = w->nccl->target;
	size_t low = 0, high = target->n_shareable;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (target->shareable[middle].start <= word)
			low = middle + 1;
		else
			high = middle;
	}
	*index = low - 1;
	return low && word - target->shareable[low - 1].start < target->shareable[low - 1].size;
}

/* Between the first and the last of them. */
static bool may_be_address(const struct walk *w, uint64_t word)
{
	const struct vt_libpools_target *target = w->nccl->target;
	const struct vt_libpool_region *last = &target->shareable[target->n_shareable - 1];

	return word >= target->shareable[0].start && word < last->start + last->size;
}

/* ncclMemoryStack: Hunk { above, size of it all }. malloc() rounds up: large blocks to pages. */
static bool is_hunk(const struct walk *w, const struct block *b)
{
	uint64_t most = b->size + 8, least = b->size - (b->size < (128 << 10) ? 32 : PAGE);

	return b->size >= 64 && w->words[1] > least && w->words[1] <= most;
}

/*
 * ncclSharedResources: refCount, owner; 904 bytes in 2.24.3, 1672 in 2.25.1, 1792 in 2.27.7, 2072
 * in 2.28.9. A split communicator has its parent's.
 */
static bool is_shared_resources(const struct walk *w, const struct block *b)
{
	return b->depth == 1 && b->size >= 896 && (uint32_t)w->words[0] &&
	       (uint32_t)w->words[0] < 65536 && vt_nccl_is_communicator(w->nccl, w->words[1]);
}

/*
 * ncclNvlsSharedRes: refCount, inited. Not devrState.winSorted (2.28 on), which has the users'
 * windows, nor userRedOps, in which a scalar may be the user's memory, nor single tasks.
 */
static bool has_references(const struct walk *w, const struct block *b)
{
	return b->size >= 256 && (uint32_t)w->words[0] && (uint32_t)w->words[0] < 65536 &&
	       w->words[0] >> 32 <= 1;
}

/* Only hunks are below hunks. */
static enum proof proof_of(const struct walk *w, const struct block *b)
{
	if (b->depth == 0 || b->shared)
		return ALL;
	if (is_hunk(w, b))
		return DESTRUCTORS;
	return b->depth == 1 && has_references(w, b) ? ALL : NOTHING;
}

/* One that was met before proves more if it turns out to be below ncclSharedResources. */
static struct vt_error *add(struct walk *w, uint64_t addr, uint8_t depth, uint8_t shared)
{
	const uint64_t *known = vt_map_get(&w->known, addr);
	struct block *b;
	uint64_t size;

	if (w->blocks.n >= MAX_BLOCKS || w->known.n >= MAX_KNOWN || (known && *known >= shared))
		return NULL;
	if (!vt_map_put(&w->known, addr, shared))
		return &vt_enomem;
	size = vt_nccl_block(w->nccl, addr) & ~UINT64_C(7);
	if (!size || size > MAX_BYTES - w->bytes)
		return NULL;
	/* Another communicator is read for itself. */
	if (depth && size >= LEAST_COMMUNICATOR && vt_nccl_is_communicator(w->nccl, addr))
		return NULL;
	w->bytes += size;
	b = vt_vec_append(&w->blocks);
	if (!b)
		return &vt_enomem;
	*b = (struct block){ addr, size, depth, shared };
	return NULL;
}

static struct vt_error *look_at(struct walk *w, struct block b)
{
	size_t n = b.size / sizeof(uint64_t), n_links, index;
	enum proof proof;

	if (vt_mem_read(w->nccl->target->mem, b.addr, w->words, b.size))
		return NULL; /* freed meanwhile */
	b.shared = b.shared || is_shared_resources(w, &b);
	proof = proof_of(w, &b);
	n_links = b.depth == 0 || b.shared ? n : proof == DESTRUCTORS ? 1 : 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t word = w->words[i];

		if (i % 4096 == 0 && vt_now_ns() > w->nccl->target->deadline_ns)
			return NULL; /* follow() says so */
		if (word < PAGE)
			continue;
		/* Blocks of malloc() lie between allocations, too. */
		if (may_be_address(w, word) && find_allocation(w, word, &index)) {
			if ((proof == ALL || (proof == DESTRUCTORS && is_destroyed(w, i, n))) &&
			    !w->nccl->holder[index])
				w->nccl->holder[index] = w->nccl->current;
			continue;
		}
		if (i < n_links && word % 16 == 0 && b.depth < (b.shared ? MAX_DEPTH : MAX_HUNKS))
			VT_TRY(add(w, word, (uint8_t)(b.depth + 1), b.shared));
	}
	return NULL;
}

static struct vt_error *follow(struct walk *w)
{
	VT_TRY(add(w, w->comm, 0, 0));
	for (size_t i = 0; i < w->blocks.n; i++) {
		VT_TRY(look_at(w, w->blocks.data[i]));
		if (vt_now_ns() > w->nccl->target->deadline_ns)
			return vt_error_create(VT_ERR_TIMEOUT,
					       "what NCCL holds was not all found in time");
	}
	return NULL;
}

struct vt_error *vt_nccl_follow(struct vt_nccl *nccl, uint64_t comm)
{
	struct walk w = { .nccl = nccl, .comm = comm };
	struct vt_error *err;

	w.words = malloc(MAX_BLOCK);
	err = w.words ? follow(&w) : &vt_enomem;
	walk_deinit(&w);
	return err;
}

/* ---- what users have registered ---- */

#define MAX_OTHERS 4

/*
 * ncclReg, which the slots of the communicator's cache of registrations point to: begAddr, endAddr;
 * 2.24: a number of pages, references, addr. The buffer is a user's, also where the network's
 * transports keep its address.
 */
static bool is_registration(struct walk *w, uint64_t addr, size_t *index)
{
	uint64_t words[3];

	if (vt_nccl_block(w->nccl, addr) < 128 ||
	    vt_mem_read(w->nccl->target->mem, addr, words, sizeof(words)))
		return false;
	if (words[0] % PAGE == 0 && words[1] > words[0] && find_allocation(w, words[0], index) &&
	    words[1] - words[0] <= w->nccl->target->shareable[*index].size)
		return true;
	return words[0] && words[0] < (UINT64_C(1) << 32) && words[2] % PAGE == 0 &&
	       find_allocation(w, words[2], index);
}

/* If it is the cache's slots; the first of its other words tell that it is not. */
static void note_slots(struct walk *w, uint64_t addr, uint64_t size)
{
	size_t others = 0, found = 0, index;

	if (vt_mem_read(w->nccl->target->mem, addr, w->words, size))
		return;
	for (size_t i = 0; i < size / 8 && (found || others < MAX_OTHERS); i++) {
		if (i % 1024 == 0 && vt_now_ns() > w->nccl->target->deadline_ns)
			return; /* note_users() says so */
		if (!w->words[i])
			continue;
		if (is_registration(w, w->words[i], &index)) {
			w->nccl->holder[index] = VT_NCCL_USERS;
			found++;
		} else {
			others++;
		}
	}
}

static struct vt_error *note_users(struct walk *w, const uint64_t *comm, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t size;

		if (comm[i] < PAGE || comm[i] % 16 || vt_map_get(&w->known, comm[i]))
			continue;
		if (!vt_map_put(&w->known, comm[i], 1))
			return &vt_enomem;
		if (vt_now_ns() > w->nccl->target->deadline_ns)
			return vt_error_create(VT_ERR_TIMEOUT,
					       "what NCCL's users have was not all found in time");
		size = vt_nccl_block(w->nccl, comm[i]) & ~UINT64_C(7);
		if (size)
			note_slots(w, comm[i], size);
	}
	return NULL;
}

struct vt_error *vt_nccl_note_users(struct vt_nccl *nccl, uint64_t addr)
{
	uint64_t size = vt_nccl_block(nccl, addr) & ~UINT64_C(7);
	struct walk w = { .nccl = nccl, .comm = addr };
	VT_FREE uint64_t *comm = malloc(size + 8);
	struct vt_error *err = &vt_enomem;

	w.words = malloc(MAX_BLOCK);
	if (comm && w.words)
		err = vt_mem_read(nccl->target->mem, addr, comm, size) ? NULL : /* it has ended */
			      note_users(&w, comm, size / 8);
	walk_deinit(&w);
	return err;
}
