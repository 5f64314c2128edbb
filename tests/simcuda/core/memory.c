/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory is address space without pages: reserved, PROT_NONE, so that a host access faults
 * as with real device memory, and nothing is committed. Each device has one arena, in 2 MiB
 * pages; allocations below 1 MiB share a page, as the real driver does it.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_LIMIT (1ull << 20)
#define SLOT 512ull
#define SLOTS (SIM_PAGE / SLOT)

/* A page that small allocations share. */
struct chunk {
	uint64_t base, id;
	int device;
	unsigned used; /* slots */
	struct chunk *next;
	uint8_t slot[SLOTS];
};

static struct arena {
	uint64_t base;
	uint32_t pages, next;
	uint8_t *taken; /* one a page */
	struct chunk *chunks;
	uint64_t used; /* bytes of the budget, whatever they are spent on */
} arenas[SIM_MAX_DEVICES];

/* All ranges, sorted by base. */
static struct sim_range **ranges;
static size_t n_ranges, max_ranges;
static uint64_t next_id = 1;

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* ---- the budget ---- */

int sim_budget_take_locked(int device, uint64_t bytes)
{
	struct arena *a = &arenas[device];
	uint64_t limit = sim_config.mem_bytes, others = sim_others_hold(device);

	if (limit < others || bytes > limit - others || a->used > limit - others - bytes)
		return SIM_ENOMEM;
	a->used += bytes;
	sim_others_tell(device, a->used);
	return SIM_OK;
}

void sim_budget_give_locked(int device, uint64_t bytes)
{
	arenas[device].used -= bytes;
	sim_others_tell(device, arenas[device].used);
}

int sim_mem_info(int device, uint64_t *free_bytes, uint64_t *total)
{
	uint64_t used;

	sim_lock();
	used = arenas[device].used + sim_others_hold(device);
	sim_unlock();
	*total = sim_config.mem_bytes;
	*free_bytes = used < *total ? *total - used : 0;
	return SIM_OK;
}

/* ---- the index of ranges ---- */

/* The number of ranges whose base is not above addr. */
static size_t range_rank(uint64_t addr)
{
	size_t lo = 0, hi = n_ranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ranges[mid]->base <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct sim_range *sim_range_find_locked(uint64_t addr)
{
	size_t rank = range_rank(addr);
	struct sim_range *r;

	if (!rank)
		return NULL;
	r = ranges[rank - 1];
	return addr - r->base < r->size ? r : NULL;
}

struct sim_range *sim_range_from_locked(uint64_t addr)
{
	size_t rank = addr ? range_rank(addr - 1) : 0;

	return rank < n_ranges ? ranges[rank] : NULL;
}

int sim_range_add_locked(uint64_t base, uint64_t size, enum sim_kind kind, int device, void *owner,
			 struct sim_range **range)
{
	struct sim_range *r = calloc(1, sizeof(*r));
	size_t rank;

	if (!r)
		return SIM_ENOMEM;
	if (n_ranges == max_ranges) {
		size_t max = max_ranges ? max_ranges * 2 : 256;
		struct sim_range **grown = realloc(ranges, max * sizeof(*grown));

		if (!grown) {
			free(r);
			return SIM_ENOMEM;
		}
		ranges = grown;
		max_ranges = max;
	}
	*r = (struct sim_range){ .base = base,
				 .size = size,
				 .kind = kind,
				 .device = device,
				 .owner = owner,
				 .id = next_id++ };
	rank = range_rank(base);
	memmove(&ranges[rank + 1], &ranges[rank], (n_ranges - rank) * sizeof(*ranges));
	ranges[rank] = r;
	n_ranges++;
	if (range)
		*range = r;
	return SIM_OK;
}

void sim_range_del_locked(struct sim_range *range)
{
	size_t rank = range_rank(range->base);

	memmove(&ranges[rank - 1], &ranges[rank], (n_ranges - rank) * sizeof(*ranges));
	n_ranges--;
	free(range);
}

/* ---- pages ---- */

static int arena_open(struct arena *a)
{
	/* Four times the memory, so that fragments of the address space never matter. */
	uint64_t size = round_up(sim_config.mem_bytes * 4, SIM_PAGE);
	void *p;

	if (a->base)
		return SIM_OK;
	p = mmap(NULL, size + SIM_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return SIM_ENOMEM;
	a->pages = (uint32_t)(size / SIM_PAGE);
	a->taken = calloc(a->pages, 1);
	if (!a->taken) {
		munmap(p, size + SIM_PAGE);
		return SIM_ENOMEM;
	}
	a->base = round_up((uint64_t)(uintptr_t)p, SIM_PAGE);
	return SIM_OK;
}

/* Next fit: recently freed addresses are not handed out again at once. */
static int pages_take(struct arena *a, uint32_t count, uint64_t *addr)
{
	uint32_t run = 0, at = a->next;

	for (uint64_t steps = 0; steps < 2ull * a->pages; steps++, at++) {
		if (at >= a->pages)
			at = run = 0;
		run = a->taken[at] ? 0 : run + 1;
		if (run < count)
			continue;
		at = at + 1 - count;
		memset(a->taken + at, 1, count);
		a->next = at + count;
		*addr = a->base + at * SIM_PAGE;
		return SIM_OK;
	}
	return SIM_ENOMEM;
}

static void pages_give(struct arena *a, uint64_t addr, uint32_t count)
{
	memset(a->taken + (addr - a->base) / SIM_PAGE, 0, count);
}

static int big_alloc(int device, uint64_t size, uint64_t *addr)
{
	uint64_t bytes = round_up(size, SIM_PAGE);
	int err = sim_budget_take_locked(device, bytes);

	if (err)
		return err;
	err = pages_take(&arenas[device], (uint32_t)(bytes / SIM_PAGE), addr);
	if (err)
		sim_budget_give_locked(device, bytes);
	return err;
}

static void big_free(int device, uint64_t addr, uint64_t size)
{
	uint64_t bytes = round_up(size, SIM_PAGE);

	pages_give(&arenas[device], addr, (uint32_t)(bytes / SIM_PAGE));
	sim_budget_give_locked(device, bytes);
}

/* ---- small allocations ---- */

static int chunk_take(struct chunk *c, unsigned count, uint64_t *addr)
{
	unsigned run = 0;

	if (SLOTS - c->used < count)
		return SIM_ENOMEM;
	for (unsigned i = 0; i < SLOTS; i++) {
		run = c->slot[i] ? 0 : run + 1;
		if (run < count)
			continue;
		memset(c->slot + i + 1 - count, 1, count);
		c->used += count;
		*addr = c->base + (i + 1 - count) * SLOT;
		return SIM_OK;
	}
	return SIM_ENOMEM;
}

static int small_alloc(int device, uint64_t size, uint64_t *addr, struct chunk **chunk)
{
	struct arena *a = &arenas[device];
	unsigned count = (unsigned)(round_up(size, SLOT) / SLOT);
	struct chunk *c;
	int err;

	for (c = a->chunks; c; c = c->next)
		if (!chunk_take(c, count, addr)) {
			*chunk = c;
			return SIM_OK;
		}
	c = calloc(1, sizeof(*c));
	if (!c)
		return SIM_ENOMEM;
	err = big_alloc(device, SIM_PAGE, &c->base);
	if (err) {
		free(c);
		return err;
	}
	c->device = device;
	c->id = next_id++;
	c->next = a->chunks;
	a->chunks = c;
	*chunk = c;
	return chunk_take(c, count, addr);
}

static void small_free(struct chunk *c, uint64_t addr, uint64_t size)
{
	struct chunk **link = &arenas[c->device].chunks;
	unsigned count = (unsigned)(round_up(size, SLOT) / SLOT);

	memset(c->slot + (addr - c->base) / SLOT, 0, count);
	c->used -= count;
	if (c->used)
		return;
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	big_free(c->device, c->base, SIM_PAGE);
	free(c);
}

/* ---- allocations ---- */

static int alloc_locked(int device, uint64_t size, enum sim_kind kind, uint64_t *addr)
{
	struct chunk *chunk = NULL;
	int err = arena_open(&arenas[device]);

	if (err)
		return err;
	if (size < SMALL_LIMIT && (kind == SIM_DEVICE || kind == SIM_DATA))
		err = small_alloc(device, size, addr, &chunk);
	else
		err = big_alloc(device, size, addr);
	if (err)
		return err;
	err = sim_range_add_locked(*addr, size, kind, device, chunk, NULL);
	if (!err)
		return SIM_OK;
	if (chunk)
		small_free(chunk, *addr, size);
	else
		big_free(device, *addr, size);
	return err;
}

static void remap(uint64_t addr, uint64_t size, int prot, int flags)
{
	mmap((void *)(uintptr_t)addr, round_up(size, SIM_PAGE), prot,
	     flags | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int sim_mem_alloc(int device, uint64_t size, enum sim_kind kind, uint64_t *addr)
{
	int err;

	if (!size)
		return SIM_EINVAL;
	sim_lock();
	err = alloc_locked(device, size, kind, addr);
	sim_unlock();
	/* The host may use managed memory, which is a shared mapping. */
	if (!err && kind == SIM_MANAGED)
		remap(*addr, size, PROT_READ | PROT_WRITE, MAP_SHARED);
	return err;
}

int sim_mem_free(uint64_t addr)
{
	struct sim_range *r;
	int err = SIM_OK;

	sim_lock();
	r = sim_range_find_locked(addr);
	if (!r || r->base != addr || r->kind > SIM_ARRAY) {
		err = SIM_EINVAL;
	} else {
		if (r->kind == SIM_MANAGED)
			remap(addr, r->size, PROT_NONE, MAP_PRIVATE);
		if (r->owner)
			small_free(r->owner, addr, r->size);
		else
			big_free(r->device, addr, r->size);
		sim_range_del_locked(r);
	}
	sim_unlock();
	return err;
}

int sim_mem_is_device(uint64_t addr)
{
	struct sim_range *r;
	int yes;

	sim_lock();
	r = sim_range_find_locked(addr);
	yes = r && r->kind != SIM_MANAGED && r->kind != SIM_HOST && r->kind != SIM_HOSTREG;
	sim_unlock();
	return yes;
}

int sim_host_alloc(uint64_t size, int device, uint64_t *addr)
{
	uint64_t bytes = round_up(size, 4096);
	void *p;
	int err;

	if (!size)
		return SIM_EINVAL;
	/* As of the real driver, it is "/dev/zero (deleted)" in the map. */
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return SIM_ENOMEM;
	*addr = (uint64_t)(uintptr_t)p;
	sim_lock();
	err = sim_range_add_locked(*addr, size, SIM_HOST, device, NULL, NULL);
	sim_unlock();
	if (err)
		munmap(p, bytes);
	return err;
}

static int host_remove(uint64_t addr, enum sim_kind kind)
{
	struct sim_range *r;
	uint64_t size = 0;

	sim_lock();
	r = sim_range_find_locked(addr);
	if (r && r->base == addr && r->kind == kind) {
		size = r->size;
		sim_range_del_locked(r);
	}
	sim_unlock();
	if (!size)
		return SIM_EINVAL;
	if (kind == SIM_HOST)
		munmap((void *)(uintptr_t)addr, round_up(size, 4096));
	return SIM_OK;
}

int sim_host_free(uint64_t addr)
{
	return host_remove(addr, SIM_HOST);
}

int sim_host_register(uint64_t addr, uint64_t size, int device)
{
	int err;

	if (!addr || !size)
		return SIM_EINVAL;
	sim_lock();
	if (sim_range_find_locked(addr))
		err = 712; /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
	else
		err = sim_range_add_locked(addr, size, SIM_HOSTREG, device, NULL, NULL);
	sim_unlock();
	return err;
}

int sim_host_unregister(uint64_t addr)
{
	return host_remove(addr, SIM_HOSTREG) ? 713 : SIM_OK; /* ..._NOT_REGISTERED */
}

static void where_locked(const struct sim_range *r, uint64_t addr, struct sim_where *where)
{
	const struct chunk *chunk = r->owner;

	*where = (struct sim_where){ .base = r->base,
				     .size = r->size,
				     .range_base = r->base,
				     .range_size = r->size,
				     .mapping_base = r->base,
				     .mapping_size = round_up(r->size, SIM_PAGE),
				     .block = r->id,
				     .kind = r->kind,
				     .device = r->device,
				     .mapped = 1,
				     .id = r->id };
	if (r->kind == SIM_ASYNC || r->kind == SIM_GRAPH) {
		where->pool = r->owner;
		where->block = sim_pool_block(where->pool, addr, &where->mapping_base);
		where->mapping_size = SIM_POOL_BLOCK;
	} else if (chunk) {
		where->mapping_base = chunk->base;
		where->mapping_size = SIM_PAGE;
		where->block = chunk->id;
	}
}

int sim_where(uint64_t addr, struct sim_where *where)
{
	struct sim_range *r;
	int err = SIM_OK;

	sim_lock();
	r = sim_range_find_locked(addr);
	if (!r)
		err = SIM_ENOTFOUND;
	else if (r->kind == SIM_RESERVED)
		err = sim_vmm_where_locked(r, addr, where);
	else
		where_locked(r, addr, where);
	sim_unlock();
	return err;
}

void sim_copy(void *dst, const void *src, uint64_t size)
{
	int to_device = sim_mem_is_device((uint64_t)(uintptr_t)dst);
	int from_device = sim_mem_is_device((uint64_t)(uintptr_t)src);

	if (to_device || !size)
		return;
	if (from_device)
		memset(dst, 0, size);
	else
		memmove(dst, src, size);
}
